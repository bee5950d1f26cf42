"""Looks through entries that no companion covers, block by block, wherever they lie."""

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from streams_node.answers.ranges import Range
from streams_node.errors import Gone, StreamsError
from streams_node.ingest.state import StreamState
from streams_node.observe.logs import get_logger
from streams_node.read.cold import ColdReader
from streams_node.read.keyed import Lenses, Pruner
from streams_node.read.pages import deleted
from streams_node.read.scan import Bounds, read_matching
from streams_node.searching.asked import Work
from streams_node.searching.look import settled
from streams_node.searching.sieve import Finder, Spans, Wanted
from streams_node.wal.database import Database

log = get_logger(__name__)
_BLOCK_MIN, _BLOCK_MAX = 1024, 16_384  # entries; the newest are looked at first, and often they are enough
_STEP_BYTES_MIN = 64 << 10
_ROOM = 1.25  # entries are of different sizes
_NOTHING_SHOWN = 1 << 20
Parts = tuple[Database, ColdReader | None]


class Budget(NamedTuple):
    """What a search may examine, and until when."""

    bytes: int
    until: float


class Scan:
    """Of one search. Hits go to the page in the making; what was not looked at is returned."""

    def __init__(
        self, parts: Parts, state: StreamState, wanted: Wanted, lenses: Lenses, pruner: Pruner | None, budget: Budget,
        work: Work,
    ) -> None:  # fmt: skip
        self._database, self._cold = parts
        self._state = state
        self._wanted = wanted
        self._lenses = lenses
        self._pruner = pruner
        self._bytes, self._until = budget
        self._work = work
        self.looked: list[Range] = []  # what was looked at, in no order
        self.failed = False  # something could not be read
        self._entry_bytes = state.position / max(1, state.next_seq)

    async def run(self, spans: Sequence[Range]) -> list[Range]:
        """Look through spans of entries; the spans that were left out, in order."""
        lead = self._wanted.keys[0]
        oldest_first = lead.by == "offset" and not lead.descending
        omitted: list[Range] = []
        # A block is looked through from its beginning on: one that does not fit would leave out the newest entries.
        size = min(_BLOCK_MIN, 1 + int(self._bytes / 4 / max(1.0, self._entry_bytes)))
        for block in _blocks(spans, size, oldest_first=oldest_first):
            if lead.by == "offset" and settled(self._wanted, block, oldest_first=oldest_first):
                break
            end = block.first if self._spent else await self._block(block)
            self.looked.append(Range(block.first, end))
            if end < block.end:
                omitted.append(Range(end, block.end))
        self.looked = joined(self.looked)
        return joined(omitted)

    @property
    def _spent(self) -> bool:
        return self._bytes <= 0 or time.monotonic() >= self._until

    async def _block(self, block: Range) -> int:
        """Up to where it was looked at."""
        at = block.first
        while at < block.end and not self._spent:
            try:
                at = await self._step(Range(at, block.end))
            except Gone:
                if self._state.earliest_seq <= at:
                    raise
                at = self._state.earliest_seq  # trimmed meanwhile: there is nothing to be found
            except StreamsError as problem:
                if self._state.gone:
                    raise deleted(self._state) from None
                self.failed = True
                log.info("entries could not be searched", stream=self._state.id, seq=at, error=problem.message)
                break
        return min(at, block.end)

    async def _step(self, span: Range) -> int:
        spans = Spans([span], self._pruner)
        finder = Finder(self._wanted, self._lenses, spans, span.end)
        about = int((span.end - span.first) * self._entry_bytes * _ROOM) + _STEP_BYTES_MIN
        bounds = Bounds(_NOTHING_SHOWN, min(self._bytes, about), self._until - time.monotonic())
        scanned = await read_matching(self._database, self._cold, self._state, span.first, finder, bounds)
        self._bytes -= scanned.bytes
        self._work.bytes += scanned.bytes
        self._work.parsed += finder.parsed
        self._work.prune_s += spans.seconds
        self._work.pruned += spans.pruned
        if spans.pruned:
            self._work.families.add("exact")
        return scanned.page.end


def _blocks(spans: Sequence[Range], size: int, *, oldest_first: bool) -> Iterator[Range]:
    """Pieces of spans in the order in which they are looked at; they become larger."""
    for span in spans if oldest_first else reversed(spans):
        first, end = span
        while first < end:
            if oldest_first:
                yield Range(first, min(end, first + size))
                first += size
            else:
                yield Range(max(first, end - size), end)
                end -= size
            size = min(_BLOCK_MAX, 2 * size)


def joined(spans: Sequence[tuple[int, int]]) -> list[Range]:
    """The same entries in order, neighbours in one."""
    found: list[Range] = []
    start = stop = 0
    for first, end in sorted(spans):
        if first >= end:
            continue
        if first > stop or start == stop:
            if start < stop:
                found.append(Range(start, stop))
            start, stop = first, end
        elif end > stop:
            stop = end
    if start < stop:
        found.append(Range(start, stop))
    return found
