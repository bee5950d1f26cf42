"""Aggregations of any fields are a recount of exactly the entries that they claim, wherever these lie."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from streams_node.testing.inprocess import InProcess
from streams_node.wal.lookup import Name
from tests.aggregate.drawn import record
from tests.aggregate.tally_world import DECLARED, matching, recounted, same, tallied
from tests.aggregate.test_oracle import forget, seq_of
from tests.aggregate.world import T0, A
from tests.indexing.world import FakeDriver, append, create, indexed, sealed
from tests.tiers.bucket import folder_bucket

QUERIES = (
    None, None, "level:info", "lvl:error OR status:200", "NOT level:info", "text:card", "status:>=300", "ms:<100000",
    'text:"card declined"', "has:ms AND NOT ok:true", "level:nobody", "status:1180591620717411303424",
)  # fmt: skip
STEPS = 9


def entry(random: Random) -> Any:
    made = record(random)
    if isinstance(made, dict):
        if random.random() < 0.5:
            made["ok"] = random.choice([True, False, "TRUE", None, [True, False]])
        if random.random() < 0.5:
            made["seen"] = random.choice(
                [T0 + random.randrange(10**7), [T0, T0 + 60_001, T0 + 60_000], -1, "1500-01-01"]
            )
        if random.random() < 0.05:
            made["level"] = "long" * 20_000
    return made


def one(random: Random, depth: int = 1) -> dict[str, Any]:
    """Anything that may be asked for."""
    kind = random.choice(["terms", "date_histogram", "stats", "percentiles"])
    if kind == "stats":
        return {"stats": {"field": random.choice(["ms", "took"])}}
    if kind == "percentiles":
        return {"percentiles": {"field": "ms", "percents": random.sample([0, 1, 25, 50, 90, 95, 99.9, 100], 3)}}
    if kind == "terms":
        field = random.choice(["level", "lvl", "status", "ok", "seen", "ms"])
        made: dict[str, Any] = {"terms": {"field": field, "size": random.choice([1, 3, 1000])}}
    else:
        made = {"date_histogram": {"field": random.choice(["at", "seen"]), "interval": random.choice(["1m", "1h"])}}
    if depth < 3 and random.random() < 0.5:
        made["aggs"] = {f"in{at}": one(random, depth + 1) for at in range(random.randint(1, 2))}
    return made


class Play:
    """A stream, and what is in it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.entries: list[Any] = []
        self.earliest = 0
        self.indexed = self.left_out = self.minis = 0

    async def step(self, node: InProcess) -> None:
        random = self.random
        match random.choice(["append"] * 5 + ["seal"] * 3 + ["index"] * 4 + ["trim"]):
            case "append":
                fresh = [entry(random) for _ in range(random.randrange(1, 40))]
                await append(node, A, fresh)
                self.entries += fresh
            case "seal":
                await sealed(node)
            case "index":
                await FakeDriver(node).finish()
            case "trim":
                await self._trim(node)

    async def _trim(self, node: InProcess) -> None:
        self.earliest = self.random.randint(self.earliest, min(len(self.entries), self.earliest + 30))
        state = await node.context.ledger.readable(Name("_default", "a"))
        await node.context.ledger.committer.settled()
        await node.context.database.writer.run(
            lambda db: db.execute("UPDATE streams SET earliest_seq = ? WHERE id = ?", (self.earliest, state.id))
        )
        state.earliest_seq = self.earliest

    async def check(self, node: InProcess) -> None:
        random = self.random
        aggs = {f"a{at}": one(random) for at in range(random.randint(1, 3))}
        asked: dict[str, Any] = {"q": random.choice(QUERIES)}
        if random.random() < 0.6:
            asked["begin"] = T0 + random.randrange(2 * 3_600_000)
        if random.random() < 0.6:
            asked["to"] = asked.get("begin", T0) + random.randrange(1, 3 * 3_600_000)
        tallies = node.context.aggregates.tallies
        tallies.scan_bytes = 1 << 30
        if random.random() < 0.15:
            tallies.scan_bytes = random.randrange(6000)
            forget(node)
        view = await tallied(node, aggs, **asked)
        if random.random() < 0.3:
            await node.context.searches.minis.settled()
        coverage = view["coverage"]
        omitted = [(seq_of(first), seq_of(end)) for first, end in coverage["omitted"]]
        assert coverage["complete"] == (not omitted)
        assert tallies.scan_bytes < 1 << 30 or coverage["complete"]
        claimed = [
            made
            for seq, made in enumerate(self.entries)
            if seq >= self.earliest and not any(first <= seq < end for first, end in omitted)
        ]
        found = matching(claimed, asked)
        assert view["matched"] == len(found), (asked, coverage)
        assert view["inexact"] == 0
        same(view["aggs"], recounted(found, aggs), aggs)
        self.indexed += coverage["indexed_segments"]
        self.minis += "col" in coverage["index_families_used"] and not coverage["indexed_segments"]
        self.left_out += bool(omitted)


@pytest.mark.parametrize("seed", range(4))
def test_answers_are_a_recount_at_every_stage(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams_node.answers.bounds.BYTES_MIN", 0)  # all companions are asked before they are fetched
    play = Play(Random(seed))
    bucket = folder_bucket(tmp_path / "objects")

    async def run() -> None:
        for life in range(2):
            async with indexed(tmp_path / "node", bucket) as node:
                minis = node.context.searches.minis
                minis.entries_min, minis.entries_max = (20, 50) if seed % 2 else (minis.entries_min, minis.entries_max)
                if not life:
                    await create(node, A, DECLARED)
                for _ in range(STEPS):
                    await play.step(node)
                    for _ in range(4):
                        await play.check(node)
                await sealed(node)
                await FakeDriver(node).finish()
                for _ in range(4):
                    await play.check(node)

    asyncio.run(run())
    assert play.indexed
    assert play.left_out or seed % 2  # a mini may have everything in time
    assert bool(play.minis) == bool(seed % 2)
