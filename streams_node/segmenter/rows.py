"""Takes a stretch of the log for a seal: as many whole appends as fit."""

import sqlite3
from operator import itemgetter
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

import sql
from streams_node.segmenter.columns import Rows
from streams_node.segmenter.plain import payloads_of
from streams_node.segmenter.slices import Slices
from streams_node.wal.heads import FIRST

SEALING = sql.queries("sealing")
_BUSY_S = 30.0
_CACHE_KIB = 2048  # every page is read once


class Taken(NamedTuple):
    """A stretch of the log, with everything that was appended in it."""

    rows: Rows  # in the order of the log
    through_row: int
    bytes: int
    marked: list[tuple[int, int]]  # ranges (after, through) of rows that may say more of their append


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
    slices = Slices(after, through)
    while slices.read_row < through:
        slices.read_on(db)
        if slices.size > bytes_max and (cut := _cut(columns := slices.columns(), bytes_max)):
            columns = columns.slice(0, cut)
            return _taken(slices, columns, _last_row(columns, after))
    columns = slices.columns()
    if not _ends_append(db, through):
        columns = columns.slice(0, max(_begins(columns), default=0))
        through = _last_row(columns, after)
    return _taken(slices, columns, through)


def _taken(slices: Slices, columns: Any, through: int) -> Taken:
    size = pc.sum(columns.column("size")).as_py() or 0
    marked = [(start, min(end, through)) for start, end in slices.marked if start < through]
    return Taken(Rows(columns, payloads_of(columns, slices.data), slices.others), through, size, marked)


def _cut(columns: Any, bytes_max: int) -> int:
    """How many rows fit, up to an append's end; if the first append does not, all of it. 0: its end is not known."""
    begins = [at for at in _begins(columns) if at]
    if not begins:
        return 0
    ends = pc.cumulative_sum(columns.column("size"))
    sizes = pc.take(ends, pc.subtract(pa.array(begins, pa.int64()), 1))  # of all rows before each
    fitting: int = pc.sum(pc.less_equal(sizes, bytes_max)).as_py()
    return begins[max(fitting - 1, 0)]


def _begins(columns: Any) -> list[int]:
    """The rows that begin an append."""
    is_first = pc.not_equal(pc.bit_wise_and(columns.column("flags"), FIRST), 0)
    found: list[int] = pc.indices_nonzero(is_first).to_pylist()
    return found


def _last_row(columns: Any, default: int) -> int:
    return int(columns.column("row_id")[-1].as_py()) if columns.num_rows else default


def _ends_append(db: sqlite3.Connection, row: int) -> bool:
    following = db.execute(SEALING.flags_after, (row,)).fetchone()
    return following is None or bool(following[0] & FIRST)


def left_out(db: sqlite3.Connection, streams: Any) -> Any:
    """Which of them have died, or cannot be sealed. Asked after the rows were read: these were all there, then."""
    wanted = msgspec.json.encode(streams.to_pylist()).decode()
    return pa.array(map(itemgetter(0), db.execute(SEALING.streams_left_out, (wanted,))), pa.int64())
