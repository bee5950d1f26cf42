"""Whatever becomes of a stream, a search of it is what the evaluator finds in what the answer claims to cover."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from tests.indexing.world import FakeDriver, indexed, on_loop, sealed
from tests.search.both_ways import both_ways  # noqa: F401 - each page on the loop or in a thread
from tests.search_life.life import Life, Stream, found_at_once
from tests.tiers.bucket import folder_bucket

STEPS = 10


@pytest.mark.parametrize("seed", range(3))
def test_pages_are_right_all_life_long(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr("streams_node.indexing.work.MERGED", random.choice([2, 3]))
    life, bucket = Life(random), folder_bucket(tmp_path / "objects")

    async def run() -> None:
        for incarnation in range(3):
            async with indexed(tmp_path / "node", bucket) as node:
                if not incarnation:
                    for name in ("a", "b"):
                        await life.begin(node, name)
                for _ in range(STEPS):
                    await life.step(node)
                    await life.check(node, 2)
        async with indexed(tmp_path / "node", bucket) as node:
            await sealed(node)
            await FakeDriver(node).finish()
            await life.check(node, 6)

    asyncio.run(run())
    assert life.pages > 50
    assert life.left_out
    assert life.indexed


@on_loop
async def test_what_was_appended_is_found_or_counted_at_every_stage(tmp_path: Path) -> None:
    random = Random(7)
    life, bucket = Life(random), folder_bucket(tmp_path / "objects")
    found = left_out = number = 0
    for incarnation in range(2):
        async with indexed(tmp_path / "node", bucket) as node:
            if not incarnation:
                await life.begin(node, "a")
            for _ in range(12):
                await life.step(node)
                for budget in (64 << 20, 64 << 10, 600, 0):
                    stream: Stream = random.choice(list(life.streams.values()))
                    number += 1
                    node.context.searches.scan_bytes = budget
                    view = await found_at_once(node, stream, f"unheard{number}")
                    found += len(view["hits"])
                    left_out += not view["hits"]
                    assert view["hits"] or budget < 64 << 20
                node.context.searches.scan_bytes = 64 << 20
                await life.check(node, 1)
    assert found
    assert left_out
