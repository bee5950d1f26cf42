"""What an aggregation asks for, out of a JSON body. Pure."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from search.language.dates import DATE_MS_MAX, MS_NS, date_ns
from streams_node.errors import BadSearch
from streams_node.schema.search_config import Rollup, SearchConfig

AGGREGATE_BODY_BYTES_MAX = 256 << 10
_NS_DIGITS_MAX = 22  # the last moment that a date may be


class AggregateRequest(NamedTuple):
    """A checked request; the query is the stream's to understand. Times are milliseconds."""

    rollup: Rollup
    begin: int
    end: int
    interval: str
    interval_ms: int
    q: str | None
    group_by: tuple[str, ...]
    measures: tuple[str, ...]


def timeout_of(given: dict[str, Any], ms_max: int) -> int:
    """How many milliseconds the answer may take."""
    ms = given.get("timeout_ms")
    if ms is None:
        return ms_max
    if isinstance(ms, bool) or not isinstance(ms, int | float) or not ms >= 0:
        raise BadSearch("timeout_ms must be a non-negative number")
    return int(min(ms, ms_max))


def members_of(body: bytes) -> dict[str, Any]:
    """The members of a body; unknown ones are ignored."""
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise BadSearch("aggregate request must be valid JSON") from None
    if not isinstance(given, dict):
        raise BadSearch("aggregate request must be an object")
    return given


def request_of(given: dict[str, Any], config: SearchConfig) -> AggregateRequest:
    """What a body asks of a stream with this configuration."""
    rollup = _rollup(given.get("rollup"), config)
    begin, end = moment_of("from", given.get("from")), moment_of("to", given.get("to"))
    if end <= begin:
        raise BadSearch("to must be greater than from")
    interval = given.get("interval")
    if not isinstance(interval, str):
        raise BadSearch("interval must be a string")
    sizes = {each.text: each.ms for each in rollup.intervals}
    if interval not in sizes:
        raise BadSearch(f"interval {interval} is not configured for rollup {rollup.name}")
    q = given.get("q")
    if q is not None and not isinstance(q, str):
        raise BadSearch("q must be a string")
    group_by, measures = _group_by(given.get("group_by"), rollup), _measures(given.get("measures"), rollup)
    return AggregateRequest(rollup, begin, end, interval, sizes[interval], q, group_by, measures)


def _rollup(given: object, config: SearchConfig) -> Rollup:
    if not isinstance(given, str):
        raise BadSearch("rollup must be a string")
    found = config.rollups.get(given.strip())
    if found is None:
        raise BadSearch(f"unknown rollup {given.strip()}")
    return found


def moment_of(name: str, given: object) -> int:
    """Milliseconds. Digits in a text are nanoseconds; what is finer than a millisecond is cut."""
    if isinstance(given, str):
        ns = _nanoseconds(given.strip())
        if ns is None or abs(ns) > DATE_MS_MAX * MS_NS:
            raise BadSearch(f"{name} must be a valid timestamp")
        return ns // MS_NS
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise BadSearch(f"{name} must be a timestamp string or unix milliseconds")
    if not math.isfinite(given) or abs(given) > DATE_MS_MAX:
        raise BadSearch(f"{name} must be a valid timestamp")
    return math.trunc(given)


def _nanoseconds(text: str) -> int | None:
    if text.isascii() and text.isdigit():
        return int(text) if len(text) <= _NS_DIGITS_MAX else None
    return date_ns(text)


def _group_by(given: object, rollup: Rollup) -> tuple[str, ...]:
    if given is None:
        return ()
    if not isinstance(given, list):
        raise BadSearch("group_by must be an array of strings")
    for at, name in enumerate(given):
        if not isinstance(name, str):
            raise BadSearch(f"group_by[{at}] must be a string")
        if name not in rollup.dimensions:
            raise BadSearch(f"group_by field {name} is not configured on rollup {rollup.name}")
    return tuple(sorted(set(given)))


def _measures(given: object, rollup: Rollup) -> tuple[str, ...]:
    if given is None:
        return tuple(sorted(rollup.measures))
    if not isinstance(given, list) or not given or not _texts(given):
        raise BadSearch("measures must be a non-empty array of strings")
    for name in given:
        if name not in rollup.measures:
            raise BadSearch(f"unknown measure {name} on rollup {rollup.name}")
    return tuple(sorted(set(given)))


def _texts(given: Sequence[object]) -> bool:
    return all(isinstance(each, str) for each in given)
