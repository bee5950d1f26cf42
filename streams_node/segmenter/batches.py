"""Makes columns of entries out of rows of the log, without touching single entries in Python.

A row's payload is its entries with commas between them, and the rows of a stream, one behind the other, are its
entries in order, also where one spans several rows. So all payloads are joined into one buffer, the lengths of entries
and commas in turn become offsets into it, and a filter takes every other of them. Whatever is the same for all entries
of a row is taken from the row by the index of each entry's row.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, compress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streams_node.protocol.frames import KEY_FOR_ALL, unpack_keys, unpack_lens
from streams_node.segmenter.columns import Rows
from streams_node.segments.format import SCHEMA
from streams_node.wal.heads import FIRST

_BATCH_BYTES = 4 << 20  # more at once takes more memory, and no less time
_BATCH_ROWS = 1 << 16
_TIME = pa.timestamp("us", tz="UTC")
_EVERY_OTHER = b"\x55"  # bits 0, 2, 4, 6


def batches_of(rows: Rows) -> Iterator[Any]:
    """Batches of entries, in the order of the rows, cut where an append begins."""
    start = 0
    for end in _cuts(rows):
        batch = _batch(rows.part(start, end))
        if batch.num_rows:
            yield batch
        start = end


def _cuts(rows: Rows) -> Iterator[int]:
    """Where batches end."""
    count = rows.size
    ends = array("q", pc.cumulative_sum(rows.column("size")).to_pylist())
    flags = rows.column("flags")
    start = 0
    while start < count:
        limit = (ends[start - 1] if start else 0) + _BATCH_BYTES
        at = min(bisect_right(ends, limit, start), start + _BATCH_ROWS, count)
        at = max(at, start + 1)
        while at < count and not flags[at].as_py() & FIRST:
            at += 1
        yield at
        start = at


def _batch(rows: Rows) -> Any:
    data = rows.data()
    starts = pc.not_equal(pc.bit_wise_and(rows.column("flags"), FIRST), 0)
    lens = rows.column("lens")
    if lens.null_count == rows.size and pc.all(pc.equal(rows.column("count"), 1)).as_py():
        return _one_each(rows, starts, data)
    return _many_each(rows, starts, data)


def _one_each(rows: Rows, starts: Any, data: Any) -> Any:
    """Every row is one whole entry."""
    return _record_batch(
        rows.column("stream"),
        rows.column("seq"),
        rows.column("ts"),
        starts,
        rows.column("schema_version"),
        _keys(rows, None),
        _payloads(rows.column("size"), data),
    )


def _many_each(rows: Rows, starts: Any, data: Any) -> Any:
    """Rows with several entries, with one, with a piece of one, or with none."""
    counts = rows.column("count").to_pylist()
    firsts = array("i", accumulate(counts, initial=0))  # index of each row's first entry
    count = firsts[-1]
    entries = _entries(_lens(rows), counts, data)
    row_of = pc.list_parent_indices(pa.ListArray.from_arrays(_numbers(firsts), entries))
    first_of_row = pc.take(_numbers(firsts), row_of)
    index = pc.subtract(pa.arange(0, count), first_of_row)
    return _record_batch(
        pc.take(rows.column("stream"), row_of),
        pc.add(pc.take(rows.column("seq"), row_of), index),
        pc.take(rows.column("ts"), row_of),
        _starts(count, compress(firsts, starts.to_pylist())),
        pc.take(rows.column("schema_version"), row_of),
        _keys(rows, row_of),
        entries,
    )


def _payloads(sizes: Any, data: Any) -> Any:
    ends = pc.cumulative_sum(sizes).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.Array.from_buffers(pa.binary(), len(sizes), [None, offsets.buffers()[1], data])


def _entries(lens: "array[int]", counts: list[int], data: Any) -> Any:
    """The entries themselves: every other value of a column of entries and commas in turn."""
    count = len(lens)
    sizes = array("i", bytes(4 * (2 * count + 1)))  # nothing, entry, comma, entry, comma, …
    sizes[1::2] = lens
    sizes[2::2] = array("i", [1]) * count
    for end in accumulate(counts):
        sizes[2 * end] = 0  # none after a row's last entry
    offsets = pc.cumulative_sum(_numbers(sizes))
    both = pa.Array.from_buffers(pa.binary(), 2 * count, [None, offsets.buffers()[1], data])
    mask = pa.Array.from_buffers(pa.bool_(), 2 * count, [None, pa.py_buffer(_EVERY_OTHER * (count // 4 + 1))])
    return both.filter(mask)


def _lens(rows: Rows) -> "array[int]":
    """The length of every entry: one that spans rows has the length of all its pieces."""
    lens = array("i")
    pieces = 0
    columns = [rows.column(name).to_pylist() for name in ("count", "lens", "size")]
    for count, blob, size in zip(*columns, strict=True):
        if blob is not None:
            lens.frombytes(unpack_lens(blob).tobytes())
        elif count:
            lens.append(pieces + size)
            pieces = 0
        else:
            pieces += size
    return lens


def _keys(rows: Rows, row_of: Any) -> Any:
    """The routing keys: by row where all entries of each row share one."""
    blobs = rows.column("keys")
    if blobs.null_count == len(blobs):
        return pa.nulls(len(blobs) if row_of is None else len(row_of), pa.string())
    if pc.all(pc.starts_with(blobs, KEY_FOR_ALL)).as_py():
        by_row = pc.utf8_slice_codeunits(blobs.cast(pa.string()), len(KEY_FOR_ALL))
        return by_row if row_of is None else pc.take(by_row, row_of)
    keys: list[str | None] = []
    for blob, count in zip(blobs.to_pylist(), rows.column("count").to_pylist(), strict=True):
        keys += unpack_keys(blob, count)
    return pa.array(keys, pa.string())


def _starts(count: int, firsts: Iterable[int]) -> Any:
    """A truth for every entry: whether an append begins with it."""
    values = bytearray(count + 1)  # one more: an append without entries may stand at the end
    for at in firsts:
        values[at] = 1
    return pa.Array.from_buffers(pa.uint8(), count, [None, pa.py_buffer(values)]).cast(pa.bool_())


def _numbers(values: "array[int]") -> Any:
    return pa.Array.from_buffers(pa.int32(), len(values), [None, pa.py_buffer(values)])


def _record_batch(streams: Any, seqs: Any, times: Any, starts: Any, versions: Any, keys: Any, payloads: Any) -> Any:
    return pa.RecordBatch.from_arrays(
        [streams, seqs, times.cast(_TIME), starts, versions, keys, payloads], schema=SCHEMA
    )
