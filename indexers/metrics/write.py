"""Builds and merges metric blocks.

stream, seq         int64, the entry
append_ts           int64, microseconds
window_start, window_end, interval_ms      int64; null in a row whose record is in `rest`
metric, unit, metric_kind, temporality, series_key      string
stream_name, instance, dimension_key       string or null
attributes          list of (name, value): the attributes, as the record has them
count, sum, avg, p50, p95, p99             double; 1 and 1.0 are one number
min, max            double or null
buckets             list of (bound, count)
rest                binary or null: the record as JSON, where it is not what these columns say

A record is what its columns say when `shown` makes it of them again. Members that follow from others (`tags`,
`dimensionPairs`, `summary`) are not kept. A row of an entry that is no object has nulls only.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from indexers.runs import Family, RunReader, RunWriter, Target, Written, combined, merge_blocks

API_VERSION = "durable.streams/metrics/v1"
TIMES = {"windowStart": "window_start", "windowEnd": "window_end", "intervalMs": "interval_ms"}
TEXTS = {"metric": "metric", "unit": "unit", "metricKind": "metric_kind", "temporality": "temporality",
         "seriesKey": "series_key"}  # fmt: skip
LABELS = {"stream": "stream_name", "instance": "instance", "dimensionKey": "dimension_key"}
NUMBERS = ("count", "sum", "min", "max", "avg", "p50", "p95", "p99")
_OPTIONAL = ("min", "max")
_SUMMED = ("count", "sum", "min", "max")
_MEMBERS = {"apiVersion", "kind", *TIMES, *TEXTS, *LABELS, *NUMBERS, "tags", "attributes", "dimensionPairs", "buckets",
            "summary"}  # fmt: skip
_TIME_MAX = 2**63 - 1


def _pairs(kind: Any) -> Any:
    element = pa.struct([pa.field("name", pa.string(), nullable=False), pa.field("value", kind, nullable=False)])
    return pa.list_(pa.field("element", element, nullable=False))


_SCHEMA = pa.schema(
    [
        pa.field("stream", pa.int64(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("append_ts", pa.int64(), nullable=False),
        *(pa.field(name, pa.int64()) for name in TIMES.values()),
        *(pa.field(name, pa.string()) for name in (*TEXTS.values(), *LABELS.values())),
        pa.field("attributes", _pairs(pa.string())),
        *(pa.field(name, pa.float64()) for name in NUMBERS),
        pa.field("buckets", _pairs(pa.float64())),
        pa.field("rest", pa.binary()),
    ]
)
FAMILY = Family(
    name="metrics",
    format=1,
    schema=_SCHEMA,
    key=("stream", "seq"),
    dictionary=(
        "stream", "interval_ms", *TEXTS.values(), *LABELS.values(), "attributes.list.element.name",
        "attributes.list.element.value", "buckets.list.element.name",
    ),
    encodings={"seq": "DELTA_BINARY_PACKED", "append_ts": "DELTA_BINARY_PACKED"},
    bounded=("window_start", "window_end"),
)  # fmt: skip


def rows_of(streams: Sequence[int], seqs: Sequence[int], times: Sequence[int], records: Sequence[Any]) -> Any:
    """The rows of entries; None stands for an entry that is no object."""
    rows = []
    for stream, seq, time, record in zip(streams, seqs, times, records, strict=True):
        rows.append({"stream": stream, "seq": seq, "append_ts": time, **_row(record)})
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def build(objects: Iterable[tuple[str, Iterable[Any]]], target: Target) -> Written:
    """A block of these objects. Memory goes by their entries."""
    names, found = list[str](), list[Any]()
    for name, tables in objects:
        names.append(name)
        found += tables
    with RunWriter(FAMILY, target, names) as writer:
        if found:
            writer.write(_sorted(pa.concat_tables(found)))
        return writer.finish()


def merge(
    readers: Sequence[RunReader], target: Target, living: Sequence[Mapping[int, Any] | None] | None = None
) -> Written:
    """One block of all that the given ones cover; `living`: of a reader, the ranges that are kept of each stream."""
    names = combined(readers)
    tables = [_kept(reader, kept) for reader, kept in zip(readers, living or [None] * len(readers), strict=True)]
    with RunWriter(FAMILY, target, names) as writer:
        for table in merge_blocks(tables, FAMILY.key, _sorted):
            writer.write(table)
        return writer.finish()


def _sorted(table: Any) -> Any:
    return table.sort_by([("stream", "ascending"), ("seq", "ascending")])


def _kept(reader: RunReader, living: Mapping[int, Any] | None) -> Iterator[Any]:
    for table in reader.tables():
        if living is None:
            yield table
            continue
        if _all_kept(table, living):
            yield table
            continue
        places = zip(table.column("stream").to_pylist(), table.column("seq").to_pylist(), strict=True)
        mask = [any(first <= seq < end for first, end in living.get(stream, ())) for stream, seq in places]
        kept = table.filter(pa.array(mask, pa.bool_()))
        if kept.num_rows:
            yield kept


def _all_kept(table: Any, living: Mapping[int, Any]) -> bool:
    """Whether what a table has of each stream lies in one range that is kept."""
    bounds = table.group_by("stream", use_threads=False).aggregate([("seq", "min"), ("seq", "max")]).to_pylist()
    return all(
        any(first <= each["seq_min"] and each["seq_max"] < end for first, end in living.get(each["stream"], ()))
        for each in bounds
    )


def _row(record: Any) -> dict[str, Any]:
    if record is None:
        return {}
    row = _columns(record)
    return {"rest": json.dumps(record).encode()} if row is None else row


def _columns(record: dict[str, Any]) -> dict[str, Any] | None:
    """The columns of a record in its envelope; None for any other."""
    if record.keys() != _MEMBERS or not _is_typed(record):
        return None
    row: dict[str, Any] = {column: record[name] for name, column in (*TIMES.items(), *TEXTS.items(), *LABELS.items())}
    for name in NUMBERS:
        value = record[name]
        row[name] = None if value is None else float(value)
    row["attributes"] = [{"name": name, "value": value} for name, value in record["attributes"].items()]
    row["buckets"] = [{"name": name, "value": float(value)} for name, value in record["buckets"].items()]
    return row if shown(row) == record else None


def shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """The record that the columns of a row say."""
    attributes = {each["name"]: each["value"] for each in row["attributes"]}
    buckets = {each["name"]: each["value"] for each in row["buckets"]}
    return {
        "apiVersion": API_VERSION,
        "kind": "interval",
        **{name: row[column] for names in (TEXTS, TIMES, LABELS) for name, column in names.items()},
        **{name: row[name] for name in NUMBERS},
        "tags": attributes,
        "attributes": attributes,
        "dimensionPairs": sorted(f"{name}={value}" for name, value in attributes.items()),
        "buckets": buckets,
        "summary": {**{name: row[name] for name in _SUMMED}, "histogram": buckets},
    }


def _is_typed(record: Mapping[str, Any]) -> bool:
    """Whether every member has a type that its column holds: `true` is not 1, and text is Unicode."""
    summary, buckets, attributes = record["summary"], record["buckets"], record["attributes"]
    if not (type(summary) is type(buckets) is type(attributes) is dict):
        return False
    if type(summary.get("histogram")) is not dict:
        return False
    texts = [record[name] for name in TEXTS] + [record[name] for name in LABELS if record[name] is not None]
    texts += [*attributes.keys(), *attributes.values(), *buckets.keys()]
    numbers = [record[name] for name in NUMBERS if not (name in _OPTIONAL and record[name] is None)]
    numbers += [*buckets.values(), *summary["histogram"].values()]
    numbers += [summary.get(name) for name in _SUMMED if not (name in _OPTIONAL and summary.get(name) is None)]
    times = [record[name] for name in TIMES]
    return (
        all(map(_is_text, texts))
        and all(map(_is_number, numbers))
        and all(type(time) is int and abs(time) <= _TIME_MAX for time in times)
    )


def _is_text(value: object) -> bool:
    if type(value) is not str:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_number(value: object) -> bool:
    """Whether a double is the same number."""
    if type(value) is int:
        return abs(value) <= _TIME_MAX and float(value) == value
    return type(value) is float and math.isfinite(value)
