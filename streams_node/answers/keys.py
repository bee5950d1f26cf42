"""Distinct routing keys of entries that no lexicon covers: read out of the log and of sealed objects, keys only.

What was read is remembered, as entries never change: the next page asks only for what was appended meanwhile. A stretch
with more keys than can be kept gives just those that the page at hand needs.
"""

import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from typing import TYPE_CHECKING, NamedTuple

from streams_node.answers.ranges import Range
from streams_node.errors import Unavailable
from streams_node.read.cold import ColdReader, Run
from streams_node.read.sealed import first_group

if TYPE_CHECKING:
    from streams_node.segments.reader import SealedFile

KEPT_BYTES_MAX = 16 << 20  # of all streams
_ONE_BYTES_MAX = 4 << 20  # of one stretch
_KEY_BYTES = 100  # what a key costs in memory beside its text
_GROUPS_AT_ONCE = 4  # of a sealed object, before other readers have their turn
_LOOKS_MAX = 3
IN_LOG = -1  # instead of a sequence


class Stretch(NamedTuple):
    """The keys of some entries of a stream, sorted, and what they cost in memory."""

    range: Range
    keys: Sequence[str]
    size: int

    def behind(self, after: str | None, limit: int) -> Sequence[str]:
        """The first ones behind a key."""
        start = 0 if after is None else bisect_right(self.keys, after)
        return self.keys[start : start + limit]


class Collected:
    """The keys of a stretch: all of them, or the least of those behind `after`. One thread at a time adds some."""

    def __init__(self, after: str | None, limit: int, known: Iterable[str] = ()) -> None:
        self._after = after
        self._limit = limit
        self._known = known  # added with the first others: in a thread
        self._keys: set[str] = set()
        self._bytes = 0
        self.whole = True
        self.seconds = 0.0  # that it took to read them

    def take(self, keys: Iterable[str]) -> None:
        """Add keys, in any order."""
        known, self._known = self._known, ()
        fresh = set(known).union(keys).difference(self._keys)
        if self.whole:
            self._bytes += sum(map(len, fresh)) + _KEY_BYTES * len(fresh)
            self._keys |= fresh
            if self._bytes > _ONE_BYTES_MAX:
                self.whole = False
                fresh, self._keys = self._keys, set()
        if not self.whole:
            after = self._after
            self._keys.update(key for key in fresh if after is None or key > after)
            if len(self._keys) > self._limit:
                self._keys = set(nsmallest(self._limit, self._keys))

    def stretch(self, of: Range) -> Stretch:
        """What was collected, as one value."""
        keys = self.sorted()
        return Stretch(of, keys, self._bytes + _KEY_BYTES)

    def sorted(self) -> list[str]:
        """In the order of their UTF-8, which is that of code points."""
        self.take(())
        return sorted(self._keys)


class Remembered:
    """Stretches that were read, the longest unused leave first: of each stream one that ends in the log and grows, and
    some of sealed entries, by where they begin.
    """

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._known: OrderedDict[tuple[int, int], Stretch] = OrderedDict()
        self.bytes = 0

    def get(self, stream: int, at: int = IN_LOG) -> Stretch | None:
        found = self._known.get((stream, at))
        if found is not None:
            self._known.move_to_end((stream, at))
        return found

    def put(self, stream: int, stretch: Stretch, at: int = IN_LOG) -> None:
        self.forget(stream, at)
        self._known[stream, at] = stretch
        self.bytes += stretch.size
        while self.bytes > self._bytes_max:
            _, gone = self._known.popitem(last=False)
            self.bytes -= gone.size

    def forget(self, stream: int, at: int = IN_LOG) -> None:
        gone = self._known.pop((stream, at), None)
        self.bytes -= 0 if gone is None else gone.size


async def sealed_keys(cold: ColdReader, stream: int, wanted: Range, collected: Collected) -> None:
    """Collect the keys of sealed entries, wherever they lie now. StreamsError where they cannot be had."""
    run, looks = Run(stream, wanted.first, None), 0

    def work(file: "SealedFile", row: int, start: int, end: int) -> int:
        return _keys_of(file, row, start, min(end, wanted.end), collected)

    while run.end < wanted.end:
        stop = await cold.look(run, work)
        if stop is not None:
            run.advance(stop)
            continue
        looks += 1
        if looks == _LOOKS_MAX:
            raise Unavailable("the entries were moved while their keys were read; try again")
        run = Run(stream, run.end, None)


def _keys_of(file: "SealedFile", row: int, start: int, end: int, collected: Collected) -> int:
    """In a thread: some row groups from a row on, which is entry `start`. Returns up to where."""
    import pyarrow.compute as pc  # noqa: PLC0415 - whoever has an open file has loaded it

    began = time.monotonic()
    number, at, starts = first_group(file.footer, row), start, file.footer.starts
    for _ in range(_GROUPS_AT_ONCE):
        first = row + at - start
        stop = min(end, start + starts[number + 1] - row)
        keys = file.columns(number, ("key",))["key"].slice(first - starts[number], stop - at)
        collected.take(pc.drop_null(pc.unique(keys)).to_pylist())
        at, number = stop, number + 1
        if at == end:
            break
    collected.seconds += time.monotonic() - began
    return at
