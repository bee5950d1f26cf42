"""Builds and merges rollup runs.

stream      int64
rollup      string
interval    int64            milliseconds
start       int64            of the window, milliseconds since 1970: a multiple of the interval
dimensions  string           JSON array in ASCII of the dimensions' exact texts or nulls, in the order of the rollup
measure     string
bucket      binary or null   null: the summary; else the key of a bucket of its histogram
object      int32            ordinal of the object whose entries these are
count       double           records, or what is in the bucket
sum, min, max   double or null   of a summary that has them

A histogram is rows of its own, so all rows add up alike: count and sum are added, min and max compared. Objects are not
added up in a run: a cover that is trimmed, deleted or superseded would stay in every sum.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indexers.runs import Family, Living, RunReader, RunWriter, Target, Written, combined, merge_blocks, moved

# Far above every useful window, and low enough that no start of a window leaves 64 bits: dates of records are within
# 8.64e15 ms of 1970. What is configured beyond is answered from the entries.
INTERVAL_MS_MAX = 1 << 53
FAMILY = Family(
    name="rollups",
    format=1,
    schema=pa.schema(
        [
            pa.field("stream", pa.int64(), nullable=False),
            pa.field("rollup", pa.string(), nullable=False),
            pa.field("interval", pa.int64(), nullable=False),
            pa.field("start", pa.int64(), nullable=False),
            pa.field("dimensions", pa.string(), nullable=False),
            pa.field("measure", pa.string(), nullable=False),
            pa.field("bucket", pa.binary(), nullable=True),
            pa.field("object", pa.int32(), nullable=False),
            pa.field("count", pa.float64(), nullable=False),
            pa.field("sum", pa.float64(), nullable=True),
            pa.field("min", pa.float64(), nullable=True),
            pa.field("max", pa.float64(), nullable=True),
        ]
    ),
    key=("stream", "rollup", "interval", "start", "dimensions", "measure", "bucket", "object"),
    dictionary=("stream", "rollup", "interval", "start", "dimensions", "measure", "bucket", "object", "count"),
    encodings={},
)
_ORDER = [(name, "ascending", "at_start") for name in FAMILY.key]
_VALUES = [("count", "sum"), ("sum", "sum"), ("min", "min"), ("max", "max")]
_WINDOW = ["stream", "start", "dimensions"]
_OBJECT = FAMILY.schema.get_field_index("object")
_EXPONENT_BITS, _EXPONENT_BIAS, _EXPONENT_MASK = 52, 1023, 0x7FF
_COMBINATIONS_MAX = 1 << 62
_LOG2_KEYS = [str(2**exponent).encode() for exponent in range(1024)]


@dataclass(frozen=True, slots=True)
class Counted:
    """`count`: 1 for an entry that its `include` takes, else 0; None: all are taken."""

    taken: Any = None


@dataclass(frozen=True, slots=True)
class Summarised:
    """`summary` of a number a record."""

    values: Any
    histogram: bool = False  # log2_v1


@dataclass(frozen=True, slots=True)
class Parts:
    """`summary_parts`: numbers that the records carry; histograms as a column of lists of (bucket, count) or None."""

    count: Any
    sum: Any
    min: Any
    max: Any
    histograms: Sequence[Mapping[str, float]] | None = None


Measure = Counted | Summarised | Parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Entries that contribute to a rollup: columns of one length, Arrow arrays or sequences."""

    stream: Any  # of all of them, or a column
    rollup: str
    intervals: Sequence[int]  # milliseconds
    times: Any  # milliseconds since 1970, rounded down
    dimensions: Sequence[Any]  # a column of exact texts or None for each
    measures: Mapping[str, Measure]


def build(objects: Iterable[tuple[str, Iterable[Part]]], target: Target) -> Written:
    """A run of these objects. Memory goes by their entries, an object at a time, and by their windows."""
    names, found = list[str](), list[Any]()
    for ordinal, (name, parts) in enumerate(objects):
        names.append(name)
        for table in parts_of(parts):
            ordinals = pa.repeat(pa.scalar(ordinal, pa.int32()), table.num_rows)
            found.append(table.set_column(_OBJECT, FAMILY.schema.field(_OBJECT), ordinals))
    with RunWriter(FAMILY, target, names) as writer:
        for tables in _in_order(found):
            writer.write(_added(pa.concat_tables(tables)))
        return writer.finish()


