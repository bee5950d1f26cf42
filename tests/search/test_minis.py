"""Minis and windows: what is recent is found, whether it is parsed, indexed by this node, or by both and the driver."""

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from streams_node.searching.minis import Minis
from streams_node.searching.recent import Recent
from streams_node.testing.inprocess import InProcess
from tests.http.wire import ask
from tests.indexing.world import FakeDriver, indexed, on_loop, sealed
from tests.search.both_ways import both_ways  # noqa: F401 - each page on the loop or in a thread
from tests.search.test_oracle import check, grown, pages
from tests.search.world import DECLARED, JSON, A, append, create, expected, found
from tests.tiers.node import tiers_of


def small(node: InProcess, least: int = 5, most: int = 9) -> Minis:
    """Minis of few entries, so that there are many."""
    minis = node.context.searches.minis
    minis.entries_min, minis.entries_max = least, most
    return minis


def kept(minis: Minis) -> list[tuple[int, int]]:
    return [(mini.first, mini.end) for each in minis._kept.values() for mini in each.minis]


async def built(node: InProcess) -> list[tuple[int, int]]:
    """A search, and what the node made of it."""
    await found(node, q="card", size=1)
    await node.context.searches.minis.settled()
    return kept(node.context.searches.minis)


@pytest.mark.parametrize("seed", range(3))
def test_pages_are_those_of_the_evaluator_with_minis_at_every_stage(tmp_path: Path, seed: int) -> None:
    random, entries = Random(seed), list[Any]()

    async def run() -> None:
        async with indexed(tmp_path / "node") as node:
            minis, driver = small(node), FakeDriver(node)
            await create(node)
            most = 0
            for stage in range(7):
                await append(node, grown(entries, random, random.randrange(1, 60)))
                await check(node, entries, random, 1)
                most = max(most, len(await built(node)))
                await check(node, entries, random, 2)
                if random.random() < 0.5:
                    await sealed(node)
                    await check(node, entries, random, 1)
                if stage == 4 or random.random() < 0.3:
                    await driver.finish()
                    await check(node, entries, random, 2)
            assert most > 1
            assert minis.bytes == sum(mini.pack.size for each in minis._kept.values() for mini in each.minis)

    asyncio.run(run())


@on_loop
async def test_minis_take_the_place_of_looking_and_leave_for_companions(tmp_path: Path) -> None:
    random, entries = Random(3), list[Any]()
    async with indexed(tmp_path / "node") as node:
        minis = small(node, least=5, most=10)
        await create(node)
        await append(node, grown(entries, random, 27))
        assert (await found(node, q="card", sort=["at"]))["coverage"]["scanned_tail_docs"] == 27
        await minis.settled()
        assert kept(minis) == [(0, 10), (10, 20), (20, 27)]
        await append(node, grown(entries, random, 2))
        view = await found(node, q="card", sort=["at"], explain=True)
        assert view["coverage"]["scanned_tail_docs"] == 2
        assert view["explain"]["opened"] == 3
        folders = [mini.pack.folder for each in minis._kept.values() for mini in each.minis]
        await sealed(node)
        await FakeDriver(node).finish()
        view = await found(node, q="card", sort=["at"], explain=True)
        assert (view["coverage"]["indexed_segments"], view["explain"]["opened"]) == (1, 1)
        assert [hit["source"]["seq"] for hit in view["hits"]] == expected(entries, "card", ["at"])[:50]
        assert (kept(minis), minis.bytes) == ([], 0)
        assert not any(folder.exists() for folder in folders)


@on_loop
async def test_eight_minis_become_one(tmp_path: Path) -> None:
    random, entries = Random(4), list[Any]()
    async with indexed(tmp_path / "node") as node:
        small(node, least=4, most=4)
        await create(node)
        await append(node, grown(entries, random, 4 * 11))
        assert await built(node) == [(0, 32), (32, 36), (36, 40), (40, 44)]
        await check(node, entries, random, 4)


