"""Aggregations of metrics: what no rollup answers comes out of metric blocks, and is a recount of the records."""

import asyncio
import json
import math
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from search.language import matcher, query, values
from streams_node.objects.keys import ObjectId, index_key
from streams_node.testing.inprocess import InProcess
from streams_node.wal.lookup import Name
from tests.aggregate.test_oracle import seq_of
from tests.aggregate.test_trouble import cold
from tests.aggregate.world import JSON, T0, UNIT_MS, A, aggregate, shown
from tests.http.wire import ask
from tests.indexing.world import FakeDriver, append, covered, indexed, on_loop, sealed
from tests.tiers.bucket import folder_bucket
from tests.tiers.node import walk

QUERIES = (None, None, "metric:cpu", "count:>3", "name:c*", "dims:*", "NOT unit:s", "avg:<2 OR instance:i1", "p95:>1")
DIMENSIONS = ("metric", "unit", "stream", "instance", "dimensionKey", "metricKind", "temporality")


def record(random: Random) -> dict[str, Any]:
    """Sums of few bits add up exactly."""
    start = T0 + random.randrange(2 * 3_600_000)
    count = random.choice([0, 1, 3, 8, 2**60 + 1])
    made: dict[str, Any] = {
        "metric": random.choice(["cpu", "CPU", "disk", "é"]),
        "unit": random.choice(["s", "B"]),
        "windowStart": start,
        "windowEnd": start + 9999,
        "count": count,
        "sum": random.randrange(4096) / 4,
        "min": random.randrange(64) / 4,
        "max": random.randrange(64, 4096) / 4,
        "instance": random.choice([None, "i1", "I2"]),
        "attributes": random.choice([{}, {"host": "h1"}, {"host": "h1", "zone": "Z"}]),
        "buckets": random.choice([{}, {"1": 2, "8": 1}, {"4": 1, "odd": 3}]),
    }
    return {name: value for name, value in made.items() if value is not None}


async def create(node: InProcess) -> None:
    assert (await ask(node, "PUT", A, JSON)).status == 201
    reply = await ask(node, "POST", f"{A}/_profile", JSON, b'{"profile":{"kind":"metrics"}}')
    assert reply.status == 200, reply.body


async def config_of(node: InProcess) -> Any:
    meaning = (await node.context.ledger.readable(Name("_default", "a"))).tail_meaning
    assert meaning is not None
    return meaning.registry.search


def asked(random: Random) -> dict[str, Any]:
    step = random.choice([1, 10_000, 60_000, 3_600_000])
    begin = (T0 - 600_000 + random.randrange(2 * 3_600_000)) // step * step
    made: dict[str, Any] = {
        "rollup": "metrics",
        "begin": begin,
        "to": begin + random.randrange(1, 3 * 3_600_000),
        "interval": random.choice(["10s", "1m", "5m", "1h"]),
        "group_by": random.choice([[], ["metric"], ["instance", "dimensionKey"], ["unit"]]),
    }
    q = random.choice(QUERIES)
    return made if q is None else made | {"q": q}


