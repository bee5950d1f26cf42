"""Whatever the store does, no answer is wrong: what could not be read is left out, and counted."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from streams_node.cache import Cache
from streams_node.objects import Fault, WriteId
from streams_node.objects.keys import ObjectId, index_key
from streams_node.testing.inprocess import InProcess
from tests.indexing.world import FakeDriver, covered, indexed, on_loop, sealed
from tests.search.both_ways import both_ways  # noqa: F401 - each page on the loop or in a thread
from tests.search_life.life import Life, found_at_once
from tests.tiers.bucket import WILD, Bucket, folder_bucket
from tests.tiers.node import evict


@pytest.fixture(autouse=True)
def far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects in a folder are fetched as from any store: through the line that fails."""
    whole = Cache.open

    async def opened(folder: Path, store: Any, limits: Any, **_: Any) -> Cache:
        return await whole(folder, store, limits, local=None)

    monkeypatch.setattr(Cache, "open", staticmethod(opened))


@asynccontextmanager
async def bare(folder: Path, bucket: Bucket) -> AsyncIterator[InProcess]:
    """A node without copies of anything that is in the bucket."""
    shutil.rmtree(folder / "cache", ignore_errors=True)
    async with indexed(folder, bucket) as node:
        yield node


async def grown(node: InProcess, life: Life, steps: int) -> None:
    if not life.streams:
        for name in ("a", "b"):
            await life.begin(node, name)
    for _ in range(steps):
        await life.step(node)
    for stream in life.streams.values():
        await life.append(node, stream)
    await sealed(node)
    await FakeDriver(node).finish()
    for _ in range(3):
        await life.step(node)


@pytest.mark.parametrize("seed", range(2))
def test_a_store_that_fails_at_random_makes_no_answer_wrong(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    life, bucket = Life(random), folder_bucket(tmp_path / "objects")

    async def run() -> None:
        async with indexed(tmp_path / "node", bucket) as node:
            await grown(node, life, 8)
        for _ in range(3):
            async with bare(tmp_path / "node", bucket) as node:
                await life.check(node, 3)
                await evict(node)
                bucket.plan.chances = dict(WILD)
                for _ in range(4):
                    await life.check(node, 2, total=False, timeout_ms=random.choice([30_000, 30]))
                    await evict(node)
                bucket.calm()

    asyncio.run(run())
    assert sum(bucket.plan.hits.values())
    assert life.pages > 20


@on_loop
async def test_a_store_that_is_away_leaves_the_log(tmp_path: Path) -> None:
    life, bucket = Life(Random(3)), folder_bucket(tmp_path / "objects")
    async with indexed(tmp_path / "node", bucket) as node:
        await grown(node, life, 8)
    async with bare(tmp_path / "node", bucket) as node:
        with bucket.away():
            await life.check(node, 6, total=False)
            assert life.left_out
            for name in ("x1", "x2"):
                view = await found_at_once(node, life.streams["a"], name)
                assert len(view["hits"]) == 1
    async with bare(tmp_path / "node", bucket) as node:
        await life.check(node, 6)


@pytest.mark.parametrize("how", ["gone", "cut", "changed"])
def test_indexes_that_are_damaged_at_random_change_no_answer(tmp_path: Path, how: str) -> None:
    random = Random(how)
    life, bucket = Life(random), folder_bucket(tmp_path / "objects")

    async def run() -> None:
        async with indexed(tmp_path / "node", bucket) as node:
            await grown(node, life, 8)
            damaged = [one for stream in life.streams.values() for one in await covered(node, stream.path)]
        assert damaged
        direct = bucket.direct()
        for made, family in {(each.made, each.family) for each in damaged if random.random() < 0.8}:
            key = index_key(family, ObjectId(made))
            data = direct.get(key).data
            direct.delete(key)
            if how != "gone":
                at = random.randrange(len(data))
                changed = data[:at] if how == "cut" else data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
                direct.put(key, changed, write_id=WriteId("damaged"))
        async with bare(tmp_path / "node", bucket) as node:
            await life.check(node, 10)

    asyncio.run(run())


@pytest.mark.parametrize("seed", range(2))
def test_time_that_is_up_in_the_middle_makes_no_answer_wrong(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    life, bucket = Life(random), folder_bucket(tmp_path / "objects")
    bucket.plan.slow_s = 0.02

    async def run() -> None:
        async with indexed(tmp_path / "node", bucket) as node:
            await grown(node, life, 8)
        async with bare(tmp_path / "node", bucket) as node:
            bucket.plan.chances = {Fault.SLOW: 0.5}
            for _ in range(12):
                await life.check(node, 2, total=False, timeout_ms=random.choice([0, 1, 2, 5, 10, 30]))
                await evict(node)
            bucket.calm()

    asyncio.run(run())
    assert life.timed_out
    assert life.left_out
