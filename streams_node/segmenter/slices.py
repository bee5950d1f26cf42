"""Reads the log a slice at a time, so that no checkpoint waits for the end of it: many plain rows at once, or any."""

import sqlite3
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import pyarrow as pa

import sql
from streams_node.segmenter.columns import LOG_ROW
from streams_node.segmenter.plain import Plain, columns_of, read_plain

_READ = sql.queries("sealing").rows_to_seal
_SLICE_BYTES = 8 << 20  # in one read transaction
_ROWS_AT_ONCE = 32  # of the largest size still not too much memory
_PLAIN_ROWS = 256  # in one read, after rows that are not plain
_PLAIN_ROWS_MAX = 2048  # of the largest plain rows, a slice
_ROW_ID, _PAYLOAD = 0, -1


@dataclass(slots=True)
class Slices:
    """What has been read of the rows above `read_row`'s first value, up to `through_row`: parts, in their order."""

    read_row: int
    through_row: int
    size: int = 0  # of payload
    data: bytearray = field(default_factory=bytearray)  # payloads of plain rows
    others: list[bytes] = field(default_factory=list)  # payloads of others
    marked: list[tuple[int, int]] = field(default_factory=list)  # see `Taken`
    _parts: list[Any] = field(default_factory=list)  # Plain, or columns of LOG_ROW
    _mixed_row: int = 0  # up to this one, not all are plain
    _plain_rows: int = _PLAIN_ROWS

    def read_on(self, db: sqlite3.Connection) -> None:
        """Read a slice."""
        if self.read_row >= self._mixed_row:
            end = min(self.read_row + self._plain_rows, self.through_row)
            found = read_plain(db, self.read_row, end)
            if found is not None:
                stretch, payload = found
                self.data += payload
                self._add(stretch, len(payload), end, is_marked=stretch.is_marked)
                self._plain_rows = min(2 * self._plain_rows, _PLAIN_ROWS_MAX)
                return
            self._plain_rows = _PLAIN_ROWS
            self._mixed_row = end
        self._read_any(db)

    def columns(self) -> Any:
        """All of it as columns of LOG_ROW. Plain rows become columns together, as every call takes its time."""
        stretches = [part for part in self._parts if isinstance(part, Plain)]
        together: Any = columns_of(stretches, len(self.data)) if stretches else None
        batches = []
        at = 0
        for part in self._parts:
            if isinstance(part, Plain):
                batches.append(together.slice(at, part.rows))
                at += part.rows
            else:
                batches.append(part)
        return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], LOG_ROW)

    def _read_any(self, db: sqlite3.Connection) -> None:
        """Read rows of any kind, one by one."""
        rows, size = _fetched(db, self.read_row, self._mixed_row)
        through = rows[-1][_ROW_ID] if size >= _SLICE_BYTES else self._mixed_row
        columns: list[Any] = list(zip(*rows, strict=True)) if rows else [()] * len(LOG_ROW)
        payloads, marks = columns.pop(), columns.pop()
        first = -1 - len(self.others)
        columns += [list(map(len, payloads)), range(first, first - len(rows), -1)]
        arrays = [pa.array(column, kind.type) for column, kind in zip(columns, LOG_ROW, strict=True)]
        self.others += payloads
        self._add(pa.RecordBatch.from_arrays(arrays, schema=LOG_ROW), size, through, is_marked=any(marks))

    def _add(self, part: Any, size: int, through: int, *, is_marked: bool) -> None:
        """A part, up to a row."""
        self._parts.append(part)
        self.size += size
        if is_marked and self.marked and self.marked[-1][1] == self.read_row:
            self.marked[-1] = (self.marked[-1][0], through)
        elif is_marked:
            self.marked.append((self.read_row, through))
        self.read_row = through


def _fetched(db: sqlite3.Connection, after: int, through: int) -> tuple[list[Any], int]:
    """Rows from one read transaction, and the size of their payloads: less than a slice only if they are all."""
    rows: list[Any] = []
    size = 0
    cursor = db.execute(_READ, {"after": after, "through": through})
    try:
        while size < _SLICE_BYTES and (some := cursor.fetchmany(_ROWS_AT_ONCE)):
            rows += some
            size += sum(map(len, map(itemgetter(_PAYLOAD), some)))
    finally:
        cursor.close()
    return rows, size
