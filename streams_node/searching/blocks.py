"""Counts records of metrics out of their blocks: what no rollup answers need not be read from the entries.

Keeps    a block that cannot be read, or not in time, is left aside: its entries are counted by themselves. What is
         below the earliest retained entry is not asked of a block.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from streams_node.answers import Indexes
from streams_node.answers.ranges import Range
from streams_node.answers.runs import UNUSABLE, run_of
from streams_node.indexing import Covering
from streams_node.ingest.state import StreamState
from streams_node.observe.logs import get_logger
from streams_node.searching.aggregated import Asked
from streams_node.searching.metered import Lean
from streams_node.searching.recount import Counts, Recount, split

if TYPE_CHECKING:  # they load pyarrow
    from indexers.metrics import Metrics
    from indexers.runs import RunReader

log = get_logger(__name__)
_AT_ONCE = 4096  # rows that are counted between two looks at the clock


class Blocks:
    """Of one aggregation, on the event loop."""

    def __init__(self, indexes: Indexes | None, state: StreamState, asked: Asked, config: str | None) -> None:
        self._indexes, self._state, self._asked = indexes, state, asked
        self._config = config
        self._covers: Sequence[Covering] = ()
        self.used: list[Covering] = []

    async def find(self) -> None:
        """Which entries have blocks."""
        if self._indexes is None or self._config is None:
            return
        try:
            self._covers = await self._indexes.covers(self._state.id, "metrics", self._config)
        except UNUSABLE as problem:
            log.info("covers could not be read", stream=self._state.id, error=repr(problem))

    async def run(self, recount: Recount, span: Range, counter: Counts) -> tuple[int, Sequence[Any]]:
        """Up to which entry a span was counted, and the tables of it; what has no block by `recount`."""
        at, tables = span.first, list[Any]()
        covers = ((Range(cover.first_seq, cover.end_seq), cover) for cover in self._covers)
        for part, cover in split(span, covers):
            found = None if cover is None else await self._counted(cover, part, counter)
            at, more = (part.end, found) if found is not None else await recount.run(part, counter)
            tables += more
            if at < part.end:
                break
        return at, tables

    async def _counted(self, cover: Covering, part: Range, counter: Counts) -> list[Any] | None:
        """What a block has of a part; None when it says nothing."""
        asked, stream = self._asked, self._state.id
        lean = Lean(asked)

        def work(readers: "Mapping[str, RunReader]") -> list[Any] | None:
            reader = readers.get(cover.made)
            if reader is None:
                return None
            made = list[Any]()
            for records in lean.records(cast("Metrics", reader), stream, part, _AT_ONCE):
                if asked.late:
                    return None
                made.append(counter.counted(records, plain=False))
            return made

        assert self._indexes is not None  # noqa: S101 - there are covers
        try:
            async with asyncio.timeout(max(0.0, asked.until - time.monotonic())):
                found, _ = await self._indexes.runs.read([run_of(cover)], "metrics", work)
        except UNUSABLE as problem:
            log.info("a metric block was left aside", stream=stream, error=repr(problem))
            return None
        if found is not None and cover not in self.used:
            self.used.append(cover)
        return found
