"""Aggregations of any fields, and what a look at each entry says of them."""

import json
import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from search.language import matcher, query, values
from streams_node.schema.search_config import Kind, SearchConfig, parse
from streams_node.testing.inprocess import InProcess
from tests.aggregate.world import JSON, UNIT_MS, A
from tests.http.wire import Reply, ask
from tests.search.world import field

SEARCH: dict[str, Any] = {
    "primaryTimestampField": "at",
    "aliases": {"lvl": "level", "took": "ms"},
    "fields": {
        "at": field("date", "at"),
        "seen": field("date", "seen", aggregatable=True),
        "level": field("keyword", "level", exact=True, normalizer="lowercase_v1", aggregatable=True),
        "status": field("integer", "status", exact=True, column=True, aggregatable=True),
        "ms": field("float", "ms", column=True, aggregatable=True),
        "ok": field("bool", "ok", exact=True, aggregatable=True),
        "text": field("text", "text"),
        "quiet": field("keyword", "quiet", exact=True),
    },
}
CONFIG = parse(SEARCH)
DECLARED: dict[str, Any] = {"schema": True, "search": SEARCH}
_MS_NS = 1_000_000


async def tally(node: InProcess, aggs: Any, path: str = A, /, **asked: Any) -> Reply:
    body = {"aggs": aggs, **{"from" if name == "begin" else name: value for name, value in asked.items()}}
    return await ask(node, "POST", f"{path}/_aggregate", JSON, json.dumps(body).encode())


async def tallied(node: InProcess, aggs: Any, path: str = A, /, **asked: Any) -> dict[str, Any]:
    reply = await tally(node, aggs, path, **asked)
    assert reply.status == 200, reply.body
    view: dict[str, Any] = json.loads(reply.body)
    return view


def matching(entries: Sequence[Any], asked: dict[str, Any], config: SearchConfig = CONFIG) -> list[Any]:
    """The entries that an aggregation is about."""
    takes = matcher(query(asked["q"], config), 1) if asked.get("q") is not None else lambda _: True
    times: Any = values(config.fields["at"], 1)
    begin, end = asked.get("begin"), asked.get("to")
    return [
        entry
        for entry in entries
        if takes(entry)
        and (begin is None or any(ns // _MS_NS >= begin for ns in times(entry)))
        and (end is None or any(ns // _MS_NS < end for ns in times(entry)))
    ]


def recounted(entries: Sequence[Any], aggs: dict[str, Any], config: SearchConfig = CONFIG) -> dict[str, Any]:
    """What it adds up to, as an answer has it; of percentiles the sorted values."""
    return {name: _one(entries, each, config) for name, each in aggs.items()}


def _one(entries: Sequence[Any], wanted: dict[str, Any], config: SearchConfig) -> Any:
    (kind,) = wanted.keys() - {"aggs"}
    name = wanted[kind]["field"]
    field = config.fields[config.aliases.get(name, name)]
    of: Any = values(field, 1)
    read: Any = (lambda entry: [ns // _MS_NS for ns in of(entry)]) if field.kind is Kind.DATE else of
    if kind == "stats":
        return _stats([value for entry in entries for value in read(entry)])
    if kind == "percentiles":
        return sorted(value for entry in entries for value in read(entry))
    step = UNIT_MS[wanted[kind]["interval"]] if kind == "date_histogram" else None
    groups: dict[Any, list[Any]] = {}
    for entry in entries:
        for key in {value if step is None else value // step * step for value in read(entry)}:
            groups.setdefault(key, []).append(entry)
    made: dict[Any, Any] = {
        key: {"count": len(found)} | ({"aggs": recounted(found, wanted["aggs"], config)} if "aggs" in wanted else {})
        for key, found in groups.items()
    }
    if step is not None:
        return [(key, made[key]) for key in sorted(made)]
    ranked = sorted(made, key=lambda key: (-made[key]["count"], key))
    size = wanted["terms"].get("size", 10)
    return [(key, made[key]) for key in ranked[:size]], sum(made[key]["count"] for key in ranked[size:])


def _stats(found: list[Any]) -> dict[str, Any]:
    return {
        "count": len(found), "sum": sum(found), "min": min(found, default=None), "max": max(found, default=None),
        "avg": sum(found) / len(found) if found else None,
    }  # fmt: skip


def same(shown: dict[str, Any], right: dict[str, Any], aggs: dict[str, Any]) -> None:
    """An answer is what a recount says. Sums are of numbers that add up exactly; percentiles may be near."""
    assert list(shown) == list(aggs)
    for name, wanted in aggs.items():
        if "terms" in wanted:
            buckets, other = right[name]
            assert shown[name]["other"] == other
            assert shown[name]["error_bound"] == 0
            _same_buckets([_moment(each["key"]) for each in shown[name]["buckets"]], shown[name], buckets, wanted)
        elif "date_histogram" in wanted:
            starts = [_moment(each["start"]) for each in shown[name]["buckets"]]
            _same_buckets(starts, shown[name], right[name], wanted)
        elif "stats" in wanted:
            assert shown[name] == right[name], (name, shown[name], right[name])
        else:
            near(shown[name], right[name])


def _same_buckets(keys: list[Any], shown: dict[str, Any], right: list[Any], wanted: dict[str, Any]) -> None:
    assert keys == [key for key, _ in right], {*keys} ^ {key for key, _ in right}
    for bucket, (_, made) in zip(shown["buckets"], right, strict=True):
        assert bucket["count"] == made["count"]
        assert ("aggs" in bucket) == ("aggs" in made)
        if "aggs" in made:
            same(bucket["aggs"], made["aggs"], wanted["aggs"])


def _moment(key: Any) -> Any:
    if key == "+275760-09-13T00:00:00.000Z":
        return 8_640_000_000_000_000
    if isinstance(key, str) and key.endswith("Z") and key[4:5] == "-":
        return round(datetime.fromisoformat(key).timestamp() * 1000)
    return key


def near(shown: dict[str, Any], right: list[float]) -> None:
    """A percentile is the value at its rank; an approximate one is within 1 % of one whose rank is near."""
    for text, value in shown["values"].items():
        if not right:
            assert value is None
            continue
        share, count = float(text) / 100, len(right)
        if not shown["approximate"]:
            assert value == right[max(0, math.ceil(share * count) - 1)]
            continue
        low = right[max(0, math.floor((share - 0.006) * (count - 1)) - 1)]
        high = right[min(count - 1, math.ceil((share + 0.006) * (count - 1)) + 1)]
        assert low - abs(low) * 0.015 - 1e-9 <= value <= high + abs(high) * 0.015 + 1e-9, (
            text,
            value,
            low,
            high,
            count,
        )
