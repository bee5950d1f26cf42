"""Open sealed files and their decoded row groups: shared by the threads that read them, each bounded.

A file is used by one thread at a time; a second thread that wants the same object opens it once more, with the footer
that is known already. Row groups are whole values, and shared.
"""

import threading
from bisect import bisect_right
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from streams_node.errors import ObjectDamaged
from streams_node.placement.made import ObjectFacts

if TYPE_CHECKING:  # they load pyarrow, which a node without sealed entries never does
    from streams_node.segments.format import Footer
    from streams_node.segments.reader import SealedFile

_FILES_MAX = 32  # idle ones; each has the footer in memory, and room on the disk even after its copy was evicted
_FOOTERS_BYTES_MAX = 16 << 20
_FILE_BYTES = 16 << 10  # what an open file costs beside its footer
_DECODED_BYTES = 1 << 10  # and a row group beside its bytes
_Key = tuple[str, int, bool]


Part = bytes | memoryview  # entries as a page shows them; without a copy, as long as they are looked at


class Slice(NamedTuple):
    """Entries up to row `end`, in parts; `length` counts the commas between them."""

    end: int
    parts: list[Part]
    length: int


class Decoded:
    """The payloads of one row group, one behind the other, with a comma between each two if asked for."""

    __slots__ = ("_comma", "_data", "_offsets", "end", "start")

    def __init__(self, start: int, payloads: Any, *, commas: bool) -> None:
        from streams_node.segments.format import payload_offsets  # noqa: PLC0415 - loads pyarrow

        self.start = start
        self.end = start + len(payloads)
        self._comma = int(commas)
        self._offsets = payload_offsets(payloads)
        self._data = memoryview(_joined(payloads) if commas else payloads.buffers()[2] or b"").cast("B")

    @property
    def size(self) -> int:
        """Bytes it takes in memory."""
        return len(self._data) + self._offsets.nbytes + _DECODED_BYTES

    def take(self, row: int, end: int, bytes_max: int, *, forced: bool) -> tuple[int, Part]:
        """Entries from `row` on, before `end`: as many as fit; at least one if forced."""
        end = min(end, self.end)
        first = self._position(row)
        limit = first + bytes_max + self._comma  # the comma after the last one is not shown
        stop = bisect_right(range(row + 1, end + 1), limit, key=self._position) + row
        if stop == row and forced:
            stop = row + 1
        if self._comma:
            return stop, self._data[first : max(first, self._position(stop) - 1)]
        return stop, self._data[first : self._position(stop)]

    def entry(self, row: int) -> bytes:
        """One entry."""
        return bytes(self._data[self._position(row) : self._position(row + 1) - self._comma])

    def _position(self, row: int) -> int:
        """Where an entry begins in the data."""
        at = row - self.start
        return self._offsets[at] - self._offsets[0] + at * self._comma


class Files:
    """Idle open files, the longest unused closed first."""

    def __init__(self) -> None:
        self._idle: OrderedDict[str, list[SealedFile]] = OrderedDict()
        self._footers: dict[str, tuple[Footer, int]] = {}  # of idle files and of those in use, and how many
        self._lock = threading.Lock()
        self._count = 0
        self._bytes = 0

    def has(self, made: str) -> bool:
        """Whether one is open and idle."""
        with self._lock:
            return made in self._idle

    def take(self, made: str) -> "SealedFile | None":
        """An open file, for one thread until it is given back."""
        with self._lock:
            files = self._idle.get(made)
            return self._out(made, files) if files else None

    def open(self, path: Path, facts: ObjectFacts, *, fresh: bool = False) -> "SealedFile":
        """Open one more; it must be the object that the catalogue means. `fresh`: believe no footer read before."""
        from streams_node.segments.reader import SealedFile  # noqa: PLC0415 - see above

        with self._lock:
            known = None if fresh else self._footers.get(facts.made)
        try:
            size = path.stat().st_size
            if size != facts.bytes:  # before it is mapped: a page that is not there would end the process
                raise ObjectDamaged(facts.made, f"its copy has {size} bytes, not {facts.bytes}")
            file = SealedFile(path, facts.made, footer=known[0] if known else None)
        except FileNotFoundError as problem:
            raise ObjectDamaged(facts.made, "its copy was removed") from problem
        if (file.footer.format.kind, file.entries) != (facts.kind, facts.entries):
            file.close()
            raise ObjectDamaged(facts.made, "its kind or its number of entries is not what the catalogue says")
        with self._lock:
            footer, count = self._footers.get(facts.made, (None, 0))
            self._footers[facts.made] = file.footer, count + 1 if footer is file.footer else 1
        return file

    def give(self, file: "SealedFile") -> None:
        """Keep it open for the next; of an object that was dropped meanwhile it is closed."""
        with self._lock:
            known = self._footers.get(file.made)
            if known is None or known[0] is not file.footer:
                file.close()
                return
            self._idle.setdefault(file.made, []).append(file)
            self._idle.move_to_end(file.made)
            self._count += 1
            self._bytes += _weight(file)
            while self._count > 1 and (self._count > _FILES_MAX or self._bytes > _FOOTERS_BYTES_MAX):
                made, files = next(iter(self._idle.items()))
                self._closed(self._out(made, files))

    def discard(self, file: "SealedFile") -> None:
        """Close one that cannot be read."""
        with self._lock:
            self._closed(file)

    def drop(self, made: str) -> None:
        """Close all of an object, those in use when they are given back."""
        with self._lock:
            while files := self._idle.get(made):
                self._closed(self._out(made, files))
            self._footers.pop(made, None)

    def close(self) -> None:
        for made in list(self._idle):
            self.drop(made)

    def _out(self, made: str, files: "list[SealedFile]") -> "SealedFile":
        file = files.pop()
        if not files:
            del self._idle[made]
        self._count -= 1
        self._bytes -= _weight(file)
        return file

    def _closed(self, file: "SealedFile") -> None:
        file.close()
        known = self._footers.get(file.made)
        if known is not None and known[0] is file.footer:
            if known[1] > 1:
                self._footers[file.made] = known[0], known[1] - 1
            else:
                del self._footers[file.made]


