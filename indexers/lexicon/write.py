"""Builds and merges lexicon runs.

stream   int64
key      string          a routing key, unshortened
objects  list<int32>     ordinals of the objects in the metadata that hold the key, ascending
count    int64           entries with this key in all of them; after objects were left out, at most so many
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indexers.runs import Family, Living, RunReader, RunWriter, Target, Written, alive, combined, merge_blocks

FAMILY = Family(
    name="lexicon",
    format=1,
    schema=pa.schema(
        [
            pa.field("stream", pa.int64(), nullable=False),
            pa.field("key", pa.string(), nullable=False),
            pa.field("objects", pa.list_(pa.field("element", pa.int32(), nullable=False)), nullable=False),
            pa.field("count", pa.int64(), nullable=False),
        ]
    ),
    key=("stream", "key"),
    dictionary=("stream", "objects.list.element", "count"),
    encodings={"key": "DELTA_BYTE_ARRAY"},  # neighbours share their beginnings
)
_NARROW = pa.schema([("stream", pa.int64()), ("key", pa.string()), ("object", pa.int32()), ("count", pa.int64())])


def build(objects: Iterable[tuple[str, Iterable[Any]]], target: Target) -> Written:
    """A run of these objects. Memory goes by their distinct keys."""
    names, found = list[str](), list[Any]()
    for ordinal, (name, tables) in enumerate(objects):
        names.append(name)
        found += [_narrow(table, ordinal) for table in tables]
    with RunWriter(FAMILY, target, names) as writer:
        if found:
            writer.write(_joined(pa.concat_tables(found)))
        return writer.finish()


def merge(readers: Sequence[RunReader], target: Target, living: Sequence[Living] | None = None) -> Written:
    """One run of all that the given ones cover; of each only what is living."""
    names = combined(readers)
    shifted, before = list[Iterator[Any]](), 0
    for reader, kept in zip(readers, living or [None] * len(readers), strict=True):
        shifted.append(_spread(reader, before, kept))
        before += len(reader.objects)
    with RunWriter(FAMILY, target, names) as writer:
        for table in merge_blocks(shifted, FAMILY.key, _joined):
            writer.write(table)
        return writer.finish()


def _narrow(table: Any, ordinal: int) -> Any:
    """(stream, key, object, count) of one table: distinct, in no order."""
    table = table.select(["stream", "key"]).filter(pc.is_valid(table.column("key")))
    counted = table.group_by(["stream", "key"], use_threads=False).aggregate([([], "count_all")])
    ordinals = pa.repeat(pa.scalar(ordinal, pa.int32()), counted.num_rows)
    columns = [counted.column("stream"), counted.column("key"), ordinals, counted.column("count_all")]
    return pa.table(columns, names=_NARROW.names).cast(_NARROW)


def _spread(reader: RunReader, before: int, living: Living) -> Iterator[Any]:
    """The rows of a run, one for each object of a key. The count goes to the first of them: only the sum is kept."""
    for table in reader.tables():
        lists = table.column("objects").chunk(0)
        parents, ordinals = pc.list_parent_indices(lists), pc.list_flatten(lists)
        if living is not None:
            streams = table.column("stream").chunk(0).take(parents)
            kept = alive(pa.table([streams, ordinals], names=["stream", "object"]), living)
            if kept is not None:
                parents, ordinals = parents.filter(kept), ordinals.filter(kept)
            if not len(parents):
                continue
        first = pc.fill_null(pc.not_equal(parents, _previous(parents)), True)  # noqa: FBT003 - pyarrow's way
        counts = pc.if_else(first, table.column("count").chunk(0).take(parents), 0)
        columns = [
            table.column("stream").chunk(0).take(parents),
            table.column("key").chunk(0).take(parents),
            pc.add(ordinals, pa.scalar(before, pa.int32())),
            counts,
        ]
        yield pa.table(columns, names=_NARROW.names).cast(_NARROW)


def _joined(table: Any) -> Any:
    """Rows of the format out of narrow ones: sorted, one a key."""
    if not table.num_rows:
        return FAMILY.schema.empty_table()
    order = [("stream", "ascending"), ("key", "ascending"), ("object", "ascending")]
    table = table.sort_by(order).combine_chunks()
    stream, key, ordinal, count = (table.column(name).combine_chunks() for name in _NARROW.names)
    other_key = pc.or_(pc.not_equal(stream, _previous(stream)), pc.not_equal(key, _previous(key)))
    new = pc.fill_null(other_key, True)  # noqa: FBT003 - pyarrow's way
    other = pc.fill_null(pc.not_equal(ordinal, _previous(ordinal)), True)  # noqa: FBT003
    kept = pc.or_(new, other)  # several tables of one object repeat it
    starts = pc.indices_nonzero(new).cast(pa.int64())
    ends = pa.concat_arrays([starts.slice(1), pa.array([len(stream)], pa.int64())])
    sums = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(count)])
    places = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(kept.cast(pa.int64()))])
    offsets = places.take(pa.concat_arrays([starts, ends.slice(len(ends) - 1)])).cast(pa.int32())
    lists = pa.ListArray.from_arrays(offsets, ordinal.filter(kept), type=FAMILY.schema.field("objects").type)
    columns = [stream.take(starts), key.take(starts), lists, pc.subtract(sums.take(ends), sums.take(starts))]
    return pa.table(columns, schema=FAMILY.schema)


def _previous(column: Any) -> Any:
    """The column one row later: beside each row its predecessor, null beside the first."""
    return pa.concat_arrays([pa.nulls(min(1, len(column)), column.type), column.slice(0, max(0, len(column) - 1))])
