"""Frees the log rows of dead streams, a slice at a time, from the newest row back."""

import sqlite3

import sql
from streams_node.testing.crashpoints import crash_point
from streams_node.wal.batch import rollback
from streams_node.wal.vacuum import give_back

_LOG = sql.queries("log")
_STREAMS = sql.queries("streams")
_VACUUM_PAGES = 256  # at most 1 MiB goes back to the disk with each slice


def free_some(db: sqlite3.Connection, rows_max: int) -> int:
    """One transaction: up to `rows_max` rows of dead streams leave the log; returns how many did."""
    freed = 0
    db.execute("BEGIN IMMEDIATE")
    try:
        for stream, last_row in db.execute(_STREAMS.next_graves, (rows_max,)).fetchall():
            freed += _free_chain(db, stream, last_row, rows_max - freed)
            if freed >= rows_max:
                break
        if freed:
            crash_point("graves.inside")
        db.execute("COMMIT")
    except BaseException:
        rollback(db)
        raise
    if freed:
        crash_point("graves.after")
        give_back(db, _VACUUM_PAGES)
    return freed


def _free_chain(db: sqlite3.Connection, stream: int, last_row: int, limit: int) -> int:
    rows = db.execute(_LOG.dead_chain, {"row": last_row, "stream": stream, "limit": limit}).fetchall()
    db.executemany(_LOG.free_row, [(row,) for row, _ in rows])
    older = rows[-1][1] if rows else 0
    if older:
        db.execute(_STREAMS.move_grave, (older, stream))
    else:
        db.execute(_STREAMS.close_grave, (stream,))
    return len(rows) + 1
