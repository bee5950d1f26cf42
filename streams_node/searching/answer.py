"""Puts the answer of a search together."""

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from search.engine import OneViewNeeded, SortKey
from search.engine.bm25 import OfRecords, bm25
from search.engine.sorting import place_of
from search.language import Scorer, has_text
from streams_node.answers import Indexes, configs_of, filter_want
from streams_node.answers.ranges import Range, within
from streams_node.indexing import Covering
from streams_node.indexing.spans import without
from streams_node.ingest.state import StreamState
from streams_node.meaning import StreamLenses
from streams_node.read.cold import ColdReader
from streams_node.read.keyed import Pruner
from streams_node.read.pages import deleted
from streams_node.searching.asked import Asked, Found, Work
from streams_node.searching.covered import Covered, Subject, covered, ranges_of
from streams_node.searching.facts import families, primary
from streams_node.searching.hits import PAGE_BYTES_MAX, Hit, Top
from streams_node.searching.left_out import count_of, in_log, objects_of, time_of
from streams_node.searching.look import look, ruled_out
from streams_node.searching.newest import has_beginning, newest
from streams_node.searching.paged import Paging
from streams_node.searching.place import Place
from streams_node.searching.recent import Piece
from streams_node.searching.scan import Budget, Scan, joined
from streams_node.searching.sieve import Wanted
from streams_node.searching.sources import record_of

if TYPE_CHECKING:
    from search.engine import Searcher  # loads tantivy
    from streams_node.answers.views import Views
    from streams_node.searching.service import Searches

_OPENING_SHARE = 0.6  # of the time: what is not open by then is open for the next search
_COUNTED_MAX = 2048  # entries whose words are counted for scores, where there is no index: 20 ms
_SOURCES_S = 1.0  # that the records of hits may take beyond the time of the search


