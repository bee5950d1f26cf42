"""What entries add up to until it is written: rows of numbers, with the texts that they mean beside them.

stream      int64
start       int64    of a window of the shortest interval
dimensions  int32    one of `texts`
what        int32    one of `whats`
count, sum, min, max   as in a run

Of a histogram `log2_v1` a row is what lies in one bucket; all rows of a measure together are its summary.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indexers.intervals import chains
from indexers.rollups.parts import Counted, Measure, Part, Summarised

KEY = ["stream", "start", "dimensions", "what"]
VALUES = ["count", "sum", "min", "max"]
_ADDED = [(name, "sum" if name == "count" else name) for name in VALUES]
_EXPONENT_BITS, _EXPONENT_BIAS, _EXPONENT_MASK = 52, 1023, 0x7FF
_NO_BUCKET = (None,)
_LOG2_KEYS = [str(2**exponent).encode() for exponent in range(1024)]

What = tuple[str, bytes | None]  # a measure, and a bucket of its histogram


@dataclass(frozen=True, slots=True)
class Cells:
    """Of one rollup and of intervals of which each divides the next one; no two rows have one key."""

    rollup: str
    intervals: tuple[int, ...]
    rows: Any
    texts: Any  # JSON texts of dimensions, as an array
    whats: Sequence[What]


def cells_of(parts: Iterable[Part | Cells]) -> list[Cells]:
    """Whoever has many parts makes cells of each as it comes, and hands on those."""
    found = list[Cells]()
    for part in parts:
        found.extend([part] if isinstance(part, Cells) else _cells(part))
    return found


def added(rows: Any) -> Any:
    """Rows of equal keys as one."""
    summed = rows.group_by(KEY, use_threads=False).aggregate(_ADDED)
    return summed.rename_columns([*KEY, *VALUES])


def coarser(rows: Any, interval: int) -> Any:
    """The rows of longer windows."""
    return added(rows.set_column(1, "start", starts_of(rows.column("start"), interval)))


def starts_of(times: Any, interval: int) -> Any:
    """The window of each time, before 1970 too: Arrow divides towards zero."""
    whole = pc.multiply(pc.divide(times, interval), interval)
    return pc.if_else(pc.greater(whole, times), pc.subtract(whole, interval), whole)


def _cells(part: Part) -> Iterator[Cells]:
    times = _column(part.times, pa.int64())
    count = len(times)
    if not count or not part.measures:
        return
    stream = pa.repeat(pa.scalar(part.stream, pa.int64()), count) if isinstance(part.stream, int) else part.stream
    dimensions, texts = _dimensions(part.dimensions, count)
    window = [_column(stream, pa.int64()), times, dimensions]
    whats, tables = list[What](), list[Any]()
    for name, measure in part.measures.items():
        for measured in _measured(measure, count):
            codes = pc.add(measured.codes, pa.scalar(len(whats), pa.int32()))
            whats += [(name, bucket) for bucket in measured.buckets]
            columns = window if measured.rows is None else [column.take(measured.rows) for column in window]
            tables.append(pa.table([*columns, codes, *measured.values], names=[*KEY, *VALUES]))
    rows = pa.concat_tables(tables)
    for intervals in chains(part.intervals):
        yield Cells(part.rollup, intervals, coarser(rows, intervals[0]), texts, whats)


@dataclass(frozen=True, slots=True)
class _Measured:
    """Values of a measure: the bucket of each as one of `buckets`, and whose they are, if not one of each record."""

    buckets: Sequence[bytes | None]
    codes: Any
    values: Sequence[Any]
    rows: Any = None


def _measured(measure: Measure, count: int) -> Iterator[_Measured]:
    none, ones, zeros = pa.nulls(count, pa.float64()), pa.repeat(1.0, count), pa.repeat(pa.scalar(0, pa.int32()), count)
    if isinstance(measure, Counted):
        taken = ones if measure.taken is None else _column(measure.taken, pa.float64())
        yield _Measured(_NO_BUCKET, zeros, [taken, none, none, none])
    elif isinstance(measure, Summarised):
        values = _column(measure.values, pa.float64())
        buckets, codes = _log2_buckets(values) if measure.histogram else (_NO_BUCKET, zeros)
        yield _Measured(buckets, codes, [ones, values, values, values])
    else:
        numbers = [_column(each, pa.float64()) for each in (measure.count, measure.sum, measure.min, measure.max)]
        yield _Measured(_NO_BUCKET, zeros, numbers)
        if measure.histograms is not None:
            yield _given_buckets(measure.histograms)


def _given_buckets(histograms: Sequence[Mapping[str, float]]) -> _Measured:
    rows, codes, counts = list[int](), list[int](), list[float]()
    numbers = dict[str, int]()
    for row, histogram in enumerate(histograms):
        for key, count in histogram.items():
            rows.append(row)
            codes.append(numbers.setdefault(key, len(numbers)))
            counts.append(count)
    none = pa.nulls(len(rows), pa.float64())
    return _Measured(
        [key.encode("utf-8", "surrogatepass") for key in numbers],
        pa.array(codes, pa.int32()),
        [pa.array(counts, pa.float64()), none, none, none],
        pa.array(rows, pa.int64()),
    )


def _log2_buckets(values: Any) -> tuple[Sequence[bytes | None], Any]:
    """`2**floor(log2(max(1, |value|)))` as text: read from the exponent of the double, so without rounding."""
    bits = pc.max_element_wise(pc.abs(values), pa.scalar(1.0)).view(pa.int64())
    exponents = pc.bit_wise_and(pc.shift_right(bits, _EXPONENT_BITS), _EXPONENT_MASK)
    places = pc.subtract(exponents, _EXPONENT_BIAS).dictionary_encode()
    return [_LOG2_KEYS[place] for place in places.dictionary.to_pylist()], places.indices


def _dimensions(columns: Sequence[Any], count: int) -> tuple[Any, Any]:
    """For each record the number of its dimensions' JSON text, and the texts: one more dimension at a time."""
    if not columns:
        return pa.repeat(pa.scalar(0, pa.int32()), count), pa.array(["[]"])
    (codes, texts), *others = map(_spelled, columns)
    for more, spelled in others:
        pairs = pc.add(pc.multiply(codes.cast(pa.int64()), len(spelled)), more.cast(pa.int64())).dictionary_encode()
        firsts = pc.divide(pairs.dictionary, len(spelled))
        seconds = pc.subtract(pairs.dictionary, pc.multiply(firsts, len(spelled)))
        texts = pc.binary_join_element_wise(texts.take(firsts), spelled.take(seconds), ",")
        codes = pairs.indices
    return codes, pc.binary_join_element_wise("[", texts, "]", "")


def _spelled(column: Any) -> tuple[Any, Any]:
    """A column as numbers of JSON texts, each distinct one spelled once."""
    try:
        if not isinstance(column, pa.DictionaryArray):
            column = _column(column, pa.string()).dictionary_encode(null_encoding="encode")
        codes, values = column.indices, column.dictionary.to_pylist()
    except (UnicodeEncodeError, pa.ArrowException):  # text that is not Unicode
        numbers = dict[str | None, int]()
        codes = pa.array([numbers.setdefault(value, len(numbers)) for value in column], pa.int32())
        values = list(numbers)
    return codes, pa.array(["null" if text is None else encode_basestring_ascii(text) for text in values], pa.string())


def _column(values: Any, kind: Any) -> Any:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)
