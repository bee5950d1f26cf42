"""A part of an object as Arrow batches of the data source's columns: what runs in Spark's Python workers."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_index.source.filters import END, Wanted
from spark_index.source.plan import Part, View
from spark_index.source.ranges import RangeFile
from streams_node.errors import ObjectDamaged
from streams_node.objects import Checksum, Key, RetryingStore
from streams_node.protocol.offsets import encode
from streams_node.segments.format import Footer, check

_AT = {"stream": 0, "seq": 1, "append_ts": 2, "key": 5}
_SPARK_TIMESTAMP = pa.timestamp("us", tz="UTC")


class _Run(NamedTuple):
    """Rows [low, high) of a row group are entries of this view."""

    low: int
    high: int
    view: View


def batches(store: RetryingStore, part: Part, wanted: Wanted, *, json: bool) -> Iterator[Any]:
    """The wanted entries of a part, a batch a row group; ObjectDamaged if the object is not what was sealed."""
    try:
        yield from _batches(_opened(store, part, wanted), part, wanted, json=json)
    except (pa.ArrowException, ValueError, OSError) as problem:
        raise ObjectDamaged(part.made, str(problem).partition("\n")[0]) from problem


def _opened(store: RetryingStore, part: Part, wanted: Wanted) -> Any:
    if part.pieces > 1 or wanted.prunes_rows:
        return pa.PythonFile(RangeFile(store, part.key, part.size), mode="r")
    return pa.BufferReader(store.get(Key(part.key), expected=Checksum(part.sha256)).data)


def _batches(source: Any, part: Part, wanted: Wanted, *, json: bool) -> Iterator[Any]:
    with pq.ParquetFile(source, page_checksum_verification=True, pre_buffer=False) as file:
        footer = check(file.metadata, part.made)
        groups = len(footer.starts) - 1
        for number in range(part.piece * groups // part.pieces, (part.piece + 1) * groups // part.pieces):
            if not _may_hold(footer, number, part.views, wanted):
                continue
            table = file.read_row_group(number, use_threads=False).combine_chunks()
            table.validate()
            batch = _shaped(table, part.views, wanted, json=json)
            if batch.num_rows:
                yield batch


def _may_hold(footer: Footer, number: int, views: tuple[View, ...], wanted: Wanted) -> bool:
    """Whether the statistics of a row group leave room for an entry that is wanted."""
    lowest, highest = _bounds(footer, number, "stream")
    lives = [view.life for view in views]
    near = views[bisect_left(lives, lowest) : bisect_right(lives, highest)]
    if lowest == highest:
        first, last = _bounds(footer, number, "seq")
        near = tuple(view for view in near if view.first <= last and first < view.end)
    if not near:
        return False
    first_ts, last_ts = (_micros(value) for value in _bounds(footer, number, "append_ts"))
    if last_ts < wanted.first_us or first_ts >= wanted.end_us:
        return False
    return _may_hold_key(footer, number, wanted)


def _may_hold_key(footer: Footer, number: int, wanted: Wanted) -> bool:
    if wanted.keys is None and not wanted.keyed:
        return True
    found = footer.metadata.row_group(number).column(_AT["key"]).statistics
    if found is None:
        return True
    if found.has_min_max:
        return wanted.keys is None or any(found.min <= key <= found.max for key in wanted.keys)
    return bool(found.null_count < footer.starts[number + 1] - footer.starts[number])


def _bounds(footer: Footer, number: int, column: str) -> tuple[Any, Any]:
    found = footer.metadata.row_group(number).column(_AT[column]).statistics
    if found is None or not found.has_min_max:
        raise ValueError(f"row group {number} has no statistics of `{column}`")
    return found.min, found.max


def _micros(value: Any) -> int:
    return int(pa.scalar(value, _SPARK_TIMESTAMP).cast(pa.int64()).as_py())


def _shaped(table: Any, views: tuple[View, ...], wanted: Wanted, *, json: bool) -> Any:
    """The rows of the views that are wanted, with the columns of the data source."""
    runs = list(_runs(table.column("stream"), table.column("seq"), views))
    if not runs:
        return _batch(table.slice(0, 0), [], [], json=json)
    if [runs[0].low, *(run.high for run in runs[:-1])] != [run.low for run in runs]:
        table = pa.concat_tables([table.slice(run.low, run.high - run.low) for run in runs]).combine_chunks()
    else:
        table = table.slice(runs[0].low, runs[-1].high - runs[0].low)
    ends, end = [], 0
    for run in runs:
        end += run.high - run.low
        ends.append(end)
    owners = _spread(pa.array(range(len(runs)), pa.int32()), ends)
    mask = _mask(table, wanted)
    if mask is not None:
        table, owners = table.filter(mask), owners.filter(mask)
    return _batch(table, owners, [run.view for run in runs], json=json)


def _runs(streams: Any, seqs: Any, views: tuple[View, ...]) -> Iterator[_Run]:
    """Rows of one stream follow each other without a gap in their sequences."""
    encoded = pc.run_end_encode(_flat(streams))
    by_life = {life: list(found) for life, found in groupby(views, key=lambda view: view.life)}
    low = 0
    for life, high in zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True):
        for view in by_life.get(life, ()):
            base = seqs[low].as_py() - low
            start, stop = max(low, view.first - base), min(high, view.end - base)
            if start < stop:
                yield _Run(start, stop, view)
        low = high


def _spread(values: Any, ends: list[int]) -> Any:
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), values))


def _mask(table: Any, wanted: Wanted) -> Any:
    tests = []
    if wanted.first_us > -END or wanted.end_us < END:
        times = table.column("append_ts").cast(pa.int64())
        tests.append(pc.and_(pc.greater_equal(times, wanted.first_us), pc.less(times, wanted.end_us)))
    if wanted.keys is not None:
        tests.append(pc.is_in(table.column("key"), pa.array(sorted(wanted.keys), pa.string())))
    elif wanted.keyed:
        tests.append(pc.is_valid(table.column("key")))
    mask = None
    for test in tests:
        mask = test if mask is None else pc.and_(mask, test)
    return None if mask is None else _flat(mask)


def _batch(table: Any, owners: Any, views: list[View], *, json: bool) -> Any:
    def of_view(values: list[Any], kind: Any) -> Any:
        return pa.array(values, kind).take(owners) if len(owners) else pa.array([], kind)

    columns = {
        "bucket": of_view([view.bucket for view in views], pa.string()),
        "stream": of_view([view.name for view in views], pa.string()),
        "incarnation": of_view([view.id for view in views], pa.int64()),
        "seq": _flat(table.column("seq")),
        "offset": pa.array(_offsets(table.column("seq").to_pylist(), owners, views), pa.string()),
        "append_ts": _flat(table.column("append_ts")),
        "schema_version": _flat(table.column("schema_version")),
        "key": _flat(table.column("key")),
        "payload": _flat(table.column("payload")),
    }
    if json:
        columns["json"] = _text(columns["payload"])
    return pa.RecordBatch.from_pydict(columns)


def _flat(column: Any) -> Any:
    """One array: what comes of a table has chunks, none for no rows."""
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _offsets(seqs: list[int], owners: Any, views: list[View]) -> list[str]:
    """The position after each entry, which has the entry's epoch."""
    newest = {at: view.epochs[-1] for at, view in enumerate(views)}
    found = []
    for seq, at in zip(seqs, owners.to_pylist() if len(owners) else (), strict=True):
        first, epoch = newest[at]
        if seq < first:
            epoch = next(epoch for first, epoch in reversed(views[at].epochs) if first <= seq)
        found.append(encode(epoch, seq + 1))
    return found


def _text(payloads: Any) -> Any:
    """As text; null for what is no UTF-8."""
    try:
        return payloads.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_decoded(payload) for payload in payloads.to_pylist()], pa.string())


def _decoded(payload: bytes) -> str | None:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None
