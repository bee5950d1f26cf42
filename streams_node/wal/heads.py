"""`heads` and `producers`: written behind the log in slices, brought up to it at start.

Updating even a narrow head with every append made a commit 2.3 times as long (docs/decisions/0001). The log row carries
everything a head holds, so a head may lag: slices join later commits, and `heads_through` names the row up to which
nothing is missing.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import sql
from streams_node.protocol.anchors import moved
from streams_node.testing.crashpoints import crash_point

CLOSES = 2
CONTINUES = 4
FIRST = 1
_ROWS_PER_STATEMENT = 250
_LOG = sql.queries("log")
_STREAMS = sql.queries("streams")


class HeadRow(NamedTuple):
    """A head in the order of `write_heads`."""

    next_seq: int
    last_row: int
    ordinal: int
    position: int
    ts: int
    anchor_1: int
    anchor_2: int
    anchor_3: int
    anchor_4: int
    closed: int
    schema_version: int
    producers: int
    stream_seq: str | None
    closed_by: str | None
    closed_epoch: int | None
    closed_seq: int | None
    stream: int


HEAD_COLUMNS = len(HeadRow._fields)
PLAIN_HEAD_COLUMNS = HEAD_COLUMNS - 4  # of an open stream without a `Stream-Seq`
LAST_ROW_AT = HeadRow._fields.index("last_row")


class ProducerRow(NamedTuple):
    """A producer in the order of `write_producers`."""

    stream: int
    producer: str
    epoch: int
    seq: int
    next_seq: int


@dataclass(slots=True)
class Replayed:
    rows: int
    last_row: int


def replay(db: sqlite3.Connection) -> Replayed:
    """Apply every log row above `heads_through`. Idempotent: a row that a slice had already covered changes nothing."""
    through: int = db.execute(_STREAMS.heads_through).fetchone()[0]
    heads: dict[int, dict[str, Any] | None] = {}
    producers: dict[tuple[int, str], ProducerRow] = {}
    rows, last_row = 0, through
    for row in db.execute(_LOG.rows_after, {"row": through}):
        rows, last_row = rows + 1, row[0]
        stream = row[1]
        if stream not in heads:
            heads[stream] = _head(db, stream)
        head = heads[stream]
        if head is not None:
            _apply(head, row, producers)
    if rows:
        _write(db, {stream: head for stream, head in heads.items() if head is not None}, producers, last_row)
    return Replayed(rows, last_row)


def write_flat(db: sqlite3.Connection, statement: str, values: list[Any], columns: int) -> None:
    """Write rows many a statement: each statement is one wait for the interpreter's lock, and the loop holds it."""
    step = _ROWS_PER_STATEMENT * columns
    for start in range(0, len(values), step):
        part = values[start : start + step]
        db.execute(sql.repeated(statement, len(part) // columns), part)


def write_producers(db: sqlite3.Connection, rows: Iterable[ProducerRow]) -> None:
    write_flat(db, _STREAMS.write_producers, list(chain.from_iterable(rows)), len(ProducerRow._fields))


def _head(db: sqlite3.Connection, stream: int) -> dict[str, Any] | None:
    found = db.execute(_STREAMS.read_head, (stream,)).fetchone()
    return None if found is None else dict(zip(HeadRow._fields, (*found, stream), strict=True))


def _apply(head: dict[str, Any], row: tuple[Any, ...], producers: dict[tuple[int, str], ProducerRow]) -> None:
    row_id, stream, seq, count, ordinal, end, ts, flags, schema, producer, epoch, number, stream_seq = row
    if ordinal > head["ordinal"]:
        anchors = (head["anchor_1"], head["anchor_2"], head["anchor_3"], head["anchor_4"])
        anchors = moved(anchors, ordinal, row_id)
        head.update(zip(("anchor_1", "anchor_2", "anchor_3", "anchor_4"), anchors, strict=True))
        head.update(next_seq=seq + count, last_row=row_id, ordinal=ordinal, position=end, ts=ts, schema_version=schema)
        if stream_seq is not None:
            head["stream_seq"] = stream_seq
        if flags & CLOSES:
            head.update(closed=1, closed_by=producer, closed_epoch=epoch, closed_seq=number)
    if producer is not None:
        producers[stream, producer] = ProducerRow(stream, producer, epoch, number, seq + count)


def _write(
    db: sqlite3.Connection,
    heads: dict[int, dict[str, Any]],
    producers: dict[tuple[int, str], ProducerRow],
    last_row: int,
) -> None:
    alive = [producer for producer in producers.values() if producer.stream in heads]
    db.execute("BEGIN IMMEDIATE")
    try:
        write_producers(db, alive)
        for stream in {producer.stream for producer in alive}:
            heads[stream]["producers"] = db.execute(_STREAMS.count_producers, (stream,)).fetchone()[0]
        values = [head[name] for head in heads.values() for name in HeadRow._fields]
        write_flat(db, _STREAMS.write_heads, values, HEAD_COLUMNS)
        db.execute(_STREAMS.set_heads_through, (last_row,))
        crash_point("replay.inside")
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise
