"""Frees log rows whose entries are in published objects, in slices that appends hardly notice."""

import asyncio
import sqlite3

import sql
from streams_node.ingest.ledger import Ledger
from streams_node.testing.crashpoints import crash_point
from streams_node.wal.database import Database
from streams_node.wal.vacuum import give_back

_PLACEMENT = sql.queries("placement")
_HEADS_WAIT_S = 0.02
_SPARE_PAGES = 16384  # free pages kept for the next flush (64 MiB); more go back to the disk
_VACUUM_PAGES = 256  # 1 MiB: a few milliseconds of the writer
_PAUSE_S = 0.005
_SLICE_BYTES = 512 << 10  # 200 rows of 100 KB at once made appends beside them wait for 100 ms (ops/bench/economics)


async def release(database: Database, ledger: Ledger, through: int, rows: int) -> None:
    """Free all rows up to one, which a generation covers. Rows of streams that cannot be sealed stay."""
    await _heads_written(ledger, through)
    freed = 0
    while end := await database.looks.run(_slice, freed, through, rows):
        await database.writer.run(_free, freed, end)
        crash_point("release.inside")
        freed = end
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


def _slice(db: sqlite3.Connection, after: int, through: int, rows: int) -> int:
    """The last row of the next slice; 0 when there is none. Large rows are freed page by page: their bytes count."""
    end = size = 0
    for row, row_bytes in db.execute(_PLACEMENT.sizes_above, {"after": after, "through": through, "limit": rows}):
        size += row_bytes
        if end and size > _SLICE_BYTES:
            break
        end = row
    return end


def _shrink(db: sqlite3.Connection) -> bool:
    """Give a slice of free pages back to the disk, if there are many."""
    free: int = db.execute("PRAGMA freelist_count").fetchone()[0]
    if free <= _SPARE_PAGES:
        return False
    give_back(db, min(_VACUUM_PAGES, free - _SPARE_PAGES))
    return True
