"""Reads a pack's directory out of the end of the object: after a recovery every directory is asked for, of packs that
nobody may ever read a whole of.
"""

import io
from typing import cast

from typing_extensions import override

from streams_node.errors import ObjectDamaged
from streams_node.placement.made import ObjectFacts

ENDING_BYTES = 256 << 10  # mostly enough: a footer without its directory is some kilobytes
_MARK = b"PAR1"
_LENGTH_BYTES = 4


def footer_size(ending: bytes, facts: ObjectFacts) -> int:
    """How much of the object's end its footer takes, by the last eight bytes."""
    size = int.from_bytes(ending[-len(_MARK) - _LENGTH_BYTES : -len(_MARK)], "little") + _LENGTH_BYTES + len(_MARK)
    if ending[-len(_MARK) :] != _MARK or size > facts.bytes:
        raise ObjectDamaged(facts.made, "its end is not that of a Parquet file")
    return size


def directory_in(ending: bytes, facts: ObjectFacts) -> bytes:
    """The packed directory, from bytes that hold the whole footer."""
    import pyarrow as pa  # noqa: PLC0415 - when it is first needed
    import pyarrow.parquet as pq  # noqa: PLC0415

    from streams_node.segments.format import check, directory_of  # noqa: PLC0415

    try:
        metadata = pq.read_metadata(_Ending(ending, facts.bytes))
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise ObjectDamaged(facts.made, f"its footer cannot be read: {problem}") from problem
    return directory_of(check(metadata, facts.made)) or b""


class _Ending(io.RawIOBase):
    """A file of which only the end is there. A reader of Parquet begins with 64 KiB, however small the footer: what it
    does not need of that is zeros.
    """

    def __init__(self, ending: bytes, size: int) -> None:
        super().__init__()
        self._ending = ending
        self._size = size
        self._at = 0

    @override
    def readable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return True

    @override
    def tell(self) -> int:
        return self._at

    @override
    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    @override
    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._at + size, self._size)
        missing = self._size - len(self._ending)
        zeros = bytes(max(0, min(end, missing) - self._at))
        part = zeros + self._ending[max(0, self._at - missing) : max(0, end - missing)]
        self._at = end
        return part

    @override
    def readinto(self, buffer: object) -> int:
        view = memoryview(cast("bytearray", buffer)).cast("B")
        part = self.read(len(view))
        view[: len(part)] = part
        return len(part)
