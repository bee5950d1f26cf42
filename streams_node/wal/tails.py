"""Reads entries of one stream out of the log, by its own chain of rows.

Rows leave the log from the oldest on, once objects hold their entries. So what the log has of a stream is always the
end of its chain: whole entries from some sequence on, or nothing. Each read sees one moment of it.
"""

import sqlite3
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

import sql
from streams_node.protocol.frames import KEY_FOR_ALL, key_in_many, unpack_lens
from streams_node.wal.heads import CONTINUES

_LOG = sql.queries("log")
ROWS_MAX = 4096  # in a page: tiny entries would make a thread of the few readers busy for seconds
_DENSE = 4  # scan a stretch of the log when at least one row in this many is the stream's
_SPAN_BYTES = 64 << 20  # of a stretch of which the keys are looked at: they are less than the entries that have them
_SPLIT_BYTES = 4 << 10  # a row above it lies on pages of its own mostly: what is not fetched is not read
_HEAD_BYTES = 64  # what looking at a row costs beside its keys


class LogEnd(msgspec.Struct, frozen=True, gc=False):
    """The committed end of a stream in the log: the row to start a walk from."""

    row: int
    ordinal: int
    position: int
    seq: int


class Slice(NamedTuple):
    """Entries [start, end) of a stream: a JSON stream's are joined by commas, others simply follow each other."""

    start: int
    end: int
    payload: bytes


class Row(NamedTuple):
    row_id: int
    seq: int
    entries: int
    flags: int
    ts: int
    lens: bytes | None
    keys: bytes | None
    payload: bytes


class Stretch(NamedTuple):
    """Rows of a stretch of the log, in their order; others of it are left out, for their keys.

    Entries before `end` were looked at, and `passed` bytes read to leave out what was.
    """

    rows: list[Row]
    end: int
    passed: int


class TimeFound(NamedTuple):
    """The first entry of the log that is not older than a time; not `sure` if older ones that left it may be, too."""

    seq: int
    sure: bool


class LogMoved(Exception):
    """Rows within the chain are not there: the log is not what a single moment of it can be."""


class NotInLog(Exception):
    """The log does not hold the entry any more, or never did. `first_seq`: the first that it holds whole, if any."""

    def __init__(self, first_seq: int | None) -> None:
        super().__init__(first_seq)
        self.first_seq = first_seq


def read_slice(
    db: sqlite3.Connection, stream: int, end: LogEnd, start: int, bytes_max: int, *, is_json: bool, raw: bool = False
) -> Slice:
    """Whole entries from `start` on: as many as fit in `bytes_max`, and at least one. Raw entries have no commas.

    NotInLog if the first of them has left the log, or if the stream is gone.
    """
    if end.row == 0:
        raise NotInLog(None)
    db.execute("BEGIN")  # one moment: between two statements rows may leave
    try:
        return _read(db, stream, end, start, bytes_max, is_json=is_json, raw=raw)
    finally:
        db.execute("COMMIT")


def read_rows(db: sqlite3.Connection, stream: int, end: LogEnd, start: int, bytes_max: int) -> list[Row]:
    """The rows from the one on in which entry `start` begins: some `bytes_max` of them, at least one entry whole.

    The last entry may lack its end. NotInLog as for a slice.
    """
    if end.row == 0:
        raise NotInLog(None)
    db.execute("BEGIN")
    try:
        return _whole(db, stream, end, start, bytes_max, _first(db, end, start))
    finally:
        db.execute("COMMIT")


def read_keyed(db: sqlite3.Connection, stream: int, end: LogEnd, start: int, bytes_max: int, key: str) -> Stretch:
    """As `read_rows`, where rows are large only those that may hold entries with a key: the keys come first then."""
    if end.row == 0:
        raise NotInLog(None)
    db.execute("BEGIN")
    try:
        first = _first(db, end, start)
        last = _last(db, end, first, _SPAN_BYTES)
        if last[2] - first[2] < (last[3] - first[3]) * _SPLIT_BYTES:
            return Stretch(_whole(db, stream, end, start, bytes_max, first), start, 0)
        heads = _heads(db, stream, first, last, key)
        if heads[-1].seq + heads[-1].entries <= start:
            heads = _heads(db, stream, first, _last_row_of(db, end, start), key)
        return _fetch(db, heads, start, bytes_max)
    finally:
        db.execute("COMMIT")