class Answer:
    """An answer in the making."""

    def __init__(
        self, searches: "Searches", cold: ColdReader | None, indexes: Indexes | None, state: StreamState, asked: Asked
    ) -> None:
        self._searches = searches
        self._database = searches.database
        self._cold = cold
        self._indexes = indexes
        self._state = state
        self._asked = asked
        self._budget = Budget(searches.scan_bytes if asked.scan_bytes is None else asked.scan_bytes, asked.until)
        self._has_text = has_text(asked.plan)
        self._tail = state.tail  # one moment
        self._first = state.earliest_seq
        self._place = place_of(asked.keys)
        self._top = Top(asked.size, None if asked.after is None else self._place(asked.after))
        self._lenses = StreamLenses(asked.meaning, state.token)
        self._work = Work()
        self._score: Scorer | None = None
        self._looked: list[Range] = []  # of what no companion covers,
        self._fetched: list[Range] = []  # and of that what was not in memory
        self._primary_ns_max: int | None = None
        self._unread: list[Range] = []  # entries that the index could not decide about, and nobody has

    async def found(self, waited_s: float) -> Found:
        """Search, then fetch what is shown."""
        self._work.waited_s = waited_s
        spans = self._spans()
        subject = Subject(
            self._cold, self._indexes, self._state, self._asked.meaning, self._asked.config, self._lenses, self._first,
            self._tail.seq,
        )  # fmt: skip
        omitted = await self._searched(spans, await covered(self._searches, subject)) if spans else []
        timed_out = self._asked.late
        score = self._score or (_scorer(self._asked, ()) if self._has_text else _unscored)
        hits, lost, last = await self._with_records()
        omitted = joined([*omitted, *lost])
        logged = await self._logged() if omitted or self._fetched else []
        found = Found(hits, self._first, self._tail, omitted, timed_out, logged, self._work, score)
        found.primary_ns_max, found.last = self._primary_ns_max, last
        await self._account(logged)
        if omitted:
            found.omitted_objects = await objects_of(self._database, self._cold, self._state, omitted, logged)
            found.oldest_omitted_us = await time_of(
                self._database, self._cold, self._state, self._tail, omitted[0].first
            )
        return found

    async def _searched(self, spans: list[Range], covered: Covered) -> list[Range]:
        """Look wherever hits may be, the newest entries first where they may be enough; what was left out."""
        asked = self._asked
        pieces = [] if asked.late else await self._recent_pieces(covered)
        text = self._has_text
        if not text and asked.keys[0] == SortKey("offset"):
            await self._look(pieces, _without(spans, covered.ranges))
            last = self._top.last()
            if last is not None and all(span.end <= last.seq for span in _without(spans, self._looked)):
                return []  # all the rest would be behind the page
        answered, omitted = await self._from_index(spans, covered)
        if text and self._score is None:
            self._score = await self._searches.run(_scorer, asked, pieces)
        if pieces:
            await self._look(pieces, _without(spans, [*answered, *self._looked]))
        return omitted + await self._scanned(_without(spans, [*answered, *self._looked]))

    # --- what was appended lately ---

    async def _recent_pieces(self, covered: Covered) -> Sequence[Piece]:
        """The entries behind all that is covered, parsed."""
        asked = self._asked
        first = covered.ranges[-1].end if covered.ranges else self._first
        began = time.monotonic()
        pieces = await self._searches.recent.read(
            self._cold, self._state, asked.meaning, self._lenses, first=first, end=self._tail.seq,
            scan_bytes=self._budget.bytes, until=asked.until,
        )  # fmt: skip
        self._work.parse_s += time.monotonic() - began
        return pieces

    async def _look(self, pieces: Sequence[Piece], spans: Sequence[Range]) -> None:
        """Look through parsed entries."""
        if not pieces or not spans:
            return
        began, wanted = time.monotonic(), self._wanted()
        looked = ruled_out(pieces, spans, wanted)
        if looked is None:
            with Place(self._asked.until, self._records) as place:
                looked = await self._searches.run(look, pieces, spans, wanted, place.over)
        work = self._work
        work.scan_s += time.monotonic() - began
        work.parsed += sum(end - first for first, end in looked.ranges)
        work.bytes += looked.bytes
        self._looked = joined([*self._looked, *looked.ranges])

    def _wanted(self) -> Wanted:
        asked = self._asked
        return Wanted(asked.plan, asked.meaning.version, asked.keys, self._top, self._score or _unscored)

    async def _logged(self) -> list[Range]:
        return await in_log(self._database, self._cold, self._state, self._tail, self._first)

    def _spans(self) -> list[Range]:
        """What of the stream may be on the page."""
        first, end = self._first, self._tail.seq
        lead, after = self._asked.keys[0], self._asked.after
        if after is not None and lead.by == "offset" and isinstance(after[0], int):
            first, end = (first, min(end, after[0])) if lead.descending else (max(first, after[0] + 1), end)
        return [Range(first, end)] if first < end else []

    # --- what companions cover ---

    async def _from_index(self, spans: list[Range], covered: Covered) -> tuple[list[Range], list[Range]]:
        """Search the view. Which spans need not be looked at any more, and of those, what was left out."""
        asked, indexes = self._asked, self._indexes
        views = None if indexes is None else indexes.views
        if indexes is None or views is None or not covered.ranges or asked.late:
            return [], []
        began = time.monotonic()
        ruled_out = await self._ruled_out(views, covered)
        covers = [cover for cover in covered.covers if cover not in ruled_out] if ruled_out else covered.covers
        seconds = (asked.until - time.monotonic()) * _OPENING_SHARE
        packs = [mini.pack for mini in covered.minis]
        async with views.view(covers, asked.config, asked.meaning.version, seconds, packs) as (opened, ready):
            self._work.open_s = time.monotonic() - began
            known = [views.known(cover.made) for cover in ruled_out]
            latest = primary(opened, known, asked.config.primary_timestamp_field, self._state.id)
            if opened is None:
                self._primary_ns_max = latest
                return [part for each in ranges_of([*ruled_out], ()) for part in within(spans, *each)], []
            answered = [part for each in covered.of([*ready, *ruled_out]) for part in within(spans, *each)]
            try:
                whole = await self._first_page(views, covered, ready, answered, opened.searcher)
            except OneViewNeeded:
                return [], []
            self._work.indexed = len(ready)
            self._work.opened = len(opened.packs)
            self._work.families |= families(asked)
            self._primary_ns_max = latest
        kept = [span for span in self._unread if span.first >= self._state.earliest_seq]
        return answered, kept if whole else _without(answered, ranges_of([*ruled_out], ()))

    async def _ruled_out(self, views: "Views", covered: Covered) -> Collection[Covering]:
        """Covers that would have to be fetched, and need not be: nothing in them matches. Scores are of all of them."""
        asked = self._asked
        if self._has_text:
            return ()
        seconds = asked.until - time.monotonic()
        found = await views.ruled_out(covered.covers, asked.plan, partial(self._pruner, looks=False), seconds)
        self._work.pruned += sum(cover.end_seq - cover.first_seq for cover in found)
        self._work.families.update(found.values())
        return found

    async def _first_page(
        self, views: "Views", covered: Covered, ready: Sequence[Covering], spans: list[Range], searcher: "Searcher"
    ) -> bool:
        """As `_page`, with a view of the newest companions where a page may be full before others count."""
        asked = self._asked
        # With each mini there are others, and a view of theirs closes the one before.
        helps = views.roomy and not covered.minis and asked.keys[0] == SortKey("offset") and has_beginning(asked.plan)
        found = newest(ready, spans) if helps else None
        if found is None:
            return await self._page(searcher, spans, None)
        seconds = (asked.until - time.monotonic()) * _OPENING_SHARE
        async with views.view(found.covers, asked.config, asked.meaning.version, seconds) as (opened, some):
            last = [part for span in spans for part in within([span], found.first, span.end)]
            whole = opened is not None and len(some) == len(found.covers)
            return await self._page(searcher, spans, (opened.searcher, last) if opened is not None and whole else None)

    async def _page(
        self, searcher: "Searcher", spans: list[Range], first: "tuple[Searcher, list[Range]] | None"
    ) -> bool:
        """The best hits of the view, or of `first` if these are enough; whether all was looked at that had to be."""
        work, began = self._work, time.monotonic()
        paging = Paging(self._searches, searcher, first)
        page = await paging.page(self._state.id, self._asked, spans, self._records)
        self._score = paging.score
        work.waited_s += paging.waited_s
        work.indexed_s = time.monotonic() - began - paging.waited_s
        work.candidates, work.decode_s = page.verified + len(page.hits), page.odd_s
        work.parsed += page.verified
        place = self._place
        self._top.take_page([Hit(place(hit.sort), hit.seq, hit.score, hit.sort) for hit in page.hits])
        return not page.timed_out

    async def _records(self, seqs: Sequence[int]) -> Mapping[int, object]:
        """Entries that the index cannot decide about."""
        texts = await self._texts(seqs, self._asked.until)
        self._unread += [Range(seq, seq + 1) for seq in seqs if seq not in texts]

        def parse() -> dict[int, object]:
            return {seq: record_of(self._lenses, seq, text)[0] for seq, text in texts.items()}

        return await asyncio.to_thread(parse)

    # --- what no companion covers, and is not parsed yet ---

    async def _scanned(self, spans: list[Range]) -> list[Range]:
        if not spans:
            return []
        parts, began = (self._database, self._cold), time.monotonic()
        scan = Scan(parts, self._state, self._wanted(), self._lenses, self._pruner(), self._budget, self._work)
        omitted = await scan.run(spans)
        if scan.failed and not self._asked.late:
            # What is in the log can be had, whatever the store says of an object before it.
            logged = [part for each in await self._logged() for part in within(omitted, *each)]
            omitted = joined([*_without(omitted, logged), *await scan.run(logged)])
        self._work.scan_s += time.monotonic() - began
        self._work.parse_s += time.monotonic() - began
        self._looked = joined([*self._looked, *scan.looked])
        self._fetched = scan.looked
        return omitted

    async def _account(self, logged: list[Range]) -> None:
        """What was looked at, by where it lies; what is in memory counts as a part of the log."""
        work, looked = self._work, self._looked
        work.held_max = self._top.held_max
        work.looked = sum(end - first for first, end in looked)
        sealed = sum(end - first for first, end in self._fetched) - count_of(self._fetched, logged)
        work.tail_docs = work.looked - sealed
        share = work.tail_docs / max(1, work.looked)
        work.tail_s, work.scanned_s = work.scan_s * share, work.scan_s * (1 - share)
        if work.looked > work.tail_docs:
            work.scanned = await objects_of(self._database, self._cold, self._state, self._fetched, logged)

    def _pruner(self, *, looks: bool = True) -> Pruner | None:
        asked, indexes = self._asked, self._indexes
        if indexes is None:
            return None
        configs = configs_of(asked.meaning, is_json=self._state.is_json)
        want = filter_want(asked.plan, configs, 0)
        return None if want is None else indexes.pruner(self._state.id, [want], looks=looks)

    # --- what is shown ---

    async def _with_records(self) -> tuple[list[Hit], list[Range], Hit | None]:
        """The page with the records of its hits; what could not be had is left out, and said to be. And its end."""
        state, until = self._state, max(self._asked.until, time.monotonic() + _SOURCES_S)
        began = time.monotonic()
        useful, last = self._asked.useful, self._top.last()
        best = [hit for hit in self._top.best() if useful is None or useful(hit.rank)]
        hits = [hit for hit in best if hit.seq >= state.earliest_seq]
        self._work.sort_s += time.monotonic() - began
        began, size, shown = time.monotonic(), 0, list[Hit]()
        while len(shown) < len(hits):
            if size >= PAGE_BYTES_MAX:
                last = shown[-1]
                break
            some = hits[len(shown) : len(shown) + self._about(PAGE_BYTES_MAX - size)]
            missing = [hit.seq for hit in some if hit.text is None]
            texts = await self._texts(missing, until) if missing else {}
            for hit in some:
                hit.text = texts.get(hit.seq, hit.text)
                size += len(hit.text or b"")
            shown += some
        self._work.records_s = time.monotonic() - began
        if state.gone:
            raise deleted(state)
        earliest = state.earliest_seq
        lost = [Range(hit.seq, hit.seq + 1) for hit in shown if hit.text is None and hit.seq >= earliest]
        return [hit for hit in shown if hit.text is not None and hit.seq >= earliest], lost, last

    def _about(self, size: int) -> int:
        """Entries of which so many bytes are."""
        return max(1, size * self._state.next_seq // max(1, self._state.position))

    async def _texts(self, seqs: Iterable[int], until: float) -> Mapping[int, bytes]:
        parts = self._database, self._cold
        return await self._searches.texts.of(parts, self._state, seqs, until)


def _scorer(asked: Asked, pieces: Sequence[Piece]) -> Scorer:
    """Scores where there is no view: by the statistics of some entries that no companion covers."""
    records = list(islice((record for piece in pieces for record in piece.records), _COUNTED_MAX))
    version = asked.meaning.version
    return bm25(asked.plan, version, OfRecords(records, asked.plan, version))


def _unscored(_record: object) -> float | None:
    return None


def _without(spans: list[Range], taken: list[Range]) -> list[Range]:
    """What of some spans is in none of the others."""
    if spans == taken:
        return []
    return [Range(*span) for span in without(spans, taken)]
