"""Indexes as a driver builds, merges and rebuilds them, and what a node answers out of them."""

import json
import random
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from streams_node.testing.inprocess import InProcess
from tests.http.wire import ask
from tests.indexing.world import KEYED, SEARCH, FakeDriver, append, create, indexed, on_loop, rows, sealed
from tests.tiers.node import evict, tiers_of, until

PATH = "/v1/stream/shop/orders"
ROUNDS = 18  # more than are merged into one


def entries_of(chance: random.Random, number: int) -> list[dict[str, Any]]:
    keys = ("common", f"only-{number}", chance.choice("ABCabc"), None)
    return [{"at": number, "text": "x" * 50} | ({} if key is None else {"k": key}) for key in keys]


async def forget(node: InProcess) -> None:
    """Nothing of the bucket is on the node."""
    await evict(node)
    indexes = tiers_of(node).indexes
    assert indexes is not None
    for made in list(indexes.cache._shelf._copies):
        await indexes.cache.drop(made)
    indexes._known._found.clear()


async def keys(node: InProcess) -> tuple[list[str], dict[str, Any]]:
    found, after, coverage = list[str](), "", dict[str, Any]()
    while True:
        cursor = f"&after={quote(after, safe='')}" if after else ""
        reply = await ask(node, "GET", f"{PATH}/_routing_keys?limit=5{cursor}")
        page = json.loads(reply.body)
        found += page["keys"]
        coverage = page["coverage"]
        if page["next_after"] is None:
            return found, coverage
        after = page["next_after"]


async def walk(node: InProcess, selection: str) -> list[Any]:
    found, offset = list[Any](), "-1"
    while True:
        reply = await ask(node, "GET", f"{PATH}?offset={offset}&{selection}&max_bytes=300")
        assert reply.status == 200, reply.body
        found += json.loads(reply.body)
        offset = reply.headers["stream-next-offset"]
        if "stream-up-to-date" in reply.headers:
            return found


async def check(node: InProcess, entries: list[dict[str, Any]]) -> None:
    for key in ("common", "only-3", "A", "nobody"):
        wanted = [entry for entry in entries if entry.get("k") == key]
        assert await walk(node, f"key={key}") == wanted
        assert await walk(node, f"filter=k:{key}") == wanted


def fetched(node: InProcess) -> int:
    """Sealed objects that readers had brought to the node."""
    cache = tiers_of(node).cache
    assert cache is not None
    return cache.counts.fills


@on_loop
async def test_what_a_driver_has_built_merged_and_rebuilt_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams_node.answers.runs._DOUBTED_S", 0.0)
    chance = random.Random(11)
    async with indexed(tmp_path / "node", own_segment_bytes=1) as node:
        await create(node, PATH, KEYED | {"search": SEARCH})
        driver, entries = FakeDriver(node), list[dict[str, Any]]()
        for number in range(ROUNDS):
            fresh = entries_of(chance, number)
            await append(node, PATH, fresh)
            entries += fresh
            await sealed(node)
            await driver.finish()
        truth = sorted({entry["k"] for entry in entries if "k" in entry})
        assert (await rows(node, "SELECT max(level) > 0 FROM index_objects WHERE dead_us IS NULL"))[0] == (1,)
        assert (await rows(node, "SELECT count(*) FROM objects WHERE dead_us IS NULL"))[0] == (ROUNDS,)
        await forget(node)
        found, coverage = await keys(node)
        assert (found, coverage["complete"], coverage["indexed_segments"]) == (truth, True, ROUNDS)
        before = fetched(node)
        await walk(node, "key=only-3")
        await walk(node, "filter=k:only-3")
        assert fetched(node) == before + 1
        await check(node, entries)
        await damaged(node, driver, tmp_path / "objects" / "index", entries, truth)


async def damaged(
    node: InProcess, driver: FakeDriver, folder: Path, entries: list[dict[str, Any]], truth: list[str]
) -> None:
    """Every lexicon and exact run is spoilt behind the node's back: answers stay, and it is all indexed again."""
    for family in ("lexicon", "exact"):
        for file in (folder / family).iterdir():
            data = file.read_bytes()
            file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    await forget(node)
    await check(node, entries)
    found, _ = await keys(node)
    assert set(found) <= set(truth)

    async def dropped() -> bool:
        """Readers say so a few times before it is believed: the size is right."""
        await keys(node)
        await walk(node, "filter=k:only-3")
        statement = "SELECT count(*) FROM index_covers WHERE family IN ('lexicon', 'exact')"
        return (await rows(node, statement))[0] == (0,)

    await until(dropped, "the node has given up what is damaged")
    indexes = tiers_of(node).indexes
    assert indexes is not None
    assert indexes.runs.counts.doubted >= 2
    assert await driver.finish()
    found, coverage = await keys(node)
    assert (found, coverage["complete"]) == (truth, True)
    await check(node, entries)
