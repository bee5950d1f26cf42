"""The profile `metrics`: one interval of one series a record, in one envelope.

normalise(entries, now_us)    entries -> entries as stored, and the key of the series of each
series_key(...)               what names a series, whatever order its attributes came in
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from streams_node.errors import BadProfile
from streams_node.profiles.values import Number, decode, encode, number, number_text, real, text, truncated

WHAT = "metrics record"
API_VERSION = "durable.streams/metrics/v1"
PAIRS_JOINED_BY = "\x00"
_QUANTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
Members = Mapping[str, Any]


def normalise(entries: Sequence[bytes], now_us: int) -> tuple[list[bytes], list[str | None]]:  # noqa: ARG001 - every normaliser takes the same arguments
    """The entries as they are stored, and the key of each one's series."""
    stored: list[bytes] = []
    keys: list[str | None] = []
    for index, raw in enumerate(entries):
        try:
            found = record(decode(raw, WHAT))
        except BadProfile as problem:
            problem.facts["entry"] = index
            raise
        stored.append(encode(found))
        keys.append(found["seriesKey"])
    return stored, keys


def record(given: object) -> dict[str, Any]:
    """One record in its envelope. Members that it does not have are dropped."""
    if type(given) is not dict:
        raise BadProfile(f"{WHAT} must be an object")
    get = given.get
    if get("kind") not in (None, "interval"):
        raise BadProfile(f"{WHAT}.kind must be interval")
    metric, unit = _required(given, "metric"), _required(given, "unit")
    start, end = _window(given)
    interval = truncated(get("intervalMs"))
    kind, temporality = text(get("metricKind")) or "summary", text(get("temporality")) or "delta"
    stream, instance = text(get("stream")), text(get("instance"))
    attributes = attributes_of(get("attributes") if type(get("attributes")) is dict else get("tags"))
    pairs = sorted(f"{name}={value}" for name, value in attributes.items())
    dimensions = PAIRS_JOINED_BY.join(pairs) or None
    numbers = _numbers(given)
    return {
        "apiVersion": API_VERSION,
        "kind": "interval",
        "metric": metric,
        "unit": unit,
        "metricKind": kind,
        "temporality": temporality,
        "windowStart": start,
        "windowEnd": end,
        "intervalMs": interval if interval is not None and interval >= 0 else end - start,
        "instance": instance,
        "stream": stream,
        "tags": attributes,
        "attributes": attributes,
        "dimensionPairs": pairs,
        "dimensionKey": dimensions,
        "seriesKey": series_key(kind, temporality, metric, unit, stream, instance, dimensions),
        **numbers,
        "summary": {
            **{name: numbers[name] for name in ("count", "sum", "min", "max")},
            "histogram": numbers["buckets"],
        },
    }


def series_key(
    kind: str,
    temporality: str,
    metric: str,
    unit: str,
    stream: str | None,
    instance: str | None,
    dimensions: str | None,
) -> str:
    return "|".join((kind, temporality, metric, unit, stream or "", instance or "", dimensions or ""))


def attributes_of(given: object) -> dict[str, str]:
    """Attributes as text, in the order of their names; what is neither text, number nor truth value is dropped."""
    if type(given) is not dict:
        return {}
    found = {name: said for name, value in given.items() if (said := _attribute(value)) is not None}
    return dict(sorted(found.items()))


def _attribute(value: object) -> str | None:
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    found = number(value)
    return None if found is None else number_text(found)


def _required(given: Members, name: str) -> str:
    found = text(given.get(name))
    if found is None:
        raise BadProfile(f"{WHAT}.{name} must be a non-empty string")
    return found


def _window(given: Members) -> tuple[int, int]:
    start, end = truncated(given.get("windowStart")), truncated(given.get("windowEnd"))
    if start is None or end is None:
        raise BadProfile(f"{WHAT}.windowStart and windowEnd must be integers")
    if end < start:
        raise BadProfile(f"{WHAT}.windowEnd must be >= windowStart")
    return start, end


def _numbers(given: Members) -> dict[str, Any]:
    summary = given.get("summary")
    if type(summary) is not dict:
        summary = {}
    count, total, least, most = (_either(given, summary, name) for name in ("count", "sum", "min", "max"))
    if count is None or real(count) < 0:
        raise BadProfile(f"{WHAT[:-7]} interval requires count" + ("" if count is None else " >= 0"))
    if total is None:
        raise BadProfile(f"{WHAT[:-7]} interval requires sum")
    empty = real(count) == 0
    buckets = _buckets(given.get("buckets") if type(given.get("buckets")) is dict else summary.get("histogram"))
    average = number(given.get("avg"))
    return {
        "count": count,
        "sum": total,
        "min": None if empty else least or 0,
        "max": None if empty else most or 0,
        "avg": _average(total, count) if average is None else average,
        **{name: _quantile(given.get(name), buckets, share) for name, share in _QUANTILES},
        "buckets": buckets,
    }


def _either(given: Members, summary: Members, name: str) -> Number | None:
    found = number(given.get(name))
    return number(summary.get(name)) if found is None else found


def _average(total: Number, count: Number) -> Number:
    divisor = real(count)
    quotient = real(total) / divisor if divisor else 0.0
    return _written(quotient) if math.isfinite(quotient) else 0


def _buckets(given: object) -> dict[str, Number]:
    """Counts by the lower bound of their bucket, from the lowest; what is no count, or nothing, is dropped."""
    if type(given) is not dict:
        return {}
    found = {name: counted for name, value in given.items() if (counted := number(value)) is not None}
    return {name: found[name] for name in sorted(found, key=_bound) if real(found[name]) > 0}


def _bound(name: str) -> tuple[float, str]:
    """Bounds by their size; names that are no numbers come last."""
    bound = number(name)
    return (math.inf if bound is None else real(bound), name)


def _quantile(given: object, buckets: Mapping[str, Number], share: float) -> Number:
    """What was given, else the lower bound of the bucket that holds this share of all."""
    found = number(given)
    if found is not None:
        return found
    bounds = [(bound, real(counted)) for name, counted in buckets.items() if (bound := number(name)) is not None]
    wanted = share * sum(counted for _, counted in bounds)
    reached = 0.0
    for bound, counted in bounds:
        reached += counted
        if reached >= wanted:
            return bound
    return 0


def _written(value: float) -> Number:
    return int(value) if value.is_integer() else msgspec.Raw(repr(value))
