"""Whatever is done to streams, drivers and the node, in whatever order: coverage stays a set of true statements."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from indexers.messages import Claim, CommitRequest
from streams_node.testing.inprocess import InProcess
from tests.http.wire import ask
from tests.indexing.world import (
    JSON,
    KEYED,
    SEARCH,
    FakeDriver,
    append,
    create,
    declare,
    desk_of,
    indexed,
    rows,
    sealed,
)

PATHS = ["/v1/stream/a", "/v1/stream/b", "/v1/stream/c"]
STEPS = 60
SPANS = """
SELECT c.stream, c.family, c.config, c.first_seq, c.end_seq, c.entries, o.dead_us
  FROM index_covers AS c LEFT JOIN index_objects AS o ON o.id = c.object
 ORDER BY c.stream, c.family, c.config, c.first_seq
"""
LACKING = """
SELECT s.id, s.name, p.configs, h.next_seq FROM streams AS s JOIN index_plans AS p ON p.stream = s.id
  JOIN heads AS h ON h.stream = s.id
"""


class Play:
    """Random steps; what a driver holds survives the steps of others."""

    def __init__(self, node: InProcess, seed: int) -> None:
        self.node = node
        self.random = random.Random(seed)
        self.drivers = [FakeDriver(node, name) for name in ("one", "other")]
        self.claims: list[tuple[FakeDriver, Claim]] = []
        self.requests: list[tuple[FakeDriver, CommitRequest]] = []

    async def step(self) -> None:  # noqa: C901, PLR0912 - a table of steps
        path = self.random.choice(PATHS)
        driver = self.random.choice(self.drivers)
        match self.random.choice(["append"] * 4 + ["seal"] * 3 + ["claim"] * 3 + ["build", "commit"] * 3
                                 + ["again", "expire", "delete", "declare", "rebuild", "tend"]):  # fmt: skip
            case "append":
                entries = [{"k": self.random.choice("xyz"), "text": "some words"}] * self.random.randint(1, 9)
                await append(self.node, path, entries)
            case "seal":
                await sealed(self.node)
            case "claim":
                claim = await driver.claim(bytes_max=self.random.choice([1, 1 << 30]))
                if claim is not None:
                    self.claims.append((driver, claim))
            case "build" if self.claims:
                owner, claim = self.claims.pop(self.random.randrange(len(self.claims)))
                self.requests.append((owner, owner.built(claim)))
            case "commit" if self.requests:
                owner, request = self.requests.pop(self.random.randrange(len(self.requests)))
                await self._commit(owner, request)
            case "again" if self.requests:
                await self._commit(*self.random.choice(self.requests))
            case "expire":
                for lease in desk_of(self.node).leases:
                    lease.ends = 0.0
            case "delete":
                assert (await ask(self.node, "DELETE", path)).status == 204
                await create(self.node, path, KEYED | {"search": SEARCH})
            case "declare":
                await self._redeclare(path)
            case "rebuild":
                body = self.random.choice([b"{}", b'{"anew": true}', b'{"anew": true, "families": ["lexicon"]}'])
                assert (await ask(self.node, "POST", f"{path}/_index/rebuild", JSON, body)).status == 202
            case "tend":
                await desk_of(self.node).tend()

    async def _commit(self, driver: FakeDriver, request: CommitRequest) -> None:
        reply = await driver.commit(request)
        assert reply.status in {200, 409}, reply

    async def _redeclare(self, path: str) -> None:
        fields = dict(SEARCH["fields"])
        if self.random.random() < 0.5:
            del fields["text"]
        await declare(self.node, path, {"search": SEARCH | {"fields": fields}})


async def judge(node: InProcess) -> None:
    """No two covers of one configuration overlap, none is of a dead object, and none reaches beyond its stream."""
    await node.context.ledger.committer.settled()
    ends: dict[Any, int] = {}
    for stream, family, config, first, end, entries, dead_us in await rows(node, SPANS):
        assert first >= ends.get((stream, family, config), 0)
        assert (end - first, dead_us) == (entries, None)
        ends[stream, family, config] = end


@pytest.mark.parametrize("seed", range(3))
def test_covers_stay_true(seed: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with indexed(tmp_path / "node", compaction_packs=2) as node:
            for path in PATHS:
                await create(node, path, KEYED | {"search": SEARCH})
            play = Play(node, seed)
            for _ in range(STEPS):
                await play.step()
                await judge(node)
            for lease in desk_of(node).leases:
                lease.ends = 0.0
            await sealed(node)
            for path in PATHS:
                assert (await ask(node, "POST", f"{path}/_index/rebuild", JSON)).status == 202
            await play.drivers[0].finish()
            await judge(node)
            await _all_is_covered(node)

    asyncio.run(scenario())


async def _all_is_covered(node: InProcess) -> None:
    ends: dict[int, dict[str, int]] = {}
    configs: dict[int, set[str]] = {}
    for stream, family, config, first, end, _, _ in await rows(node, SPANS):
        assert first == ends.setdefault(stream, {}).get(family, 0), "a gap"
        ends[stream][family] = end
        configs.setdefault(stream, set()).add(f"{family}:{config}")
    for path in PATHS:
        await ask(node, "HEAD", path)
    for stream, name, plan, next_seq in await rows(node, LACKING):
        wanted = {f"{family}:{config}" for family, config in json.loads(plan).items()}
        if next_seq:
            assert configs.get(stream, set()) == wanted, name
            assert set(ends[stream].values()) == {next_seq}, name
