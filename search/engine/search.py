"""Pages of hits over views and a tail."""

import heapq
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import tantivy

from indexers.companion import Layout, Pack, View, stitching_works
from search.engine.aggregate import Tallied, Tally, aggregate
from search.engine.best import Best
from search.engine.bm25 import OfRecords, Score, Statistics, bm25, idf
from search.engine.model import Ask, Hit, NotSoon, OneViewNeeded, Page, Span
from search.engine.scan import Scanned, reader, scan
from search.engine.sorting import SortKey, SortValue, place_of
from search.engine.source import Source, both, some, unscored, without
from search.engine.translate import Translator, addends, can_skip
from search.engine.walk import SOON_DOCS, TimeOver, Walker
from search.language import Matcher, Plan, matcher
from streams_node.schema.search_config import Field, SearchConfig

_Values = tuple[SortValue, ...]
VERIFIED_AT_ONCE = 32  # entries that are read together, at first; then four times as many
_SCORES_KEPT = 64  # functions from a record to its score
_ADDENDS_MAX = 2  # of a score: that of more depends on the order in which Tantivy adds them
_VALUED = 3  # times as long as by its score it takes to sort a document by a value
VERIFIED_MAX = 2_000  # and so many at most; also, so many are read only to count them
_NOTHING = Scanned([], 0, 0)


def open_views(packs: Sequence[Pack], folder: Path) -> tuple[View, ...]:
    """One view of all; or a view each, where this Tantivy's indexes cannot be put together."""
    if not packs:
        return ()
    if len(packs) == 1 or stitching_works():
        return (View(packs, folder),)
    return tuple(View([pack], folder / str(number)) for number, pack in enumerate(packs))


class Searcher:
    """Searches of streams of one configuration and schema version over the same views. For any number of threads."""

    def __init__(self, views: Sequence[View], config: SearchConfig, version: int) -> None:
        layout = Layout(config.fields)
        self._sources = tuple(Source(view, layout) for view in views)
        self._scores: dict[int, tuple[Plan, Score]] = {}  # by the identities of plans
        self.version = version

    @property
    def sources(self) -> tuple[Source, ...]:
        return self._sources

    def page(self, ask: Ask) -> Page:
        """The next hits. Scores need one view: OneViewNeeded."""
        return _Search(self, ask).page()

    def effort(self, ask: Ask) -> int:
        """About so many documents are looked at for a page: few by offset, as the index is in that order.

        Companions are of several streams, but only entries of one are looked at.
        """
        if ask.sort[0].by == "offset":
            return 0
        each, entries = 1 if ask.sort[0].by == "score" else _VALUED, sum(end - first for first, end in ask.spans)
        return each * sum(min(self._effort(source, ask), entries) for source in self._sources)

    @staticmethod
    def _effort(source: Source, ask: Ask) -> int:
        translator, field = Translator(source), ask.sort[0].field
        known = None if field is None else translator.known(ask.plan)
        first = None if known is None else Walker.foremost(source, ask.stream, ask.sort[0])
        if known is not None and first is not None:
            among = known * first.entries // source.docs  # if they are evenly spread
            if among >= 2 * ask.size:
                return among
        return translator.effort(ask.plan)

    def may_be_soon(self, plan: Plan) -> bool:
        """Whether the rows of a page can be looked for without others: all are few, or an index goes to any of them."""
        return can_skip(plan) or all(source.docs <= SOON_DOCS for source in self._sources)

    def count(self, plan: Plan, stream: int, spans: Sequence[Span]) -> tuple[int, int]:
        """At least and at most so many entries of the spans match, as far as the index knows."""
        least = most = 0
        for source in self._sources:
            base, pair = source.entries_query(stream, spans), Translator(source).pair(plan)
            lower = source.count(both(base, pair.lower))
            least += lower
            most += lower if pair.exact else source.count(both(base, pair.upper))
        return least, most

    def scorer(self, plan: Plan, tail: Sequence[object] = ()) -> Score:
        """The function from a record to its score, as pages have it; `tail` are records, needed without a view."""
        known = self._scores.get(id(plan))
        if known is not None and known[0] is plan:
            return known[1]
        found = bm25(plan, self.version, self.statistics(plan, tail))
        if self._sources:  # which never change; clients ask the same again and again, and a plan is one object then
            if len(self._scores) >= _SCORES_KEPT:
                self._scores.clear()
            self._scores[id(plan)] = plan, found
        return found

    def aggregate(self, tally: Tally) -> Tallied:
        """Counts and sums over the one view; OneViewNeeded without it, TimeOver, AggregationTooLarge."""
        if len(self._sources) != 1:
            raise OneViewNeeded("aggregations need one index of all entries")
        return aggregate(self._sources[0], self.version, tally)

    def statistics(self, plan: Plan, tail: Sequence[object]) -> Statistics:
        if len(self._sources) > 1:
            raise OneViewNeeded("scores need one index of all entries")
        return self._sources[0] if self._sources else OfRecords(tail, plan, self.version)


