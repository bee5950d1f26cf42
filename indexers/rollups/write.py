"""Builds and merges rollup runs.

stream      int64
rollup      string
interval    int64            milliseconds
longest     int64            the longest interval that these windows stand for, in milliseconds
start       int64            of the window, milliseconds since 1970: a multiple of the interval
dimensions  string           JSON array in ASCII of the dimensions' exact texts or nulls, in the order of the rollup
measure     string
bucket      binary or null   null: the summary; else the key of a bucket of its histogram
object      int32            ordinal of the object whose entries these are
count       double           records, or what is in the bucket
sum, min, max   double or null   of a summary that has them

All rows add up alike: count and sum are added, min and max compared. A row with a bucket and a sum is two in one: the
summary, and the bucket that all its values are in. Objects are not added up in a run: a cover that is trimmed, deleted
or superseded would stay in every sum.

Longer windows that would hardly be fewer are not written: where nearly every entry is the only one of its windows,
seven intervals would take seven times the room. Who looks for them adds up the shorter ones that stand for them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from indexers.rollups.cells import KEY, VALUES, Cells, What, added, cells_of, coarser, starts_of
from indexers.rollups.parts import Part
from indexers.runs import Family, Living, RunReader, RunWriter, Target, Written, combined, merge_blocks, moved

FAMILY = Family(
    name="rollups",
    format=2,
    schema=pa.schema(
        [
            pa.field("stream", pa.int64(), nullable=False),
            pa.field("rollup", pa.string(), nullable=False),
            pa.field("interval", pa.int64(), nullable=False),
            pa.field("longest", pa.int64(), nullable=False),
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
    key=("stream", "rollup", "interval", "longest", "start", "dimensions", "measure", "bucket", "object"),
    dictionary=(
        "stream", "rollup", "interval", "longest", "start", "dimensions", "measure", "bucket", "object", "count"
    ),
    encodings={},
)  # fmt: skip
_FEWER = 2  # times fewer rows: then longer windows are worth theirs
_SLICE_ROWS = 1 << 16  # spelled at once
_ORDER = [(name, "ascending", "at_start") for name in FAMILY.key]
_NUMBERS = [(name, "ascending") for name in ("stream", "kind", "start", "dimensions", "what", "object")]
_OF_SUMMARIES = ["sum", "min", "max"]


class _Kind(NamedTuple):
    """What windows there are of: sorts as their rows do."""

    rollup: str
    interval: int
    longest: int


def build(objects: Iterable[tuple[str, Iterable[Part | Cells]]], target: Target) -> Written:
    """A run of these objects. Memory goes by the windows of all of them."""
    names, cells = list[str](), list[list[Cells]]()
    for name, parts in objects:
        names.append(name)
        cells.append(cells_of(parts))
    with RunWriter(FAMILY, target, names) as writer:
        for table in _tables(cells):
            writer.write(table)
        return writer.finish()


def parts_of(parts: Iterable[Part]) -> list[Any]:
    """The rows that a reader would hand out of a run of one object, in tables."""
    return [apart(table) for table in _tables([cells_of(parts)])]


def apart(rows: Any) -> Any:
    """Rows of which each is of a summary or of a bucket, in no order."""
    binned = pc.is_valid(rows.column("bucket"))
    if not pc.any(binned).as_py():
        return rows
    summed = rows.filter(pc.or_(pc.invert(binned), pc.is_valid(rows.column("sum"))))
    return pa.concat_tables([_nulled(summed, ["bucket"]), _nulled(rows.filter(binned), _OF_SUMMARIES)])


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


def _tables(objects: Sequence[Sequence[Cells]]) -> Iterator[Any]:
    """The rows of a run, in order."""
    every = [each for cells in objects for each in cells]
    if not every:
        return
    whats = sorted({what for each in every for what in _with_summaries(each.whats)}, key=_in_order)
    numbers = {what: number for number, what in enumerate(whats)}
    texts, places = _ranked([each.texts for each in every])
    found = list[tuple[_Kind, int, Any]]()
    for ordinal, cells in enumerate(objects):
        grouped: dict[tuple[str, tuple[int, ...]], list[Any]] = {}
        for each in cells:
            rows = _renumbered(each, next(places), numbers)
            grouped.setdefault((each.rollup, each.intervals), []).append(rows)
        for (rollup, intervals), tables in grouped.items():
            rows = tables[0] if len(tables) == 1 else added(pa.concat_tables(tables))
            for interval, longest, windows in _worth(rows, intervals):
                found.append((_Kind(rollup, interval, longest), ordinal, _summarised(windows, whats, numbers)))
    kinds = sorted({kind for kind, _, _ in found})
    placed = [_placed(windows, kinds.index(kind), ordinal) for kind, ordinal, windows in found]
    found.clear()
    rows = pa.concat_tables(placed).combine_chunks()
    placed.clear()
    order = pc.sort_indices(rows, sort_keys=_NUMBERS)
    for at in range(0, rows.num_rows, _SLICE_ROWS):
        yield _spelled(rows.take(order.slice(at, _SLICE_ROWS)), kinds, texts, whats)


def _worth(rows: Any, intervals: Sequence[int]) -> Iterator[tuple[int, int, Any]]:
    """Windows that are written: their interval, the longest one that they stand for, and their rows."""
    interval, *longer = intervals
    while longer and _pays(rows, longer[-1]):
        at = next(at for at, each in enumerate(longer) if _pays(rows, each))
        yield interval, [interval, *longer][at], rows
        rows = coarser(rows, longer[at])
        interval, *longer = longer[at:]
    yield interval, [interval, *longer][-1], rows


def _pays(rows: Any, interval: int) -> bool:
    starts = rows.set_column(1, "start", starts_of(rows.column("start"), interval))
    return bool(starts.group_by(KEY, use_threads=False).aggregate([]).num_rows * _FEWER <= rows.num_rows)


def _summarised(rows: Any, whats: Sequence[What], numbers: Mapping[What, int]) -> Any:
    """The same with a row for the summary of a measure where its values are in several buckets."""
    binned = _has_bucket(whats).take(rows.column("what"))
    binned = pc.and_(binned, pc.is_valid(rows.column("sum")))
    if not pc.any(binned).as_py():
        return rows
    some = rows.filter(binned)
    summaries = pa.array([numbers[measure, None] for measure, _ in whats], pa.int32())
    summed = some.set_column(3, "what", summaries.take(some.column("what")))
    windows = _numbered([summed.column(name) for name in KEY])
    several = pc.greater(pc.value_counts(windows).field("counts").take(windows), 1)
    if not pc.any(several).as_py():
        return rows
    apart = [some.filter(pc.invert(several)), _nulled(some.filter(several), _OF_SUMMARIES)]
    return pa.concat_tables([rows.filter(pc.invert(binned)), *apart, added(summed.filter(several))])


def _has_bucket(whats: Sequence[What]) -> Any:
    return pa.array([bucket is not None for _, bucket in whats], pa.bool_())


def _numbered(columns: Sequence[Any]) -> Any:
    """A number for each row: equal ones for equal values. They count from 0 in the order in which they come up."""
    codes, *others = (column.combine_chunks().dictionary_encode() for column in columns)
    found = codes.indices
    for each in others:
        pairs = pc.add(pc.multiply(found.cast(pa.int64()), len(each.dictionary)), each.indices.cast(pa.int64()))
        found = pairs.dictionary_encode().indices
    return found


def _ranked(texts: Sequence[Any]) -> tuple[Any, Iterator[Any]]:
    """All different texts in order, and of each array where its texts are among them."""
    encoded = pa.chunked_array(texts, pa.string()).dictionary_encode()
    dictionary = encoded.chunk(0).dictionary
    order = pc.array_sort_indices(dictionary)
    ranks = pc.inverse_permutation(order.cast(pa.int32()))
    return dictionary.take(order), (ranks.take(each.indices) for each in encoded.chunks)


def _renumbered(cells: Cells, places: Any, numbers: Mapping[What, int]) -> Any:
    """The rows of cells with the numbers of the whole run."""
    whats = pa.array([numbers[what] for what in cells.whats], pa.int32())
    rows = cells.rows.set_column(2, "dimensions", places.take(cells.rows.column("dimensions")))
    return rows.set_column(3, "what", whats.take(rows.column("what")))


def _placed(rows: Any, kind: int, ordinal: int) -> Any:
    for name, value in (("kind", kind), ("object", ordinal)):
        rows = rows.append_column(name, pa.repeat(pa.scalar(value, pa.int32()), rows.num_rows))
    return rows


def _spelled(rows: Any, kinds: Sequence[_Kind], texts: Any, whats: Sequence[What]) -> Any:
    """Rows as the format has them."""
    kind, what = rows.column("kind"), rows.column("what")
    columns = {
        "stream": rows.column("stream"),
        "rollup": pa.array([each.rollup for each in kinds]).take(kind),
        "interval": pa.array([each.interval for each in kinds], pa.int64()).take(kind),
        "longest": pa.array([each.longest for each in kinds], pa.int64()).take(kind),
        "start": rows.column("start"),
        "dimensions": texts.take(rows.column("dimensions")),
        "measure": pa.array([measure for measure, _ in whats]).take(what),
        "bucket": pa.array([bucket for _, bucket in whats], pa.binary()).take(what),
        "object": rows.column("object"),
        **{name: rows.column(name) for name in VALUES},
    }
    return pa.table(columns)


def _nulled(rows: Any, names: Sequence[str]) -> Any:
    for name in names:
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(at), pa.nulls(rows.num_rows, rows.schema.field(at).type))
    return rows


def _with_summaries(whats: Sequence[What]) -> set[What]:
    return {*whats, *((measure, None) for measure, _ in whats)}


def _in_order(what: What) -> tuple[str, bool, bytes]:
    measure, bucket = what
    return measure, bucket is not None, bucket or b""