class Groups:
    """Decoded row groups, so that the following page is a slice; the longest unused leave first."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._known: OrderedDict[_Key, Decoded] = OrderedDict()
        self._making: dict[_Key, threading.Lock] = {}
        self._lock = threading.Lock()
        self.bytes = 0
        self.hits = 0
        self.decoded = 0

    def take(self, file: "SealedFile", row: int, end: int, bytes_max: int, *, commas: bool) -> Slice:
        """Whole entries from `row` on, before `end`: as many as fit, and at least one."""
        parts: list[Part] = []
        number, length = first_group(file.footer, row), 0
        while row < end:
            group = self.get(file, number, commas=commas)
            between = int(commas and bool(parts))
            stop, part = group.take(row, end, bytes_max - length - between, forced=not parts)
            if stop == row:
                break
            parts.append(part)
            row, number, length = stop, number + 1, length + between + len(part)
            if stop < group.end or length >= bytes_max:
                break
        return Slice(row, parts, length)

    def get(self, file: "SealedFile", number: int, *, commas: bool) -> Decoded:
        """From memory, or decoded: once, however many threads ask."""
        key = file.made, number, commas
        with self._lock:
            known = self._find(key)
            if known is not None:
                return known
            gate = self._making.setdefault(key, threading.Lock())
        with gate:
            with self._lock:
                known = self._find(key)
            if known is None:
                try:
                    payloads = file.columns(number, ("payload",))["payload"]
                    known = Decoded(file.footer.starts[number], payloads, commas=commas)
                    self._put(key, known)
                finally:
                    with self._lock:
                        self._making.pop(key, None)
        return known

    def bound(self, bytes_max: int) -> None:
        """Another bound from now on."""
        with self._lock:
            self.bytes_max = bytes_max
            while self.bytes > self.bytes_max and len(self._known) > 1:
                _, gone = self._known.popitem(last=False)
                self.bytes -= gone.size

    def drop(self, made: str) -> None:
        """Forget an object."""
        with self._lock:
            for key in [key for key in self._known if key[0] == made]:
                self.bytes -= self._known.pop(key).size

    def _find(self, key: _Key) -> Decoded | None:
        known = self._known.get(key)
        if known is not None:
            self.hits += 1
            self._known.move_to_end(key)
        return known

    def _put(self, key: _Key, group: Decoded) -> None:
        with self._lock:
            self.decoded += 1
            before = self._known.pop(key, None)
            self.bytes += group.size - (before.size if before else 0)
            self._known[key] = group
            while self.bytes > self.bytes_max and len(self._known) > 1:
                _, gone = self._known.popitem(last=False)
                self.bytes -= gone.size


def _joined(payloads: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - when it is first needed
    import pyarrow.compute as pc  # noqa: PLC0415

    ends = pa.array([0, len(payloads)], pa.int32())
    return pc.binary_join(pa.ListArray.from_arrays(ends, payloads), b",")[0].as_buffer()


def first_group(footer: "Footer", row: int) -> int:
    """The row group that holds a row."""
    return bisect_right(footer.starts, row) - 1


def _weight(file: "SealedFile") -> int:
    return _FILE_BYTES + int(file.footer.metadata.serialized_size)
