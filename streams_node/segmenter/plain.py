"""Reads plain rows of the log many at once: rows of one small entry, which begin an append and are all of it.

Most rows of most logs are such, and as Python objects they took longer to read than to compress. So SQLite joins each
of their columns: numbers to a text, which is read as a table of one column, and payloads to one blob.
"""

import sqlite3
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

import sql
from streams_node.errors import invariant
from streams_node.segmenter.columns import LOG_ROW
from streams_node.wal.heads import FIRST

_READ = sql.queries("sealing").plain_rows
_READ_KEYS = sql.queries("sealing").plain_keys
PAYLOAD_BYTES_MAX = 4096  # of a plain row: so that a stretch of them is not much memory
_NONE = -1  # instead of the size of a key that there is not


class Plain(NamedTuple):
    """A stretch of plain rows, without a gap in their numbers. Each of the texts is a column."""

    first_row: int
    rows: int
    schema_version: int
    is_marked: bool  # a row says more: of its producer, of an order, of the end of the stream
    streams: str
    seqs: str
    times: str
    sizes: str
    key_sizes: str | None
    keys: bytes


def read_plain(db: sqlite3.Connection, after: int, through: int) -> tuple[Plain, bytes] | None:
    """The rows above one, up to another, and their payloads; None unless all of them are there, and plain."""
    values = {"after": after, "through": through, "bytes_max": PAYLOAD_BYTES_MAX}
    found = db.execute(_READ, values).fetchone()
    count, version, keyed, marked, streams, seqs, times, sizes, payload = found
    if count != through - after:
        return None
    key_sizes, keys = None, b""
    if keyed:
        again, key_sizes, keys = db.execute(_READ_KEYS, values).fetchone()
        if again != count:  # some were freed just now
            return None
    plain = Plain(
        first_row=after + 1,
        rows=count,
        schema_version=version,
        is_marked=bool(marked),
        streams=streams,
        seqs=seqs,
        times=times,
        sizes=sizes,
        key_sizes=key_sizes,
        keys=keys or b"",
    )
    return plain, payload or b""


def columns_of(stretches: list[Plain], data_bytes: int) -> Any:
    """Columns of LOG_ROW, all stretches one behind the other; their payloads are so many bytes."""
    count = sum(each.rows for each in stretches)
    sizes = numbers_of([each.sizes for each in stretches])
    invariant(pc.sum(sizes).as_py() == data_bytes, "payloads are joined as they were")
    return pa.RecordBatch.from_arrays(
        [
            pa.concat_arrays([pa.arange(each.first_row, each.first_row + each.rows) for each in stretches]),
            numbers_of([each.streams for each in stretches]),
            numbers_of([each.seqs for each in stretches]),
            pa.repeat(pa.scalar(1, pa.int64()), count),
            pa.nulls(count, pa.int64()),
            pa.nulls(count, pa.int64()),
            numbers_of([each.times for each in stretches]),
            pa.repeat(pa.scalar(FIRST, pa.int64()), count),
            pa.concat_arrays([pa.repeat(pa.scalar(each.schema_version, pa.int32()), each.rows) for each in stretches]),
            pa.nulls(count, pa.binary()),
            pa.concat_arrays([_keys(each) for each in stretches]),
            sizes,
            pa.arange(0, count),
        ],
        schema=LOG_ROW,
    )


def payloads_of(columns: Any, data: bytearray) -> Any:
    """The payloads of the plain rows in columns of LOG_ROW, as a column; `data` begins with them."""
    sizes = columns.column("size").filter(pc.greater_equal(columns.column("place"), 0))
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(sizes)])
    return pa.Array.from_buffers(pa.large_binary(), len(sizes), [None, offsets.buffers()[1], pa.py_buffer(data)])


def numbers_of(texts: list[str]) -> Any:
    """Numbers with commas between them, in several texts, as a column."""
    lines = ",".join(texts).encode("ascii").replace(b",", b"\n")
    table = csv.read_csv(
        pa.py_buffer(lines),
        read_options=csv.ReadOptions(use_threads=False, block_size=len(lines), column_names=["number"]),
        convert_options=csv.ConvertOptions(column_types={"number": pa.int64()}),
    )
    return table.column(0).combine_chunks()


def _keys(plain: Plain) -> Any:
    """Routing keys as the log has them."""
    if plain.key_sizes is None:
        return pa.nulls(plain.rows, pa.binary())
    sizes = numbers_of([plain.key_sizes])
    ends = pc.cumulative_sum(pc.max_element_wise(sizes, 0)).cast(pa.int32())
    invariant(ends[-1].as_py() == len(plain.keys), "keys are joined as they were")
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    joined = pa.Array.from_buffers(pa.binary(), plain.rows, [None, offsets.buffers()[1], pa.py_buffer(plain.keys)])
    return pc.if_else(pc.equal(sizes, _NONE), pa.scalar(None, pa.binary()), joined)
