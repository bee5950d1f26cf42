"""Reads the log for a seal: in slices, so that no checkpoint waits for the end of it, and up to an append's end."""

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import chain, compress
from operator import itemgetter, ne
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

import sql
from streams_node.wal.heads import FIRST

SEALING = sql.queries("sealing")
_SLICE_BYTES = 8 << 20  # in one read transaction
_ROWS_AT_ONCE = 32  # of the largest size still not too much memory
_BUSY_S = 30.0
_CACHE_KIB = 2048  # every page is read once
_FLAGS, _PAYLOAD = 7, 11


class Columns(NamedTuple):
    """Rows of the log, column by column."""

    row_ids: Sequence[int]
    streams: Sequence[int]
    seqs: Sequence[int]
    counts: Sequence[int]
    ordinals: Sequence[int]
    positions: Sequence[int]
    times: Sequence[int]
    flags: Sequence[int]
    versions: Sequence[int]
    lens: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    payloads: Sequence[bytes]

    def part(self, start: int, end: int) -> "Columns":
        return Columns._make(column[start:end] for column in self)

    def parts(self, stretches: Iterable["Stretch"]) -> "Columns":
        """Several stretches, one behind the other."""
        ranges = [(each.start, each.end) for each in stretches]
        return Columns._make(list(chain.from_iterable(column[a:b] for a, b in ranges)) for column in self)


class Stretch(NamedTuple):
    """The rows of one stream: neighbours, as the rows are sorted by stream."""

    stream: int
    start: int
    end: int


class Taken(NamedTuple):
    """A stretch of the log, with everything that was appended in it."""

    rows: list[Any]  # in the order of the columns
    through_row: int
    bytes: int


def open_log(path: str) -> sqlite3.Connection:
    """A connection that only reads, each statement at its own moment: rows of the log never change."""
    db = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, isolation_level=None, timeout=_BUSY_S)
    for pragma in ("query_only = ON", "trusted_schema = OFF", f"cache_size = -{_CACHE_KIB}"):
        db.execute(f"PRAGMA {pragma}")
    return db


def take(db: sqlite3.Connection, after: int, through: int, bytes_max: int) -> Taken:
    """Rows above one: as many whole appends as fit in `bytes_max`, and at least one.

    All that there are up to `through` are all of it, however few: what is missing was a dead stream's, and is freed.
    """
    rows: list[Any] = []
    size = 0
    complete = False
    while not complete:
        size, complete = _slice(db, rows, rows[-1][0] if rows else after, through, size)
        if size > bytes_max and (cut := _cut(rows, size, bytes_max)):
            rows = rows[:cut]
            return Taken(rows, rows[-1][0], _bytes(rows))
    if not _ends_append(db, through):
        rows = rows[: _last_begin(rows)]
        through = rows[-1][0] if rows else after
    return Taken(rows, through, _bytes(rows))


def _slice(db: sqlite3.Connection, rows: list[Any], after: int, through: int, size: int) -> tuple[int, bool]:
    """Read on in one transaction; returns the size of all rows so far, and whether there are no more."""
    until = size + _SLICE_BYTES
    cursor = db.execute(SEALING.rows_to_seal, {"after": after, "through": through})
    try:
        while size < until:
            some = cursor.fetchmany(_ROWS_AT_ONCE)
            if not some:
                return size, True
            rows += some
            size += _bytes(some)
        return size, False
    finally:
        cursor.close()


def _bytes(rows: list[Any]) -> int:
    return sum(map(len, map(itemgetter(_PAYLOAD), rows)))


def _cut(rows: list[Any], size: int, bytes_max: int) -> int:
    """How many rows fit, up to an append's end; if the first append does not, all of it. 0: its end is not known."""
    at = len(rows)
    while at > 0 and (size > bytes_max or at == len(rows) or not rows[at][_FLAGS] & FIRST):
        at -= 1
        size -= len(rows[at][_PAYLOAD])
    if at:
        return at
    return next((index for index in range(1, len(rows)) if rows[index][_FLAGS] & FIRST), 0)


def _ends_append(db: sqlite3.Connection, row: int) -> bool:
    following = db.execute(SEALING.flags_after, (row,)).fetchone()
    return following is None or bool(following[0] & FIRST)


def _last_begin(rows: list[Any]) -> int:
    return next((index for index in range(len(rows) - 1, -1, -1) if rows[index][_FLAGS] & FIRST), 0)


def columns_of(rows: list[Any]) -> Columns:
    """Sorted by stream; the rows of each stay in their order."""
    rows.sort(key=itemgetter(1))
    return Columns._make(zip(*rows, strict=True)) if rows else Columns(*((),) * len(Columns._fields))


def stretches_of(columns: Columns) -> list[Stretch]:
    """Where each stream's rows begin and end."""
    streams = columns.streams
    if not streams:
        return []
    starts = [0, *compress(range(1, len(streams)), map(ne, streams[1:], streams))]
    return [Stretch(streams[start], start, end) for start, end in zip(starts, [*starts[1:], len(streams)], strict=True)]


def living(db: sqlite3.Connection, streams: Iterable[int]) -> set[int]:
    """Which of them live, and can be sealed. Asked after the rows were read: these were all there, then."""
    wanted = msgspec.json.encode(sorted(streams)).decode()
    return set(map(itemgetter(0), db.execute(SEALING.living_streams, (wanted,))))
