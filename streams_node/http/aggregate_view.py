"""The answer of an aggregation as clients see it. Made in a thread: it may have thousands of groups."""

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from streams_node.http.aggregate_request import AggregateRequest
from streams_node.ingest.state import StreamState
from streams_node.meaning import name_of
from streams_node.protocol.times import rfc3339
from streams_node.schema.search_config import Count
from streams_node.searching.aggregated import Aggregated, Group
from streams_node.searching.basis import Basis
from streams_node.searching.left_out import count_of

_DAY_MS = 86_400_000
_EXACT_MAX = 1 << 53
_YEAR_MAX = 9999
_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}  # ascending


class AggregateCoverage(msgspec.Struct):
    mode: str
    complete: bool
    stream_head_offset: str
    visible_through_offset: str
    visible_through_primary_timestamp_max: str | None
    oldest_omitted_append_at: str | None
    possible_missing_events_upper_bound: int
    possible_missing_uploaded_segments: int
    possible_missing_sealed_rows: int
    possible_missing_wal_rows: int
    used_rollups: bool
    indexed_segments: int
    scanned_segments: int
    scanned_tail_docs: int
    index_families_used: list[str]
    omitted: list[list[str]]


class AggregateGroup(msgspec.Struct):
    key: dict[str, str | None]
    measures: dict[str, dict[str, Any]]


class AggregateBucket(msgspec.Struct):
    start: str
    end: str
    groups: list[AggregateGroup]


class AggregateView(msgspec.Struct, rename={"begin": "from", "end": "to"}, kw_only=True):
    """Of a rollup, with buckets; or of `aggs`, with a tree of them."""

    stream: str
    rollup: str | UnsetType = UNSET
    begin: str | None
    end: str | None
    interval: str | UnsetType = UNSET
    coverage: AggregateCoverage
    buckets: list[AggregateBucket] | UnsetType = UNSET
    matched: int | UnsetType = UNSET
    inexact: int | UnsetType = UNSET
    aggs: dict[str, Any] | UnsetType = UNSET


def text_of(state: StreamState, request: AggregateRequest, found: Aggregated) -> bytes:
    """The whole answer: its windows are spelled by now."""
    view = AggregateView(
        stream=name_of(state.name.bucket, state.name.stream),
        rollup=request.rollup.name,
        begin=iso(request.begin),
        end=iso(request.end),
        interval=request.interval,
        coverage=coverage_of(state, found),
    )
    return b'%b,"buckets":[%b]}' % (encoded(view).removesuffix(b"}"), b",".join(found.windows))


def encoded(view: AggregateView | AggregateBucket) -> bytes:
    """As JSON. Text that no UTF-8 spells is spelled as Python's own encoder does it."""
    try:
        return msgspec.json.encode(view)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(view), separators=(",", ":")).encode()


def iso(ms: int) -> str:
    """A moment as JavaScript spells it: years beyond four digits have a sign and six."""
    days, rest = divmod(ms, _DAY_MS)
    year, month, day = _civil(days)
    digits = f"{year:04d}" if 0 <= year <= _YEAR_MAX else f"{year:+07d}"
    seconds, fraction = divmod(rest, 1000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{digits}-{month:02d}-{day:02d}T{clock}.{fraction:03d}Z"


def _civil(days: int) -> tuple[int, int, int]:
    """The date of a day since 1970. Eras of 400 years begin in March, so that a leap day ends a year."""
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    return year + 400 * era + (month >= 10), month + (3 if month < 10 else -9), day + 1  # noqa: PLR2004 - of a calendar


def coverage_of(state: StreamState, found: Basis) -> AggregateCoverage:
    """What an answer rests on."""
    omitted, oldest = found.omitted, found.oldest_omitted_us
    missing = sum(span.end - span.first for span in omitted)
    return AggregateCoverage(
        mode="published" if missing else "complete",
        complete=not missing,
        stream_head_offset=state.token(found.tail.seq),
        visible_through_offset=state.token(omitted[0].first if omitted else found.tail.seq),
        visible_through_primary_timestamp_max=None,
        oldest_omitted_append_at=None if oldest is None else rfc3339(oldest),
        possible_missing_events_upper_bound=missing,
        possible_missing_uploaded_segments=found.omitted_objects,
        possible_missing_sealed_rows=0,  # what is not in the bucket yet is in the log, too
        possible_missing_wal_rows=count_of(omitted, found.logged),
        used_rollups=found.used_rollups,
        indexed_segments=found.indexed,
        scanned_segments=found.scanned,
        scanned_tail_docs=found.tail_docs,
        index_families_used=sorted(found.families),
        omitted=[[state.token(span.first), state.token(span.end)] for span in omitted],
    )


def bucket_of(request: AggregateRequest, start: int, groups: Sequence[Group]) -> bytes:
    """The text of a window."""
    shown = {name: _summary if not isinstance(request.rollup.measures[name], Count) else _count
             for name in request.measures}  # fmt: skip
    # A window that is longer than all time begins at 1970 or ends there.
    begin = start if start % request.interval_ms == 0 else -request.interval_ms
    rows = [
        AggregateGroup(
            dict(zip(request.group_by, group.key, strict=True)),
            {name: shown[name](summary) for name, summary in sorted(group.measures.items())},
        )
        for group in groups
    ]
    return encoded(AggregateBucket(iso(begin), iso(begin + request.interval_ms), rows))


def _count(summary: Any) -> dict[str, Any]:
    return {"count": number(summary.count)}


def _summary(summary: Any) -> dict[str, Any]:
    """Percentiles are the lower bounds of histogram buckets."""
    shown: dict[str, Any] = {
        "count": number(summary.count),
        "sum": number(summary.sum),
        "min": number(summary.min),
        "max": number(summary.max),
        "avg": number(summary.sum / summary.count) if summary.count and summary.sum is not None else None,
    }
    histogram = summary.histogram
    names = sorted(histogram, key=_place)
    shown.update(_percentiles([(bound, histogram[name]) for name in names if (bound := _bound(name)) is not None]))
    if histogram:
        shown["histogram"] = {name: number(histogram[name]) for name in names}
    return shown


@lru_cache(4096)
def _place(bucket: str) -> tuple[bool, float, str]:
    bound = _bound(bucket)
    return bound is None, bound or 0.0, bucket


def _percentiles(counted: Sequence[tuple[float, float]]) -> dict[str, float | int | None]:
    """By name; of buckets in order."""
    total, before = sum(count for _, count in counted), 0.0
    if not total > 0:
        return dict.fromkeys(_PERCENTILES)
    wanted, found = [share * total for share in _PERCENTILES.values()], list[float]()
    for bound, count in counted:
        before += count
        while len(found) < len(wanted) and before >= wanted[len(found)]:
            found.append(bound)
    found += [counted[-1][0]] * (len(wanted) - len(found))
    return {name: number(bound) for name, bound in zip(_PERCENTILES, found, strict=True)}


@lru_cache(4096)
def _bound(bucket: str) -> float | None:
    """The number that a bucket is named by; records that carry histograms may name them by anything."""
    try:
        bound = float(bucket)
    except ValueError:
        return None
    return bound if math.isfinite(bound) else None


def number(value: float | None) -> float | int | None:
    """Whole numbers without a point; what is none in JSON is null."""
    if value is None:
        return None
    if -_EXACT_MAX < value < _EXACT_MAX:
        whole = int(value)
        return whole if value == whole else value
    return value if math.isfinite(value) else None
