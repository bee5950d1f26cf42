"""Commits of a node in this process that fail on request: before anything is stored, or after everything is.

Owns     the function that stores a batch and the one that recovers, for as long as a test runs.
Keeps    a held commit stands in the writer's own thread, as a slow disk would make it, and the loop goes on deciding.
"""

import asyncio
import sqlite3
import threading
from enum import Enum, auto

import pytest

from streams_node.ingest import batches, ledger
from streams_node.testing.inprocess import Answer, InProcess
from streams_node.wal import database
from streams_node.wal.batch import Writes, commit
from streams_node.wal.database import Marks

_WAIT_S = 10.0


class Fault(Enum):
    NOTHING_STORED = auto()
    ANSWER_LOST = auto()  # it is on disk, and SQLite says that it failed


class Faults:
    """What the next commits and recoveries do."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plan: list[Fault | None] = []  # for the next commits, one each; beyond it they succeed
        self.recovers = True
        self._held: threading.Event | None = None
        self._reached = threading.Event()
        self._recover = database._recover
        monkeypatch.setattr(batches, "commit", self._commit)
        monkeypatch.setattr(database, "_recover", self._recovery)
        monkeypatch.setattr(ledger, "_RECOVERY_S", 0.01)

    async def hold(self, node: InProcess, path: str) -> "asyncio.Task[Answer]":
        """Make the next commit, an append to this path, stand still until `release`."""
        self._held = threading.Event()
        self._reached.clear()
        task = asyncio.ensure_future(node.request("POST", path, {"content-type": "text/plain"}, b"held\n"))
        reached = await asyncio.to_thread(self._reached.wait, _WAIT_S)
        assert reached, "no commit began"
        return task

    def release(self, *plan: Fault | None) -> None:
        """Let the held commit go on; the plan begins with it."""
        held, self._held = self._held, None
        assert held is not None
        self.plan = list(plan)
        held.set()

    def _commit(self, db: sqlite3.Connection, writes: Writes) -> None:
        if self._held is not None:
            held = self._held
            self._reached.set()
            held.wait(_WAIT_S)
        fault = self.plan.pop(0) if self.plan else None
        if fault is Fault.NOTHING_STORED:
            raise sqlite3.OperationalError("disk I/O error")
        commit(db, writes)
        if fault is Fault.ANSWER_LOST:
            raise sqlite3.OperationalError("disk I/O error")

    def _recovery(self, db: sqlite3.Connection) -> Marks:
        if not self.recovers:
            raise sqlite3.OperationalError("disk I/O error")
        return self._recover(db)


async def healthy(node: InProcess) -> None:
    """Wait until the node takes writes again."""
    async with asyncio.timeout(_WAIT_S):
        while (await node.request("GET", "/readyz")).status != 200:  # noqa: ASYNC110 - a client can only ask
            await asyncio.sleep(0.002)


async def queued(node: InProcess, count: int) -> None:
    """Wait until so many decisions wait for their commit."""
    async with asyncio.timeout(_WAIT_S):
        while node.context.ledger.committer.queued_appends < count:  # noqa: ASYNC110 - the node has no bell for it
            await asyncio.sleep(0)
