"""A Tantivy whose indexes cannot be put together: answers are right all the same, out of several views or of none."""

import asyncio
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.aggregate.tally_world import DECLARED as TALLIED
from tests.aggregate.test_tally_oracle import Play
from tests.indexing.world import FakeDriver, indexed, on_loop, sealed
from tests.search.both_ways import both_ways  # noqa: F401 - each page on the loop or in a thread
from tests.search.test_minis import built, kept, small
from tests.search.test_oracle import check, grown
from tests.search.world import A, append, create, found

ROOMS = ("indexers.companion", "indexers.companion.view", "indexers.companion.merge", "search.engine.search")


@pytest.fixture(autouse=True)
def unstitched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams_node.http.search_request.TIMEOUT_MS_MAX", 30_000)  # a machine with load is slow
    for room in ROOMS:
        monkeypatch.setattr(import_module(room), "stitching_works", lambda: False)


@on_loop
async def test_pages_are_those_of_the_evaluator_at_every_stage(tmp_path: Path) -> None:
    random, entries = Random(2), list[Any]()
    async with indexed(tmp_path / "node") as node:
        small(node)
        await create(node)
        for _ in range(3):
            await append(node, grown(entries, random, random.randrange(20, 60)))
            await built(node)
            await check(node, entries, random, 3)
            await sealed(node)
            await FakeDriver(node).finish()
            await check(node, entries, random, 3)
        view = await found(node, q="level:error", sort=["at"], explain=True)
        assert view["explain"]["opened"] == 3  # each a view of its own
        assert view["coverage"]["indexed_segments"] == 3
        view = await found(node, q="card", explain=True)
        assert view["coverage"]["indexed_segments"] == 0  # scores are of one view, or of the entries
        assert view["coverage"]["complete"]


@on_loop
async def test_minis_stay_as_they_are(tmp_path: Path) -> None:
    random, entries = Random(4), list[Any]()
    async with indexed(tmp_path / "node") as node:
        small(node, least=4, most=4)
        await create(node)
        await append(node, grown(entries, random, 4 * 10))
        assert await built(node) == [(at, at + 4) for at in range(0, 40, 4)]
        await check(node, entries, random, 3)
        assert len(kept(node.context.searches.minis)) == 10


def test_sums_are_a_recount(tmp_path: Path) -> None:
    play = Play(Random(1))

    async def run() -> None:
        async with indexed(tmp_path / "node") as node:
            await create(node, A, TALLIED)
            for _ in range(12):
                await play.step(node)
                await play.check(node)

    asyncio.run(run())
    assert len(play.entries) > 50