def recount(entries: Sequence[Any], asked: dict[str, Any], config: Any) -> dict[tuple[int, str], Any]:
    """(start, JSON text of the key) -> measures, by a look at each record as it is stored."""
    interval = (UNIT_MS | {"10s": 10_000, "5m": 300_000})[asked["interval"]]
    takes: Any = matcher(query(asked["q"], config), 1) if "q" in asked else lambda _: True
    found: dict[tuple[int, str], list[Any]] = {}
    for entry in entries:
        start = entry["windowStart"]
        if None in (entry["min"], entry["max"]) or not takes(entry) or not asked["begin"] <= start < asked["to"]:
            continue
        of = {name: [*values(config.fields[name], 1)(entry), None][0] for name in sorted(asked["group_by"])}
        found.setdefault((start // interval * interval, json.dumps(of)), []).append(entry)
    return {key: {"value": _added(group)} for key, group in sorted(found.items())}


def _added(group: list[Any]) -> dict[str, Any]:
    count, total = sum(float(each["count"]) for each in group), sum(each["sum"] for each in group)
    buckets: dict[str, float] = {}
    for each in group:
        for name, number in each["buckets"].items():
            buckets[name] = buckets.get(name, 0) + number
    made = {
        "count": count, "sum": total, "min": min(each["min"] for each in group),
        "max": max(each["max"] for each in group), "avg": total / count if count else None,
    }  # fmt: skip
    counted = sorted((float(name), number) for name, number in buckets.items() if name != "odd")
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        wanted, seen, made[name] = share * sum(number for _, number in counted), 0.0, None
        for bound, number in counted:
            seen += number
            if seen >= wanted:
                made[name] = bound
                break
    return made | ({"histogram": buckets} if buckets else {})


async def judged(node: InProcess, random: Random, stored: list[Any], config: Any) -> dict[str, Any]:
    wanted = asked(random)
    reply = await aggregate(node, **wanted)
    assert reply.status == 200, reply.body
    view: dict[str, Any] = json.loads(reply.body)
    omitted = [(seq_of(first), seq_of(end)) for first, end in view["coverage"]["omitted"]]
    claimed = [each for seq, each in enumerate(stored) if not any(first <= seq < end for first, end in omitted)]
    made, right = shown(view), recount(claimed, wanted, config)
    assert made.keys() == right.keys()
    for key, measures in made.items():
        got, said = measures["value"], right[key]["value"]
        assert got.keys() == said.keys()
        assert all(got[name] == said[name] or math.isclose(got[name], said[name]) for name in got), (got, said)
    coverage: dict[str, Any] = view["coverage"]
    return coverage


async def grown(node: InProcess, random: Random, stored: list[Any], count: int) -> None:
    await append(node, A, [record(random) for _ in range(count)])
    stored[:] = await walk(node, A)


@pytest.mark.parametrize("seed", range(3))
def test_windows_of_metrics_are_a_recount(tmp_path: Path, seed: int) -> None:
    random, stored = Random(seed), list[Any]()

    async def run() -> None:
        async with indexed(tmp_path / "node") as node:
            await create(node)
            config = await config_of(node)
            families: set[str] = set()
            for step in range(5):
                await grown(node, random, stored, random.randrange(5, 50))
                if step % 2 == 0:
                    await sealed(node)
                if step in {2, 4}:
                    await FakeDriver(node).finish()
                for _ in range(6):
                    coverage = await judged(node, random, stored, config)
                    assert coverage["complete"]
                    families.update(coverage["index_families_used"])
                    assert ("mblk" not in families) or step >= 2
            assert families == {"agg", "mblk"}

    asyncio.run(run())


@on_loop
async def test_what_blocks_have_is_not_read_from_entries(tmp_path: Path) -> None:
    random, stored = Random(1), list[Any]()
    async with indexed(tmp_path / "node") as node:
        await create(node)
        await grown(node, random, stored, 60)
        await sealed(node)
        await FakeDriver(node).finish()
        node.context.aggregates._scan_bytes = 0
        whole: dict[str, Any] = {"rollup": "metrics", "begin": T0, "to": T0 + 3 * 3_600_000, "interval": "1h"}
        config = await config_of(node)
        for q in ("count:>3", "dims:host*", "sum:<500"):
            reply = await aggregate(node, **whole, q=q)
            view = json.loads(reply.body)
            coverage = view["coverage"]
            assert (reply.status, coverage["complete"]) == (200, True)
            assert ("mblk" in coverage["index_families_used"], coverage["scanned_segments"]) == (True, 0)
            assert not coverage["used_rollups"]
            right = recount(stored, whole | {"q": q, "group_by": []}, config)
            assert {key: each["value"]["sum"] for key, each in shown(view).items()} == {
                key: each["value"]["sum"] for key, each in right.items()
            }


@on_loop
async def test_a_block_that_cannot_be_read_is_left_aside(tmp_path: Path) -> None:
    random, stored = Random(2), list[Any]()
    async with indexed(tmp_path / "node", folder_bucket(tmp_path / "objects")) as node:
        await create(node)
        await grown(node, random, stored, 60)
        await sealed(node)
        await FakeDriver(node).finish()
        await cold(node)
        for each in await covered(node, A):
            if each.family == "metrics":
                (tmp_path / "objects" / index_key("metrics", ObjectId(each.made))).unlink()
        config = await config_of(node)
        for _ in range(6):
            coverage = await judged(node, random, stored, config)
            assert coverage["complete"]
            assert "mblk" not in coverage["index_families_used"]
