"""Reads of metric blocks what an aggregation looks at, and no more. In threads only.

Keeps    a record has, of the members that are looked at, what the entry has. Where something else may be looked at, it
         is the whole record.
"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from search.language import query
from search.language.plan import fields
from search.language.pointers import segments
from streams_node.answers.ranges import Range
from streams_node.schema.search_config import Count, Summary, SummaryParts
from streams_node.searching.aggregated import Asked

if TYPE_CHECKING:
    from indexers.metrics import Metrics

_TIME = "windowStart"
_COLUMNS = {
    "windowStart": "window_start", "windowEnd": "window_end", "intervalMs": "interval_ms", "metric": "metric",
    "unit": "unit", "metricKind": "metric_kind", "temporality": "temporality", "seriesKey": "series_key",
    "stream": "stream_name", "instance": "instance", "dimensionKey": "dimension_key",
    **{name: name for name in ("count", "sum", "min", "max", "avg", "p50", "p95", "p99", "buckets")},
}  # fmt: skip


class Lean:
    """What an aggregation looks at in a record."""

    def __init__(self, asked: Asked) -> None:
        pointers = _pointers(asked)
        paths = [segments(pointer) for pointer in pointers]
        known = all(len(path) == 1 and path[0] in _COLUMNS for path in paths)
        self._members = sorted({path[0] for path in paths}) if known else None
        time = asked.config.fields[asked.rollup.timestamp_field].pointer(asked.meaning.version)
        self._bounds = (asked.begin, asked.end) if time == f"/{_TIME}" else (None, None)

    def records(self, reader: "Metrics", stream: int, part: Range, at_once: int) -> Iterator[list[Any]]:
        """The records of entries that may be in the range of time."""
        for table in reader.tables_of(stream, part.first, part.end, *self._bounds):
            for at in range(0, table.num_rows, at_once):
                rows = table.slice(at, at_once)
                if self._members is None:
                    yield [reader.record(row) for row in rows.to_pylist()]
                else:
                    yield _lean(rows, self._members)


def _lean(rows: Any, members: list[str]) -> list[Any]:
    columns = [rows.column(_COLUMNS[name]).to_pylist() for name in members]
    if "buckets" in members:
        at = members.index("buckets")
        columns[at] = [None if each is None else {one["name"]: one["value"] for one in each} for each in columns[at]]
    records: list[Any] = [dict(zip(members, values, strict=True)) for values in zip(*columns, strict=True)]
    rest = rows.column("rest")
    if rest.null_count < len(records):
        for at, text in enumerate(rest.to_pylist()):
            if text is not None:
                records[at] = json.loads(text)
    return records


def _pointers(asked: Asked) -> set[str]:
    """Everything of a record that tells whether it contributes, and what."""
    rollup, config, version = asked.rollup, asked.config, asked.meaning.version
    looked = {config.fields[name] for name in (rollup.timestamp_field, *rollup.dimensions)}
    found: set[str] = set()
    queries = [rollup.include]
    for measure in rollup.measures.values():
        if isinstance(measure, Count):
            queries.append(measure.include)
        elif isinstance(measure, Summary):
            looked.add(config.fields[measure.field])
        elif isinstance(measure, SummaryParts):
            parts = (measure.count, measure.sum, measure.min, measure.max, measure.histogram)
            found |= {pointer for pointer in parts if pointer is not None}
    plans = [query(text, config) for text in queries if text is not None]
    plans += [] if asked.plan is None else [asked.plan]
    for plan in plans:
        looked |= set(fields(plan))
    return found | {pointer for each in looked if (pointer := each.pointer(version)) is not None}
