"""Makes columns of entries out of rows of the log, without touching single entries in Python.

A row's payload is its entries with commas between them, and the rows of a stream, one behind the other, are its
entries in order, also where one spans several rows. So all payloads are joined into one buffer, the lengths of entries
and commas in turn become offsets into it, and a filter takes every other of them. Whatever is the same for all entries
of a row is taken from the row by the index of each entry's row.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, compress, repeat
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streams_node.protocol.frames import KEY_FOR_ALL, unpack_keys, unpack_lens
from streams_node.segmenter.rows import Columns
from streams_node.segments.format import SCHEMA
from streams_node.wal.heads import FIRST

_BATCH_BYTES = 4 << 20  # more at once takes more memory, and no less time
_BATCH_ROWS = 1 << 16
_TIME = pa.timestamp("us", tz="UTC")
_EVERY_OTHER = b"\x55"  # bits 0, 2, 4, 6


def batches_of(columns: Columns) -> Iterator[Any]:
    """Batches of entries, in the order of the rows, cut where an append begins."""
    start = 0
    for end in _cuts(columns):
        batch = _batch(columns.part(start, end))
        if batch.num_rows:
            yield batch
        start = end


def _cuts(columns: Columns) -> Iterator[int]:
    """Where batches end."""
    ends = list(accumulate(map(len, columns.payloads)))
    flags, rows = columns.flags, len(ends)
    start = 0
    while start < rows:
        limit = (ends[start - 1] if start else 0) + _BATCH_BYTES
        at = min(bisect_right(ends, limit, start), start + _BATCH_ROWS, rows)
        at = max(at, start + 1)
        while at < rows and not flags[at] & FIRST:
            at += 1
        yield at
        start = at


def _batch(rows: Columns) -> Any:
    if rows.counts.count(1) == len(rows.counts) and rows.lens.count(None) == len(rows.counts):
        return _one_each(rows)
    return _many_each(rows)


def _one_each(rows: Columns) -> Any:
    """Every row is one whole entry."""
    return _record_batch(
        pa.array(rows.streams, pa.int64()),
        pa.array(rows.seqs, pa.int64()),
        pa.array(rows.times, pa.int64()),
        _flags_of(len(rows.counts), [at for at, flag in enumerate(rows.flags) if not flag & FIRST], default=1),
        pa.array(rows.versions, pa.int32()),
        _keys(rows, None),
        pa.array(rows.payloads, pa.binary()),
    )


def _many_each(rows: Columns) -> Any:
    """Rows with several entries, with one, with a piece of one, or with none."""
    firsts = array("i", accumulate(rows.counts, initial=0))  # index of each row's first entry
    count = firsts.pop()
    payloads = _payloads(rows, count)
    row_of = pc.list_parent_indices(
        pa.ListArray.from_arrays(pa.array(array("i", [*firsts, count]), pa.int32()), payloads)
    )
    first_of_row = pc.take(_numbers(firsts), row_of)
    index = pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count)), 1)
    seqs = pc.add(pc.take(pa.array(rows.seqs, pa.int64()), row_of), pc.subtract(index, first_of_row))
    starts = compress(firsts, map(and_, rows.flags, repeat(FIRST)))
    return _record_batch(
        pc.take(pa.array(rows.streams, pa.int64()), row_of),
        seqs,
        pc.take(pa.array(rows.times, pa.int64()), row_of),
        _flags_of(count, starts, default=0),
        pc.take(pa.array(rows.versions, pa.int32()), row_of),
        _keys(rows, row_of),
        payloads,
    )


def _payloads(rows: Columns, count: int) -> Any:
    """The entries themselves: every other value of a column of entries and commas in turn."""
    lens = _lens(rows)
    sizes = array("i", bytes(4 * (2 * count + 1)))  # nothing, entry, comma, entry, comma, …
    sizes[1::2] = lens
    sizes[2::2] = array("i", [1]) * count
    for end in accumulate(rows.counts):
        sizes[2 * end] = 0  # none after a row's last entry
    offsets = pc.cumulative_sum(_numbers(sizes, pa.int32()))
    both = pa.Array.from_buffers(
        pa.binary(), 2 * count, [None, offsets.buffers()[1], pa.py_buffer(b"".join(rows.payloads))]
    )
    mask = pa.Array.from_buffers(pa.bool_(), 2 * count, [None, pa.py_buffer(_EVERY_OTHER * (count // 4 + 1))])
    return both.filter(mask)


def _lens(rows: Columns) -> "array[int]":
    """The length of every entry: one that spans rows has the length of all its pieces."""
    lens = array("i")
    pieces = 0
    for count, blob, payload in zip(rows.counts, rows.lens, rows.payloads, strict=True):
        if blob is not None:
            lens.frombytes(unpack_lens(blob).tobytes())
        elif count:
            lens.append(pieces + len(payload))
            pieces = 0
        else:
            pieces += len(payload)
    return lens


def _keys(rows: Columns, row_of: Any) -> Any:
    """The routing keys: by row where all entries of each row share one."""
    if rows.keys.count(None) == len(rows.keys):
        return pa.nulls(len(rows.keys) if row_of is None else len(row_of), pa.string())
    if all(blob is None or blob[:1] == KEY_FOR_ALL for blob in rows.keys):
        by_row = pa.array([None if blob is None else blob[1:].decode() for blob in rows.keys], pa.string())
        return by_row if row_of is None else pc.take(by_row, row_of)
    keys: list[str | None] = []
    for blob, count in zip(rows.keys, rows.counts, strict=True):
        keys += unpack_keys(blob, count)
    return pa.array(keys, pa.string())


def _flags_of(count: int, others: Iterator[int] | Sequence[int], *, default: int) -> Any:
    """A column of truths that is `default` but for some."""
    values = bytearray((default,)) * (count + 1)  # one more: an append without entries may stand at the end
    for at in others:
        values[at] = 1 - default
    return pa.Array.from_buffers(pa.uint8(), count, [None, pa.py_buffer(values)]).cast(pa.bool_())


def _numbers(values: "array[int]", kind: Any = None) -> Any:
    kind = kind or pa.int32()
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _record_batch(streams: Any, seqs: Any, times: Any, starts: Any, versions: Any, keys: Any, payloads: Any) -> Any:
    return pa.RecordBatch.from_arrays(
        [streams, seqs, times.cast(_TIME), starts, versions, keys, payloads], schema=SCHEMA
    )
