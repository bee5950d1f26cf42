"""What an aggregation wants that no schema declares: the member `aggs` of its body. Pure."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from search.language import AllOf, Compare, Op, Plan
from search.language.dates import MS_NS
from streams_node.errors import BadSearch
from streams_node.http.aggregate_request import moment_of
from streams_node.schema.search_config import UNIT_MS, Field, Kind, SearchConfig
from streams_node.searching.tallies import DateHistogram, Percentiles, Stats, Terms, Wanted

AGGS_MAX, DEPTH_MAX = 32, 3
SIZE, SIZE_MAX = 10, 1000
PERCENTS, PERCENTS_MAX = (50.0, 95.0, 99.0), 20
_WINDOW_MS_MAX = 1 << 53
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_INTERVAL = re.compile(r"([1-9][0-9]{0,14})(ms|s|m|h|d)")
_ALL = 100.0


class WantedRequest(NamedTuple):
    """A checked request. Times are milliseconds; None: from the beginning, or to the end of time."""

    begin: int | None
    end: int | None
    q: str | None
    wanted: Mapping[str, Wanted]


def wanted_of(given: dict[str, Any], config: SearchConfig) -> WantedRequest:
    """What a body with `aggs` asks of a stream with this configuration."""
    if given.get("rollup") is not None:
        raise BadSearch("an aggregation has either a rollup or aggs")
    begin, end = (None if given.get(name) is None else moment_of(name, given[name]) for name in ("from", "to"))
    if begin is not None and end is not None and end <= begin:
        raise BadSearch("to must be greater than from")
    q = given.get("q")
    if q is not None and not isinstance(q, str):
        raise BadSearch("q must be a string")
    return WantedRequest(begin, end, q, _Reader(config).aggs(given["aggs"], "aggs", 1))


def within(plan: Plan | None, request: WantedRequest, config: SearchConfig) -> Plan | None:
    """The query, and the range of the primary timestamp."""
    field = config.fields[config.primary_timestamp_field]
    parts = [] if plan is None else [plan]
    if request.begin is not None:
        parts.append(Compare(field, Op.GE, request.begin * MS_NS))
    if request.end is not None:
        parts.append(Compare(field, Op.LT, request.end * MS_NS))
    return parts[0] if len(parts) == 1 else AllOf(tuple(parts)) if parts else None


class _Reader:
    """Reads one body; counts what is in it."""

    def __init__(self, config: SearchConfig) -> None:
        self._config = config
        self._count = 0

    def aggs(self, given: object, path: str, depth: int) -> dict[str, Wanted]:
        if not isinstance(given, dict) or not given:
            raise BadSearch(f"{path} must be an object with at least one aggregation")
        if depth > DEPTH_MAX:
            raise BadSearch(f"aggs may be {DEPTH_MAX} levels deep")
        found = {}
        for name, each in given.items():
            if _NAME.fullmatch(name) is None:
                raise BadSearch(f"{path} has a name that is none: letters, digits, `.`, `_` and `-`, 64 at most")
            self._count += 1
            if self._count > AGGS_MAX:
                raise BadSearch(f"there may be {AGGS_MAX} aggregations at most")
            found[name] = self._one(each, f"{path}.{name}", depth)
        return found

    def _one(self, given: object, path: str, depth: int) -> Wanted:
        kinds: dict[str, Callable[[dict[str, Any], str], Wanted]] = {
            "terms": self._terms,
            "date_histogram": self._histogram,
            "stats": self._stats,
            "percentiles": self._percentiles,
        }
        if not isinstance(given, dict) or len(given.keys() & kinds) != 1 or given.keys() - kinds.keys() - {"aggs"}:
            raise BadSearch(f"{path} must have one of {', '.join(kinds)}, and may have aggs")
        (kind,) = given.keys() & kinds.keys()
        body = given[kind]
        if not isinstance(body, dict):
            raise BadSearch(f"{path}.{kind} must be an object")
        wanted = kinds[kind](body, f"{path}.{kind}")
        if given.get("aggs") is None:
            return wanted
        inside = self.aggs(given["aggs"], f"{path}.aggs", depth + 1)
        if isinstance(wanted, Terms):
            return Terms(wanted.field, wanted.size, inside)
        if isinstance(wanted, DateHistogram):
            return DateHistogram(wanted.field, wanted.interval_ms, inside)
        raise BadSearch(f"{path} has no buckets that could have aggs")

    def _terms(self, body: dict[str, Any], path: str) -> Wanted:
        _known(body, path, "field", "size")
        size = body.get("size", SIZE)
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= SIZE_MAX:
            raise BadSearch(f"{path}.size must be an integer between 1 and {SIZE_MAX}")
        return Terms(self._field(body, path), size, {})

    def _histogram(self, body: dict[str, Any], path: str) -> Wanted:
        _known(body, path, "field", "interval")
        field, interval = self._field(body, path, is_date=True), body.get("interval")
        found = _INTERVAL.fullmatch(interval) if isinstance(interval, str) else None
        if found is None or int(found[1]) * UNIT_MS[found[2]] > _WINDOW_MS_MAX:
            raise BadSearch(f"{path}.interval must be a positive duration string")
        return DateHistogram(field, int(found[1]) * UNIT_MS[found[2]], {})

    def _stats(self, body: dict[str, Any], path: str) -> Wanted:
        _known(body, path, "field")
        return Stats(self._number(body, path))

    def _percentiles(self, body: dict[str, Any], path: str) -> Wanted:
        _known(body, path, "field", "percents")
        percents = body.get("percents", PERCENTS)
        if not isinstance(percents, list | tuple) or not 1 <= len(percents) <= PERCENTS_MAX:
            raise BadSearch(f"{path}.percents must be an array of 1 to {PERCENTS_MAX} numbers")
        for each in percents:
            if isinstance(each, bool) or not isinstance(each, int | float) or not 0 <= each <= _ALL:
                raise BadSearch(f"{path}.percents must be numbers between 0 and 100")
        return Percentiles(self._number(body, path), tuple(sorted({float(each) for each in percents})))

    def _number(self, body: dict[str, Any], path: str) -> Field:
        field = self._field(body, path)
        if field.kind not in {Kind.INTEGER, Kind.FLOAT, Kind.DATE}:
            raise BadSearch(f"search field {field.name} has no numbers")
        return field

    def _field(self, body: dict[str, Any], path: str, *, is_date: bool = False) -> Field:
        """An aggregatable field by its name or an alias. The primary timestamp always is one."""
        given = body.get("field")
        if not isinstance(given, str):
            raise BadSearch(f"{path}.field must be a string")
        name = self._config.aliases.get(given, given)
        field = self._config.fields.get(name)
        if field is None:
            raise BadSearch(f"unknown search field {given}")
        if not field.aggregatable and name != self._config.primary_timestamp_field:
            raise BadSearch(f"search field {given} is not aggregatable")
        if is_date and field.kind is not Kind.DATE:
            raise BadSearch(f"search field {given} is not a date")
        return field


def _known(body: dict[str, Any], path: str, *names: str) -> None:
    for name in body:
        if name not in names:
            raise BadSearch(f"{path} has members that are not supported: only {', '.join(names)}")
