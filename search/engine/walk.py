"""Documents of a view in the order of some sort keys, one after the other, from a given place on.

Keeps    every document of the query that comes after the place is handed on once, in order; nothing is capped, however
         many have equal values. Only what is needed is looked at: the caller stops when it has a page.

Tantivy sorts by one column, with documents that have no value last and ties in any order. So a key is walked value by
value: the documents with one value are a query of their own, walked by the keys behind it, unless they are few. Columns
in which documents have several values cannot be asked for like that, nor can scores; these are walked by windows. A
window begins where a value does: which documents of one value are the first so many, Tantivy says in another way each
time, so that one would be in two windows, and another in none. Of the documents in the order of offsets the nearest
rows are asked for first, by their blocks: Tantivy skips to these.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import chain, islice
from typing import Any, Self, TypeVar

import tantivy

from indexers.companion import ColumnsOf, zones
from indexers.companion.layout import ROW
from search.engine.model import NotSoon, Over
from search.engine.sorting import SortKey, SortValue, ordered, place_of
from search.engine.source import U64_MAX, Query, Source, both, unscored, without
from search.engine.stretches import Foremost
from search.engine.ties import leading, ties, together
from streams_node.schema.search_config import Kind

_Values = tuple[SortValue, ...]
Found = tuple[Any, Any]  # a value or a score, and the address of a document
_Windows = Iterable[list[Found]]  # in order
_W = TypeVar("_W", bound="Walker")
_Walk = Callable[[_W, tantivy.Query, _Values | None], Iterator[_Values]]  # documents of a query behind a place
Read = Callable[[Sequence[int], Sequence[SortKey]], dict[int, _Values]]  # sort values off the records, by seq

WINDOW_MIN, WINDOW_MAX = 64, 65_536
_ORDERED = {Kind.INTEGER, Kind.FLOAT, Kind.DATE}  # of whose values companions have bounds
_SCORED_MIN = 512  # hits in a window by score: each one costs all of the query once more, and hits themselves little
FREQUENT = 1 << 14  # documents: to look at all of them takes longer than to look at those of some blocks
_NEAR = 16_384  # rows from where a walk begins: mostly a page is there, and Tantivy passes over others
_WIDER = 8  # times as many entries are looked at when a walk goes on
_BETWEEN = 2  # times as many entries from the first to the last one of some companions as there are in them
_FEW = 1024  # documents: to look at all of them takes no longer
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
SOON_DOCS, _SOON_HITS = 1 << 16, 1 << 12  # what takes about a millisecond: 1.1 and 1.4 were measured
_AT_ONCE = 4_096  # values are read of so many documents between two looks at the clock
_READ_MIN = 256  # and of so many neighbours at once: one call takes as long as some hundred values
_LED_MIN = 256  # of more with one value the next key is read alone first: mostly few of them are shown


class TimeOver(Exception):
    """The deadline has passed: what was handed on so far is right."""


class Walker:
    """Walks over one view, among entries of a stream. `rows` are the first and the last one that they may be.

    `most` says how many documents a query may have, if that is known to be less than all; `effort` how many are about
    to be looked at for it. If it is to be `soon`: NotSoon before a search that looks at very many.
    """

    def __init__(
        self, source: Source, stream: int, read: Read, over: Over, size: int, rows: tuple[int, int], most: int,
        effort: int,
    ) -> None:  # fmt: skip
        self._source = source
        self._stream = stream
        self._searcher = source.searcher
        self._read = read
        self._over = over
        self._size = size
        self._window = max(WINDOW_MIN, size + 1)
        self._bounds = rows
        self._most = most
        self._effort = effort
        self.soon = False
        self._near = _NEAR if most > _FEW else U64_MAX

    def walk(self, query: tantivy.Query, keys: Sequence[SortKey], after: _Values | None) -> Iterator[_Values]:
        """Sort values, of which the last is the seq. Scores are those of the query, when they are the first key."""
        key, rest = keys[0], keys[1:]
        if key.by == "offset":
            yield from self._by_offset(query, key, after)
        elif key.by == "score":
            yield from self._by_score(query, keys, after)
        else:
            yield from self._by_field(query, key, rest, after)

    def classes(
        self, scores: Mapping[float, tantivy.Query], keys: Sequence[SortKey], after: _Values | None
    ) -> Iterator[_Values]:
        """As `walk` by score, where these are all scores and who has them."""
        place = place_of(keys[:1])
        bound = None if after is None else place(after[:1])
        for score in sorted(scores, key=lambda each: place((each,))):
            if bound is None or place((score,)) >= bound:
                same = after is not None and score == after[0]
                yield from self._under(score, scores[score], keys[1:], after[1:] if same and after else None)

    # --- offset ---

    def _by_offset(self, query: tantivy.Query, key: SortKey, after: _Values | None) -> Iterator[_Values]:
        (low, high), window, near = self._bounds, self._window, self._near
        if after is not None and after[0] is not None:
            bound = int(after[0])
            low, high = (low, min(high, bound - 1)) if key.descending else (max(low, bound + 1), high)
        elif after is not None and not key.descending:
            return  # null is the greatest
        while low <= high:
            first, last = (max(low, high - near + 1), high) if key.descending else (low, min(high, low + near - 1))
            first, last = max(low, zones.first_of(first)), min(high, zones.last_of(last))
            is_all = first <= self._bounds[0] and last >= self._bounds[1]  # documents of the query have no other rows
            part = query if is_all else both(self._rows_query(first, last), query)
            found = self._sorted(part, ROW, key, window, docs=last - first + 1)
            for seq, _ in found:
                yield (int(seq),)
            if len(found) == window:
                first = last = int(found[-1][0])
                near, window = 4 * near, min(WINDOW_MAX, window * 4)
            else:
                near = 2 * near * window // len(found) if found else U64_MAX
            low, high = (low, first - 1) if key.descending else (last + 1, high)

    def _rows_query(self, first: int, last: int) -> tantivy.Query:
        """Where documents of the query have no other rows, whole blocks: a range is another column to look at."""
        first = zones.first_of(first) if first <= self._bounds[0] else first
        return self._source.rows_query(first, zones.last_of(last) if last >= self._bounds[1] else last)

    # --- fields ---

    def _by_field(
        self, query: tantivy.Query, key: SortKey, rest: Sequence[SortKey], after: _Values | None
    ) -> Iterator[_Values]:
        """Documents without a value and those with one, in the order that the direction wants."""
        assert key.field is not None  # noqa: S101 - a key of a field has one
        columns = self._source.layout.of(key.field.name)
        without_value = without(query, Query.exists_query(columns.column))
        full = self._source.full(columns)
        if not full and key.descending and (after is None or after[0] is None):
            yield from self._under(None, without_value, rest, None if after is None else after[1:])
        if after is None or after[0] is not None or key.descending:
            valued = after if after is not None and after[0] is not None else None
            yield from self._valued(query, columns, (key, *rest), valued)
        if not full and not key.descending:
            inner = after[1:] if after is not None and after[0] is None else None
            yield from self._under(None, without_value, rest, inner)

    def _valued(
        self, query: tantivy.Query, columns: ColumnsOf, keys: Sequence[SortKey], after: _Values | None
    ) -> Iterator[_Values]:
        """Documents with a value."""
        key, rest = keys[0], keys[1:]

        def walk(walker: Walker, part: tantivy.Query, after: _Values | None) -> Iterator[_Values]:
            return walker.with_value(part, columns, key, rest, after)

        if self._effort < FREQUENT:
            return self.with_value(query, columns, key, rest, after)
        return self._newest_first(query, key, after, 0, walk)

    def _newest_first(
        self, query: tantivy.Query, key: SortKey, after: _Values | None, wanted: int, walk: _Walk[Self]
    ) -> Iterator[_Values]:
        """All documents of a walk: at first of where the first ones may be, then of more."""
        wanted, walked = max(wanted, _NEAR), 0
        while (first := self.foremost(self._source, self._stream, key, wanted)) is not None and first.entries > walked:
            if after is None or after[0] is None or _is_before(key, after[0], first.bound):
                part = both(unscored(self._of(first)), query)
                for row in walk(self._within(first), part, after):
                    if row[0] is None or not _is_before(key, row[0], first.bound):
                        break
                    yield row
                    after = row
            wanted, walked = wanted * _WIDER, first.entries
        yield from walk(self, query, after)

    @staticmethod
    def foremost(source: Source, stream: int, key: SortKey, wanted: int = 0) -> Foremost | None:
        """Where the first values of a key are, if bounds tell."""
        if key.by != "offset" and (key.field is None or key.field.kind not in _ORDERED):
            return None
        return source.foremost(key.field, stream, max(wanted, _NEAR), descending=key.descending)

    def _of(self, some: Foremost) -> tantivy.Query:
        """These entries, perhaps with others between them and in their blocks: one stretch takes less than several."""
        first, end = min(first for first, _ in some.spans), max(end for _, end in some.spans)
        if end - first <= _BETWEEN * some.entries:
            return self._source.blocks_query(first, end - 1)
        return self._source.spans_query(some.spans)

    def _within(self, some: Foremost) -> Self:
        """Walks over these only."""
        found = copy(self)
        low, high = self._bounds
        first, end = min(first for first, _ in some.spans), max(end for _, end in some.spans)
        found._bounds = max(low, zones.first_of(first)), min(high, zones.last_of(end - 1))  # noqa: SLF001
        found._effort = min(self._effort, some.entries)  # noqa: SLF001
        return found

    def _under(
        self, value: SortValue, query: tantivy.Query, rest: Sequence[SortKey], after: _Values | None
    ) -> Iterator[_Values]:
        """All documents of the query have this value."""
        if any(key.by == "score" for key in rest):
            place = place_of(rest)
            rows = iter([row for row in self._all(query, rest) if after is None or place(row) > place(after)])
        else:
            rows = self.walk(query, rest, after)
        for row in rows:
            yield (value, *row)

    def with_value(
        self, query: tantivy.Query, columns: ColumnsOf, key: SortKey, rest: Sequence[SortKey], after: _Values | None
    ) -> Iterator[_Values]:
        if not self._source.single(columns):
            found = self._windows(lambda size, at: self._sorted(query, columns.column, key, size, at))
            yield from self._grouped(found, (key, *rest), after)
            return
        bound: SortValue = None
        if after is not None:
            bound = _held(columns, after[0])
            if bound is None and (int(after[0] or 0) > 0) != key.descending:
                return  # behind all that the column can hold
        if after is not None and bound is not None and columns.field.kind in _ORDERED:
            yield from self._from_number(query, columns, (key, *rest), after)
            return
        if after is not None and bound is not None and (bound == after[0] or not key.descending):
            inner = after[1:] if bound == after[0] else None
            yield from self._under(bound, both(query, self._equal(columns, bound)), rest, inner)
        yield from self._beyond_bound(query, columns, key, rest, bound)

    def _beyond_bound(
        self, query: tantivy.Query, columns: ColumnsOf, key: SortKey, rest: Sequence[SortKey], bound: SortValue
    ) -> Iterator[_Values]:
        if columns.field.kind is Kind.BOOL:
            for value in (True, False) if key.descending else (False, True):
                if bound is None or (value < bound if key.descending else value > bound):  # type: ignore[operator]
                    yield from self._under(value, both(query, self._equal(columns, value)), rest, None)
        elif columns.field.kind is Kind.KEYWORD:
            yield from self._by_keyword(query, columns, key, rest, bound)
        else:
            yield from self._by_number(query, columns, key, rest, bound)

    def _from_number(
        self, query: tantivy.Query, columns: ColumnsOf, keys: Sequence[SortKey], after: _Values
    ) -> Iterator[_Values]:
        """What comes behind a place. Mostly few documents have its value: they are looked for with those behind it."""
        key, bound, window = keys[0], after[0], self._window
        part = both(query, self._beyond(columns, key, bound, with_it=True))
        batch = self._sorted(part, columns.column, key, window)
        if len(batch) < window:
            yield from self._grouped([batch], keys, after)
            return
        last = batch[-1][0]
        if last == bound:
            yield from self._under(bound, both(query, self._equal(columns, bound)), keys[1:], after[1:])
        else:
            yield from self._grouped([[each for each in batch if each[0] != last]], keys, after)
            yield from self._under(last, both(query, self._equal(columns, last)), keys[1:], None)
        yield from self._by_number(query, columns, key, keys[1:], last)

    def _by_number(
        self, query: tantivy.Query, columns: ColumnsOf, key: SortKey, rest: Sequence[SortKey], bound: SortValue
    ) -> Iterator[_Values]:
        window = self._window
        while True:
            part = query if bound is None else both(query, self._beyond(columns, key, bound))
            batch = [each for each in self._sorted(part, columns.column, key, window) if each[0] is not None]
            if len(batch) < window:
                yield from self._grouped([batch], (key, *rest), None)
                return
            bound = batch[-1][0]
            yield from self._grouped([[each for each in batch if each[0] != bound]], (key, *rest), None)
            yield from self._under(bound, both(query, self._equal(columns, bound)), rest, None)
            window = min(WINDOW_MAX, window * 4)

    def _by_keyword(
        self, query: tantivy.Query, columns: ColumnsOf, key: SortKey, rest: Sequence[SortKey], bound: SortValue
    ) -> Iterator[_Values]:
        """Tantivy has no ranges of terms, but it lists those behind one."""
        column, window = columns.column, self._window
        while True:
            self._check(self._effort)
            order = "desc" if key.descending else "asc"
            listed: dict[str, Any] = {"size": window, "sources": [{"k": {"terms": {"field": column, "order": order}}}]}
            if bound is not None:
                listed["after"] = {"k": f"str:{bound}"}
            buckets = self._searcher.aggregate(query, {"c": {"composite": listed}})["c"]["buckets"]
            for values, count in _chunks(buckets, window):
                if len(values) == 1:
                    (value,) = values
                    yield from self._under(value, both(query, self._equal(columns, value)), rest, None)
                else:
                    part = both(query, Query.term_set_query(self._source.schema, column, values))
                    yield from self._grouped([self._sorted(part, column, key, count)], (key, *rest), None)
            if len(buckets) < window:
                return
            bound, window = buckets[-1]["key"]["k"], min(4096, window * 4)

    def _equal(self, columns: ColumnsOf, value: Any) -> tantivy.Query:
        schema, column = self._source.schema, columns.column
        if columns.field.kind is Kind.KEYWORD:
            return Query.term_query(schema, column, value, "basic")
        if columns.field.kind is Kind.BOOL:
            return Query.term_query(schema, column, value)
        return Query.range_query(schema, column, _type(columns), value, value)

    def _beyond(self, columns: ColumnsOf, key: SortKey, value: Any, *, with_it: bool = False) -> tantivy.Query:
        schema, column, kind = self._source.schema, columns.column, _type(columns)
        if key.descending:
            return Query.range_query(schema, column, kind, None, value, include_upper=with_it)
        return Query.range_query(schema, column, kind, value, None, include_lower=with_it)

    # --- windows ---

    def _by_score(self, query: tantivy.Query, keys: Sequence[SortKey], after: _Values | None) -> Iterator[_Values]:
        every = self._windows(lambda size, at: self._scored(query, size, at), _SCORED_MIN)
        if keys[0].descending:
            if after is not None and after[0] is None:
                after = None  # null comes first
            yield from self._grouped(every, keys, after)
        elif after is None or after[0] is not None:
            yield from self._grouped([[*chain.from_iterable(every)][::-1]], keys, after)

    def _scored(self, query: tantivy.Query, size: int, at: int = 0, *, count: bool = True) -> list[Found]:
        """The best behind so many. With a count Tantivy looks at all, so that each has the same score each time."""
        self._check(self._effort if count else 0, size + at)
        found: Any = self._searcher.search(query, limit=size, offset=at, count=count)  # its types lack `count`
        if count:
            self._most = min(self._most, found.count)
        return list(found.hits)

    def _windows(self, fetch: Callable[[int, int], list[Found]], least: int = 0) -> _Windows:
        """`fetch` gives so many documents, behind so many others. All with one value come together."""
        size, at = max(self._window, least), 0
        while True:
            found = [each for each in fetch(size, at) if each[0] is not None]  # those without a value come last
            if len(found) < size:
                yield found
                return
            last = found[-1][0]
            end = sum(1 for each in found if each[0] != last)
            yield found[:end]
            at, size = at + end, min(WINDOW_MAX, size * 4) if end else size * 4

    def _grouped(self, windows: _Windows, keys: Sequence[SortKey], after: _Values | None) -> Iterator[_Values]:
        """Documents that come in the order of the first key, put in the order of all."""
        place, first = place_of(keys), place_of(keys[:1])
        if after is not None:
            started = first(after[:1])
            windows = (window[bisect_left(window, started, key=lambda each: first((each[0],))) :] for window in windows)
        bound = None if after is None else place(after)
        for value, rows in self._by_ties(windows, keys[1:]):
            start = 0 if bound is None else bisect_right(rows, bound, key=lambda row: place((value, *row)))
            for at in range(start, len(rows)):
                yield (value, *rows[at])

    def _by_ties(self, windows: _Windows, keys: Sequence[SortKey]) -> Iterator[tuple[Any, list[_Values]]]:
        """Rows of the other keys in their order, one part after another of those with the same value of the first."""
        in_index = _in_index(keys)
        for some in ties(windows):
            for one_read in together(some, _READ_MIN if in_index else 1, _LED_MIN):
                if in_index and len(one_read) == 1 and len(one_read[0].addresses) > _LED_MIN:
                    yield from ((one_read[0].value, rows) for rows in self._led(one_read[0].addresses, keys))
                    continue
                rows = self._rows([address for tie in one_read for address in tie.addresses], keys)
                for tie in one_read:
                    found = [row for row in islice(rows, len(tie.addresses)) if row is not None]
                    yield tie.value, ordered(found, keys)

    def _led(self, addresses: list[Any], keys: Sequence[SortKey]) -> Iterator[list[_Values]]:
        """Of very many only one value is read, until it is known which of them come first."""
        values: list[Any] = []
        for at in range(0, len(addresses), _AT_ONCE):
            self._check()
            part = addresses[at : at + _AT_ONCE]
            values += self._source.values(ROW, part) if keys[0].by == "offset" else self._column(keys[0], part)
        first = leading(values, keys[0], self._window)
        for wanted in (True, False):
            part = [each for each, is_first in zip(addresses, first, strict=True) if is_first is wanted]
            led = [each for each, is_first in zip(values, first, strict=True) if is_first is wanted]
            yield ordered([row for row in self._rows(part, keys, led) if row is not None], keys)

    # --- values ---

    def _all(self, query: tantivy.Query, keys: Sequence[SortKey]) -> list[_Values]:
        """Where the order cannot be had from the index."""
        found = self._windows(lambda size, at: self._sorted(query, ROW, SortKey("offset"), size, at))
        rows = self._rows([address for _, address in chain.from_iterable(found)], keys)
        return ordered([row for row in rows if row is not None], keys)

    def _rows(
        self, addresses: list[Any], keys: Sequence[SortKey], led: Sequence[Any] | None = None
    ) -> Iterator[_Values | None]:
        """Of each document; None: its record cannot be had. `led`: the values of the first key, if they are known."""
        for at in range(0, len(addresses), _AT_ONCE):
            self._check()
            part = addresses[at : at + _AT_ONCE]
            if led is not None and len(keys) == 1:
                yield from zip(led[at : at + _AT_ONCE])
                continue
            seqs = self._source.values(ROW, part)
            if _in_index(keys):
                first = [] if led is None else [led[at : at + _AT_ONCE]]
                more = [seqs if key.by == "offset" else self._column(key, part) for key in keys[len(first) :]]
                yield from zip(*first, *more, strict=True)
            else:
                read = self._read(seqs, keys)
                yield from map(read.get, seqs)

    def _column(self, key: SortKey, addresses: list[Any]) -> list[Any]:
        assert key.field is not None  # noqa: S101 - a key of a field has one
        return self._source.values(self._source.layout.of(key.field.name).column, addresses)

    def _sorted(
        self, query: tantivy.Query, column: str, key: SortKey, size: int, at: int = 0, docs: int = U64_MAX
    ) -> list[Found]:
        """The first behind so many, by a column. `docs`: more than so many are not looked at."""
        self._check(min(docs, self._effort), size + at)
        order = tantivy.Order.Desc if key.descending else tantivy.Order.Asc
        return list(
            self._searcher.search(query, limit=size, offset=at, count=False, order_by_field=column, order=order).hits
        )

    def _check(self, docs: int = 0, hits: int = 0) -> None:
        """Before so many documents are looked at."""
        if self._over():
            raise TimeOver
        if self.soon and (docs > SOON_DOCS or hits > _SOON_HITS):
            raise NotSoon


def _chunks(buckets: Sequence[Any], window: int) -> Iterator[tuple[list[str], int]]:
    """Neighbouring values with few documents together; one with many alone."""
    values, total = list[str](), 0
    for bucket in buckets:
        value, count = bucket["key"]["k"], int(bucket["doc_count"])
        if values and total + count > window:
            yield values, total
            values, total = [], 0
        values.append(value)
        total += count
    if values:
        yield values, total


def _held(columns: ColumnsOf, value: SortValue) -> SortValue:
    """The value; or for one that no column holds the next greater one that it could hold, or None if there is none."""
    if columns.field.kind is Kind.KEYWORD:
        text = str(value)
        at = next((at for at, c in enumerate(text) if "\ud800" <= c <= "\udfff"), None)
        return text if at is None else text[:at] + "\ue000"
    if columns.field.kind in {Kind.INTEGER, Kind.DATE} and not _INT_MIN <= int(value or 0) <= _INT_MAX:
        return None
    return value


def _in_index(keys: Sequence[SortKey]) -> bool:
    """Whether their values can be had without the records."""
    return all(key.by == "offset" or (key.by == "field" and _numeric(key)) for key in keys)


def _is_before(key: SortKey, value: SortValue, bound: float) -> bool:
    """Of values that are numbers, in the order of the key."""
    number = float(value) if isinstance(value, float) else int(value or 0)
    return number > bound if key.descending else number < bound


def _numeric(key: SortKey) -> bool:
    return key.field is not None and key.field.kind is not Kind.KEYWORD


def _type(columns: ColumnsOf) -> tantivy.FieldType:
    return tantivy.FieldType.Float if columns.field.kind is Kind.FLOAT else tantivy.FieldType.Integer
