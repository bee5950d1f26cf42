"""Checkpoints, off the commit path.

A PASSIVE checkpoint on a second connection copies pages and syncs while commits go on, but under steady load it never
catches up with the last frame, so the -wal file would never start over. The rest, a few frames, is then copied on the
writer's own thread, between two commits: the next commit begins the file anew.
"""

import sqlite3
import time
from pathlib import Path
from typing import NamedTuple

from streams_node.testing.crashpoints import crash_point
from streams_node.wal.connection import Connection


class Outcome(NamedTuple):
    """What a checkpoint did: nothing below the bound."""

    ran: bool
    seconds: float
    wal_bytes: int


async def run(path: Path, syncer: Connection, writer: Connection, bytes_max: int) -> Outcome:
    """Checkpoint if the -wal file has grown beyond the bound."""
    if _wal_bytes(path) < bytes_max:
        return Outcome(ran=False, seconds=0.0, wal_bytes=0)
    began = time.perf_counter()
    frames, moved = await syncer.run(_passive)
    seconds = time.perf_counter() - began
    if frames * _FRAME_BYTES >= bytes_max:
        await writer.run(_passive)
    return Outcome(ran=moved > 0, seconds=seconds, wal_bytes=frames * _FRAME_BYTES)


def truncate(db: sqlite3.Connection) -> None:
    """At a clean end: everything into the database, and an empty -wal file."""
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


_FRAME_BYTES = 4096 + 24


def _passive(db: sqlite3.Connection) -> tuple[int, int]:
    crash_point("checkpoint.before")
    _, frames, moved = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    crash_point("checkpoint.after")
    return frames, moved


def _wal_bytes(path: Path) -> int:
    try:
        return Path(f"{path}-wal").stat().st_size
    except FileNotFoundError:
        return 0
