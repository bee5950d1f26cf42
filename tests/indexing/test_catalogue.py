"""The catalogue knows the indexes: a node that begins from the bucket finds them, and the bucket holds no more."""

import contextlib
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from indexers.messages import Build
from streams_node.manifest.chain import Chain
from streams_node.manifest.rebuild import rebuild
from streams_node.manifest.tables import open_mirror
from streams_node.manifest.verify import verify
from streams_node.objects.keys import INDEXES, ObjectId, index_key, parse
from tests.http.wire import ask
from tests.indexing.world import (
    KEYED,
    SEARCH,
    FakeDriver,
    append,
    covered,
    create,
    declare,
    desk_of,
    indexed,
    on_loop,
    rows,
    sealed,
    spans,
)
from tests.tiers.bucket import Bucket, folder_bucket
from tests.tiers.node import tiers_of, until

A, B = "/v1/stream/a", "/v1/stream/b"
COVERS = """
SELECT c.stream, c.family, c.config, c.first_seq, c.end_seq, c.ordinal, c.entries, c.payload_bytes, c.min_ts, c.max_ts,
       c.skipped, o.made, o.level, o.bytes, o.sum, o.rows, o.payload_bytes, o.filter_bytes, o.sections
  FROM index_covers AS c JOIN index_objects AS o ON o.id = c.object WHERE o.dead_us IS NULL
 ORDER BY c.stream, c.family, c.config, c.first_seq
"""
PLANS = "SELECT stream, generation, configs, since_us FROM index_plans ORDER BY stream"


async def told(node: Any) -> None:
    """The catalogue knows everything."""

    async def all_told() -> bool:
        return not await rows(node, "SELECT 1 FROM index_untold UNION ALL SELECT 1 FROM unpublished")

    await until(all_told, "the catalogue is told")


def mirrored(bucket: Bucket, folder: Path, statement: str) -> list[tuple[Any, ...]]:
    """What the bucket itself says, by all its generations."""
    folder.mkdir(exist_ok=True)
    with contextlib.closing(bucket.direct()) as store:
        chain = Chain(store)
        built = rebuild(chain, folder, chain.newest())
        with contextlib.closing(open_mirror(built.path)) as db:
            return db.execute(statement).fetchall()


def index_keys(bucket: Bucket) -> set[str]:
    return {key for key in bucket.all_keys() if key.startswith(INDEXES)}


@on_loop
async def test_a_node_that_begins_from_the_bucket_finds_its_indexes(tmp_path: Path) -> None:
    bucket = folder_bucket(tmp_path / "objects")
    async with indexed(tmp_path / "node", bucket) as node:
        driver = FakeDriver(node)
        await create(node, A, KEYED | {"search": SEARCH})
        await create(node, B)
        for _ in range(17):
            await append(node, A, [{"k": "x", "text": "words"}] * 3)
            await append(node, B, [{"k": "y"}] * 3)
            await sealed(node)
            await driver.finish()
        assert (await ask(node, "DELETE", B)).status == 204
        await create(node, B)
        await told(node)
        covers, plans = await rows(node, COVERS), await rows(node, PLANS)
        assert spans(await covered(node, A)) == [(0, 51)]
    shutil.rmtree(tmp_path / "node")
    async with indexed(tmp_path / "node", bucket, bootstrap_from_store=True) as node:
        assert await rows(node, COVERS) == covers
        assert await rows(node, PLANS) == plans
        assert await rows(node, "SELECT * FROM index_untold") == []
        assert not await FakeDriver(node).round()
        await append(node, A, [{"k": "z"}] * 3)
        await sealed(node)
        await FakeDriver(node).finish()
        assert spans(await covered(node, A)) == [(0, 54)]


@on_loop
async def test_the_bucket_says_what_the_folder_knows_through_every_change(tmp_path: Path) -> None:
    bucket = folder_bucket(tmp_path / "objects")
    mirror = (
        "SELECT stream, family, config, first_seq, end_seq, made FROM index_covers ORDER BY stream, family, config,"
        " first_seq"
    )
    local = (
        "SELECT c.stream, c.family, c.config, c.first_seq, c.end_seq, o.made FROM index_covers AS c"
        " JOIN index_objects AS o ON o.id = c.object ORDER BY c.stream, c.family, c.config, c.first_seq"
    )
    async with indexed(tmp_path / "node", bucket, snapshot_generations=5) as node:
        driver = FakeDriver(node)
        await create(node, A, KEYED | {"search": SEARCH})
        await create(node, B)
        for turn in range(20):
            await append(node, A, [{"k": "x", "text": f"word{turn}"}] * 2)
            await append(node, B, [{"k": f"{turn}"}])
            await sealed(node)
            if turn % 3:
                await driver.round()
            if turn == 5:
                fields = {name: field for name, field in SEARCH["fields"].items() if name != "text"}
                await declare(node, A, {"search": SEARCH | {"fields": fields}})
            if turn == 9:
                await ask(node, "POST", f"{A}/_index/rebuild", {}, b'{"anew": true}')
            if turn == 12:
                await declare(node, A, {"search": SEARCH})
            if turn == 15:
                assert (await ask(node, "DELETE", B)).status == 204
                await create(node, B)
            if turn in {4, 8, 13, 16, 19}:
                await node.context.ledger.committer.settled()
                await told(node)
                assert mirrored(bucket, tmp_path / "mirror", mirror) == await rows(node, local)
        await driver.finish()
        await told(node)
        assert mirrored(bucket, tmp_path / "mirror", mirror) == await rows(node, local)
        living = {made for (made,) in await rows(node, "SELECT made FROM index_objects WHERE dead_us IS NULL")}
        found = mirrored(bucket, tmp_path / "mirror", "SELECT made FROM index_objects ORDER BY made")
        assert {made for (made,) in found} == living


