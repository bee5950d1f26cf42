"""The disk of a node is lost under load, again and again; another one begins from the bucket: nothing is used twice."""

import asyncio
import copy
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.crash.tiers.bucket import tail, told
from tests.crash.tiers.points import BOOTSTRAP_POINTS, TIERS
from tests.crash.tiers.scribes import Scribes
from tests.support.node_process import NodeDied, NodeProcess
from tests.support.wire import Wire

_LOAD_S = 0.8
_KILL_S = 20.0
_FENCED_S = 15.0
# Readers of a fenced node still need what it knew, and nobody but its operator knows for how long.
_KEPT = {"object_grace_ms": 600_000, "orphan_grace_ms": 600_000}


class Lives:
    """Nodes of one bucket, each with a folder of its own; only the newest one owns the bucket."""

    def __init__(self, folder: Path, seed: str, settings: Mapping[str, object] | None = None) -> None:
        self.folder = folder
        self.settings = {**TIERS, **_KEPT, **(settings or {"object_store_folder": folder / "bucket"})}
        self.scribes = Scribes(seed)
        self.number = -1
        self.deaths: dict[str, int] = {}

    @property
    def data(self) -> Path:
        return self.folder / f"life-{self.number}" / "data"

    def start(
        self, crash_at: str | None = None, *, wiped: bool = True, settings: Mapping[str, object] | None = None
    ) -> NodeProcess:
        """The next node; or, without a wipe, the one of the newest folder."""
        if wiped:
            self.number += 1
            self.data.parent.mkdir()
        begin = {"bootstrap_from_store": "true"} if self.number else {}
        return NodeProcess(self.data, crash_at=crash_at, settings={**self.settings, **begin, **(settings or {})})

    async def live(self, *, wiped: bool = True, seconds: float = _LOAD_S, **settings: str | int) -> None:
        """Begin from the bucket, judge, write, and lose power and disk."""
        with self.start(None, wiped=wiped, settings=settings) as node:
            await node.ready()
            await self._judge(node)
            running = asyncio.ensure_future(self.scribes.run(node.port))
            await asyncio.wait({running}, timeout=seconds)
            node.kill()
            await running

    async def die_beginning(self, crash_at: str) -> None:
        """Killed while it begins."""
        name = crash_at.partition(":")[0]
        with self.start(crash_at) as node:
            with pytest.raises(NodeDied):
                await node.ready()
            self.deaths[name] = self.deaths.get(name, 0) + 1

    async def _judge(self, node: NodeProcess) -> None:
        try:
            await self.scribes.recover(node.port)
        except Exception as problem:
            problem.add_note(node.log_tail())
            raise


def test_no_offset_is_used_twice(
    tmp_path: Path, crash_seed: str, record_property: Callable[[str, object], None]
) -> None:
    lives = Lives(tmp_path, crash_seed)
    asyncio.run(_wiped_often(lives))
    for name in (*BOOTSTRAP_POINTS, "owner.claimed"):
        record_property("crash_point", f"{name} x {lives.deaths[name]}")
        assert lives.deaths[name] >= 3


async def _wiped_often(lives: Lives) -> None:
    await lives.live()
    await lives.live()
    await lives.live(seconds=0.0)  # twice in a row without a word to the bucket
    # What these two acknowledge is never published: only what a bootstrap leaps over keeps it apart.
    await lives.live(flush_ms_max=600_000, publish_metadata_ms=600_000)
    await lives.live(flush_ms_max=600_000, publish_metadata_ms=600_000)
    await lives.live()
    for crash_at in ("owner.claimed", "restore.inside:1", "owner.claimed", "restore.inside:2"):
        await lives.die_beginning(crash_at)
    await lives.live()
    await lives.die_beginning("restore.inside:2")
    for _ in range(2):
        await lives.die_beginning("restore.after")
        await lives.live(wiped=False)
    await lives.die_beginning("owner.claimed")
    await lives.die_beginning("restore.after")
    await lives.live(wiped=True)


def test_the_former_owner_keeps_its_tail_and_publishes_nothing(tmp_path: Path, crash_seed: str) -> None:
    asyncio.run(_fenced(Lives(tmp_path, crash_seed)))


async def _fenced(lives: Lives) -> None:
    await lives.live()
    await lives.live(wiped=False, bootstrap_from_store="false", flush_ms_max=600_000, publish_metadata_ms=600_000)
    former, known = lives.data, copy.deepcopy(lives.scribes)
    await lives.live()
    before, unpublished = told(former / "streams.db"), tail(former / "streams.db")
    assert unpublished.living, "the former owner has nothing that it did not publish"
    with NodeProcess(former, settings=lives.settings) as node:
        async with asyncio.timeout(_FENCED_S):
            while not node._found_port():  # noqa: ASYNC110 - only its log says so
                await asyncio.sleep(0.02)
            async with Wire(node.port) as wire:
                while "fenced" not in (answer := await wire.request("GET", "/readyz")).body.decode():  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
                assert answer.status == 503
                refused = await wire.request("POST", "/v1/stream/plain-1", {"content-type": "text/plain"}, b"late\n")
                assert (refused.status, refused.headers["retry-after"]) == (503, "5")
                assert b"taken the bucket over" in refused.body
                refused = await wire.request("PUT", "/v1/stream/late", {"content-type": "text/plain"})
                assert refused.status == 503
                refused = await wire.request("DELETE", "/v1/stream/plain-1")
                assert refused.status == 503
        await known.keeps(node.port)
        node.terminate()
        assert await node.ended() == 0, node.log_tail()
    after = told(former / "streams.db")
    assert after.generation == before.generation
    assert not unpublished.lost_in(tail(former / "streams.db")), "what was not published has left the log"
    with lives.start(wiped=False, settings={"bootstrap_from_store": "false"}) as node:
        await node.ready()
        await lives._judge(node)
