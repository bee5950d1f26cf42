"""Puts an aggregation together: windows of rollups where covers have them, and a count of the entries for the rest.

Keeps    every entry of the stream is counted once, by the run of its cover or by itself, or said to be left out.
         A cover of which some entries lie at the edges of the time, and could not be counted, is left out as a whole.
         A cover with trimmed entries is not used: what is retained of it is counted.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from streams_node.answers import Indexes, configs_of, filter_want
from streams_node.answers.ranges import Range, uncovered
from streams_node.answers.runs import UNUSABLE, run_of
from streams_node.errors import BadSearch
from streams_node.indexing import Covering
from streams_node.ingest.state import StreamState
from streams_node.meaning import StreamLenses
from streams_node.observe.logs import get_logger
from streams_node.read.cold import ColdReader
from streams_node.read.keyed import Pruner
from streams_node.searching.aggregated import WINDOW_MS_MAX, Aggregated, Asked, times_of
from streams_node.searching.blocks import Blocks
from streams_node.searching.counted import counted
from streams_node.searching.edges import NAMED_BYTES_MAX, named
from streams_node.searching.left_out import count_of, in_log, objects_of, time_of
from streams_node.searching.recount import Recount
from streams_node.searching.remembered import Kept, Question, Room
from streams_node.searching.scan import Budget, joined
from streams_node.searching.service import Searches
from streams_node.searching.sources import record_of, texts_of
from streams_node.searching.tallies import Tallies
from streams_node.wal.database import Database

if TYPE_CHECKING:  # they load pyarrow
    from indexers.rollups import Rollups
    from indexers.runs import RunReader
    from streams_node.searching.middles import Share, Stretch, Taken
    from streams_node.searching.totals import Counter

log = get_logger(__name__)
GROUPS_MAX = 50_000
_RUNS_AT_ONCE = 8
_FOLD_AT = 64  # tables of pieces


class Aggregates:
    """Made once a node; on the event loop. Turns and threads are those of searches."""

    def __init__(self, database: Database, searches: Searches, scan_bytes_max: int, kept_bytes_max: int) -> None:
        self._database = database
        self._searches = searches
        self._scan_bytes = scan_bytes_max
        self.kept = Kept(kept_bytes_max)
        self.tallies = Tallies(database, searches, scan_bytes_max)

    def bound_scans(self, scan_bytes_max: int) -> None:
        """Another bound from now on; what is under way keeps its own."""
        self._scan_bytes = self.tallies.scan_bytes = scan_bytes_max

    async def aggregate(
        self, cold: ColdReader | None, indexes: Indexes | None, state: StreamState, asked: Asked
    ) -> Aggregated:
        """Of the stream as it is when its turn comes. Overloaded when too many wait."""
        return await counted(
            self._searches.turns,
            state,
            asked.until,
            lambda: _One(self._database, self._searches, self.kept, cold, indexes, state, asked, self._scan_bytes),
        )


class _One:
    """An answer in the making."""

    def __init__(
        self, database: Database, searches: Searches, kept: Kept, cold: ColdReader | None, indexes: Indexes | None,
        state: StreamState, asked: Asked, scan_bytes: int,
    ) -> None:  # fmt: skip
        self._database, self._searches = database, searches
        self._cold, self._indexes = cold, indexes
        self._state, self._asked = state, asked
        self._budget = Budget(scan_bytes, asked.until)
        self._tail = state.tail  # one moment
        self.first = state.earliest_seq
        self._times = times_of(asked)
        self._configs = configs_of(asked.meaning, is_json=state.is_json)
        self._shelf, self._room = kept.shelf(self._question()), Room()
        self._stretches: list[Stretch] = []
        self._tables: list[Any] = []  # what is in no stretch
        self._found_by_time = False
        self._edge_bytes = NAMED_BYTES_MAX  # that may still be read of entries by themselves
        self._blocks: list[Covering] = []  # metric blocks that were counted

    async def found(self) -> Aggregated:
        """Ask the runs, then count what they do not answer."""
        state, tail = self._state, self._tail
        taken = await self._taken(await self._covers())
        omitted, looked = await self._counted(taken)
        timed_out = self._asked.late and bool(omitted)
        windows = await self._windows()
        parts = self._database, self._cold, state
        logged = await in_log(*parts, tail, self.first)
        used = [cover for cover in taken if not any(span.first <= cover.first_seq < span.end for span in omitted)]
        found = Aggregated(windows=windows, tail=tail, omitted=omitted, timed_out=timed_out, logged=logged)
        found.indexed = len({(cover.first_seq, cover.end_seq) for cover in [*used, *self._blocks]})
        found.used_rollups = bool(used and self._times.windows)
        found.families.update(
            ["agg"] if used else [], ["mblk"] if self._blocks else [], ["col"] if self._found_by_time else []
        )
        found.tail_docs = count_of(looked, logged)
        if looked:
            found.scanned = await objects_of(*parts, looked, logged)
        if omitted:
            found.omitted_objects = await objects_of(*parts, omitted, logged)
            found.oldest_omitted_us = await time_of(*parts, tail, omitted[0].first)
        return found

    def _question(self) -> Question:
        asked = self._asked
        config = self._configs.get("rollups", "")
        return Question(
            self._state.id, config, asked.rollup.name, asked.interval, asked.plan, asked.group_by, asked.measures
        )

    # --- out of runs ---

    async def _covers(self) -> list[Covering]:
        config = self._configs.get("rollups")
        smallest = min(each.ms for each in self._asked.rollup.intervals)
        if self._indexes is None or config is None or smallest > WINDOW_MS_MAX:
            return []
        try:
            covers = await self._indexes.covers(self._state.id, "rollups", config)
        except UNUSABLE as problem:
            log.info("covers could not be read", stream=self._state.id, error=repr(problem))
            return []
        found, at = list[Covering](), self.first
        for cover in covers:
            if at <= cover.first_seq and cover.end_seq <= self._tail.seq:
                found.append(cover)
                at = cover.end_seq
        return found

    async def _taken(self, covers: Sequence[Covering]) -> "dict[Covering, Taken]":
        """What covers have, those of one object in one `Taken`. Those that cannot be read are not among them."""
        found: dict[Covering, Taken] = {}
        by_object: dict[str, list[Covering]] = {}
        for cover in covers:
            by_object.setdefault(cover.made, []).append(cover)
        for batch in _batches(list(by_object.values())):
            if self._asked.late:
                break
            for made, taken in (await self._ask(batch)).items():
                self._take(taken.whole)
                found.update((cover, taken) for cover in by_object[made])
        return found

    async def _ask(self, batch: Sequence[Sequence[Covering]]) -> "Mapping[str, Taken]":
        """By object."""
        asked, stream, times = self._asked, self._state.id, self._times
        shelf, room = self._shelf, self._room

        def work(readers: "Mapping[str, RunReader]") -> "dict[str, Taken]":
            from streams_node.searching.middles import TimeIsOver, of_run  # noqa: PLC0415 - see above

            found = {}
            for covers in batch:
                reader = readers.get(covers[0].made)
                if reader is not None:
                    ordinals = frozenset(cover.ordinal for cover in covers)
                    with suppress(TimeIsOver):
                        found[covers[0].made] = of_run(
                            cast("Rollups", reader), stream, asked, times, ordinals, shelf, room
                        )
            return found

        assert self._indexes is not None  # noqa: S101 - there are covers
        objects = [run_of(covers[0]) for covers in batch]
        try:
            async with asyncio.timeout(max(0.0, asked.until - time.monotonic())):
                found, _ = await self._indexes.runs.read(objects, "rollups", work)
        except UNUSABLE as problem:
            log.info("rollups were left aside", stream=stream, error=repr(problem))
            return {}
        return found

    def _take(self, share: "Share") -> None:
        self._stretches += share.stretches
        self._tables += share.tables

    # --- out of entries ---

    async def _counted(self, taken: "Mapping[Covering, Taken]") -> tuple[list[Range], list[Range]]:
        """Count what is left; what could not be counted, and what was."""
        from streams_node.searching.totals import Counter  # noqa: PLC0415 - see above

        asked = self._asked
        lenses = StreamLenses(asked.meaning, self._state.token)
        gaps = uncovered(sorted(taken, key=lambda cover: cover.first_seq), self.first, self._tail.seq)
        pieces = await self._searches.recent.read(
            self._cold, self._state, asked.meaning, lenses,
            first=max((cover.end_seq for cover in taken), default=self.first), end=self._tail.seq,
            scan_bytes=self._budget.bytes, until=asked.until,
        )  # fmt: skip
        recount = Recount(self._searches, self._cold, self._state, lenses, self._pruner(), self._budget, pieces)
        blocks = Blocks(self._indexes, self._state, asked, self._configs.get("metrics"))
        await blocks.find()
        everything = Counter(asked, [(asked.begin, asked.end)])
        edges = Counter(asked, self._times.edges)
        omitted = list[Range]()
        edged = {
            Range(cover.first_seq, cover.end_seq): found.parts[cover.ordinal]
            for cover, found in taken.items()
            if cover.ordinal in found.parts
        }
        config = None if "metrics" in self._configs else self._configs.get("companion")
        near = await named(self._searches, self._indexes, self._state, asked, config, sorted(edged), self._times.edges)
        for span in sorted([*gaps, *edged]):
            if span in near and (table := await self._at_edges(near[span], edges)) is not None:
                self._take(edged[span])
                self._tables.append(table)
                continue
            end, tables = await blocks.run(recount, span, edges if span in edged else everything)
            if span not in edged:
                self._tables += tables
            elif end == span.end:
                self._take(edged[span])
                self._tables += tables
            else:
                end = span.first
            if end < span.end:
                omitted.append(Range(end, span.end))
            if len(self._tables) >= _FOLD_AT:
                await self._fold()
        self._blocks = blocks.used
        return joined(omitted), joined(recount.looked)

    async def _at_edges(self, seqs: Sequence[int], counter: "Counter") -> Any:
        """What these entries add up to; None when some of them cannot be read, or all are too much for memory."""
        from streams_node.searching.totals import EMPTY  # noqa: PLC0415 - see above

        parts, until = (self._database, self._cold), self._asked.until
        texts = await texts_of(parts, self._state, seqs, until, bytes_max=self._edge_bytes)
        self._edge_bytes -= sum(map(len, texts.values()))
        if any(seq not in texts and seq >= self._state.earliest_seq for seq in seqs):
            return None
        self._found_by_time = True
        lenses = StreamLenses(self._asked.meaning, self._state.token)

        def count() -> Any:
            from streams_node.searching.totals import loaded  # noqa: PLC0415 - see above

            if not texts:
                return None
            if min(texts) >= lenses.current_from:
                records, plain = loaded([texts[seq] for seq in sorted(texts)])
            else:
                records, plain = [record_of(lenses, seq, text)[0] for seq, text in sorted(texts.items())], False
            return counter.counted(records, plain=plain)

        table = await self._searches.run(count)
        return EMPTY if table is None else table

    def _pruner(self) -> Pruner | None:
        if self._indexes is None or self._asked.plan is None:
            return None
        want = filter_want(self._asked.plan, self._configs, 0)
        return None if want is None else self._indexes.pruner(self._state.id, [want])

    # --- the answer ---

    async def _fold(self) -> None:
        from streams_node.searching.totals import TooManyGroups, added  # noqa: PLC0415 - see above

        try:
            self._tables = [await self._searches.run(added, self._tables)]
        except TooManyGroups:
            raise _too_many() from None

    async def _windows(self) -> Sequence[bytes]:
        from streams_node.searching.middles import windows_of  # noqa: PLC0415 - see above
        from streams_node.searching.totals import TooManyGroups  # noqa: PLC0415

        await self._fold()
        try:
            return await self._searches.run(
                windows_of, self._stretches, self._tables[0], self._asked, self._shelf, GROUPS_MAX
            )
        except TooManyGroups:
            raise _too_many() from None


def _batches(covers: Sequence[Sequence[Covering]]) -> Iterator[Sequence[Sequence[Covering]]]:
    for at in range(0, len(covers), _RUNS_AT_ONCE):
        yield covers[at : at + _RUNS_AT_ONCE]


def _too_many() -> BadSearch:
    return BadSearch(
        f"the answer would have more than {GROUPS_MAX} groups; ask for less time, a longer interval or fewer fields"
    )