class _Parts(NamedTuple):
    """The documents of one view that a search is about; each is in one of the parts."""

    source: Source
    sure: tantivy.Query  # match
    doubt: tantivy.Query | None  # may match, and the index has their place in the order
    odd: list[_Values]  # match, but only their records tell, or only they tell the place: in order
    whole: bool = False  # `sure` is all documents that match


class _Search:
    """One page in the making."""

    def __init__(self, searcher: Searcher, ask: Ask) -> None:
        self._ask = ask
        self._sources = searcher.sources
        self._version = searcher.version
        self._statistics: Statistics | None = None
        self._score: Score = lambda _: None
        if any(key.by == "score" for key in ask.sort):
            tail = [] if searcher.sources else [entry.record for entry in ask.tail]
            self._statistics = searcher.statistics(ask.plan, tail)
            self._score = searcher.scorer(ask.plan, tail)
        self._sort_values = reader(ask.sort, self._version, self._score)
        self._place = place_of(ask.sort)
        self._bound = None if ask.after is None else self._place(ask.after)
        self._rows = (
            min((first for first, _ in ask.spans), default=0),
            max((end for _, end in ask.spans), default=0) - 1,
        )
        self._verified = 0

    @cached_property
    def _matches(self) -> Matcher:
        return matcher(self._ask.plan, self._version)

    def page(self) -> Page:
        ask, rows, over = self._ask, list[_Values](), False
        total, exact = 0, False
        scanned = self._scanned() if ask.tail else _NOTHING
        began, odd_s = time.perf_counter(), 0.0
        try:
            parts = [self._parts(source) for source in self._sources]
            odd_s = time.perf_counter() - began
            walks = [walk for part in parts for walk in self._walks(part)]
            if scanned.rows:
                walks.append(iter(scanned.rows))
            for row in islice(walks[0] if len(walks) == 1 else heapq.merge(*walks, key=self._place), ask.size):
                rows.append(row)  # what there is stays when the time is over
            total, exact = self._total(rows, scanned, parts)
        except TimeOver:
            over, odd_s = True, odd_s or time.perf_counter() - began
        over = over or scanned.seen < len(ask.tail)
        at = next((at for at, key in enumerate(ask.sort) if key.by == "score"), None)
        return Page(
            hits=[Hit(int(row[-1] or 0), None if at is None else float(row[at] or 0.0), row) for row in rows],
            total=max(total, len(rows)),
            relation="eq" if exact and not over else "gte",
            timed_out=over,
            verified=self._verified,
            scanned=scanned.seen,
            odd_s=odd_s,
        )

    def _scanned(self) -> Scanned:
        ask = self._ask
        return scan(ask.tail, self._matches, self._sort_values, ask.sort, after=ask.after, size=ask.size, over=ask.over)

    # --- a view ---

    def _parts(self, source: Source) -> _Parts:
        ask, translator = self._ask, Translator(source)
        pair, whole = translator.pair(ask.plan), source.all_of(ask.stream, ask.spans)
        if not whole:
            pair = pair.within(source.entries_query(ask.stream, ask.spans))
        lower, upper = pair
        doubt = None if pair.exact else without(upper, pair.lower)
        odd = self._odd(source, translator)
        if odd is not None and ask.soon:
            raise NotSoon
        if odd is None:
            return _Parts(source, lower, doubt, [], whole=whole and doubt is None)
        rows = sorted(self._read_all(source, both(upper, odd)), key=self._place)
        return _Parts(source, without(lower, odd), None if doubt is None else without(doubt, odd), rows)

    def _odd(self, source: Source, translator: Translator) -> tantivy.Query | None:
        """Documents whose sort values or scores are not in the index."""
        sorted_by = [key.field for key in self._ask.sort if key.field is not None]
        found = [
            source.inexact_query(source.layout.of(field.name)) for field in sorted_by if field.name in source.inexact
        ]
        if self._ask.sort[0].by == "score":
            found += translator.doubts(self._ask.plan)
        return some(found) if found else None

    def _walks(self, part: _Parts) -> Iterator[Iterator[_Values]]:
        ask = self._ask
        translator = Translator(part.source)
        most, effort = translator.most(ask.plan), translator.effort(ask.plan)
        walker = Best(part.source, ask.stream, self._read, ask.over, ask.size, self._rows, most, effort)
        walker.soon = ask.soon
        if ask.sort[0].by == "score":
            yield self._by_score(part, walker)
        else:
            yield walker.walk(part.sure, ask.sort, ask.after)
        if part.doubt is not None:
            yield self._sifted(walker.walk(part.doubt, ask.sort, ask.after))
        if part.odd:
            yield iter([row for row in part.odd if self._bound is None or self._place(row) > self._bound])

    def _by_score(self, part: _Parts, walker: Best) -> Iterator[_Values]:
        ask, translator = self._ask, Translator(part.source)
        word = translator.word(ask.plan) if part.whole and ask.sort[0].descending else None
        if word is not None:
            return walker.best(word[0], ask.sort, ask.after, count=False)
        classes = translator.classes(ask.plan, self._idf)
        if classes is not None:
            by_score: dict[float, list[tantivy.Query]] = defaultdict(list)
            for score, query in classes:
                by_score[score].append(both(part.sure, query))
            return walker.classes({score: some(queries) for score, queries in by_score.items()}, ask.sort, ask.after)
        scored = translator.scored(ask.plan, self._idf)
        query = scored if part.whole else both(unscored(part.sure), scored)
        if ask.sort[0].descending and addends(ask.plan) <= _ADDENDS_MAX:
            return walker.best(query, ask.sort, ask.after, count=True)
        return walker.walk(query, ask.sort, ask.after)

    def _idf(self, field: Field, token: str) -> float:
        assert self._statistics is not None  # noqa: S101 - a search by score has them
        return idf(self._statistics, field, token)

    # --- records ---

    def _sifted(self, rows: Iterator[_Values]) -> Iterator[_Values]:
        """The rows whose records match."""
        count = VERIFIED_AT_ONCE
        while chunk := list(islice(rows, count)):
            records = self._records([int(row[-1] or 0) for row in chunk])
            for row in chunk:
                if int(row[-1] or 0) in records and self._matches(records[int(row[-1] or 0)]):
                    yield row
            count = min(VERIFIED_MAX, count * 4)

    def _read_all(self, source: Source, query: tantivy.Query) -> Iterator[_Values]:
        """The rows of all documents of a query whose records match."""
        walker = Walker(source, self._ask.stream, self._read, self._ask.over, VERIFIED_MAX, self._rows, 0, 0)
        seqs = walker.walk(query, [SortKey("offset", descending=False)], None)
        while chunk := [int(row[0] or 0) for row in islice(seqs, VERIFIED_MAX)]:
            for seq, record in self._records(chunk).items():
                if self._matches(record):
                    yield self._sort_values(seq, record)

    def _read(self, seqs: Sequence[int], keys: Sequence[SortKey]) -> dict[int, _Values]:
        values = reader(keys, self._version, self._score)
        return {seq: values(seq, record) for seq, record in self._records(seqs).items()}

    def _records(self, seqs: Sequence[int]) -> Mapping[int, object]:
        if self._ask.soon:
            raise NotSoon
        if self._ask.over():
            raise TimeOver
        self._verified += len(seqs)
        return self._ask.records(seqs)

    # --- how many ---

    def _total(self, rows: Sequence[_Values], scanned: Scanned, parts: Sequence[_Parts]) -> tuple[int, bool]:
        ask = self._ask
        if ask.after is None and len(rows) < ask.size:
            return len(rows), True
        if not ask.total:
            return len(rows), False
        found, exact = scanned.matches, True
        for part in parts:
            if ask.over():
                raise TimeOver
            found += len(part.odd) + part.source.count(part.sure)
            if part.doubt is None:
                continue
            if part.source.count(part.doubt) > VERIFIED_MAX:
                exact = False
            else:
                found += sum(1 for _ in self._read_all(part.source, part.doubt))
        return found, exact
