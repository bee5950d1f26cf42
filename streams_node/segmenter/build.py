"""Builds one seal, in a worker's child: `plan → read → check → write`."""

import os
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from streams_node.objects.keys import object_id
from streams_node.placement.made import ObjectFacts
from streams_node.segmenter.batches import batches_of
from streams_node.segmenter.check import damaged
from streams_node.segmenter.columns import Rows, Stretches, sorted_by_stream, stretches_of
from streams_node.segmenter.ends import write_ends
from streams_node.segmenter.messages import Built, BuiltObject, Order
from streams_node.segmenter.rows import left_out, open_log, take
from streams_node.segments.format import Kind, payload_offsets
from streams_node.segments.writer import ObjectWriter, Written
from streams_node.testing.crashpoints import crash_point

_ID_BYTES = 16


def seal(arguments: dict[str, Any]) -> dict[str, Any]:
    """The command `seal`: an `Order`, answered by a `Built`."""
    built = build(msgspec.convert(arguments, Order))
    pa.default_memory_pool().release_unused()
    crash_point("worker.seal.after")
    found: dict[str, Any] = msgspec.to_builtins(built)
    return found


def build(order: Order) -> Built:
    """Files of everything that is to be sealed, and what has to be known of them."""
    folder = Path(order.folder)
    with closing(open_log(order.database)) as db:
        taken = take(db, order.after_row, order.through_row, order.flush_bytes_max)
        count = taken.rows.size
        rows = sorted_by_stream(taken.rows)
        rows = rows.without(left_out(db, pc.unique(rows.column("stream"))))
        stretches = stretches_of(rows)
        stuck = damaged(rows, stretches)
        if stuck:
            rows = rows.without(pa.array(stuck, pa.int64()))
            stretches = stretches_of(rows)
        written = list(_files(order, folder, rows, stretches))
        ends = write_ends(db, folder, rows, stretches, taken.marked)
    return Built(
        after_row=order.after_row,
        through_row=taken.through_row,
        log_bytes=taken.bytes,
        rows=count,
        objects=[_object(each, order.after_row + 1, taken.through_row) for each in written],
        ends=None if ends is None else str(ends),
        stuck=sorted(stuck.items()),
    )


def _files(order: Order, folder: Path, rows: Rows, stretches: Stretches) -> Iterator[Written]:
    """Segments of the streams that have enough for their own, and a pack of all others."""
    own = stretches.of(pc.greater_equal(rows.bytes_of(stretches), order.own_segment_bytes))
    for _, start, end in own.ranges():
        yield from _segments(order, folder, rows.part(start, end))
        crash_point("worker.seal.inside")
    yield from _pack(folder, rows.without(own.streams))
    crash_point("worker.seal.inside")


def _segments(order: Order, folder: Path, rows: Rows) -> Iterator[Written]:
    """One stream's entries, a file after the other."""
    batches = batches_of(rows)
    batch = next(batches, None)
    while batch is not None:
        with _writer(folder, "segment") as writer:
            while batch is not None:
                room = _room(order, writer, batch)
                writer.write(batch.slice(0, room))
                if room < batch.num_rows:
                    batch = batch.slice(room)
                    break
                batch = next(batches, None)
            yield writer.finish()


def _room(order: Order, writer: ObjectWriter, batch: Any) -> int:
    """How many entries of a batch still go into a segment: the one that fills it does."""
    if writer.payload_bytes >= order.segment_bytes or writer.entries >= order.segment_entries:
        return 0
    offsets = payload_offsets(batch.column("payload"))
    full = bisect_left(offsets, offsets[0] + order.segment_bytes - writer.payload_bytes)
    return min(full, order.segment_entries - writer.entries, int(batch.num_rows))


def _pack(folder: Path, rows: Rows) -> Iterator[Written]:
    if not pc.sum(rows.column("count")).as_py():  # nothing but ends of streams
        return
    with _writer(folder, "pack") as writer:
        for batch in batches_of(rows):
            writer.write(batch)
        yield writer.finish()


def _writer(folder: Path, kind: Kind) -> ObjectWriter:
    return ObjectWriter(folder, _fresh_id(), kind=kind, level=0)


def _fresh_id() -> str:
    return object_id(os.urandom(_ID_BYTES))


def _object(written: Written, first_row: int, last_row: int) -> BuiltObject:
    facts = written._asdict() | {"bytes": written.size, "first_row": first_row, "last_row": last_row}
    for name in ("size", "file", "directory"):
        del facts[name]
    return BuiltObject(facts=ObjectFacts(**facts), file=str(written.file), directory=written.directory)
