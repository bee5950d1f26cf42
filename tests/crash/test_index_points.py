"""A node is killed at every step of a claim and a commit, and of telling the catalogue: what is indexed stays whole.

Nothing is covered twice or half, what was confirmed stays, the rest is indexed again, and a node that begins from the
bucket finds it.
"""

import asyncio
import contextlib
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from indexers.messages import CommitRequest
from tests.crash.tiers.points import INDEX_POINTS, TIERS
from tests.indexing.world import KEYED, RemoteDriver
from tests.support.node_process import NodeDied, NodeProcess
from tests.support.wire import Lost, Refused, Wire

HITS = 3
STREAMS = ("/v1/stream/a", "/v1/stream/b")
SETTINGS: dict[str, object] = {
    **TIERS, "index_driver": "off", "index_stream_entries": 1, "index_lease_ms": 60_000, "orphan_grace_ms": 3_600_000,
}  # fmt: skip
_PATIENCE_S = 60.0
JSON = {"content-type": "application/json"}


class Site:
    """A folder, its bucket, and what was confirmed so far."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.objects = folder / "objects"
        self.settings = {**SETTINGS, "object_store_folder": self.objects}
        self.entries = 0
        self.confirmed: set[str] = set()
        self.deaths = 0
        self.unsure: CommitRequest | None = None

    def start(self, crash_at: str | None = None, **more: object) -> NodeProcess:
        return NodeProcess(self.data, crash_at=crash_at, settings={**self.settings, **more})

    async def live(self, node: NodeProcess, *, until_dead: bool) -> None:
        """Append, and have it indexed: until the node dies, or all of it is."""
        await node.ready()
        async with Wire(node.port) as wire:
            driver = RemoteDriver(wire, self.objects)
            await self._declare(wire)
            if self.unsure is not None:  # the driver asks again, as its answer was lost
                reply = await driver.commit(self.unsure)
                assert reply.status in {200, 409}, reply
                if reply.status == 200:
                    self.confirmed |= {each.made for each in self.unsure.objects if each.covers}
                self.unsure = None
            async with asyncio.timeout(_PATIENCE_S):
                while until_dead or not self.all_covered():
                    if until_dead:
                        await self._append(wire)
                    await self._round(driver)

    async def _round(self, driver: RemoteDriver) -> None:
        claim = await driver.claim(wait_ms=200)
        if claim is None:
            return
        self.unsure = await asyncio.to_thread(driver.built, claim)
        reply = await driver.commit(self.unsure)
        assert reply.status == 200, reply
        self.confirmed |= {each.made for each in self.unsure.objects}
        self.unsure = None

    async def _declare(self, wire: Wire) -> None:
        for path in STREAMS:
            await wire.request("PUT", path, JSON)
            await wire.request("POST", f"{path}/_schema", JSON, json.dumps(KEYED).encode())

    async def _append(self, wire: Wire) -> None:
        for path in STREAMS:
            reply = await wire.request("POST", path, JSON, b'[{"k":"x"},{"k":"y"},{"n":1}]')
            assert reply.status == 204, reply

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(f"file:{self.data}/streams.db?mode=ro", uri=True)) as db:
            return db.execute(statement).fetchall()

    def all_covered(self) -> bool:
        ends = dict(self.rows("SELECT stream, max(end_seq) FROM index_covers GROUP BY stream"))
        declared = "SELECT id, next_seq FROM streams JOIN heads ON heads.stream = streams.id WHERE meaning > 0"
        heads = dict(self.rows(declared))
        return bool(heads) and all(ends.get(stream, 0) == end for stream, end in heads.items())

    def judge(self) -> None:
        """Covers follow one another without a gap or an overlap; each names an object that is whole in the bucket."""
        covers = self.rows(
            "SELECT c.stream, c.first_seq, c.end_seq, o.made, o.bytes, o.dead_us FROM index_covers AS c"
            " LEFT JOIN index_objects AS o ON o.id = c.object ORDER BY c.stream, c.first_seq"
        )
        ends: dict[int, int] = {}
        for stream, first, end, made, size, dead_us in covers:
            assert first >= ends.get(stream, 0), "two covers overlap"
            ends[stream] = end
            assert dead_us is None
            assert (self.objects / "index" / "lexicon" / f"{made}.parquet").stat().st_size == size
        known = {made for (made,) in self.rows("SELECT made FROM index_objects")}
        collected = self.confirmed - known
        assert all(not (self.objects / "index" / "lexicon" / f"{made}.parquet").exists() for made in collected)
        counts = self.rows(
            "SELECT o.covers, (SELECT count(*) FROM index_covers AS c WHERE c.object = o.id) FROM index_objects AS o"
        )
        assert [row for row in counts if row[0] != row[1]] == []


@pytest.mark.parametrize("name", sorted(INDEX_POINTS))
def test_what_is_indexed_stays_whole_at(name: str, tmp_path: Path) -> None:
    site = Site(tmp_path)
    for hit in range(HITS):
        asyncio.run(_die(site, f"{name}:{1 + 2 * hit}"))
        site.judge()
    assert site.deaths == HITS
    asyncio.run(_rest(site))
    site.judge()
    assert site.all_covered()
    before = site.rows("SELECT stream, family, config, first_seq, end_seq FROM index_covers ORDER BY 1, 2, 3, 4")
    shutil.rmtree(site.data)
    asyncio.run(_bootstrap(site))
    after = site.rows("SELECT stream, family, config, first_seq, end_seq FROM index_covers ORDER BY 1, 2, 3, 4")
    assert after == before
    site.judge()


async def _die(site: Site, crash_at: str) -> None:
    with site.start(crash_at) as node:
        try:
            await site.live(node, until_dead=True)
        except (Lost, Refused, NodeDied):
            assert await node.ended() == -9, node.log_tail()
            site.deaths += 1


async def _rest(site: Site) -> None:
    """Everything is indexed, and the catalogue knows."""
    with site.start() as node:
        await node.ready()
        async with Wire(node.port) as wire:
            for path in STREAMS:
                await wire.request("POST", f"{path}/_flush")
        await site.live(node, until_dead=False)
        async with asyncio.timeout(_PATIENCE_S):
            untold = "SELECT 1 FROM index_untold UNION ALL SELECT 1 FROM unpublished"
            while site.rows(untold):  # noqa: ASYNC110 - another process; nobody rings
                await asyncio.sleep(0.05)
        node.terminate()
        assert await node.ended() == 0, node.log_tail()


async def _bootstrap(site: Site) -> None:
    with site.start(bootstrap_from_store="true") as node:
        await node.ready()
        node.terminate()
        assert await node.ended() == 0, node.log_tail()
