"""Sliding windows over crashes: a restart may lengthen one, never shorten it, and never gives it to another life."""

import asyncio
import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest

from streams_node.errors import Unavailable
from streams_node.ingest import batches
from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess, in_process
from streams_node.wal.batch import Writes, commit
from tests.crash.faults import Faults, queued
from tests.support.tables import check_tables

TEXT = {"content-type": "text/plain"}
PATH = "/v1/stream/s"


async def settled(node: InProcess) -> None:
    await node.context.ledger.committer.settled()


async def status_after_kill(folder: Path, clock: FakeClock, seconds: float) -> int:
    """What a node says of the stream that starts from what is on disk now, as much later."""
    image = Path(tempfile.mkdtemp(dir=folder.parent))
    shutil.copytree(folder, image, dirs_exist_ok=True)
    then = FakeClock(clock.now_us)
    then.advance(seconds)
    async with in_process(image, clock=then) as node:
        return (await node.request("HEAD", PATH)).status


def test_a_touch_is_on_disk_before_it_counts(tmp_path: Path) -> None:
    """Reads and writes touch; after a kill the window that clients know of still stands."""

    async def scenario() -> None:
        clock = FakeClock()
        async with in_process(tmp_path / "data", clock=clock) as node:
            await node.request("PUT", PATH, {**TEXT, "stream-ttl": "100"})
            for method, query, body in (("POST", "", b"x"), ("GET", "?offset=-1", b""), ("GET", "?offset=now", b"")):
                for seconds in (3.0, 40.0, 99.0):
                    clock.advance(seconds)
                    assert (await node.request(method, PATH + query, TEXT, body)).status in {200, 204}
                    await settled(node)
                    assert await status_after_kill(tmp_path / "data", clock, 99.9) == 200
                    assert await status_after_kill(tmp_path / "data", clock, 111.0) == 404

    asyncio.run(scenario())


def test_a_touch_counts_while_writes_are_refused(tmp_path: Path) -> None:
    """A low disk or a stop refuses appends; reads go on, and what they promise must outlive the process."""

    async def scenario() -> None:
        clock = FakeClock()
        async with in_process(tmp_path / "data", clock=clock) as node:
            await node.request("PUT", PATH, {**TEXT, "stream-ttl": "100"})
            refusals = node.context.ledger.refusals
            refusals["disk_low"] = Unavailable("the disk is low")
            clock.advance(60)
            assert (await node.request("POST", PATH, TEXT, b"x")).status == 503
            assert (await node.request("GET", f"{PATH}?offset=-1")).status == 200
            await settled(node)
            assert await status_after_kill(tmp_path / "data", clock, 99) == 200
            del refusals["disk_low"]

    asyncio.run(scenario())


def test_a_late_touch_of_a_dead_life_leaves_the_next_one_alone(tmp_path: Path) -> None:
    """A live reader that is slow may end after the name was deleted and created again, without a window this time."""

    async def scenario() -> None:
        clock = FakeClock()
        async with in_process(tmp_path / "data", clock=clock) as node:
            await node.request("PUT", PATH, {**TEXT, "stream-ttl": "100"})
            old = next(iter(node.context.ledger.states))
            await node.request("DELETE", PATH)
            await node.request("PUT", PATH, TEXT)
            clock.advance(90)
            node.context.ledger.touch(old)
            await settled(node)
            clock.advance(1000)
            listed = await node.request("GET", "/v1/streams")
            assert b'"s"' in listed.body
            assert b'"expires_at":null' in listed.body
            assert await status_after_kill(tmp_path / "data", clock, 1000) == 200

    asyncio.run(scenario())


def test_a_stream_that_ends_while_the_node_is_broken_leaves_no_rows_behind(tmp_path: Path) -> None:
    """Its decided end is not its stored one: a grave dug from memory would name a row that never was."""

    async def scenario() -> None:
        clock = FakeClock()
        async with in_process(tmp_path / "data", clock=clock) as node:
            ledger = node.context.ledger
            await node.request("PUT", PATH, {**TEXT, "stream-ttl": "100"}, b"one")
            state = next(iter(ledger.states))
            await settled(node)
            ledger.broken = True
            ledger.refusals["commit_failed"] = Unavailable("a commit failed")
            state.last_row += 1  # as a refused append leaves it
            clock.advance(1000)
            assert (await node.request("GET", PATH)).status == 404
            assert (await node.request("PUT", PATH, TEXT)).status == 503
            await settled(node)
            check_tables(tmp_path / "data" / "streams.db")
            state.last_row -= 1
            ledger.broken = False
            ledger.refusals.clear()
            assert (await node.request("GET", PATH)).status == 404
            await settled(node)
            assert await node.context.database.free_some(100) == 0  # its number would be given again after a kill
            ledger.committer.flush_heads()
            await settled(node)
            assert await node.context.database.free_some(100) > 0
            assert check_tables(tmp_path / "data" / "streams.db").rows == 0

    asyncio.run(scenario())


def test_a_reader_is_answered_once_its_window_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is a promise that the stream lives for another window; a kill right after it must not break it."""
    faults = Faults(monkeypatch)

    async def scenario() -> None:
        clock = FakeClock()
        async with in_process(tmp_path / "data", clock=clock) as node:
            await node.request("PUT", "/v1/stream/other", TEXT)
            await node.request("PUT", PATH, {**TEXT, "stream-ttl": "100"})
            for method, query in (("GET", "?offset=-1"), ("GET", "?offset=now"), ("PUT", ""), ("GET", "?offset=-1")):
                clock.advance(60)
                held = await faults.hold(node, "/v1/stream/other")
                touching = node.start(method, PATH + query, {**TEXT, "stream-ttl": "100"})
                also = node.start("GET", f"{PATH}?offset=-1")
                await queued(node, 2)
                for _ in range(20):
                    await asyncio.sleep(0)
                assert {touching.task.done(), also.task.done()} == {False}
                faults.release()
                await asyncio.gather(held, touching.task, also.task)
                assert await status_after_kill(tmp_path / "data", clock, 99.9) == 200

    asyncio.run(scenario())


def test_an_append_and_its_window_are_one_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the append fills its batch."""
    apart: list[int] = []

    def watched(db: sqlite3.Connection, writes: Writes) -> None:
        if bool(writes.rows) != bool(writes.statements):
            apart.append(len(writes.rows))
        commit(db, writes)

    async def scenario() -> None:
        clock = FakeClock()
        async with in_process(tmp_path / "data", clock=clock, commit_rows_max=1) as node:
            await node.request("PUT", PATH, {**TEXT, "stream-ttl": "100"}, b"first")
            monkeypatch.setattr(batches, "commit", watched)
            for _ in range(5):
                clock.advance(60)
                assert (await node.request("POST", PATH, TEXT, b"x")).status == 204
            await settled(node)
            monkeypatch.undo()

    asyncio.run(scenario())
    assert apart == []
