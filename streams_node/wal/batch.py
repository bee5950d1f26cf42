"""One group commit: what is stored together, and the one function that stores it."""

import sqlite3
from dataclasses import dataclass, field
from typing import Any

import sql
from streams_node.errors import invariant
from streams_node.testing.crashpoints import crash_point
from streams_node.wal.heads import HEAD_COLUMNS, LAST_ROW_AT, ProducerRow, write_flat, write_producers

LOG = sql.queries("log")
STREAMS = sql.queries("streams")
COLUMNS = 18
ROWS_PER_STATEMENT = (
    64  # statements of every size up to this stay prepared: under 1 MB in all, one step for a usual batch
)


@dataclass(slots=True)
class Writes:
    """The contents of one transaction, in the order in which they are written."""

    rows: list[Any] = field(default_factory=list)  # COLUMNS values a log row, flat: what one INSERT binds
    statements: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    heads: list[Any] = field(default_factory=list)  # HEAD_COLUMNS values a head, flat
    producers: list[ProducerRow] = field(default_factory=list)
    heads_through: int | None = None

    def empty(self) -> bool:
        return not (self.rows or self.statements or self.heads or self.heads_through is not None)


def commit(db: sqlite3.Connection, writes: Writes) -> None:
    """Store all or nothing; returns after the fsync. Most batches are one statement, so one implicit transaction."""
    crash_point("commit.before")
    if writes.empty():  # a slice of heads whose streams are all gone
        return
    count = len(writes.rows) // COLUMNS
    if count <= ROWS_PER_STATEMENT and not (writes.statements or writes.heads or writes.heads_through is not None):
        db.execute(sql.repeated(LOG.append_rows, count), writes.rows)
    else:
        _commit_mixed(db, writes)
    crash_point("commit.after")


def _commit_mixed(db: sqlite3.Connection, writes: Writes) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        for statement, values in writes.statements:
            db.execute(statement, values)
        _insert_rows(db, writes.rows)
        crash_point("commit.inside")
        write_producers(db, writes.producers)
        if writes.heads:
            newest = db.execute(LOG.last_row_id).fetchone()[0]
            invariant(max(writes.heads[LAST_ROW_AT::HEAD_COLUMNS]) <= newest, "no head is ahead of the log")
        write_flat(db, STREAMS.write_heads, writes.heads, HEAD_COLUMNS)
        if writes.heads:
            crash_point("commit.heads")
        if writes.heads_through is not None:
            db.execute(STREAMS.set_heads_through, (writes.heads_through,))
        db.execute("COMMIT")
    except BaseException:
        rollback(db)
        raise


def _insert_rows(db: sqlite3.Connection, rows: list[Any]) -> None:
    step = ROWS_PER_STATEMENT * COLUMNS
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        db.execute(sql.repeated(LOG.append_rows, len(part) // COLUMNS), part)


def rollback(db: sqlite3.Connection) -> None:
    """Leave no transaction open, whatever state the connection is in."""
    if db.in_transaction:
        db.execute("ROLLBACK")
