"""Objects that the store does not give, while it gives others: nobody waits for them in vain, or for long."""

import asyncio
import json
import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from streams_node.cache import turns
from streams_node.objects.keys import Key
from streams_node.objects.protocol import Fetched
from streams_node.testing.inprocess import InProcess
from streams_node.wal.database import Readers
from tests.tiers.bucket import Bucket, memory_bucket
from tests.tiers.node import append, create, error_of, evict, page, publish, rows, tiered, tiers_of, until, value, walk

MANY = 12  # more objects than are fetched at once
OWN = {"own_segment_bytes": 100, "read_ahead_objects": 0, "stream_metrics_ms": 0}


class Hanging:
    """A store that keeps some reads waiting until it is let go. A thread that waits shows that it was asked."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._free = threading.Event()
        self._free.set()
        self._what = re.compile("")
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, key: Key, start: int = 0, end: int | None = None) -> Fetched:
        if self._what.search(key) and not self._free.is_set():
            self.asked += 1
            assert self._free.wait(60)
        found: Fetched = self._store.get(key, start, end)
        return found

    @contextmanager
    def hangs(self, what: str) -> Iterator[None]:
        self._what = re.compile(what)
        self._free.clear()
        try:
            yield
        finally:
            self._free.set()


def hanging_bucket() -> tuple[Bucket, Hanging]:
    bucket = memory_bucket()
    store: Any = Hanging(bucket.open_bare())
    return Bucket(lambda: store, bucket.settings), store


async def stream_of(node: InProcess, path: str, entries: int) -> str:
    """A stream with a segment of its own; which key that has."""
    await create(node, path)
    await append(node, path, *(f"{path}-{at}" for at in range(entries)))
    name = path.rpartition("/")[2]
    number = int(await value(node, f"SELECT id FROM streams WHERE name = '{name}'"))  # noqa: S608 - our own name
    return f"segments/{number:019}/"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "STILL_S", 0.05)


def test_objects_that_hang_do_not_keep_readers_of_others_waiting(tmp_path: Path) -> None:
    async def run() -> None:
        bucket, store = hanging_bucket()
        async with tiered(tmp_path, bucket, **OWN) as node:
            stuck = [f"/v1/stream/stuck-{at}" for at in range(MANY)]
            keys = [await stream_of(node, path, 20) for path in stuck]
            await stream_of(node, "/v1/stream/well", 20)
            await publish(node)
            await evict(node)
            with store.hangs("|".join(keys)):
                waiting = [asyncio.create_task(node.request("GET", path)) for path in stuck]
                await until(lambda: store.asked >= MANY, "each of them has been asked for")
                async with asyncio.timeout(30):
                    assert len(await walk(node, "/v1/stream/well")) == 20
                    await append(node, "/v1/stream/well", "more")
                    await publish(node)  # its segment becomes a copy here: files are not in the way either
                assert not any(task.done() for task in waiting)
            assert {(await task).status for task in waiting} == {200}

    asyncio.run(run())


def test_a_read_of_what_hangs_is_told_in_time_and_finds_it_later(tmp_path: Path) -> None:
    async def run() -> None:
        bucket, store = hanging_bucket()
        async with tiered(tmp_path, bucket, request_ms_max=3000, **OWN) as node:
            key = await stream_of(node, "/v1/stream/s", 20)
            await publish(node)
            await evict(node)
            with store.hangs(key):
                for _ in range(2):
                    reply = await page(node, "/v1/stream/s")
                    assert (reply.status, error_of(reply)["code"]) == (503, "unavailable")
                    assert reply.headers["retry-after"]
                assert store.asked == 1, "the first request goes on, and whoever comes later waits for it"
            await until(lambda: not tiers_of(node).cache.fetching, "it has come")  # type: ignore[union-attr]
            assert len(await walk(node, "/v1/stream/s")) == 20

    asyncio.run(run())


def test_a_page_ends_before_what_hangs_and_its_reader_gets_on(tmp_path: Path) -> None:
    async def run() -> None:
        bucket, store = hanging_bucket()
        async with tiered(tmp_path, bucket, compaction_pause_ms=600_000, request_ms_max=3000, **OWN) as node:
            key = await stream_of(node, "/v1/stream/s", 20)
            await publish(node)
            await append(node, "/v1/stream/s", *(f"later-{at}" for at in range(20)))
            await publish(node)
            assert not await rows(node)
            await evict(node)
            with store.hangs(f"{key}{20:019}"):  # the second of its segments
                reply = await page(node, "/v1/stream/s", max_bytes=100_000)
                assert (reply.status, len(json.loads(reply.body))) == (200, 20)
                again = await page(node, "/v1/stream/s", reply.headers["stream-next-offset"])
                assert (again.status, error_of(again)["code"]) == (503, "unavailable")
            assert len(await walk(node, "/v1/stream/s")) == 40

    asyncio.run(run())


# --- questions to the database --------------------------------------------------------------------------------------


@contextmanager
def all_busy(readers: Readers) -> Iterator[None]:
    """Every thread of some readers is in the middle of a long question."""
    end, began = threading.Event(), threading.Semaphore(0)

    def question(_: sqlite3.Connection) -> None:
        began.release()
        assert end.wait(60)

    asked = [asyncio.ensure_future(readers.run(question)) for _ in readers._connections]
    try:
        yield
    finally:
        end.set()
        for task in asked:
            task.add_done_callback(lambda done: done.result())


def test_stages_go_on_while_all_readers_are_busy_and_readers_while_a_stage_asks(tmp_path: Path) -> None:
    async def run() -> None:
        async with tiered(tmp_path, memory_bucket(), **OWN) as node:
            database, tiers = node.context.database, tiers_of(node)
            await stream_of(node, "/v1/stream/s", 20)
            with all_busy(database.readers):
                await node.context.ledger.committer.settled()
                async with asyncio.timeout(30):
                    await tiers.flush(node.context.ledger.committer.committed_through)
                releasing = tiers.uploader._releasing  # type: ignore[union-attr]
                assert releasing is not None
                await asyncio.wait_for(releasing, 30)
            assert not await rows(node)
            await evict(node)
            with all_busy(database.looks):
                assert len(await walk(node, "/v1/stream/s")) == 20

    asyncio.run(run())
