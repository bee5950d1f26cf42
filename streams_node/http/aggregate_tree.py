"""The answer to `aggs` as clients see it. Made in a thread: it may have thousands of buckets."""

from collections.abc import Mapping
from typing import Any

from streams_node.http.aggregate_view import iso, number
from streams_node.schema.search_config import Kind
from streams_node.searching.tallies import DateHistogram, Percentiles, Stats, Terms, Wanted
from streams_node.searching.tallies.parts import Bucket, Buckets, Key, Part, Spread, Sums


def tree_of(wanted: Mapping[str, Wanted], parts: Mapping[str, Part]) -> dict[str, Any]:
    """By the names that were asked for, in their order."""
    return {name: _shown(each, parts[name]) for name, each in wanted.items()}


def _shown(wanted: Wanted, part: Part) -> dict[str, Any]:
    if isinstance(wanted, Stats):
        assert isinstance(part, Sums)  # noqa: S101 - as it was asked for
        return _stats(part)
    if isinstance(wanted, Percentiles):
        assert isinstance(part, Spread)  # noqa: S101
        values = part.percentiles(wanted.percents)
        shown = {_percent(percent): number(value) for percent, value in zip(wanted.percents, values, strict=True)}
        return {"values": shown, "approximate": bool(part.indexed)}
    assert isinstance(part, Buckets)  # noqa: S101
    return _terms(wanted, part) if isinstance(wanted, Terms) else _windows(wanted, part)


def _terms(wanted: Terms, part: Buckets) -> dict[str, Any]:
    """The most frequent first; of equally frequent ones the least."""
    ranked = sorted(part.found.items(), key=lambda each: (-each[1].count, each[0]))
    shown, rest = ranked[: wanted.size], ranked[wanted.size :]
    return {
        "buckets": [{"key": _key(wanted, key), **_inside(wanted, bucket)} for key, bucket in shown],
        "other": part.other + sum(bucket.count for _, bucket in rest),
        "error_bound": part.error_bound,
    }


def _windows(wanted: DateHistogram, part: Buckets) -> dict[str, Any]:
    found = sorted((int(key), bucket) for key, bucket in part.found.items())
    return {
        "buckets": [
            {"start": iso(start), "end": iso(start + wanted.interval_ms), **_inside(wanted, bucket)}
            for start, bucket in found
        ]
    }


def _inside(wanted: Terms | DateHistogram, bucket: Bucket) -> dict[str, Any]:
    shown: dict[str, Any] = {"count": bucket.count}
    if wanted.inside:
        shown["aggs"] = tree_of(wanted.inside, bucket.inside)
    return shown


def _key(wanted: Terms, key: Key) -> Key | None:
    return iso(int(key)) if wanted.field.kind is Kind.DATE else key


def _stats(sums: Sums) -> dict[str, Any]:
    average = sums.sum / sums.count if sums.count else None
    found = {"sum": sums.sum, "min": sums.min, "max": sums.max, "avg": average}
    return {"count": sums.count, **{name: number(value) for name, value in found.items()}}


def _percent(percent: float) -> str:
    return str(int(percent)) if percent == int(percent) else str(percent)
