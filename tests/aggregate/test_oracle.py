"""Aggregations are a recount of exactly the entries that they claim, whatever became of the stream before."""

import asyncio
import json
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import pytest

from streams_node.protocol.offsets import decode
from streams_node.schema.search_config import SearchConfig, parse
from streams_node.testing.inprocess import InProcess
from streams_node.wal.lookup import Name
from tests.aggregate.drawn import asked, record
from tests.aggregate.world import SEARCH, A, found, recount, shown
from tests.indexing.world import FakeDriver, append, create, declare, indexed, rows, sealed
from tests.search.world import field
from tests.tiers.bucket import folder_bucket

STEPS = 9
ASKED_AT_ONCE = 3


def _declarations() -> list[dict[str, Any]]:
    """The same rollups with other conditions, dimensions and windows, and beside another field."""
    other, third, more = deepcopy(SEARCH), deepcopy(SEARCH), deepcopy(SEARCH)
    del other["rollups"]["req"]["include"]
    other["rollups"]["req"]["dimensions"] = ["status", "level"]
    other["rollups"]["req"]["intervals"] = ["1h", "1s", "1m"]
    third["rollups"]["req"]["measures"]["bad"]["include"] = "level:error"
    more["fields"]["more"] = field("keyword", "level", exact=True)
    return [SEARCH, other, third, more]


DECLARATIONS = _declarations()
CONFIGS: list[SearchConfig] = [parse(each) for each in DECLARATIONS]


class Play:
    """A stream, and what is in it; nodes come and go."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.entries: list[Any] = []
        self.earliest = 0
        self.declared = 0
        self.used_rollups = 0
        self.left_out = 0
        self.tight = False  # little may be looked at

    async def step(self, node: InProcess) -> None:
        random = self.random
        match random.choice(["append"] * 5 + ["seal"] * 3 + ["index"] * 3 + ["merge", "trim", "declare"]):
            case "append":
                await self.append(node, random.randrange(1, 40))
            case "seal":
                await sealed(node)
            case "index":
                await FakeDriver(node).round()
            case "merge":
                await FakeDriver(node).finish()
            case "trim":
                await self._trim(node)
            case "declare":
                self.declared = random.randrange(len(CONFIGS))
                await declare(node, A, {"search": DECLARATIONS[self.declared]})

    async def append(self, node: InProcess, count: int) -> None:
        fresh = [record(self.random) for _ in range(count)]
        await append(node, A, fresh)
        self.entries += fresh

    async def _trim(self, node: InProcess) -> None:
        self.earliest = self.random.randint(self.earliest, min(len(self.entries), self.earliest + 40))
        state = await node.context.ledger.readable(Name("_default", "a"))
        await node.context.ledger.committer.settled()
        await node.context.database.writer.run(
            lambda db: db.execute("UPDATE streams SET earliest_seq = ? WHERE id = ?", (self.earliest, state.id))
        )
        state.earliest_seq = self.earliest

    def wanted(self) -> dict[str, Any]:
        return asked(self.random, self.random.choice(["req", "req", "req", "all"]))

    async def check(self, node: InProcess) -> None:
        for _ in range(ASKED_AT_ONCE):
            wanted = self.wanted()
            node.context.aggregates._scan_bytes = 1 << 30
            if self.tight or self.random.random() < 0.2:
                node.context.aggregates._scan_bytes = self.random.randrange(2000 if self.tight else 6000)
                forget(node)
            view = await found(node, **wanted)
            coverage = view["coverage"]
            omitted = [(seq_of(first), seq_of(end)) for first, end in coverage["omitted"]]
            count = sum(end - first for first, end in omitted)
            assert coverage["possible_missing_events_upper_bound"] == count
            assert coverage["complete"] == (not omitted)
            claimed = [
                entry
                for seq, entry in enumerate(self.entries)
                if seq >= self.earliest and not any(first <= seq < end for first, end in omitted)
            ]
            made, right = shown(view), recount(claimed, wanted, CONFIGS[self.declared])
            assert made == right, (wanted, coverage)
            assert list(made) == sorted(made, key=lambda at: (at[0], json.dumps(json.loads(at[1]), ensure_ascii=False)))
            assert node.context.aggregates._scan_bytes < 1 << 30 or coverage["complete"]
            self.used_rollups += coverage["used_rollups"]
            self.left_out += bool(omitted)


def forget(node: InProcess) -> None:
    """Nothing is parsed beforehand."""
    recent = node.context.searches.recent
    recent._windows.clear()
    recent.bytes = 0


def seq_of(token: str) -> int:
    position = decode(token)
    assert position is not None
    return position.seq


@pytest.mark.parametrize("seed", range(4))
def test_windows_are_a_recount_at_every_stage(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr("streams_node.indexing.work.MERGED", random.choice([2, 3]))
    bucket = folder_bucket(tmp_path / "objects")
    play = Play(random)

    async def run() -> None:
        for life in range(3):
            async with indexed(tmp_path / "node", bucket) as node:
                if not life:
                    await create(node, A, {"schema": True, "search": SEARCH})
                for _ in range(STEPS):
                    await play.step(node)
                    await play.check(node)
        async with indexed(tmp_path / "node", bucket) as node:
            await sealed(node)
            await FakeDriver(node).finish()
            await play.check(node)
            play.tight, fresh = True, [record(random) for _ in range(80)]
            await append(node, A, fresh)
            play.entries += fresh
            await play.check(node)

    asyncio.run(run())
    assert play.used_rollups
    assert play.left_out


def test_sixteen_runs_and_the_one_that_they_become_say_the_same(tmp_path: Path) -> None:
    random = Random(16)
    play = Play(random)

    async def run() -> None:
        async with indexed(tmp_path / "node", folder_bucket(tmp_path / "objects")) as node:
            await create(node, A, {"schema": True, "search": SEARCH})
            driver = FakeDriver(node)
            for number in range(16):
                fresh = [record(random) for _ in range(30)]
                await append(node, A, fresh)
                play.entries += fresh
                await sealed(node)
                if number < 15:
                    assert await driver.round()
            await play.check(node)
            wanted = [asked(random) for _ in range(8)]
            before = [(await found(node, **each))["buckets"] for each in wanted]
            assert await driver.finish() > 1
            assert await _runs(node) == 1
            assert [(await found(node, **each))["buckets"] for each in wanted] == before
            await play.check(node)

    asyncio.run(run())


async def _runs(node: InProcess) -> int:
    said = "SELECT count(DISTINCT object) FROM index_covers WHERE family = 'rollups'"
    (found,) = await rows(node, said)
    return int(found[0])
