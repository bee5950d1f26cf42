"""Builds and merges exact runs.

stream  int64
field   string     the name of a declared field
hash    uint64     xxh3_64 of the value's bytes; its seed is xxh3_64 of the stream as int64le and the field as UTF-8
value   binary     the canonical exact text as UTF-8 (a lone surrogate as three bytes, as UTF-8 would spell it), cut
                   after 512 bytes
object  int32      ordinal in the metadata
count   int64      occurrences in that object: an entry whose array repeats a value counts it as often as it came in
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise, repeat
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_64_intdigest

from indexers.exact.filter import FilterBuilder
from indexers.runs import Family, Living, RunReader, RunWriter, Target, Written, combined, merge_blocks, moved

STORED_BYTES_MAX = 512  # of a value; behind it the hash of the whole decides, so that a 10 MB value costs no 10 MB here
FAMILY = Family(
    name="exact",
    format=1,
    schema=pa.schema(
        [
            pa.field("stream", pa.int64(), nullable=False),
            pa.field("field", pa.string(), nullable=False),
            pa.field("hash", pa.uint64(), nullable=False),
            pa.field("value", pa.binary(), nullable=False),
            pa.field("object", pa.int32(), nullable=False),
            pa.field("count", pa.int64(), nullable=False),
        ]
    ),
    key=("stream", "field", "hash", "value", "object"),
    dictionary=("stream", "field", "object", "count"),
    encodings={"hash": "DELTA_BINARY_PACKED"},
)
_STREAM = struct.Struct("<q")
_COUNTED = pa.schema([("stream", pa.int64()), ("field", pa.string()), ("value", pa.binary()), ("count", pa.int64())])
_ORDER = [(name, "ascending") for name in FAMILY.key]


class Built(NamedTuple):
    """A run, and the filter that belongs to it."""

    written: Written
    filter: bytes


def utf8(text: str) -> bytes:
    """The bytes of a canonical text, whatever it holds."""
    return text.encode("utf-8", "surrogatepass")


def hash_of(stream: int, field: str, value: bytes) -> int:
    """What the index calls the value of a stream's field."""
    return xxh3_64_intdigest(value, _seed(stream, field))


def build(objects: Iterable[tuple[str, Iterable[Any]]], target: Target) -> Built:
    """A run of these objects; `value` is text or binary. Memory goes by their distinct values.

    Who has much of one object makes `values_of` each part of it first.
    """
    names, found = list[str](), list[Any]()
    for ordinal, (name, tables) in enumerate(objects):
        names.append(name)
        counted = [table if "count" in table.column_names else values_of(table) for table in tables]
        if counted:
            table = pa.concat_tables(counted)
            if len(counted) > 1:
                table = _summed(table, ["stream", "field", "value"])
            found.append(table.append_column("object", pa.repeat(pa.scalar(ordinal, pa.int32()), table.num_rows)))
    rows = _hashed(pa.concat_tables(found)).sort_by(_ORDER) if found else FAMILY.schema.empty_table()
    filtered = FilterBuilder(rows.num_rows)
    with RunWriter(FAMILY, target, names) as writer:
        writer.write(rows)
        filtered.add(_distinct(rows))
        return Built(writer.finish(), filtered.finish())


def merge(readers: Sequence[RunReader], target: Target, living: Sequence[Living] | None = None) -> Built:
    """One run of all that the given ones cover, with a filter of its own; of each reader only what is living."""
    names = combined(readers)
    shifted, before = list[Iterator[Any]](), 0
    for reader, kept in zip(readers, living or [None] * len(readers), strict=True):
        shifted.append(moved(reader, before, kept))
        before += len(reader.objects)
    filtered, last = FilterBuilder(sum(reader.rows for reader in readers)), pa.array([], pa.uint64())
    with RunWriter(FAMILY, target, names) as writer:
        for table in merge_blocks(shifted, FAMILY.key, lambda rows: rows.sort_by(_ORDER)):
            writer.write(table)
            hashes = _distinct(table)
            filtered.add(hashes.slice(int(bool(len(last)) and hashes[0] == last[0])))  # begins where a block ended
            last = hashes.slice(len(hashes) - 1)
        return Built(writer.finish(), filtered.finish())


def counted(streams: Any, field: str, values: Any) -> Any:
    """(stream, field, value, count) of the values of a field, distinct; beside each value, or null, its stream."""
    bounds = pc.min_max(streams).as_py()
    if bounds["min"] != bounds["max"]:
        return values_of(pa.table([streams, pa.repeat(field, len(values)), values], names=["stream", "field", "value"]))
    found = pc.value_counts(values.drop_null())
    rows = len(found)
    stream = pa.repeat(pa.scalar(bounds["min"], pa.int64()), rows)
    columns = [stream, pa.repeat(field, rows), found.field("values").cast(pa.binary()), found.field("counts")]
    return pa.table(columns, schema=_COUNTED)


def values_of(table: Any) -> Any:
    """(stream, field, value, count) of one table, distinct."""
    table = table.select(["stream", "field", "value"]).filter(pc.is_valid(table.column("value")))
    ones = pa.repeat(pa.scalar(1, pa.int64()), table.num_rows)
    fields = [("stream", pa.int64()), ("field", pa.string()), ("value", pa.binary())]
    return _summed(table.cast(pa.schema(fields)).append_column("count", ones), ["stream", "field", "value"])


def _summed(table: Any, key: list[str]) -> Any:
    summed = table.group_by(key, use_threads=False).aggregate([("count", "sum")])
    return summed.rename_columns([*key, "count"])


def _hashed(table: Any) -> Any:
    """Rows of the format, in no order: long values cut, and hashed as they were."""
    table = table.sort_by([("stream", "ascending"), ("field", "ascending")])
    values = table.column("value")
    hashes = map(xxh3_64_intdigest, values.to_pylist(), _seeds(table))
    table = table.append_column("hash", pa.array(hashes, pa.uint64(), size=table.num_rows))
    if (pc.max(pc.binary_length(values)).as_py() or 0) > STORED_BYTES_MAX:
        cut = pc.binary_slice(values, 0, STORED_BYTES_MAX)
        table = table.set_column(table.schema.get_field_index("value"), "value", cut)
        table = _summed(table, list(FAMILY.key))  # two values that agree in hash and beginning are one row
    return table.select(FAMILY.schema.names).cast(FAMILY.schema)


def _seeds(table: Any) -> Iterator[int]:
    """The seed of each row: streams and fields follow each other, and there may be 100,000 pairs of few rows each.

    Not by grouping: groups come in no order that one could count on.
    """
    streams, fields = (table.column(name).combine_chunks() for name in ("stream", "field"))
    if not len(streams):
        return iter(())
    same = [pc.equal(each.slice(1), each.slice(0, len(each) - 1)) for each in (streams, fields)]
    starts = [0, *(at + 1 for at in pc.indices_nonzero(pc.invert(pc.and_(*same))).to_pylist())]
    counts = [end - start for start, end in pairwise([*starts, len(streams)])]
    seeds = map(_seed, streams.take(starts).to_pylist(), fields.take(starts).to_pylist())
    return chain.from_iterable(map(repeat, seeds, counts))


def _distinct(rows: Any) -> Any:
    """The hashes of sorted rows, each once where it follows itself."""
    hashes = rows.column("hash").combine_chunks()
    return pc.run_end_encode(hashes).values


def _seed(stream: int, field: str) -> int:
    return xxh3_64_intdigest(_STREAM.pack(stream) + utf8(field))