def parts_of(parts: Iterable[Any]) -> list[Any]:
    """The rows of parts of one object, added up: a table for each rollup and interval. Who has much of one object makes
    them of each part of it first.
    """
    rows, made = dict[Any, list[Any]](), list[Any]()
    for part in parts:
        if isinstance(part, Part):
            for interval, table in _rows(part):
                rows.setdefault((part.rollup, interval), []).append(table)
        else:
            made.append(part)
    return [*made, *(_added(pa.concat_tables(rows.pop(key))) for key in sorted(rows))]


def _in_order(found: list[Any]) -> Iterator[list[Any]]:
    """Tables whose rows come after one another. Those of one stream come by rollup and interval, one at a time.

    With many values of a dimension all of them took twice as much, and a quarter more time.
    """
    filled = [table for table in found if table.num_rows]
    streams = {bound for table in filled for bound in pc.min_max(table.column("stream")).as_py().values()}
    if len(streams) > 1:
        yield filled
        return
    kinds: dict[tuple[str, int], list[Any]] = {}
    for table in filled:
        kinds.setdefault((table.column("rollup")[0].as_py(), table.column("interval")[0].as_py()), []).append(table)
    for kind in sorted(kinds):
        yield kinds.pop(kind)


def merge(readers: Sequence[RunReader], target: Target, living: Sequence[Living] | None = None) -> Written:
    """One run of all that the given ones cover; of each only what is living."""
    names = combined(readers)
    shifted, before = list[Iterator[Any]](), 0
    for reader, kept in zip(readers, living or [None] * len(readers), strict=True):
        shifted.append(moved(reader, before, kept))
        before += len(reader.objects)
    with RunWriter(FAMILY, target, names) as writer:
        for table in merge_blocks(shifted, FAMILY.key, lambda rows: rows.sort_by(_ORDER)):
            writer.write(table)
        return writer.finish()


def _added(table: Any) -> Any:
    """Sorted rows, equal keys added up."""
    summed = table.group_by(list(FAMILY.key), use_threads=False).aggregate(_VALUES)
    summed = summed.rename_columns([*FAMILY.key, *(name for name, _ in _VALUES)])
    return summed.select(FAMILY.schema.names).cast(FAMILY.schema).sort_by(_ORDER)


def _rows(part: Part) -> Iterator[tuple[int, Any]]:
    """An interval, and rows of the format for it and a measure, in no order."""
    times = _column(part.times, pa.int64())
    stream = pa.repeat(pa.scalar(part.stream, pa.int64()), len(times)) if isinstance(part.stream, int) else part.stream
    stream = _column(stream, pa.int64())
    dimensions, texts = _dimensions(part.dimensions, len(times))
    measured = {name: list(_measured(measure, len(times))) for name, measure in part.measures.items()}
    for interval in part.intervals:
        if not 0 < interval <= INTERVAL_MS_MAX:
            raise ValueError(f"an interval of {interval} ms has no windows: at most {INTERVAL_MS_MAX}")
        window = [stream, _starts(times, interval), dimensions]
        for measure, tables in measured.items():
            for table, rows in tables:
                columns = window if rows is None else [column.take(rows) for column in window]
                names = [*_WINDOW, *table.column_names]
                keyed = pa.table([*columns, *table.columns], names=names)
                summed = keyed.group_by([*_WINDOW, "bucket"], use_threads=False).aggregate(_VALUES)
                summed = summed.rename_columns([*_WINDOW, "bucket", *(name for name, _ in _VALUES)])
                spelled = texts.take(summed.column("dimensions"))
                summed = summed.set_column(summed.column_names.index("dimensions"), "dimensions", spelled)
                constants = {"rollup": part.rollup, "interval": interval, "measure": measure, "object": 0}
                for name, value in constants.items():
                    kind = FAMILY.schema.field(name).type
                    summed = summed.append_column(name, pa.repeat(pa.scalar(value, kind), summed.num_rows))
                yield interval, summed.select(FAMILY.schema.names).cast(FAMILY.schema)


