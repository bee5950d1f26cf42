"""Checkpoints, off the commit path.

A PASSIVE checkpoint on a second connection copies pages and syncs while commits go on, but under steady load it never
catches up with the last frame, so the -wal file would never start over. When little is left, it is copied on the
writer's own thread, between two commits, and the next commit begins the file anew. Under a flood of large appends that
moment never comes: then the file may grow to several times its bound before the writer is made to wait.
"""

import sqlite3
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


async def run(
    path: Path, syncer: Connection, writer: Connection, bytes_max: int, written: Callable[[], int]
) -> Outcome:
    """Checkpoint if the -wal file has grown beyond the bound. `written` counts the bytes that commits have stored."""
    size = _wal_bytes(path)
    if size < bytes_max:
        return Outcome(ran=False, seconds=0.0)
    began, before = time.perf_counter(), written()
    frames = await syncer.run(_passive)
    seconds = time.perf_counter() - began
    if frames * _FRAME_BYTES >= bytes_max and (written() - before < _REST_BYTES_MAX or size > _HARD * bytes_max):
        await writer.run(_passive)
    return Outcome(ran=True, seconds=seconds)


def truncate(db: sqlite3.Connection) -> None:
    """At a clean end: everything into the database, and an empty -wal file."""
    crash_point("close.before")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    crash_point("close.after")


_FRAME_BYTES = 4096 + 24


def _passive(db: sqlite3.Connection) -> int:
    crash_point("checkpoint.before")
    frames: int = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1]
    crash_point("checkpoint.after")
    return frames


def _wal_bytes(path: Path) -> int:
    try:
        return Path(f"{path}-wal").stat().st_size
    except FileNotFoundError:
        return 0