def find_time(db: sqlite3.Connection, end: LogEnd, ts: int) -> TimeFound:
    """The first entry of the log that is not older than a time. NotInLog when the log has nothing of the stream."""
    found = db.execute(_LOG.find_by_time, {"row": end.row, "ts": ts}).fetchone()
    if found is None:
        raise NotInLog(None)
    seq, entries, flags, row_ts = found
    if row_ts < ts:
        return TimeFound(seq + entries, sure=True)
    whole = seq + 1 if flags & CONTINUES else seq  # the oldest row: what is before it has left the log, if anything is
    return TimeFound(whole, sure=whole == 0)


def times_of(db: sqlite3.Connection, end: LogEnd, seqs: Iterable[int]) -> dict[int, int]:
    """The times of these entries, as far as the log has them whole."""
    found: dict[int, int] = {}
    db.execute("BEGIN")
    try:
        for seq in sorted(seqs, reverse=True):  # each walk goes on where the one before it ended
            row = _first(db, end, seq)
            found[seq] = db.execute(_LOG.time_of_row, {"row": row[0]}).fetchone()[0]
            end = LogEnd(row[0], row[3], row[2], seq)
    except NotInLog:
        pass  # nor has it those before it
    finally:
        db.execute("COMMIT")
    return found


def _whole(
    db: sqlite3.Connection, stream: int, end: LogEnd, start: int, bytes_max: int, first: tuple[Any, ...]
) -> list[Row]:
    rows = _rows(db, stream, first, _last(db, end, first, bytes_max))
    if rows[-1].seq + rows[-1].entries <= start:  # it alone is larger than that
        rows = _rows(db, stream, first, _last_row_of(db, end, start))
    return rows


def _read(
    db: sqlite3.Connection, stream: int, end: LogEnd, start: int, bytes_max: int, *, is_json: bool, raw: bool
) -> Slice:
    first = _first(db, end, start)
    last = _last(db, end, first, bytes_max)
    taken = _take(_rows(db, stream, first, last), start, bytes_max, is_json=is_json, raw=raw)
    if taken is None:  # the first entry alone is larger than the page
        last = _last_row_of(db, end, start)
        taken = _take(_rows(db, stream, first, last), start, bytes_max, is_json=is_json, raw=raw)
    if taken is None:
        raise LogMoved
    return taken


def _first(db: sqlite3.Connection, end: LogEnd, start: int) -> tuple[Any, ...]:
    """The row in which the entry begins."""
    found: tuple[Any, ...] | None = db.execute(_LOG.find_by_seq, {"row": end.row, "seq": start}).fetchone()
    if found is None:
        raise NotInLog(None)
    seq, continues = found[1], found[5] & CONTINUES
    if seq > start or (seq == start and continues):
        raise NotInLog(seq + 1 if continues else seq)
    return found


def _last(db: sqlite3.Connection, end: LogEnd, first: tuple[Any, ...], bytes_max: int) -> tuple[Any, ...]:
    """The last row of a page that begins in a row: as many as fit, and no more than are read at once."""
    limit = first[2] + bytes_max
    last: tuple[Any, ...] = (end.row, end.seq, end.position, end.ordinal)
    if end.position > limit:
        last = _find(db, _LOG.find_by_position, {"row": end.row, "position": max(limit, first[2] + 1)})
    if last[3] - first[3] >= ROWS_MAX:
        last = _find(db, _LOG.find_by_ordinal, {"row": last[0], "ordinal": first[3] + ROWS_MAX - 1})
    return last


def _find(db: sqlite3.Connection, statement: str, values: dict[str, int]) -> tuple[Any, ...]:
    found: tuple[Any, ...] | None = db.execute(statement, values).fetchone()
    if found is None:
        raise LogMoved
    return found


def _last_row_of(db: sqlite3.Connection, end: LogEnd, seq: int) -> tuple[Any, ...]:
    if seq + 1 >= end.seq:
        return (end.row, end.seq, end.position, end.ordinal)
    following = _find(db, _LOG.find_by_seq, {"row": end.row, "seq": seq + 1})
    return (following[4], seq, following[2], following[3] - 1)


