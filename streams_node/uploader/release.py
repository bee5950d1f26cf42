"""Frees log rows whose entries are in published objects, in slices that appends hardly notice."""

import asyncio
import sqlite3

import sql
from streams_node.ingest.ledger import Ledger
from streams_node.testing.crashpoints import crash_point
from streams_node.wal.database import Database

_PLACEMENT = sql.queries("placement")
_HEADS_WAIT_S = 0.02
_SPARE_PAGES = 16384  # free pages kept for the next flush (64 MiB); more go back to the disk
_VACUUM_PAGES = 512
_PAUSE_S = 0.005


async def release(database: Database, ledger: Ledger, through: int, rows: int) -> None:
    """Free all rows up to one, which a generation covers. Rows of streams that cannot be sealed stay."""
    await _heads_written(ledger, through)
    at = await database.readers.run(_first_above, 0)
    while 0 < at <= through:
        end = min(at + rows - 1, through)
        await database.writer.run(_free, at - 1, end)
        crash_point("release.inside")
        at = await database.readers.run(_first_above, end)
        await asyncio.sleep(_PAUSE_S)
    while await database.writer.run(_shrink):  # noqa: ASYNC110 - no wait for an event: a slice of work, then a rest
        await asyncio.sleep(_PAUSE_S)
    crash_point("release.after")


async def _heads_written(ledger: Ledger, through: int) -> None:
    """Rows above `heads_through` are what a start replays: none of them may be missing."""
    committer = ledger.committer
    while committer.heads_through < through:
        if not ledger.broken:
            committer.flush_heads()
        await asyncio.sleep(_HEADS_WAIT_S)


def _free(db: sqlite3.Connection, after: int, through: int) -> None:
    db.execute(_PLACEMENT.release_rows, {"after": after, "through": through})


def _first_above(db: sqlite3.Connection, row: int) -> int:
    found: int = db.execute(_PLACEMENT.first_row_above, (row,)).fetchone()[0]
    return found


def _shrink(db: sqlite3.Connection) -> bool:
    """Give a slice of free pages back to the disk, if there are many."""
    free: int = db.execute("PRAGMA freelist_count").fetchone()[0]
    if free <= _SPARE_PAGES:
        return False
    db.execute(f"PRAGMA incremental_vacuum({min(_VACUUM_PAGES, free - _SPARE_PAGES)})").fetchall()
    return True