def _measured(measure: Measure, count: int) -> Iterator[tuple[Any, Any]]:
    """(bucket, count, sum, min, max) a record, and to which records rows belong, if not one to each."""
    none = pa.nulls(count, pa.float64())
    ones = pa.repeat(1.0, count)
    if isinstance(measure, Counted):
        taken = ones if measure.taken is None else _column(measure.taken, pa.float64())
        yield _table(pa.nulls(count, pa.binary()), taken, none, none, none), None
    elif isinstance(measure, Summarised):
        values = _column(measure.values, pa.float64())
        yield _table(pa.nulls(count, pa.binary()), ones, values, values, values), None
        if measure.histogram:
            yield _table(_log2_buckets(values), ones, none, none, none), None
    else:
        numbers = [_column(each, pa.float64()) for each in (measure.count, measure.sum, measure.min, measure.max)]
        yield _table(pa.nulls(count, pa.binary()), *numbers), None
        if measure.histograms is not None:
            yield _given_buckets(measure.histograms)


def _given_buckets(histograms: Sequence[Mapping[str, float]]) -> tuple[Any, Any]:
    rows, keys, counts = list[int](), list[bytes](), list[float]()
    for row, histogram in enumerate(histograms):
        for key, count in histogram.items():
            rows.append(row)
            keys.append(key.encode("utf-8", "surrogatepass"))
            counts.append(count)
    none = pa.nulls(len(rows), pa.float64())
    return _table(pa.array(keys, pa.binary()), pa.array(counts, pa.float64()), none, none, none), pa.array(
        rows, pa.int64()
    )


def _log2_buckets(values: Any) -> Any:
    """`2**floor(log2(max(1, |value|)))` as text: read from the exponent of the double, so without rounding."""
    bits = pc.max_element_wise(pc.abs(values), pa.scalar(1.0)).view(pa.int64())
    exponents = pc.bit_wise_and(pc.shift_right(bits, _EXPONENT_BITS), _EXPONENT_MASK)
    places = pc.subtract(exponents, _EXPONENT_BIAS)
    return pa.array(_LOG2_KEYS, pa.binary()).take(places)


def _starts(times: Any, interval: int) -> Any:
    """The window of each time, before 1970 too: Arrow divides towards zero."""
    whole = pc.multiply(pc.divide(times, interval), interval)
    return pc.if_else(pc.greater(whole, times), pc.subtract(whole, interval), whole)


def _dimensions(columns: Sequence[Any], count: int) -> tuple[Any, Any]:
    """The JSON texts of the records' dimensions, each distinct one spelled once; for each record which one it has."""
    if not columns:
        return pa.repeat(pa.scalar(0, pa.int32()), count), pa.array(["[]"])
    numbered = _numbered(columns)
    if numbered is not None:
        return numbered
    encoded = [column.to_pylist() if isinstance(column, pa.Array | pa.ChunkedArray) else column for column in columns]
    numbers: dict[tuple[str | None, ...], int] = {}
    found = [numbers.setdefault(values, len(numbers)) for values in zip(*encoded, strict=True)]
    texts = [json.dumps(values, separators=(",", ":")) for values in numbers]
    return pa.array(found, pa.int32()), pa.array(texts, pa.string())


def _numbered(columns: Sequence[Any]) -> tuple[Any, Any] | None:
    """The same without a step a record; None where there are too many combinations, or text that is not Unicode."""
    try:
        encoded = [_column(column, pa.string()).dictionary_encode(null_encoding="encode") for column in columns]
    except (UnicodeEncodeError, pa.ArrowException):
        return None
    if math.prod(len(each.dictionary) for each in encoded) > _COMBINATIONS_MAX:
        return None
    codes = encoded[0].indices.cast(pa.int64())
    for each in encoded[1:]:
        codes = pc.add(pc.multiply(codes, len(each.dictionary)), each.indices.cast(pa.int64()))
    known = pc.unique(codes)
    spellings = [each.dictionary.to_pylist() for each in encoded]
    texts = [json.dumps(_digits(code, spellings), separators=(",", ":")) for code in known.to_pylist()]
    return pc.index_in(codes, known), pa.array(texts, pa.string())


def _digits(code: int, spellings: Sequence[Sequence[str | None]]) -> list[str | None]:
    """Which value of each dimension a combination has."""
    found = list[str | None]()
    for values in reversed(spellings):
        code, at = divmod(code, len(values))
        found.append(values[at])
    return found[::-1]


def _table(*columns: Any) -> Any:
    return pa.table(list(columns), names=["bucket", "count", "sum", "min", "max"])


def _column(values: Any, kind: Any) -> Any:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)
