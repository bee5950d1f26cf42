"""Checkpoints, off the commit path.

A PASSIVE checkpoint on a second connection copies pages and syncs while commits go on, but under steady load it never
catches up with the last frame, so the -wal file would never start over. When little is left, it is copied on the
writer's own thread, between two commits, and the next commit begins the file anew. Under a flood of large appends that
moment never comes: then the file may grow to several times its bound before the writer is made to wait.

A checkpoint may not begin on one connection while a commit on another starts the file over: SQLite before 3.51.3 can
then take new frames for copied ones, and drop committed rows (sqlite.org/wal.html, "the WAL-reset bug"). A commit does
so only when everything has been copied. So the second connection begins only after the writer has changed something
since the last checkpoint: that is not copied then, and stays so until this checkpoint is through.
"""

import asyncio
import os
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from streams_node.testing.crashpoints import crash_point
from streams_node.wal.connection import Connection

_REST_BYTES_MAX = 2 << 20  # a few milliseconds of the writer's time
_HARD = 6  # times the bound: here the writer waits


class Outcome(NamedTuple):
    """What a checkpoint did: nothing below the bound."""

    ran: bool
    seconds: float


class Checkpoints:
    """The checkpoints of one database, one at a time."""

    def __init__(self, path: Path, syncer: Connection, writer: Connection) -> None:
        self.index = Index(path)
        self._syncer = syncer
        self._writer = writer
        self._copied = writer.begun  # what the writer began later may not have been copied by the last checkpoint
        self._lock = asyncio.Lock()

    async def run(self, bytes_max: int, written: Callable[[], int]) -> Outcome:
        """Checkpoint if the -wal file has grown beyond the bound. `written` counts the bytes of all commits."""
        async with self._lock:
            size = self.index.wal_bytes()
            if size < bytes_max or self._writer.changed <= self._copied:
                return Outcome(ran=False, seconds=0.0)
            began, before = time.perf_counter(), written()
            frames = await self._run_on(self._syncer)
            seconds = time.perf_counter() - began
            little = written() - before < _REST_BYTES_MAX
            if frames * _FRAME_BYTES >= bytes_max and (little or size > _HARD * bytes_max):
                await self._run_on(self._writer)
            return Outcome(ran=True, seconds=seconds)

    async def _run_on(self, connection: Connection) -> int:
        try:
            return await connection.run(_run_passive)
        finally:
            self._copied = self._writer.begun

    async def close(self) -> None:
        """No checkpoint is under way afterwards, so that the writer may make the last one."""
        await self._syncer.close()


def truncate(db: sqlite3.Connection) -> None:
    """At a clean end: everything into the database, and an empty -wal file."""
    crash_point("close.before")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    crash_point("close.after")


_FRAME_BYTES = 4096 + 24
_FRAMES_AT = 16  # mxFrame in the header of the wal-index (sqlite.org/walformat.html)
_GROWN_AT_ONCE = 1 << 20


def _run_passive(db: sqlite3.Connection) -> int:
    crash_point("checkpoint.before")
    frames: int = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1]
    crash_point("checkpoint.after")
    return frames


class Index:
    """SQLite's shared index of the -wal file, which keeps its greatest length: only the index knows what is in use.

    One handle for as long as the database is open. Closing any handle of this file gives up every lock that SQLite has
    on it (fcntl): the next program that looks into the database would cut the index off under a running node (SIGBUS).
    """

    def __init__(self, path: Path) -> None:
        self._path = Path(f"{path}-shm")
        self._handle: int | None = None

    def wal_bytes(self) -> int:
        """Bytes of the -wal file that hold frames."""
        if self._handle is None:
            try:
                self._handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return 0
        return int.from_bytes(os.pread(self._handle, 4, _FRAMES_AT), sys.byteorder) * _FRAME_BYTES

    def close(self) -> None:
        """Only after the last connection of this process is closed."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def grow(path: Path, bytes_min: int) -> None:
    """Give an unused -wal file its length now: an fsync of a file that grows takes half as long again."""
    wal = Path(f"{path}-wal")
    if wal.exists() and wal.stat().st_size == 0:
        try:
            with wal.open("r+b") as file:
                for _ in range(0, bytes_min, _GROWN_AT_ONCE):
                    file.write(bytes(_GROWN_AT_ONCE))
                file.flush()
                os.fsync(file.fileno())
        except OSError:  # no room to prepare: what is left belongs to the commits
            os.truncate(wal, 0)
