"""Counts and sums over what a query finds, by any aggregatable field.

Keeps    one view, so that no part is merged from parts: entries that are not indexed yet are put into a mini-companion
         first. Terms are exact while a field has at most TERMS_MAX values in a segment of the view, and say by how much
         they may be wrong beyond. Percentiles are approximate: within 1 % of a value.

A value that its column does not hold as it is counts as what it holds: integers outside of 64 bits as the nearest,
terms beyond 65,530 bytes or without Unicode not at all. `inexact` says in how many documents that may be; who can count
such entries from their records asks for them `apart`, and they are not in the values. An entry counts once in each
bucket that it has a value in; sums are of all values. Dates are milliseconds.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as member
from typing import Any

import tantivy

from indexers.companion.layout import ROW
from search.engine.model import Over, Records, Span, never
from search.engine.source import Source, both, some, without
from search.engine.translate import Translator
from search.engine.walk import TimeOver
from search.language import Plan, matcher
from streams_node.schema.search_config import Field, Kind

TERMS_MAX = 60_000  # Tantivy refuses 65,000 buckets
BUCKETS_MAX = 65_000
VERIFIED_MAX = 5_000
_MATCHED = {"#": {"value_count": {"field": ROW}}}  # each entry has one row


class AggregationTooLarge(ValueError):
    """More buckets than a result may have: ask for less, or for longer intervals."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The values that most entries have, and those under them."""

    field: Field
    size: int = 10
    inside: Mapping[str, "Wanted"] = member(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DateHistogram:
    """Windows of time that have entries."""

    field: Field
    interval_ms: int
    offset_ms: int = 0
    inside: Mapping[str, "Wanted"] = member(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stats:
    """Count, sum, least, greatest and average."""

    field: Field


@dataclass(frozen=True, slots=True)
class Percentiles:
    field: Field
    percents: tuple[float, ...] = (50.0, 95.0, 99.0)


Wanted = Terms | DateHistogram | Stats | Percentiles


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """One aggregation of one stream: as an Ask, without a tail."""

    plan: Plan | None  # None: all entries
    stream: int
    spans: Sequence[Span]
    wanted: Mapping[str, Wanted]
    records: Records
    over: Over = never
    apart: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Tallied:
    """By name of what was wanted.

    Terms           {"buckets": [{"key", "count", **inside}], "other": values that are not shown, "error_bound": n}
    DateHistogram   {"buckets": [{"key": ms, "count", **inside}]}
    Stats           {"count", "sum", "min", "max", "avg"}, null without a value
    Percentiles     {"values": {"95.0": number or null}}

    `matched` entries are in it; `omitted` may match, and were too many to be read.
    """

    values: dict[str, Any]
    matched: int
    omitted: int
    verified: int
    inexact: int
    apart: Sequence[int] = ()


def aggregate(source: Source, version: int, tally: Tally) -> Tallied:
    """TimeOver when the time is over before it began, or between two parts of it: Tantivy cannot be stopped."""
    base = source.entries_query(tally.stream, tally.spans)
    query, verified, omitted = base, 0, 0
    if tally.plan is not None:
        pair = Translator(source).pair(tally.plan)
        query = both(base, pair.lower)
        if not pair.exact:
            rows, omitted = _doubtful(source, without(both(base, pair.upper), pair.lower), tally)
            records = tally.records(rows) if rows else {}
            matches, verified = matcher(tally.plan, version), len(rows)
            found = sorted(seq for seq, record in records.items() if matches(record))
            if found:
                ranges = [source.rows_query(first, last) for first, last in _runs(found)]
                query = some([query, both(base, some(ranges))])
    apart = list[int]()
    if tally.apart and (odd := _odd(source, tally.wanted)) is not None:
        apart, many = _doubtful(source, both(query, odd), tally)
        query = query if many else without(query, odd)
    if tally.over():
        raise TimeOver
    raw = _said(source, query, tally)
    return Tallied(
        values={name: _shown(each, raw[name]) for name, each in tally.wanted.items()},
        matched=int(raw["#"]["value"]),
        omitted=omitted,
        verified=verified,
        inexact=_inexact(source, query, tally.wanted),
        apart=apart,
    )


def _said(source: Source, query: tantivy.Query, tally: Tally) -> dict[str, Any]:
    """What Tantivy says, of one part after another.

    It notices too many buckets when all of them are in memory, a kilobyte each: so windows of time are counted before
    anything is put into them, and no more than one such part is in memory. That takes half as long again where windows
    have buckets: of a million entries 24 ms instead of 16 for hours with the values in them.
    """
    raw, buckets = dict[str, Any](), 0
    for part in _parts(tally.wanted):
        found, many = dict[str, Any](), 0
        whole = max(1, *map(_depth, part.values()))
        for depth in range(1, whole + 1):
            if depth < whole and all(_most(each, depth) <= BUCKETS_MAX for each in part.values()):
                continue
            if (raw or found) and tally.over():
                raise TimeOver
            try:
                asked = {name: _asked(source, _cut(each, depth)) for name, each in part.items()}
                found = source.searcher.aggregate(query, asked | _MATCHED)  # counted on the way
            except ValueError as problem:
                raise AggregationTooLarge(str(problem)) from problem
            many = sum(map(_buckets, found.values()))
            if buckets + many > BUCKETS_MAX:
                raise AggregationTooLarge(f"{buckets + many} buckets, {BUCKETS_MAX} at most")
        buckets += many
        raw |= found
    return raw


def _parts(wanted: Mapping[str, Wanted]) -> Iterator[Mapping[str, Wanted]]:
    """What may have very many buckets alone, but for the first, which has all the rest with it."""
    wide = [name for name, each in wanted.items() if isinstance(each, DateHistogram) or _depth(each) > 1]
    yield {name: each for name, each in wanted.items() if name not in wide[1:]}
    for name in wide[1:]:
        yield {name: wanted[name]}


def _depth(wanted: Wanted) -> int:
    """Levels of buckets."""
    if not isinstance(wanted, Terms | DateHistogram):
        return 0
    return 1 + max(map(_depth, wanted.inside.values()), default=0)


def _most(wanted: Wanted, depth: int) -> float:
    """So many buckets at most, on so many levels."""
    if depth == 0 or not isinstance(wanted, Terms | DateHistogram):
        return 0
    each = 1 + sum(_most(one, depth - 1) for one in wanted.inside.values())
    return wanted.size * each if isinstance(wanted, Terms) else math.inf


def _cut(wanted: Wanted, depth: int) -> Wanted:
    """Only so many levels of it, with nothing but buckets in them: whole where it has no more."""
    if not isinstance(wanted, Terms | DateHistogram) or _depth(wanted) <= depth:
        return wanted
    inside = {name: _cut(each, depth - 1) for name, each in wanted.inside.items() if depth > 1 and _depth(each)}
    return replace(wanted, inside=inside)


def _buckets(raw: Any) -> int:
    """How many there are, on all levels."""
    if not isinstance(raw, dict):
        return 0
    some = raw.get("buckets", ())
    return len(some) + sum(_buckets(each) for bucket in some for each in bucket.values() if isinstance(each, dict))


def _doubtful(source: Source, query: tantivy.Query, tally: Tally) -> tuple[list[int], int]:
    """The entries to look at, and how many are too many."""
    count = source.count(query)
    if not count:
        return [], 0
    if count > VERIFIED_MAX:
        return [], count
    if tally.over():
        raise TimeOver
    found = source.searcher.search(query, limit=count, count=False).hits
    return [int(seq) for seq in source.values("row", [address for _, address in found])], 0


def _runs(seqs: Sequence[int]) -> list[tuple[int, int]]:
    """First and last of each run of neighbours."""
    found: list[tuple[int, int]] = []
    for seq in seqs:
        if found and found[-1][1] == seq - 1:
            found[-1] = (found[-1][0], seq)
        else:
            found.append((seq, seq))
    return found


def _asked(source: Source, wanted: Wanted) -> dict[str, Any]:
    columns = source.layout.of(wanted.field.name)
    if not columns.fast:
        raise ValueError(f"search field {wanted.field.name} is not aggregatable")
    column = columns.ms or columns.column
    match wanted:
        case Stats():
            return {"stats": {"field": column}}
        case Percentiles(_, percents):
            return {"percentiles": {"field": column, "percents": list(percents)}}
        case Terms(_, size, inside):
            terms = {"field": column, "size": size, "segment_size": max(size, TERMS_MAX)}
            return {"terms": terms, "aggs": {name: _asked(source, each) for name, each in inside.items()}}
        case DateHistogram(_, interval, offset, inside):
            histogram = {"field": column, "interval": interval, "offset": offset % interval, "min_doc_count": 1}
            return {"histogram": histogram, "aggs": {name: _asked(source, each) for name, each in inside.items()}}


def _shown(wanted: Wanted, raw: Any) -> dict[str, Any]:
    match wanted:
        case Stats():
            return {"count": int(raw["count"]), **{name: raw[name] for name in ("sum", "min", "max", "avg")}}
        case Percentiles(_, percents):
            return {"values": {str(float(each)): _number(raw["values"].get(str(float(each)))) for each in percents}}
        case Terms(field, _, inside):
            return {
                "buckets": [_bucket(each, _key(field, each["key"]), inside) for each in raw["buckets"]],
                "other": int(raw["sum_other_doc_count"]),
                "error_bound": int(raw.get("doc_count_error_upper_bound") or 0),
            }
        case DateHistogram(_, _, _, inside):
            return {"buckets": [_bucket(each, int(each["key"]), inside) for each in raw["buckets"]]}


def _number(raw: float | None) -> float | None:
    return None if raw is None or math.isnan(raw) else raw


def _bucket(raw: Any, key: object, inside: Mapping[str, Wanted]) -> dict[str, Any]:
    shown = {name: _shown(each, raw[name]) for name, each in inside.items()}
    return {"key": key, "count": int(raw["doc_count"]), **shown}


def _key(field: Field, raw: Any) -> object:
    if field.kind is Kind.BOOL:
        return bool(raw)
    return int(raw) if field.kind in {Kind.INTEGER, Kind.DATE} else raw


def _inexact(source: Source, query: tantivy.Query, wanted: Mapping[str, Wanted]) -> int:
    odd = _odd(source, wanted)
    return 0 if odd is None else source.count(both(query, odd))


def _odd(source: Source, wanted: Mapping[str, Wanted]) -> tantivy.Query | None:
    """Documents of which some column that is looked at does not hold what the record holds."""
    names = sorted({name for each in wanted.values() for name in _names(each)} & source.inexact)
    return some([source.inexact_query(source.layout.of(name)) for name in names]) if names else None


def _names(wanted: Wanted) -> list[str]:
    inside = wanted.inside.values() if isinstance(wanted, Terms | DateHistogram) else ()
    return [wanted.field.name, *[name for each in inside for name in _names(each)]]
