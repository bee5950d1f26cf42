"""Indexes that are damaged or gone, a store that fails, and no time: an answer says what it does not have, and what it
has is a recount of the rest.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from indexers.messages import StoreAt
from streams_node.objects.keys import ObjectId, index_key
from streams_node.schema.search_config import parse
from streams_node.testing.inprocess import InProcess
from tests.aggregate.drawn import asked, record
from tests.aggregate.tally_world import SEARCH as FIELDS
from tests.aggregate.tally_world import matching, recounted, same, tally
from tests.aggregate.test_oracle import seq_of
from tests.aggregate.test_tally_oracle import one
from tests.aggregate.world import SEARCH, T0, A, aggregate, recount, shown
from tests.indexing.world import FakeDriver, append, covered, create, desk_of, indexed, sealed
from tests.tiers.bucket import WILD, Bucket, folder_bucket, memory_bucket
from tests.tiers.node import evict, tiers_of

BOTH = {**FIELDS, "rollups": SEARCH["rollups"]}
CONFIG = parse(BOTH)


@asynccontextmanager
async def filled(folder: Path, bucket: Bucket, random: Random, entries: list[Any]) -> AsyncIterator[InProcess]:
    """Some runs and companions, sealed entries that none covers, and some in the log."""
    async with indexed(folder, bucket) as node:
        desk = desk_of(node)
        desk._parts = desk._parts._replace(store_at=StoreAt(kind="folder"))  # the fake driver needs no address
        await create(node, A, {"schema": True, "search": BOTH})
        for number in range(4):
            entries += (fresh := [record(random) for _ in range(40)])
            await append(node, A, fresh)
            if number < 3:
                await sealed(node)
            if number < 2:
                await FakeDriver(node).finish()
        yield node


async def cold(node: InProcess) -> None:
    """Nothing of the bucket is on this node, and nothing is shunned that could not be read a moment ago."""
    await evict(node)
    indexes = tiers_of(node).indexes
    assert indexes is not None
    for made in list(indexes.cache._shelf._copies):
        await indexes.cache.drop(made)
    indexes.runs._shunned.clear()
    assert indexes.views is not None
    for made in list(indexes.views._packs):
        await indexes.views.drop(made)


def claimed(view: dict[str, Any], entries: list[Any]) -> list[Any]:
    """The entries that an answer says it has."""
    omitted = [(seq_of(first), seq_of(end)) for first, end in view["coverage"]["omitted"]]
    assert view["coverage"]["possible_missing_events_upper_bound"] == sum(end - first for first, end in omitted)
    return [entry for seq, entry in enumerate(entries) if not any(first <= seq < end for first, end in omitted)]


async def judged(node: InProcess, random: Random, entries: list[Any]) -> tuple[int, int]:
    """Ask for windows and for any fields: how many entries were left out, and how many covers were used."""
    wanted = asked(random)
    reply = await aggregate(node, **wanted)
    assert reply.status in {200, 408}, reply.body
    windows = json.loads(reply.body)
    assert shown(windows) == recount(claimed(windows, entries), wanted, CONFIG)
    aggs = {"a": one(random), "b": one(random)}
    given = {"q": random.choice([None, "level:info", "text:card"]), "begin": T0}
    reply = await tally(node, aggs, **given)
    assert reply.status in {200, 408}, reply.body
    tree = json.loads(reply.body)
    found = matching(claimed(tree, entries), given, CONFIG)
    assert tree["matched"] == len(found)
    same(tree["aggs"], recounted(found, aggs, CONFIG), aggs)
    both = windows["coverage"], tree["coverage"]
    return (
        sum(each["possible_missing_events_upper_bound"] for each in both),
        sum(each["indexed_segments"] for each in both),
    )


@pytest.mark.parametrize("how", ["gone", "damaged", "short"])
def test_an_index_that_cannot_be_read_is_not_covered(tmp_path: Path, how: str) -> None:
    random, entries = Random(how), list[Any]()

    async def run() -> None:
        async with filled(tmp_path / "node", folder_bucket(tmp_path / "objects"), random, entries) as node:
            used = 0
            for _ in range(3):
                left_out, covers = await judged(node, random, entries)
                assert not left_out
                used += covers
            assert used
            await cold(node)
            for each in await covered(node, A):
                path = tmp_path / "objects" / index_key(each.family, ObjectId(each.made))
                data = path.read_bytes()
                path.unlink()
                if how != "gone":
                    at = random.randrange(len(data))
                    path.write_bytes(data[:at] + (bytes([data[at] ^ 1]) + data[at + 1 :] if how == "damaged" else b""))
            for _ in range(3):
                assert await judged(node, random, entries) == (0, 0)

    asyncio.run(run())


def test_what_is_away_is_left_out_and_counted(tmp_path: Path) -> None:
    random, entries = Random(1), list[Any]()
    bucket = memory_bucket()

    async def run() -> None:
        async with filled(tmp_path / "node", bucket, random, entries) as node:
            await cold(node)
            missing = 0
            with bucket.away():
                for _ in range(3):
                    missing += (await judged(node, random, entries))[0]
            assert missing
            await cold(node)
            assert (await judged(node, random, entries))[0] == 0

    asyncio.run(run())


@pytest.mark.parametrize("seed", range(2))
def test_a_store_that_fails_now_and_then_makes_no_wrong_total(tmp_path: Path, seed: int) -> None:
    random, entries = Random(seed), list[Any]()
    bucket = memory_bucket()

    async def run() -> None:
        async with filled(tmp_path / "node", bucket, random, entries) as node:
            for _ in range(6):
                await cold(node)
                bucket.plan.chances = WILD
                await judged(node, random, entries)
                bucket.calm()
            assert bucket.plan.hits
            await cold(node)
            assert (await judged(node, random, entries))[0] == 0

    asyncio.run(run())


@pytest.mark.parametrize("ms", [0, 1, 3, 8, 20])
def test_when_the_time_is_over_what_was_counted_is_right(tmp_path: Path, ms: int) -> None:
    random, entries = Random(ms), list[Any]()

    async def run() -> None:
        async with filled(tmp_path / "node", folder_bucket(tmp_path / "objects"), random, entries) as node:
            await cold(node)
            for _ in range(3):
                wanted = asked(random)
                reply = await aggregate(node, **wanted, timeout_ms=ms)
                view = json.loads(reply.body)
                assert (reply.status == 200) == view["coverage"]["complete"]
                assert shown(view) == recount(claimed(view, entries), wanted, CONFIG)
                aggs = {"a": one(random)}
                reply = await tally(node, aggs, begin=T0, timeout_ms=ms)
                view = json.loads(reply.body)
                assert (reply.status == 200) == view["coverage"]["complete"]
                found = matching(claimed(view, entries), {"begin": T0}, CONFIG)
                assert (view["matched"], ms or reply.status) == (len(found), ms or 408)
                same(view["aggs"], recounted(found, aggs, CONFIG), aggs)

    asyncio.run(run())