def _rows(db: sqlite3.Connection, stream: int, first: tuple[Any, ...], last: tuple[Any, ...]) -> list[Row]:
    wanted = last[3] - first[3] + 1
    if last[0] - first[0] < wanted * _DENSE:
        rows = db.execute(_LOG.scan_rows, {"first": first[0], "last": last[0], "stream": stream}).fetchall()
    else:
        rows = db.execute(_LOG.walk_rows, {"first": first[0], "last": last[0]}).fetchall()
        rows.reverse()
    if len(rows) != wanted:
        raise LogMoved
    return [Row._make(row) for row in rows]


class _KeyHead(NamedTuple):
    """A row but for its payload; `fits`: it may hold entries with the key that was asked for."""

    row_id: int
    seq: int
    entries: int
    keys_bytes: int
    fits: int | None


def _heads(
    db: sqlite3.Connection, stream: int, first: tuple[Any, ...], last: tuple[Any, ...], key: str
) -> list[_KeyHead]:
    wanted = last[3] - first[3] + 1
    values = {"first": first[0], "last": last[0], "whole": KEY_FOR_ALL + key.encode(), "part": key_in_many(key)}
    if last[0] - first[0] < wanted * _DENSE:
        heads = db.execute(_LOG.scan_keys, values | {"stream": stream}).fetchall()
    else:
        heads = db.execute(_LOG.walk_keys, values).fetchall()
        heads.reverse()
    if len(heads) != wanted:
        raise LogMoved
    return [_KeyHead._make(head) for head in heads]


def _fetch(db: sqlite3.Connection, heads: list[_KeyHead], start: int, bytes_max: int) -> Stretch:
    """The rows that fit, up to a bound; an entry that spans rows has its key in each of them."""
    rows: list[Row] = []
    end, passed, left = start, 0, bytes_max
    for head in heads:
        if head.fits:
            row = Row._make(db.execute(_LOG.read_row, {"row": head.row_id}).fetchone())
            rows.append(row)
            left -= len(row.payload)
        else:
            passed += head.keys_bytes + _HEAD_BYTES
        if head.entries:
            end = head.seq + head.entries
            if end > start and left - passed <= 0:
                break
    return Stretch(rows, end, passed)


def _take(rows: list[Row], start: int, bytes_max: int, *, is_json: bool, raw: bool) -> Slice | None:
    """Join what fits; None when not even one entry is complete."""
    parts: list[bytes] = []
    pieces: list[bytes] = []  # of an entry that spans rows and has not ended yet
    end, size = start, 0
    for row in rows:
        if row.entries == 0:
            if row.payload:
                pieces.append(row.payload)
        elif pieces:
            entry = b"".join((*pieces, row.payload))
            pieces.clear()
            if parts and size + len(entry) > bytes_max:
                break
            parts.append(entry)
            end, size = row.seq + 1, size + len(entry) + is_json
        else:
            count, part = _cut(row, start, bytes_max - size, force=not parts)
            if not count:
                break
            parts.append(_without_commas(row, start, count) if raw and row.lens is not None else part)
            end, size = max(start, row.seq) + count, size + len(part) + is_json
            if end < row.seq + row.entries:
                break
    if end == start:
        return None
    return Slice(start, end, (b"," if is_json and not raw else b"").join(parts))


def _cut(row: Row, start: int, bytes_left: int, *, force: bool) -> tuple[int, bytes]:
    """The entries of a row from `start` on that fit, with their commas; at least one if forced."""
    if row.lens is None or (row.seq >= start and len(row.payload) <= bytes_left):
        fits = force or len(row.payload) <= bytes_left
        return (row.entries, row.payload) if fits else (0, b"")
    lens = unpack_lens(row.lens)
    skip = max(0, start - row.seq)
    begin = sum(lens[:skip]) + skip
    at, count = begin - 1, 0
    for length in lens[skip:]:
        if at + 1 + length - begin > bytes_left and not (force and count == 0):
            break
        at += 1 + length
        count += 1
    return count, row.payload[begin:at]


def _without_commas(row: Row, start: int, count: int) -> bytes:
    lens = unpack_lens(row.lens or b"")
    skip = max(0, start - row.seq)
    at = sum(lens[:skip]) + skip
    entries = []
    for length in lens[skip : skip + count]:
        entries.append(row.payload[at : at + length])
        at += length + 1
    return b"".join(entries)
