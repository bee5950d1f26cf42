"""Reads the routing keys of a stream's entries out of the log, and not the entries."""

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

import sql
from streams_node.protocol.frames import KEY_FOR_ALL, unpack_keys
from streams_node.wal.heads import CONTINUES
from streams_node.wal.tails import LogEnd, LogMoved, NotInLog

_LOG = sql.queries("log")
_KEYS = sql.queries("log_keys")
_ROWS_MAX = 4096  # at a time: a few milliseconds of one of the few readers
_ENTRIES_MAX = 1 << 16
_DENSE = 4  # scan a stretch of the log when at least one row in this many is the stream's


def read_keys(
    db: sqlite3.Connection, stream: int, tail: LogEnd, wanted: tuple[int, int], take: Callable[[Iterable[str]], None]
) -> int:
    """Hand on the keys of some entries [start, stop) from the first on, in no order and more than once; returns up to
    where.

    NotInLog as for a slice.
    """
    start, stop = wanted
    if tail.row == 0:
        raise NotInLog(None)
    db.execute("BEGIN")  # one moment: between two statements rows may leave
    try:
        rows = _rows(db, stream, tail, start)
    finally:
        db.execute("COMMIT")
    whole: set[bytes] = set()
    end = start
    for _, seq, count, keys in rows:
        if seq >= stop:
            break
        if count and keys is not None:
            if keys[:1] == KEY_FOR_ALL:
                whole.add(keys)
            else:
                some = unpack_keys(keys, count)[max(0, start - seq) : stop - seq]
                take({key for key in some if key is not None})
        end = max(end, min(stop, seq + count))
        if end - start >= _ENTRIES_MAX:
            break
    take([keys[1:].decode() for keys in whole])
    if end == start:
        raise LogMoved
    return end


def log_start(db: sqlite3.Connection, tail: LogEnd, seq: int) -> int:
    """The first entry, from one on, that the log holds whole; the end of the stream if it holds none."""
    found = None if tail.row == 0 else db.execute(_LOG.find_by_seq, {"row": tail.row, "seq": seq}).fetchone()
    if found is None:
        return tail.seq
    begins: int = found[1] + 1 if found[5] & CONTINUES else found[1]
    return max(seq, begins)


def _rows(db: sqlite3.Connection, stream: int, tail: LogEnd, start: int) -> list[Any]:
    """The rows from the one on in which an entry begins: whole entries, and at least that one."""
    found = db.execute(_LOG.find_by_seq, {"row": tail.row, "seq": start}).fetchone()
    if found is None:
        raise NotInLog(None)
    first_row, seq, ordinal, continues = found[0], found[1], found[3], found[5] & CONTINUES
    if seq > start or (seq == start and continues):
        raise NotInLog(seq + 1 if continues else seq)
    last_row, last_ordinal = tail.row, tail.ordinal
    rows_max = _ROWS_MAX
    while True:
        if last_ordinal - ordinal >= rows_max:
            last = db.execute(_LOG.find_by_ordinal, {"row": last_row, "ordinal": ordinal + rows_max - 1}).fetchone()
            if last is None:
                raise LogMoved
            last_row, last_ordinal = last[0], last[3]
        values = {"first": first_row, "last": last_row, "stream": stream}
        if last_row - first_row < (last_ordinal - ordinal + 1) * _DENSE:
            rows = db.execute(_KEYS.scan_stretch, values).fetchall()
        else:
            rows = db.execute(_KEYS.walk_stretch, values).fetchall()
            rows.reverse()
        if len(rows) != last_ordinal - ordinal + 1:
            raise LogMoved
        if any(count and seq + count > start for _, seq, count, _ in rows):
            return rows
        if last_row == tail.row:
            raise LogMoved
        last_row, last_ordinal, rows_max = tail.row, tail.ordinal, 2 * rows_max  # one entry has more rows than that
