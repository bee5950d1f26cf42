"""One group commit: what is stored together, and the one function that stores it.

Most rows and heads are plain: their last columns are NULL, and left out of the statement. Python's sqlite3 looks for an
adapter of whatever is no int, float, str or bytearray, in vain and under the interpreter's lock: for the NULLs and the
payload of a row that was two thirds of its time (decisions/0002).
"""

import sqlite3
from dataclasses import dataclass, field
from itertools import compress, cycle
from typing import Any

import sql
from streams_node.errors import invariant
from streams_node.testing.crashpoints import crash_point
from streams_node.wal.heads import (
    HEAD_COLUMNS,
    LAST_ROW_AT,
    PLAIN_HEAD_COLUMNS,
    ProducerRow,
    write_flat,
    write_producers,
)

LOG = sql.queries("log")
STREAMS = sql.queries("streams")
COLUMNS = 18
_PLAIN = (1,) * 11 + (0,) * 6 + (1,)  # which of them a plain row has
_PLAIN_COLUMNS = sum(_PLAIN)
ROWS_PER_STATEMENT = (
    64  # statements of every size up to this stay prepared: under 1 MB in all, one step for a usual batch
)


@dataclass(slots=True)
class Writes:
    """The contents of one transaction, in the order in which they are written."""

    rows: list[Any] = field(default_factory=list)  # COLUMNS values a log row, flat: what one INSERT binds
    plain_rows: int = 0  # how many of them have neither producer, `Stream-Seq`, lengths nor keys
    statements: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    heads: list[Any] = field(default_factory=list)  # HEAD_COLUMNS values a head, flat
    plain_heads: list[Any] = field(default_factory=list)  # PLAIN_HEAD_COLUMNS values
    producers: list[ProducerRow] = field(default_factory=list)
    heads_through: int | None = None

    def empty(self) -> bool:
        return self.only_rows and not self.rows

    @property
    def only_rows(self) -> bool:
        return not (self.statements or self.heads or self.plain_heads or self.heads_through is not None)


def commit(db: sqlite3.Connection, writes: Writes) -> None:
    """Store all or nothing; returns after the fsync. Most batches are one statement, so one implicit transaction."""
    crash_point("commit.before")
    if writes.empty():  # a slice of heads whose streams are all gone
        return
    count = len(writes.rows) // COLUMNS
    if count <= ROWS_PER_STATEMENT and writes.only_rows:
        _insert_rows(db, writes)
    else:
        _commit_mixed(db, writes)
    crash_point("commit.after")


def _commit_mixed(db: sqlite3.Connection, writes: Writes) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        for statement, values in writes.statements:
            db.execute(statement, values)
        _insert_rows(db, writes)
        crash_point("commit.inside")
        write_producers(db, writes.producers)
        _write_heads(db, writes)
        if writes.heads_through is not None:
            db.execute(STREAMS.set_heads_through, (writes.heads_through,))
        db.execute("COMMIT")
    except BaseException:
        rollback(db)
        raise


def _insert_rows(db: sqlite3.Connection, writes: Writes) -> None:
    statement, rows, columns = LOG.append_rows, writes.rows, COLUMNS
    if writes.plain_rows * COLUMNS == len(rows):
        statement, rows, columns = LOG.append_plain_rows, list(compress(rows, cycle(_PLAIN))), _PLAIN_COLUMNS
    step = ROWS_PER_STATEMENT * columns
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        db.execute(sql.repeated(statement, len(part) // columns), part)


def _write_heads(db: sqlite3.Connection, writes: Writes) -> None:
    rows = writes.heads[LAST_ROW_AT::HEAD_COLUMNS] + writes.plain_heads[LAST_ROW_AT::PLAIN_HEAD_COLUMNS]
    if rows:
        newest = db.execute(LOG.last_row_id).fetchone()[0]
        invariant(max(rows) <= newest, "no head is ahead of the log")
        write_flat(db, STREAMS.write_heads, writes.heads, HEAD_COLUMNS)
        write_flat(db, STREAMS.write_plain_heads, writes.plain_heads, PLAIN_HEAD_COLUMNS)
        crash_point("commit.heads")


def rollback(db: sqlite3.Connection) -> None:
    """Leave no transaction open, whatever state the connection is in."""
    if db.in_transaction:
        db.execute("ROLLBACK")
