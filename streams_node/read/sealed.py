"""Open sealed files and their decoded row groups: shared by the threads that read them, each bounded.

A file is used by one thread at a time; a second thread that wants the same object opens it once more, with the footer
that is known already. Row groups are whole values, and shared.
"""

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from streams_node.errors import ObjectDamaged
from streams_node.placement.made import ObjectFacts

if TYPE_CHECKING:  # they load pyarrow, which a node without sealed entries never does
    from streams_node.segments.format import Footer
    from streams_node.segments.reader import Group, SealedFile

_FILES_MAX = 32  # idle ones; each has the footer in memory, and room on the disk even after its copy was evicted
_FOOTERS_BYTES_MAX = 16 << 20
_FILE_BYTES = 16 << 10  # what an open file costs beside its footer


class Slice(NamedTuple):
    """Entries up to seq `end`, as a page shows them."""

    end: int
    payload: bytes


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
        self._bytes_max = bytes_max
        self._known: OrderedDict[tuple[str, int], Group] = OrderedDict()
        self._making: dict[tuple[str, int], threading.Lock] = {}
        self._lock = threading.Lock()
        self.bytes = 0
        self.hits = 0
        self.decoded = 0

    @property
    def bytes_max(self) -> int:
        return self._bytes_max

    def of(self, file: "SealedFile") -> "Callable[[int], Group]":
        """The groups of a file by number."""
        return lambda number: self.get(file, number)

    def get(self, file: "SealedFile", number: int) -> "Group":
        """From memory, or decoded: once, however many threads ask."""
        key = file.made, number
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
                    known = file.group(number)
                    self._put(key, known)
                finally:
                    with self._lock:
                        self._making.pop(key, None)
        return known

    def has(self, made: str, number: int) -> bool:
        with self._lock:
            return (made, number) in self._known

    def drop(self, made: str) -> None:
        """Forget an object."""
        with self._lock:
            for key in [key for key in self._known if key[0] == made]:
                self.bytes -= self._known.pop(key).size

    def _find(self, key: tuple[str, int]) -> "Group | None":
        known = self._known.get(key)
        if known is not None:
            self.hits += 1
            self._known.move_to_end(key)
        return known

    def _put(self, key: tuple[str, int], group: "Group") -> None:
        with self._lock:
            self.decoded += 1
            before = self._known.pop(key, None)
            self.bytes += group.size - (before.size if before else 0)
            self._known[key] = group
            while self.bytes > self._bytes_max and len(self._known) > 1:
                _, gone = self._known.popitem(last=False)
                self.bytes -= gone.size


def first_group(footer: "Footer", row: int) -> int:
    """The row group that holds a row."""
    return bisect_right(footer.starts, row) - 1


def _weight(file: "SealedFile") -> int:
    return _FILE_BYTES + int(file.footer.metadata.serialized_size)