@on_loop
async def test_another_configuration_has_other_minis(tmp_path: Path) -> None:
    random, entries = Random(5), list[Any]()
    async with indexed(tmp_path / "node") as node:
        minis = small(node)
        await create(node)
        await append(node, grown(entries, random, 40))
        await sealed(node)
        await FakeDriver(node).finish()
        search = json.loads(json.dumps(DECLARED["search"]))
        search["fields"]["n"] = {
            "kind": "integer", "bindings": [{"version": 1, "jsonPointer": "/n"}], "column": True, "sortable": True,
        }  # fmt: skip
        reply = await ask(node, "POST", f"{A}/_schema", JSON, json.dumps({"search": search}).encode())
        assert reply.status == 200, reply
        for _ in range(2):  # before and after this node has indexed them anew; the driver has not
            view = await found(node, q="n:>=500", sort=["n:asc"], size=500)
            wanted = sorted((e["n"], -e["seq"]) for e in entries if e.get("n", 0) >= 500)
            assert [(hit["source"]["n"], -hit["source"]["seq"]) for hit in view["hits"]] == wanted
            assert view["coverage"]["complete"]
            await minis.settled()
        assert kept(minis)
        view = await found(node, q="n:>=500", sort=["n:asc"], explain=True)
        assert view["explain"]["scanned"] == 40 - sum(end - first for first, end in kept(minis))
        await FakeDriver(node).finish()
        assert (await found(node, q="n:>=500", sort=["n"]))["coverage"]["indexed_segments"] == 1
        assert kept(minis) == []


@on_loop
async def test_trimmed_entries_are_in_no_mini_that_answers(tmp_path: Path) -> None:
    random, entries = Random(6), list[Any]()
    async with indexed(tmp_path / "node") as node:
        minis = small(node)
        await create(node)
        await append(node, grown(entries, random, 50))
        await built(node)
        state = await node.context.ledger.readable(_name(node))
        state.earliest_seq = 23  # as retention would have it
        view = await found(node, q="x OR NOT x", sort=["offset:asc"], size=500)
        assert [hit["source"]["seq"] for hit in view["hits"]] == list(range(23, 50))
        assert all(end > 23 for _, end in kept(minis))


@on_loop
async def test_a_mini_that_is_gone_from_the_disk_is_not_missed(tmp_path: Path) -> None:
    import shutil  # noqa: PLC0415

    random, entries = Random(7), list[Any]()
    async with indexed(tmp_path / "node") as node:
        minis = small(node)
        await create(node)
        await append(node, grown(entries, random, 30))
        await found(node, q="card")
        await minis.settled()
        views = tiers_of(node).indexes
        assert views is not None
        assert views.views is not None
        for each in minis._kept.values():
            shutil.rmtree(each.minis[0].pack.folder)
        view = await found(node, q="card", sort=["at"], size=500)
        assert view["coverage"]["complete"]
        assert [hit["source"]["seq"] for hit in view["hits"]] == expected(entries, "card", ["at"])


@on_loop
async def test_all_streams_together_are_bounded(tmp_path: Path) -> None:
    random = Random(8)
    async with indexed(tmp_path / "node", search_recent_bytes_max=1 << 20, search_minis_bytes_max=60_000) as node:
        minis, recent = small(node, least=50, most=50), node.context.searches.recent
        for number in range(6):
            path, entries = f"/v1/stream/s{number}", list[Any]()
            await create(node, path)
            await append(node, grown(entries, random, 120), path)
            for _ in range(2):
                seqs = [
                    hit["source"]["seq"] for hit in (await found(node, path, q="card", sort=["at"], size=500))["hits"]
                ]
                assert seqs == expected(entries, "card", ["at"])
                await minis.settled()
            largest = max(mini.pack.size for each in minis._kept.values() for mini in each.minis)
            assert minis.bytes <= 60_000 + largest
            assert _weighed(recent) == recent.bytes <= 1 << 20
        assert len(minis._kept) < 6


def _weighed(recent: Recent) -> int:
    return sum(piece.size for window in recent._windows.values() for piece in window.pieces)


def _name(node: InProcess) -> Any:
    (state,) = [state for state in node.context.ledger.states if state.name.stream == "a"]
    return state.name


@on_loop
async def test_a_window_goes_on_where_it_was(tmp_path: Path) -> None:
    random, entries = Random(9), list[Any]()
    async with indexed(tmp_path / "node") as node:
        await create(node)
        for count in (3, 1, 700, 1, 0, 513, 2):
            if count:
                await append(node, grown(entries, random, count))
            seqs, _ = await pages(node, "card", ["at"], 500)
            assert seqs == expected(entries, "card", ["at"])
            (window,) = node.context.searches.recent._windows.values()
            assert (window.pieces[0].first, window.pieces[-1].end) == (0, len(entries))
            assert all(len(piece.texts) <= 512 for piece in window.pieces)


@on_loop
async def test_nothing_is_built_twice(tmp_path: Path) -> None:
    random, entries = Random(10), list[Any]()
    async with indexed(tmp_path / "node") as node:
        minis = small(node, least=5, most=10)
        await create(node)
        await append(node, grown(entries, random, 60))
        await asyncio.gather(*(found(node, q="card", size=1) for _ in range(12)))
        for _ in range(5):
            await found(node, q="card", size=1)
        await minis.settled()
        assert kept(minis) == [(at, at + 10) for at in range(0, 60, 10)]
        assert next(minis._numbers) == 6
