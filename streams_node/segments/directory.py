"""Which entries of which streams a pack holds: sorted columns, searched by bisection.

01            version
u32le         CRC-32 of all that follows
u32le         n, the number of streams
zstd frame    stream u64le × n, first seq u64le × n, entries u32le × n
"""

import struct
import sys
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Self

from streams_node.errors import ObjectDamaged, invariant

_VERSION = 1
_HEAD = struct.Struct("<BI")
_COUNT = struct.Struct("<I")
_STREAM_BYTES = 8 + 8 + 4
_STREAMS_MAX = 1 << 26  # a damaged number must not ask for memory: a pack of 64 MiB cannot hold as many
_END = 1 << 63
_LEVEL = 3


class Place(NamedTuple):
    """A stream's entries in a pack: `entries` of them, from seq `first_seq` on, in rows from `first_row` on."""

    first_seq: int
    entries: int
    first_row: int


class Directory:
    """The directory of one pack in memory, 28 bytes a stream."""

    __slots__ = ("_counts", "_first_rows", "_first_seqs", "_streams")

    def __init__(self, streams: "array[int]", first_seqs: "array[int]", counts: "array[int]") -> None:
        self._streams = streams
        self._first_seqs = first_seqs
        self._counts = counts
        self._first_rows = array("Q", accumulate(counts, initial=0))

    @classmethod
    def of(cls, places: Iterable[tuple[int, int, int]]) -> Self:
        """From (stream, first_seq, count), in the order of the streams."""
        streams, first_seqs, counts = array("Q"), array("Q"), array("I")
        for stream, first_seq, count in places:
            streams.append(stream)
            first_seqs.append(first_seq)
            counts.append(count)
        invariant(_in_order(streams), "a directory's streams are in order and differ")
        return cls(streams, first_seqs, counts)

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def size(self) -> int:
        """Bytes it takes in memory."""
        return 28 * len(self._streams) + 400

    @property
    def entries(self) -> int:
        return self._first_rows[-1]

    def find(self, stream: int) -> Place | None:
        """Where a stream's entries are; None when the pack has none of it."""
        at = bisect_left(self._streams, stream)
        if at == len(self._streams) or self._streams[at] != stream:
            return None
        return Place(self._first_seqs[at], self._counts[at], self._first_rows[at])

    def places(self) -> Iterable[tuple[int, int, int]]:
        """(stream, first_seq, count) of all, in order."""
        return zip(self._streams, self._first_seqs, self._counts, strict=True)

    def pack(self) -> bytes:
        """As bytes."""
        columns = b"".join(_little(column) for column in (self._streams, self._first_seqs, self._counts))
        rest: bytes = _COUNT.pack(len(self)) + _zstd().compress(columns, asbytes=True)
        return _HEAD.pack(_VERSION, zlib.crc32(rest)) + rest

    @classmethod
    def unpack(cls, blob: bytes, made: str) -> Self:
        """What `pack` made, for the pack `made`; anything else is `ObjectDamaged`."""
        if len(blob) < _HEAD.size + _COUNT.size:
            raise ObjectDamaged(made, "its directory is cut off")
        version, crc = _HEAD.unpack_from(blob)
        if version != _VERSION:
            raise ObjectDamaged(made, f"its directory has version {version}, this version of the node knows {_VERSION}")
        rest = blob[_HEAD.size :]
        if zlib.crc32(rest) != crc:
            raise ObjectDamaged(made, "its directory's checksum does not match")
        count: int = _COUNT.unpack_from(rest)[0]
        if count > _STREAMS_MAX:
            raise ObjectDamaged(made, f"its directory claims {count} streams")
        return cls(*_columns(_inflated(rest[_COUNT.size :], count * _STREAM_BYTES, made), count, made))


def _inflated(blob: bytes, size: int, made: str) -> bytes:
    try:
        columns: bytes = _zstd().decompress(blob, decompressed_size=size, asbytes=True)
    except (OSError, ValueError) as problem:
        raise ObjectDamaged(made, f"its directory cannot be read: {problem}") from problem
    if len(columns) != size:
        raise ObjectDamaged(made, "its directory is cut off")
    return columns


def _columns(columns: bytes, count: int, made: str) -> tuple["array[int]", "array[int]", "array[int]"]:
    streams, first_seqs, counts = array("Q"), array("Q"), array("I")
    streams.frombytes(columns[: 8 * count])
    first_seqs.frombytes(columns[8 * count : 16 * count])
    counts.frombytes(columns[16 * count :])
    if sys.byteorder == "big":
        for column in (streams, first_seqs, counts):
            column.byteswap()
    if not (_in_order(streams) and max(streams, default=0) < _END and max(first_seqs, default=0) < _END):
        raise ObjectDamaged(made, "its directory is not in order")
    if 0 in counts:
        raise ObjectDamaged(made, "its directory names a stream without entries")
    return streams, first_seqs, counts


def _in_order(streams: "array[int]") -> bool:
    return all(one < next_one for one, next_one in pairwise(streams))


def _little(column: "array[int]") -> bytes:
    if sys.byteorder == "big":
        column = array(column.typecode, column)
        column.byteswap()
    return column.tobytes()


def _zstd() -> Any:
    import pyarrow as pa  # noqa: PLC0415 - 30 MB that a node needs only for packs

    return pa.Codec("zstd", compression_level=_LEVEL)