@on_loop
async def test_dead_index_objects_leave_the_bucket_once_the_catalogue_knows(tmp_path: Path) -> None:
    bucket = folder_bucket(tmp_path / "objects")
    async with indexed(tmp_path / "node", bucket, object_grace_ms=0) as node:
        driver = FakeDriver(node)
        await create(node, A)
        for _ in range(16):
            await append(node, A, [{"k": "x"}])
            await sealed(node)
            assert await driver.round()
        assert await driver.round()
        await told(node)
        collector = tiers_of(node).collector
        assert collector is not None

        async def collected() -> bool:  # not while a generation is on its way
            await collector.collect_dead_indexes()
            return len(await rows(node, "SELECT made FROM index_objects")) == 1

        await until(collected, "all that is dead is collected")
        living = {made for (made,) in await rows(node, "SELECT made FROM index_objects")}
        assert {parse(key).made for key in index_keys(bucket)} == living  # type: ignore[union-attr]


@on_loop
async def test_what_was_put_and_never_committed_is_an_orphan(tmp_path: Path) -> None:
    bucket = folder_bucket(tmp_path / "objects")
    async with indexed(tmp_path / "node", bucket, orphan_grace_ms=0) as node:
        driver = FakeDriver(node)
        await create(node, A)
        await append(node, A, [{"k": "x"}] * 3)
        await sealed(node)
        assert await driver.round()
        await append(node, A, [{"k": "x"}] * 3)
        await sealed(node)
        claim = await driver.claim()
        assert claim is not None
        driver.built(claim)
        assert len(index_keys(bucket)) == 2
        collector = tiers_of(node).collector
        assert collector is not None
        await collector.collect_orphans()
        assert len(index_keys(bucket)) == 2  # it may still be committed
        collector._claim_ms_max = 0
        ((made,),) = await rows(node, "SELECT made FROM index_objects")

        async def collected() -> bool:
            await collector.collect_orphans()
            return index_keys(bucket) == {index_key("lexicon", ObjectId(made))}

        await until(collected, "the orphan is collected")


@on_loop
async def test_a_lost_index_object_is_found_by_verify_and_made_again(tmp_path: Path) -> None:
    bucket = folder_bucket(tmp_path / "objects")
    async with indexed(tmp_path / "node", bucket) as node:
        driver = FakeDriver(node)
        await create(node, A)
        await append(node, A, [{"k": "x"}] * 3)
        await sealed(node)
        assert await driver.round()
        await told(node)
        (lost,) = {each.made for each in await covered(node, A)}
        with contextlib.closing(bucket.direct()) as store:
            store.delete(index_key("lexicon", ObjectId(lost)))
            (tmp_path / "look").mkdir()
            found = [each for each in verify(Chain(store), tmp_path / "look") if each.problem]
        assert [(each.what, each.problem) for each in found] == [("index", "it is missing")]
        await desk_of(node).doubt(lost, "a reader could not find it")
        assert await covered(node, A) == []
        claim = await driver.claim()
        assert claim is not None
        assert isinstance(claim.work[0], Build)
        assert (await driver.commit(driver.built(claim))).status == 200
        assert spans(await covered(node, A)) == [(0, 3)]


@on_loop
async def test_streams_that_were_declared_before_there_were_plans_get_one(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A, KEYED | {"search": SEARCH})
        await create(node, B, declared=None)
        await node.context.ledger.committer.settled()
        before = await rows(node, "SELECT configs FROM index_plans")
        await node.context.database.writer.run(_without_plans)
    async with indexed(tmp_path / "node") as node:
        await desk_of(node).follow()
        assert await rows(node, "SELECT configs FROM index_plans") == before
        assert desk_of(node).planned == 1


def _without_plans(db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM index_plans")
