"""`catalogue verify` beside a node that goes on: what it takes out of the bucket meanwhile is no damage."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from streams_node.manifest import Chain
from streams_node.manifest.snapshots import snapshots
from streams_node.manifest.verify import Finding, verify
from streams_node.objects import Key
from streams_node.testing.inprocess import InProcess
from tests.tiers.bucket import Bucket, memory_bucket
from tests.tiers.node import append, create, objects, publish, tiered, until

S, T = "/v1/stream/s", "/v1/stream/t"


class Interrupted:
    """A store on which something happens before the first read of a key that begins so."""

    def __init__(self, store: Any, prefix: str, act: Callable[[Key], None]) -> None:
        self._store = store
        self._prefix = prefix
        self._act: Callable[[Key], None] | None = act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        act = self._act
        if act is not None and key.startswith(self._prefix):
            self._act = None
            act(key)
        return self._store.get(key, *args, **kwargs)


async def problems(
    bucket: Bucket, folder: Path, prefix: str, act: Callable[[Key], Coroutine[Any, Any, None]]
) -> tuple[list[Finding], list[Finding]]:
    """What a look finds while something happens, and what there is to be said of it as a whole."""
    loop = asyncio.get_running_loop()
    acted: list[Key] = []

    def now(key: Key) -> None:
        acted.append(key)
        asyncio.run_coroutine_threadsafe(act(key), loop).result()

    store: Any = Interrupted(bucket.direct(), prefix, now)

    def look() -> list[Finding]:
        folder.mkdir()
        return list(verify(Chain(store), folder))

    found = await asyncio.to_thread(look)
    assert len(acted) == 1
    return [one for one in found if one.problem], found


@pytest.mark.parametrize("generations_left", [True, False])
def test_packs_that_a_merge_replaces_during_a_look_are_no_damage(tmp_path: Path, *, generations_left: bool) -> None:
    asyncio.run(_merged_meanwhile(tmp_path, generations_left=generations_left))


async def _merged_meanwhile(tmp_path: Path, *, generations_left: bool) -> None:
    bucket = memory_bucket()
    settings: dict[str, Any] = {"compaction_packs": 4, "snapshot_generations": 3}
    async with tiered(tmp_path / "node", bucket, **settings) as node:
        for path in (S, T):
            await create(node, path)
            await append(node, path, 1, 2)
        await publish(node)
        before = {made for made, _, _ in await objects(node)}

        async def replace(_: Key) -> None:
            for number in range(3):
                await append(node, S, number)
                await publish(node)
            await until(lambda: _gone(node, before), "packs are merged")
            if not generations_left:
                await until(lambda: _two_snapshots(node, bucket), "there are snapshots")
            store = bucket.direct()
            keys = [key for key in bucket.all_keys() if any(made in key for made in before)]
            assert keys
            for key in keys:
                store.delete(key)
            if not generations_left:
                newest = next(one.generation for one in snapshots(store) if one.complete)
                for key in bucket.all_keys():
                    if key.startswith("catalogue/generations/") and int(key.rpartition("/")[2]) < newest:
                        store.delete(key)

        bad, found = await problems(bucket, tmp_path / "look", "packs/", replace)
        assert bad == []
        assert ("stream", "2 living", 2) in [each[:3] for each in found]


async def _two_snapshots(node: InProcess, bucket: Bucket) -> bool:
    """After one more generation: one that comes while a snapshot is made starts no other."""
    await append(node, S, 1)
    await publish(node)
    return len([one for one in snapshots(bucket.direct()) if one.complete]) > 1


async def _gone(node: InProcess, before: set[str]) -> bool:
    return not before & {made for made, _, _ in await objects(node)}


def test_a_snapshot_that_leaves_during_a_look_is_no_damage(tmp_path: Path) -> None:
    asyncio.run(_left_meanwhile(tmp_path))


async def _left_meanwhile(tmp_path: Path) -> None:
    bucket = memory_bucket()
    async with tiered(tmp_path / "node", bucket, snapshot_generations=2, compaction_packs=100) as node:
        await create(node, S)
        await until(lambda: _two_snapshots(node, bucket), "there are two snapshots")

        async def leave(key: Key) -> None:
            where = key.rpartition("/")[0]
            store = bucket.direct()
            for each in bucket.all_keys():
                if each.startswith(where):
                    store.delete(each)

        bad, _ = await problems(bucket, tmp_path / "look", "catalogue/snapshots/", leave)
        assert bad == []
