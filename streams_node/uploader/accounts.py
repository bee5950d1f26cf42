"""Keeps the counts of store requests over restarts, in batches."""

import sqlite3
from collections.abc import Mapping

import sql
from streams_node.objects import RequestCounts, Row, Tally
from streams_node.wal.batch import rollback
from streams_node.wal.database import Database

_PLACEMENT = sql.queries("placement")


async def keep(database: Database, counts: RequestCounts) -> None:
    """Store what was counted since the last time; if that fails, it is counted again."""
    taken = counts.take()
    if not taken:
        return
    try:
        await database.writer.run(_add, taken)
    except BaseException:
        counts.give_back(taken)
        raise


def _add(db: sqlite3.Connection, taken: Mapping[Row, Tally]) -> None:
    rows = [
        {
            "stream": row.owner or 0,
            "artifact": row.artifact,
            "op": row.op,
            "requests": tally.requests,
            "failures": tally.failures,
            "bytes": tally.size,
        }
        for row, tally in taken.items()
    ]
    db.execute("BEGIN IMMEDIATE")
    try:
        db.executemany(_PLACEMENT.count_requests, rows)
        db.execute("COMMIT")
    except BaseException:
        rollback(db)
        raise
