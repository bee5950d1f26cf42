"""Puts the answer of a search together."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from search.engine import Ask, OneViewNeeded
from search.engine.sorting import place_of
from search.language import Compare, Prefix, Scorer, Text, clauses, has_text, scorer
from streams_node.answers import Indexes, configs_of, filter_want
from streams_node.answers.ranges import Range, within
from streams_node.answers.views import Opened
from streams_node.config import Settings
from streams_node.errors import StreamsError
from streams_node.indexing.spans import without
from streams_node.ingest.state import StreamState
from streams_node.meaning import StreamLenses
from streams_node.observe.logs import get_logger
from streams_node.read.cold import ColdReader
from streams_node.read.keyed import Pruner
from streams_node.read.pages import deleted
from streams_node.schema.search_config import Kind
from streams_node.searching.asked import Asked, Found, Work
from streams_node.searching.hits import Hit, Top
from streams_node.searching.left_out import objects_of, time_of
from streams_node.searching.scan import Budget, Scan, joined
from streams_node.searching.sieve import Wanted
from streams_node.searching.sources import record_of, texts_of
from streams_node.searching.turns import Turns
from streams_node.wal.database import Database
from streams_node.wal.keys import log_start

if TYPE_CHECKING:  # it loads tantivy
    from search.engine import Searcher

log = get_logger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
_OPENING_SHARE = 0.6  # of the time: what is not open by then is open for the next search
_SOURCES_S = 1.0  # that the records of hits may take beyond the time of the search


class Searches:
    """Made once a node; on the event loop."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database = database
        self.scan_bytes = settings.search_scan_bytes_max
        self._pool = ThreadPoolExecutor(settings.search_concurrency, thread_name_prefix="search")
        self.turns = Turns(settings.search_concurrency, settings.search_queue_max)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """In one of the threads of searches."""
        return await asyncio.wrap_future(self._pool.submit(work, *args, **kwargs))

    async def close(self) -> None:
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)

    async def search(self, cold: ColdReader | None, indexes: Indexes | None, state: StreamState, asked: Asked) -> Found:
        """A page of the stream as it is when its turn comes. Overloaded when too many wait."""
        began = time.monotonic()
        async with AsyncExitStack() as stack:
            with suppress(TimeoutError):  # there is no time left, and the answer says so
                async with asyncio.timeout(max(0.0, asked.until - began)):
                    await stack.enter_async_context(self.turns.turn(state.id))
            one = _One(self, cold, indexes, state, asked)
            try:
                return await one.found(time.monotonic() - began)
            except StreamsError:
                if state.gone:
                    raise deleted(state) from None
                raise


