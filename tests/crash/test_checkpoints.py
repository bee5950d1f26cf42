"""Checkpoints beside commits, and strangers that look into the database of a running node."""

import asyncio
import os
import sqlite3
import struct
from pathlib import Path

import pytest

from streams_node.testing.inprocess import InProcess, in_process
from streams_node.wal import checkpoint
from tests.crash.folder import CrashedFolder
from tests.support.tables import check_tables

_FRAMES_AT, _COPIED_AT = 16, 96  # in the index of the -wal file: frames in it, and how many have been copied
_BYTES_MAX = 65536
_TEXT = {"content-type": "text/plain"}


class Begun:
    """What the index of the -wal file says whenever a checkpoint begins."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        self.seen: list[tuple[bool, int, int]] = []
        self.writer: sqlite3.Connection | None = None
        self._path = path
        self._handle: int | None = None
        self._run = checkpoint._run_passive
        monkeypatch.setattr(checkpoint, "_run_passive", self._watched)

    def _watched(self, db: sqlite3.Connection) -> int:
        if self._handle is None:  # one handle to the end: closing it gives up the locks of the whole process
            self._handle = os.open(self._path, os.O_RDONLY)
        index = os.pread(self._handle, _COPIED_AT + 4, 0)
        frames, copied = (struct.unpack_from("=I", index, at)[0] for at in (_FRAMES_AT, _COPIED_AT))
        self.seen.append((db is self.writer, frames, copied))
        return self._run(db)

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)


async def _load(node: InProcess) -> None:
    database = node.context.database
    assert (await node.request("PUT", "/v1/stream/s", _TEXT)).status == 201
    for number in range(300):
        append = asyncio.ensure_future(node.request("POST", "/v1/stream/s", _TEXT, b"x" * 2000))
        await asyncio.gather(append, *(database.checkpoint(_BYTES_MAX, lambda: 0) for _ in range(number % 4)))
        assert append.result().status == 204


def test_no_second_connection_begins_when_the_next_commit_could_start_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could if every frame was copied, and SQLite before 3.51.3 may then lose rows. The writer's own may begin."""
    begun = Begun(monkeypatch, tmp_path / "streams.db-shm")

    async def scenario() -> None:
        async with in_process(
            tmp_path, sqlite_checkpoint_bytes=_BYTES_MAX, sqlite_wal_grown_bytes=_BYTES_MAX, heads_flush_rows=7
        ) as node:
            begun.writer = await node.context.database.writer.run(lambda db: db)
            await _load(node)
            check_tables(tmp_path / "streams.db", whole=True)

    asyncio.run(scenario())
    begun.close()
    assert {on_writer for on_writer, _, _ in begun.seen} == {True, False}
    assert [(frames, copied) for on_writer, frames, copied in begun.seen if not on_writer and frames == copied] == []


def test_a_stranger_may_look_into_the_database_of_a_running_node(tmp_path: Path, crash_seed: str) -> None:
    """A node that gave up its locks, by closing a handle of the shared index, would lose the index to the stranger."""
    folder = CrashedFolder(tmp_path / "data", crash_seed)

    async def scenario() -> None:
        with folder.start() as node:
            await node.ready()
            running = asyncio.ensure_future(folder.load.run(node.port))
            for _ in range(20):
                await asyncio.sleep(0.05)
                check_tables(folder.data / "streams.db")
                assert node.process.poll() is None, node.log_tail()
            node.kill()
            await running
        await folder.survive()

    asyncio.run(scenario())
