"""One view, and what a search must know of it beyond its documents."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import tantivy

from indexers.companion import ColumnsOf, Directory, FieldFacts, Layout, View, zones
from indexers.companion.layout import BLOCK, INEXACT, ROW, SEG
from search.engine.model import Span
from search.engine.stretches import Foremost, Ordered, Stretch
from streams_node.schema.search_config import Field, Kind

Query = tantivy.Query
_Clauses = Sequence[tuple[tantivy.Occur, tantivy.Query]]
MUST, NOT, SHOULD = tantivy.Occur.Must, tantivy.Occur.MustNot, tantivy.Occur.Should
U64_MAX = 2**64 - 1
_FREQUENCIES_MAX = 1024
_KNOWN_CHARS_MAX = 128
_BLOCKS_MAX = 32  # of more rows a range takes no longer
_WIDER = 16  # times as many words of a field are tried where only deleted documents have the first ones


class _Entries(NamedTuple):
    """Of a stream, in some spans: and whether there are no other ones."""

    asked: tuple[object, ...]
    query: tantivy.Query
    whole: bool


class Source:
    """A view of companions of one layout. What it reads off the view once is kept."""

    def __init__(self, view: View, layout: Layout) -> None:
        self.view = view
        self.searcher = view.searcher
        self.schema = view.schema
        self.layout = layout
        self._before = [0, *accumulate(view.segments)]
        self._single: dict[str, bool] = {}
        self._full: dict[str, bool] = {}
        self._averages: dict[str, float] = {}
        self._frequencies: dict[tuple[str, str], int] = {}  # each search asks for those of its words several times
        self._stretches: dict[tuple[str | None, int, bool], list[Ordered]] = {}
        self._asked: _Entries | None = None  # the last ones
        self._terms: dict[str, str] = {}  # of a field, one that some document has

    @property
    def docs(self) -> int:
        return self.view.docs

    @property
    def counted(self) -> int:
        """The documents that scores are made of: see bm25.py."""
        return self.view.counted

    @cached_property
    def inexact(self) -> frozenset[str]:
        """The fields of which some document does not hold what its record holds."""
        directories = [pack.directory for pack in self.view.packs]
        return frozenset(facts.name for each in directories for facts in each.fields if facts.inexact)

    def inexact_query(self, columns: ColumnsOf) -> tantivy.Query:
        return Query.term_query(self.schema, INEXACT, columns.column, "basic")

    def entries_query(self, stream: int, spans: Sequence[Span]) -> tantivy.Query:
        """The entries of a stream that lie in the spans."""
        return self._entries(stream, spans).query

    def all_of(self, stream: int, spans: Sequence[Span]) -> bool:
        """Whether all documents are entries of a stream that lie in the spans."""
        return self._entries(stream, spans).whole

    def _entries(self, stream: int, spans: Sequence[Span]) -> "_Entries":
        """Mostly all there are, until the next view."""
        asked, known = (stream, *spans), self._asked
        if known is None or known.asked != asked:
            known = self._asked = self._entries_of(asked, stream, merged(spans))
        return known

    def _entries_of(self, asked: tuple[object, ...], stream: int, spans: Sequence[Span]) -> "_Entries":
        if not spans:
            return _Entries(asked, Query.empty_query(), whole=False)
        one, is_within = Query.term_query(self.schema, SEG, stream), self._within(stream, spans)
        if is_within and self._alone(stream):
            return _Entries(asked, Query.all_query(), whole=True)
        return _Entries(asked, one if is_within else both(one, self.spans_query(spans)), whole=False)

    def _alone(self, stream: int) -> bool:
        return self._covered.keys() == {stream}

    def spans_query(self, spans: Sequence[Span]) -> tantivy.Query:
        rows = [self.rows_query(first, end - 1) for first, end in merged(spans)]
        return rows[0] if len(rows) == 1 else some(rows)

    def rows_query(self, first: int, last: int) -> tantivy.Query:
        """Of few rows by their blocks, which are found at once. A range looks for the first row all the way to it."""
        first = max(0, first)
        blocks = range(zones.block_of(first), zones.block_of(last) + 1)
        if not 0 < len(blocks) <= _BLOCKS_MAX:
            return self._rows(first, last)
        found = some([Query.term_query(self.schema, BLOCK, block, "basic") for block in blocks])
        low = 0 if first == zones.first_of(first) else first
        high = U64_MAX if last == zones.last_of(last) else last
        return found if (low, high) == (0, U64_MAX) else both(found, self._rows(low, high))

    def blocks_query(self, first: int, last: int) -> tantivy.Query:
        """Of all rows of the blocks that have these: without a range there is nothing to be looked for."""
        return self.rows_query(zones.first_of(max(0, first)), zones.last_of(last))

    def _rows(self, first: int, last: int) -> tantivy.Query:
        return Query.range_query(self.schema, ROW, tantivy.FieldType.Unsigned, first, last)

    @cached_property
    def _covered(self) -> dict[int, list[Span]]:
        found: dict[int, list[Span]] = {}
        for pack in self.view.packs:
            for cover in pack.directory.covers:
                found.setdefault(cover.stream, []).append((cover.first_seq, cover.end_seq))
        return {stream: merged(spans) for stream, spans in found.items()}

    def _within(self, stream: int, spans: Sequence[Span]) -> bool:
        covered = self._covered.get(stream, ())
        return all(any(first <= begin and stop <= end for first, end in spans) for begin, stop in covered)

    def foremost(self, field: Field | None, stream: int, wanted: int, *, descending: bool) -> Foremost | None:
        """Where the first values of a field in a stream are, or its first sequences: see stretches.py."""
        key = (None if field is None else field.name, stream, descending)
        known = self._stretches.get(key)
        if known is None:
            found = [self._stretches_of(field, stream, zoned=zoned) for zoned in (True, False)]
            known = self._stretches[key] = [Ordered(each, descending=descending) for each in found]
        some = (each.foremost(wanted) for each in known)
        return next((each for each in some if each is not None), None)

    def _stretches_of(self, field: Field | None, stream: int, *, zoned: bool) -> Iterator[Stretch]:
        """By blocks, as far as companions say of each what is in it; else, and for very much, by companions."""
        for pack in self.view.packs:
            spans = merged([(each.first_seq, each.end_seq) for each in pack.directory.covers if each.stream == stream])
            if field is None:
                parts = [span for _, span in zones.cut(spans)] if zoned else spans
                yield from [Stretch([span], span[0], span[1] - 1) for span in parts]
                continue
            bounds = _bounds(pack.directory, field)
            known = {each.block: each for each in pack.directory.zones if zoned and each.stream == stream}
            if spans and bounds is not None:
                yield from _zoned(known, bounds, spans, field) if known else [Stretch(spans, *bounds)]

    def place_of(self, address: tantivy.DocAddress) -> int:
        """How many documents are before one, in the order in which Tantivy comes by them."""
        return self._before[address.segment_ord] + int(address.doc)

    def single(self, columns: ColumnsOf) -> bool:
        """Whether no document has several values in this fast column."""
        known = self._single.get(columns.column)
        if known is None and all(facts.single for facts in self._facts(columns)):
            known = self._single[columns.column] = True
        if known is None:
            every = Query.all_query()
            counts = self.searcher.aggregate(every, {"n": {"value_count": {"field": columns.column}}})
            known = int(counts["n"]["value"]) == self.count(Query.exists_query(columns.column))
            self._single[columns.column] = known
        return known

    def full(self, columns: ColumnsOf) -> bool:
        """Whether every document has a value in this fast column."""
        known = self._full.get(columns.column)
        if known is None and all(facts.full for facts in self._facts(columns)):
            known = self._full[columns.column] = True
        if known is None:
            known = self._full[columns.column] = self.count(Query.exists_query(columns.column)) == self.docs
        return known

    def _facts(self, columns: ColumnsOf) -> Iterator[FieldFacts]:
        """Of each companion: with each new view of the same ones nothing has to be counted anew."""
        for pack in self.view.packs:
            yield from [facts for facts in pack.directory.fields if facts.column == columns.column]

    def count(self, query: tantivy.Query) -> int:
        found: Any = self.searcher.search(query, limit=1)  # its types lack `count`
        return int(found.count)

    def values(self, column: str, found: Sequence[Any]) -> list[Any]:
        """The first value of each document in a fast column of numbers."""
        return self.searcher.fast_field_values(column, list(found))

    # --- statistics of scores ---

    def frequency(self, field: Field, token: str) -> int:
        known = self._frequencies.get((field.name, token))
        if known is None:
            known = int(self.searcher.doc_freq(self.layout.of(field.name).column, token)) if fits(token) else 0
            if known:
                self._terms[field.name] = token
            if len(self._frequencies) >= _FREQUENCIES_MAX:
                self._frequencies.clear()
            if len(token) <= _KNOWN_CHARS_MAX:
                self._frequencies[field.name, token] = known
        return known

    def average(self, field: Field) -> float:
        """Words in the field, over all documents; 0 when there are none."""
        if field.kind is Kind.KEYWORD:
            return 1.0
        known = self._averages.get(field.name)
        if known is None:
            known = self._averages[field.name] = self._average(field)
        return known

    def _average(self, field: Field) -> float:
        """Tantivy tells it only where it explains a score; of any word, so that all of them are listed only at need."""
        column = self.layout.of(field.name).column
        known, tried, listed = self._terms.get(field.name), 0, 1
        found = None if known is None else self._explained(column, known)
        while found is None:
            terms = self.searcher.terms_with_prefix(column, "", limit=listed)
            some = (self._explained(column, term) for term, _ in terms[tried:])
            found = next((each for each in some if each is not None), 0.0 if len(terms) < listed else None)
            tried, listed = listed, listed * _WIDER
        return found

    def _explained(self, column: str, term: str) -> float | None:
        """None where all documents that have the word are deleted."""
        query = Query.term_query(self.schema, column, term)
        hits = self.searcher.search(query, limit=1).hits
        return _found(json.loads(query.explain(self.searcher, hits[0][1]).to_json()), "avgdl") if hits else None


def _zoned(
    known: Mapping[int, zones.Zone], every: tuple[float, float], spans: Sequence[Span], field: Field
) -> Iterator[Stretch]:
    """The blocks of some spans, where a field has values. `every`: the bounds of all of them."""
    parts: dict[int, list[Span]] = {}
    for block, span in zones.cut(spans):
        parts.setdefault(block, []).append(span)
    for block, some in parts.items():
        zone = known.get(block)
        if zone is None:
            yield Stretch(some, *every)
        elif field.name in zone.bounds:
            yield Stretch(some, *map(_reader(field), zone.bounds[field.name]))


def _reader(field: Field) -> type[float | int]:
    return float if field.kind is Kind.FLOAT else int


def _bounds(directory: Directory, field: Field) -> tuple[float, float] | None:
    """Of all values of a field in a companion; None when it has none."""
    read = _reader(field)
    for facts in directory.fields:
        if facts.name == field.name and facts.least is not None and facts.most is not None:
            return read(facts.least), read(facts.most)
    return None


def _found(explanation: Any, name: str) -> float:
    if explanation["description"].startswith(name):
        return float(explanation["value"])
    found = [_found(each, name) for each in explanation.get("details", ())]
    return next((each for each in found if not math.isnan(each)), math.nan)


def fits(token: str) -> bool:
    """Whether Tantivy can be asked for this term."""
    try:
        token.encode()
    except UnicodeEncodeError:
        return False
    return True


def merged(spans: Sequence[Span]) -> list[Span]:
    """Without overlaps and neighbours, in order."""
    found: list[Span] = []
    for first, end in sorted(spans):
        if first >= end:
            continue
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((first, end))
    return found


# --- queries of queries ---------------------------------------------------------------------------------------------


def both(*parts: tantivy.Query) -> tantivy.Query:
    """Tantivy looks no further in a segment where a part has nothing: what few segments have is best said first."""
    return Query.boolean_query([(MUST, part) for part in parts])


def some(parts: Sequence[tantivy.Query]) -> tantivy.Query:
    return Query.boolean_query([(SHOULD, part) for part in parts])


def without(query: tantivy.Query, other: tantivy.Query) -> tantivy.Query:
    return Query.boolean_query([(MUST, query), (NOT, other)])


def none_of(query: tantivy.Query) -> tantivy.Query:
    """Negation alone matches nothing in Tantivy."""
    return without(Query.all_query(), query)


def unscored(query: tantivy.Query) -> tantivy.Query:
    return Query.const_score_query(query, 0.0)