class _One:
    """An answer in the making."""

    def __init__(
        self, searches: Searches, cold: ColdReader | None, indexes: Indexes | None, state: StreamState, asked: Asked
    ) -> None:
        self._searches = searches
        self._database = searches.database
        self._cold = cold
        self._indexes = indexes
        self._state = state
        self._asked = asked
        self._budget = Budget(searches.scan_bytes if asked.scan_bytes is None else asked.scan_bytes, asked.until)
        self._tail = state.tail  # one moment
        self._first = state.earliest_seq
        self._place = place_of(asked.keys)
        self._top = Top(asked.size, None if asked.after is None else self._place(asked.after))
        self._lenses = StreamLenses(asked.meaning, state.token)
        self._work = Work()
        self._score: Scorer = scorer(asked.plan, asked.meaning.version)
        self._primary_ns_max: int | None = None
        self._unread: list[Range] = []  # entries that the index could not decide about, and nobody has

    async def found(self, waited_s: float) -> Found:
        """Search, then fetch what is shown."""
        self._work.waited_s = waited_s
        log_from = await self._log_from()
        spans = self._spans()
        answered, omitted = await self._from_index(spans)
        omitted += await self._scanned(_without(spans, answered), log_from)
        timed_out = self._asked.late
        hits, lost = await self._with_records()
        omitted = joined([*omitted, *lost])
        found = Found(hits, self._first, self._tail, omitted, timed_out, log_from, self._work, self._score)
        found.primary_ns_max, found.last = self._primary_ns_max, self._top.last()
        if omitted:
            found.omitted_objects = await objects_of(self._cold, self._state.id, omitted, log_from)
            found.oldest_omitted_us = await time_of(
                self._database, self._cold, self._state, self._tail, omitted[0].first
            )
        self._work.held_max = self._top.held_max
        return found

    async def _log_from(self) -> int:
        """Where the entries begin that no object has."""
        published = 0 if self._cold is None else self._state.cold_below
        low = max(self._first, published)
        return max(low, await self._database.readers.run(log_start, self._tail, low))

    def _spans(self) -> list[Range]:
        """What of the stream may be on the page."""
        first, end = self._first, self._tail.seq
        lead, after = self._asked.keys[0], self._asked.after
        if after is not None and lead.by == "offset" and isinstance(after[0], int):
            first, end = (first, min(end, after[0])) if lead.descending else (max(first, after[0] + 1), end)
        return [Range(first, end)] if first < end else []

    # --- what companions cover ---

    async def _from_index(self, spans: list[Range]) -> tuple[list[Range], list[Range]]:
        """Search the view. Which spans need not be looked at any more, and of those, what was left out."""
        asked, indexes = self._asked, self._indexes
        views = None if indexes is None else indexes.views
        config = configs_of(asked.meaning, is_json=self._state.is_json).get("companion")
        if indexes is None or views is None or config is None or not spans or asked.late:
            return [], []
        began = time.monotonic()
        covers = [
            cover
            for cover in await indexes.covers(self._state.id, "companion", config)
            if within(spans, cover.first_seq, cover.end_seq)
        ]
        if not covers:
            return [], []
        seconds = (asked.until - began) * _OPENING_SHARE
        async with views.view(covers, asked.config, asked.meaning.version, seconds) as (opened, ready):
            self._work.open_s = time.monotonic() - began
            if opened is None:
                return [], []
            answered = joined([part for cover in ready for part in within(spans, cover.first_seq, cover.end_seq)])
            try:
                whole = await self._page(opened.searcher, answered)
            except OneViewNeeded:
                return [], []
            self._work.indexed = len(ready)
            self._work.opened = len(opened.packs)
            self._work.families |= _families(asked)
            self._primary_ns_max = _primary(opened, asked.config.primary_timestamp_field, self._state.id)
        kept = [span for span in self._unread if span.first >= self._state.earliest_seq]
        return answered, kept if whole else answered

    async def _page(self, searcher: "Searcher", spans: list[Range]) -> bool:
        """The best hits of the view; whether all of it was looked at."""
        asked, work = self._asked, self._work
        if has_text(asked.plan):
            self._score = await self._searches.run(searcher.scorer, asked.plan)
        loop = asyncio.get_running_loop()
        left = asyncio.Event()

        def records(seqs: Sequence[int]) -> Mapping[int, object]:
            return asyncio.run_coroutine_threadsafe(self._records(seqs), loop).result()

        ask = Ask(
            plan=asked.plan, stream=self._state.id, spans=spans, sort=asked.keys, records=records, after=asked.after,
            size=asked.size, over=lambda: asked.late or left.is_set(),
        )  # fmt: skip
        began = time.monotonic()
        try:
            page = await self._searches.run(searcher.page, ask)
        finally:
            left.set()  # it may be that nobody waits any more
        work.indexed_s = time.monotonic() - began
        work.candidates, work.decode_s = page.verified + len(page.hits), page.ms.get("odd", 0.0) / 1000
        work.parsed += page.verified
        self._top.take_all(Hit(self._place(hit.sort), hit.seq, hit.score, hit.sort) for hit in page.hits)
        return not page.timed_out

    async def _records(self, seqs: Sequence[int]) -> Mapping[int, object]:
        """Entries that the index cannot decide about."""
        texts = await texts_of((self._database, self._cold), self._state, seqs, self._asked.until)
        self._unread += [Range(seq, seq + 1) for seq in seqs if seq not in texts]

        def parse() -> dict[int, object]:
            return {seq: record_of(self._lenses, seq, text)[0] for seq, text in texts.items()}

        return await asyncio.to_thread(parse)

    # --- what no companion covers ---

    async def _scanned(self, spans: list[Range], log_from: int) -> list[Range]:
        asked, work = self._asked, self._work
        version = asked.meaning.version
        wanted = Wanted(asked.plan, version, asked.keys, self._top, self._score)
        began = time.monotonic()
        parts = self._database, self._cold
        scan = Scan(parts, self._state, wanted, self._lenses, self._pruner(), self._budget, work)
        omitted = await scan.run(spans)
        work.parse_s += time.monotonic() - began
        work.looked = scan.entries
        work.tail_docs, work.tail_s, work.scanned_s = scan.entries_from(log_from), 0.0, 0.0
        sealed = scan.entries - work.tail_docs
        seconds = time.monotonic() - began
        share = work.tail_docs / max(1, scan.entries)
        work.tail_s, work.scanned_s = seconds * share, seconds * (1 - share)
        if sealed:
            work.scanned = await objects_of(self._cold, self._state.id, scan.looked, log_from)
        return omitted

    def _pruner(self) -> Pruner | None:
        asked, indexes = self._asked, self._indexes
        if indexes is None:
            return None
        configs = configs_of(asked.meaning, is_json=self._state.is_json)
        want = filter_want(asked.plan, configs, 0)
        return None if want is None else indexes.pruner(self._state.id, [want])

    # --- what is shown ---

    async def _with_records(self) -> tuple[list[Hit], list[Range]]:
        """The page with the records of its hits; what could not be had is left out, and said to be."""
        state, until = self._state, max(self._asked.until, time.monotonic() + _SOURCES_S)
        began = time.monotonic()
        useful = self._asked.useful
        best = [hit for hit in self._top.best() if useful is None or useful(hit.rank)]
        hits = [hit for hit in best if hit.seq >= state.earliest_seq]
        self._work.sort_s += time.monotonic() - began
        missing = [hit.seq for hit in hits if hit.text is None]
        began = time.monotonic()
        texts = await texts_of((self._database, self._cold), state, missing, until) if missing else {}
        self._work.records_s = time.monotonic() - began
        for hit in hits:
            hit.text = texts.get(hit.seq, hit.text)
        if state.gone:
            raise deleted(state)
        earliest = state.earliest_seq
        lost = [Range(hit.seq, hit.seq + 1) for hit in hits if hit.text is None and hit.seq >= earliest]
        return [hit for hit in hits if hit.text is not None and hit.seq >= earliest], lost


def _without(spans: list[Range], taken: list[Range]) -> list[Range]:
    """What of some spans is in none of the others."""
    return [Range(*span) for span in without(spans, taken)]


def _families(asked: Asked) -> set[str]:
    """What of companions a query is answered by, in the words of the interface."""
    found = {"col"} if any(key.field is not None for key in asked.keys) else set[str]()
    for clause in clauses(asked.plan):
        if isinstance(clause, Text | Prefix) or (isinstance(clause, Compare) and clause.field.kind is Kind.KEYWORD):
            found.add("fts")
        else:
            found.add("col")
    return found


def _primary(opened: Opened, field: str, stream: int) -> int | None:
    """The latest primary timestamp in companions that are of this stream only."""
    latest: list[int] = []
    for pack in opened.packs:
        if any(cover.stream != stream for cover in pack.directory.covers):
            return None
        latest += [int(facts.most) for facts in pack.directory.fields if facts.name == field and facts.most is not None]
    return max(latest, default=None)
