"""Aggregations of a node in this process, and what a plain recount says of the same entries."""

import json
import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from search.language import exact_text, matcher, query, values
from streams_node.schema.search_config import Count, Field, SearchConfig, Summary, parse
from streams_node.testing.inprocess import InProcess
from tests.http.wire import Reply, ask
from tests.search.world import field

JSON = {"content-type": "application/json"}
A = "/v1/stream/a"
T0 = 1_774_432_800_000  # 2026-03-25T10:00:00Z
UNIT_MS = {"1s": 1000, "1m": 60_000, "1h": 3_600_000}
SEARCH: dict[str, Any] = {
    "primaryTimestampField": "at",
    "fields": {
        "at": field("date", "at"),
        "level": field("keyword", "level", exact=True, normalizer="lowercase_v1"),
        "status": field("integer", "status", exact=True, column=True),
        "ms": field("float", "ms", aggregatable=True),
        "text": field("text", "text"),
    },
    "rollups": {
        "req": {
            "include": "NOT level:debug",
            "dimensions": ["level", "status"],
            "intervals": ["1m", "1s", "1h"],
            "measures": {
                "n": {"kind": "count"},
                "bad": {"kind": "count", "include": "status:>=500"},
                "ms": {"kind": "summary", "field": "ms", "histogram": "log2_v1"},
            },
        },
        "all": {"intervals": ["1m"], "measures": {"n": {"kind": "count"}}},
    },
}
CONFIG = parse(SEARCH)
DECLARED: dict[str, Any] = {"schema": {"type": "object"}, "search": SEARCH}


async def aggregate(node: InProcess, path: str = A, **asked: Any) -> Reply:
    body = json.dumps({"from" if name == "begin" else name: value for name, value in asked.items()}).encode()
    return await ask(node, "POST", f"{path}/_aggregate", JSON, body)


async def found(node: InProcess, path: str = A, **asked: Any) -> dict[str, Any]:
    reply = await aggregate(node, path, **asked)
    assert reply.status == 200, reply
    view: dict[str, Any] = json.loads(reply.body)
    return view


def one_of(field: Field, record: Any) -> list[Any]:
    return values(field, 1)(record)


def recount(
    entries: Sequence[Any], asked: dict[str, Any], config: SearchConfig = CONFIG
) -> dict[tuple[int, str], dict[str, Any]]:
    """(start, JSON text of the key) -> measures, by a look at each entry."""
    rollup = config.rollups[asked["rollup"]]
    interval, begin, end = UNIT_MS[asked["interval"]], asked["begin"], asked["to"]
    takes = [matcher(query(text, config), 1) for text in (rollup.include, asked.get("q")) if text is not None]
    found: dict[tuple[int, str], dict[str, list[Any]]] = {}
    for entry in entries:
        times = one_of(config.fields["at"], entry)
        dimensions = {name: one_of(config.fields[name], entry) for name in rollup.dimensions}
        if (
            not isinstance(entry, dict)
            or len(times) != 1
            or not all(take(entry) for take in takes)
            or any(len(each) > 1 for each in dimensions.values())
        ):
            continue
        measured = {name: _measured(measure, entry, config) for name, measure in rollup.measures.items()}
        ms = times[0] // 1_000_000
        if any(each is None for each in measured.values()) or not begin <= ms < end:
            continue
        key = {
            name: exact_text(config.fields[name].kind, dimensions[name][0]) if dimensions[name] else None
            for name in sorted(set(asked.get("group_by") or ()))
        }
        group = found.setdefault((ms // interval * interval, json.dumps(key)), {})
        for name in asked.get("measures") or rollup.measures:
            group.setdefault(name, []).append(measured[name])
    return {
        key: {name: _added(rollup.measures[name], values) for name, values in group.items()}
        for key, group in found.items()
    }


def _measured(measure: Any, entry: Any, config: SearchConfig) -> Any:
    if isinstance(measure, Count):
        return 1 if measure.include is None else int(matcher(query(measure.include, config), 1)(entry))
    assert isinstance(measure, Summary)
    numbers = one_of(config.fields[measure.field], entry)
    return numbers[0] if len(numbers) == 1 else None


def _added(measure: Any, numbers: list[Any]) -> dict[str, Any]:
    if isinstance(measure, Count):
        return {"count": sum(numbers)}
    buckets = sorted(2 ** math.floor(math.log2(max(1, abs(each)))) for each in numbers)
    shown: dict[str, Any] = {
        "count": len(numbers),
        "sum": sum(numbers),
        "min": min(numbers),
        "max": max(numbers),
        "avg": sum(numbers) / len(numbers),
    }
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        shown[name] = buckets[math.ceil(share * len(buckets)) - 1]
    shown["histogram"] = {str(bucket): buckets.count(bucket) for bucket in buckets}
    return shown


def shown(view: dict[str, Any]) -> dict[tuple[int, str], dict[str, Any]]:
    """An answer as a recount has it; in the order of the answer."""
    made = {}
    for bucket in view["buckets"]:
        start = round(datetime.fromisoformat(bucket["start"]).timestamp() * 1000)
        for group in bucket["groups"]:
            made[start, json.dumps(group["key"])] = group["measures"]
    return made
