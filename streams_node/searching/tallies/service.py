"""Puts an answer together: the view adds up what companions and minis cover, everything else is counted entry by
entry.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from streams_node.answers import Indexes, configs_of, filter_want
from streams_node.answers.ranges import Range, within
from streams_node.errors import BadSearch
from streams_node.indexing import Covering
from streams_node.indexing.spans import without
from streams_node.ingest.state import StreamState
from streams_node.meaning import StreamLenses
from streams_node.read.cold import ColdReader
from streams_node.read.keyed import Pruner
from streams_node.searching.counted import counted
from streams_node.searching.covered import Covered, Subject, covered, ranges_of
from streams_node.searching.left_out import count_of, in_log, objects_of, time_of
from streams_node.searching.place import Place
from streams_node.searching.recount import Recount
from streams_node.searching.scan import Budget, joined
from streams_node.searching.service import Searches
from streams_node.searching.sources import record_of, texts_of
from streams_node.searching.tallies.parts import Part, add
from streams_node.searching.tallies.wanted import TOO_MANY, Asked, Tallied, nothing
from streams_node.wal.database import Database

if TYPE_CHECKING:  # they load pyarrow and tantivy
    from search.engine import Searcher
    from search.engine import Tallied as Said
    from streams_node.searching.tallies.records import RecordTally, Tally

_LATE, _SCAN = "late", "scan"  # why a view says nothing
_OPENING_SHARE = 0.6  # of the time: what is not open by then is open for the next one
_LONG = 1 << 17  # entries that are added up: some two milliseconds
_VALUES = 3  # times as long as at a document for a page it takes to add up its values


class Tallies:
    """Made once a node; on the event loop. Turns and threads are those of searches."""

    def __init__(self, database: Database, searches: Searches, scan_bytes_max: int) -> None:
        self._database = database
        self._searches = searches
        self.scan_bytes = scan_bytes_max

    async def tally(
        self, cold: ColdReader | None, indexes: Indexes | None, state: StreamState, asked: Asked
    ) -> Tallied:
        """Of the stream as it is when its turn comes. Overloaded when too many wait."""
        return await counted(
            self._searches.turns,
            state,
            asked.until,
            lambda: _One(self._database, self._searches, cold, indexes, state, asked, self.scan_bytes),
        )


class _One:
    """An answer in the making."""

    def __init__(
        self, database: Database, searches: Searches, cold: ColdReader | None, indexes: Indexes | None,
        state: StreamState, asked: Asked, scan_bytes: int,
    ) -> None:  # fmt: skip
        self._database, self._searches = database, searches
        self._cold, self._indexes = cold, indexes
        self._state, self._asked = state, asked
        self._budget = Budget(scan_bytes, asked.until)
        self._tail = state.tail  # one moment
        self.first = state.earliest_seq
        self._lenses = StreamLenses(asked.meaning, state.token)
        self._configs = configs_of(asked.meaning, is_json=state.is_json)
        self._unread: list[Range] = []  # entries that the index could not decide about, and nobody has
        self._parts: dict[str, Part] = nothing(asked.wanted)
        self._matched = self._inexact = self._indexed = 0
        self._families: set[str] = set()

    async def found(self) -> Tallied:
        """Ask the view, then count what it does not answer."""
        state, tail = self._state, self._tail
        spans = [Range(self.first, tail.seq)] if self.first < tail.seq else []
        asked = self._asked
        cover = Covered((), (), [])
        if spans and not asked.late:
            subject = Subject(
                self._cold, self._indexes, state, asked.meaning, asked.config, self._lenses, self.first, tail.seq
            )
            cover = await covered(self._searches, subject)
        answered, omitted = await self._from_index(spans, cover)
        left, looked = await self._counted([Range(*span) for span in without(spans, answered)], cover)
        omitted = joined([*omitted, *left, *self._unread])
        parts = self._database, self._cold, state
        logged = await in_log(*parts, tail, self.first)
        found = Tallied(
            parts=self._parts, matched=self._matched, inexact=self._inexact, tail=tail, omitted=omitted,
            timed_out=self._asked.late and bool(omitted), logged=logged, indexed=self._indexed,
            families=self._families,
        )  # fmt: skip
        found.tail_docs = count_of(looked, logged)
        if looked:
            found.scanned = await objects_of(*parts, looked, logged)
        if omitted:
            found.omitted_objects = await objects_of(*parts, omitted, logged)
            found.oldest_omitted_us = await time_of(*parts, tail, omitted[0].first)
        return found

    # --- what companions cover ---

    async def _from_index(self, spans: list[Range], cover: Covered) -> tuple[list[Range], list[Range]]:
        """Add up the view. Which spans need not be looked at any more, and which of those are left out."""
        asked, indexes = self._asked, self._indexes
        views = None if indexes is None else indexes.views
        if views is None or not cover.ranges or asked.late:
            return [], []
        seconds = (asked.until - time.monotonic()) * _OPENING_SHARE
        packs, ruled_out = [mini.pack for mini in cover.minis], tuple[Covering, ...]()
        if asked.plan is not None:
            pruner = partial(self._pruner, looks=False)
            ruled_out = tuple(await views.ruled_out(cover.covers, asked.plan, pruner, seconds))
        covers = [each for each in cover.covers if each not in ruled_out] if ruled_out else cover.covers
        async with views.view(covers, asked.config, asked.meaning.version, seconds, packs) as (opened, ready):
            if opened is None:
                return [part for each in ranges_of(ruled_out, ()) for part in within(spans, *each)], []
            answered = joined([part for each in cover.of([*ready, *ruled_out]) for part in within(spans, *each)])
            said = await self._ask(opened.searcher, answered)
            if said == _LATE:
                return answered, [Range(*span) for span in without(answered, ranges_of(ruled_out, ()))]
            if isinstance(said, str):
                return [], []
            self._indexed = len(ready)
            self._families = {"col"}
        await self._take(said)
        return answered, []

    async def _ask(self, searcher: "Searcher", spans: list[Range]) -> "Said | str":
        """What the view says, or why it says nothing."""
        with Place(self._asked.until, self._records) as place:
            work = partial(self._said, searcher, spans, place.records, place.over)
            docs = sum(end - first for first, end in spans)
            if docs > _LONG:
                said, _ = await self._searches.run_long(self._state.id, self._asked.until, docs * _VALUES, work)
                return said
            found = await self._searches.run(place.busy.at, work)
            self._searches.long_turns.others(place.busy.seconds)
            return found

    def _said(self, searcher: "Searcher", spans: list[Range], records: Any, over: Any) -> "Said | str":
        """In a thread."""
        from search import engine  # noqa: PLC0415 - see above
        from streams_node.searching.tallies.indexed import asked_of  # noqa: PLC0415

        tally = engine.Tally(
            plan=self._asked.plan, stream=self._state.id, spans=spans, wanted=asked_of(self._asked.wanted),
            records=records, over=over, apart=True,
        )  # fmt: skip
        try:
            said = searcher.aggregate(tally)
        except engine.TimeOver:
            return _LATE
        except engine.OneViewNeeded:
            return _SCAN
        except engine.AggregationTooLarge:
            raise BadSearch(TOO_MANY) from None
        return _SCAN if said.omitted else said

    async def _take(self, said: "Said") -> None:
        from streams_node.searching.tallies.indexed import parts_of  # noqa: PLC0415 - see above

        add(self._parts, await self._searches.run(parts_of, self._asked.wanted, said.values))
        self._matched, self._inexact = said.matched, said.inexact
        if said.apart:
            records = await self._records(said.apart)
            tally = await self._searches.run(self._counter().counted, list(records.values()), plain=False)
            self._add([tally])

    async def _records(self, seqs: Sequence[int]) -> Mapping[int, object]:
        """Entries that the index cannot decide about, or does not hold as they are."""
        texts = await texts_of((self._database, self._cold), self._state, seqs, self._asked.until)
        self._unread += [Range(seq, seq + 1) for seq in seqs if seq not in texts and seq >= self._state.earliest_seq]

        def parse() -> dict[int, object]:
            return {seq: record_of(self._lenses, seq, text)[0] for seq, text in texts.items()}

        return await asyncio.to_thread(parse)

    # --- what no companion covers ---

    async def _counted(self, spans: list[Range], cover: Covered) -> tuple[list[Range], list[Range]]:
        """Count entries; what could not be counted, and what was."""
        pieces = await self._searches.recent.read(
            self._cold, self._state, self._asked.meaning, self._lenses,
            first=cover.ranges[-1].end if cover.ranges else self.first, end=self._tail.seq,
            scan_bytes=self._budget.bytes, until=self._asked.until,
        )  # fmt: skip
        recount = Recount(self._searches, self._cold, self._state, self._lenses, self._pruner(), self._budget, pieces)
        counter = self._counter()
        omitted = list[Range]()
        for span in spans:
            end, tallies = await recount.run(span, counter)
            await self._searches.run(self._add, tallies)
            if end < span.end:
                omitted.append(Range(end, span.end))
        return joined(omitted), joined(recount.looked)

    def _counter(self) -> "RecordTally":
        from streams_node.searching.tallies.records import RecordTally  # noqa: PLC0415 - see above

        return RecordTally(self._asked)

    def _add(self, tallies: "Sequence[Tally | None]") -> None:
        for tally in tallies:
            if tally is not None:
                self._matched += tally[0]
                add(self._parts, tally[1])

    def _pruner(self, *, looks: bool = True) -> Pruner | None:
        if self._indexes is None or self._asked.plan is None:
            return None
        want = filter_want(self._asked.plan, self._configs, 0)
        return None if want is None else self._indexes.pruner(self._state.id, [want], looks=looks)
