"""Adds up what windows of runs and single entries contribute, in tables. In threads only: it loads pyarrow.

Both become tables with the rows of rollup runs: a histogram's buckets are rows of their own, so all rows add up alike.

start       int64            of a window of the answer
group       string           JSON array in ASCII of the values of `group_by`
measure, bucket, count, sum, min, max      as in indexers/rollups/write.py
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from indexers.records import Documents, Table, parsed
from indexers.rollups import Summary, parts_of
from indexers.rollups.contribute import Contributor
from search.language import matcher
from search.language.dates import MS_NS
from streams_node.searching.aggregated import WINDOW_MS_MAX, Asked, Group, takes

_SCHEMA = pa.schema(
    [
        ("start", pa.int64()),
        ("group", pa.string()),
        ("measure", pa.string()),
        ("bucket", pa.binary()),
        ("count", pa.float64()),
        ("sum", pa.float64()),
        ("min", pa.float64()),
        ("max", pa.float64()),
    ]
)
EMPTY = _SCHEMA.empty_table()
_ROWS_MAX = 4_000_000  # of an answer in the making: some hundreds of megabytes
_KEY = _SCHEMA.names[:4]
_VALUES = [("count", "sum"), ("sum", "sum"), ("min", "min"), ("max", "max")]


class TooManyGroups(Exception):
    """The answer would be larger than it may be."""


def added(tables: Sequence[Any]) -> Any:
    """Tables as one, equal keys added up; None when there is nothing."""
    found = [table for table in tables if table is not None and table.num_rows]
    if not found:
        return None
    table = summed(pa.concat_tables(found))
    if table.num_rows > _ROWS_MAX:
        raise TooManyGroups
    return table


def groups_of(table: Any, groups_max: int) -> list[Group]:
    """By start, then by the JSON text of their keys."""
    if table is None:
        return []
    if table.group_by(["start", "group"], use_threads=False).aggregate([]).num_rows > groups_max:
        raise TooManyGroups
    table = table.sort_by([(name, "ascending") for name in ("start", "group", "measure")])
    buckets = _spelled(table.column("bucket"))
    columns = [table.column(name).to_pylist() for name in ("start", "group", "measure", *_SCHEMA.names[4:])]
    found = list[Group]()
    keys = {group: json.loads(group) for group in pc.unique(table.column("group")).to_pylist()}
    last_start, last_group = None, None
    measures: dict[str, Summary] = {}
    for start, group, measure, count, total, least, most, bucket in zip(*columns, buckets, strict=True):
        if start != last_start or group != last_group:
            last_start, last_group, measures = start, group, {}
            found.append(Group(start, keys[group], measures))
        summary = measures.get(measure)
        if summary is None:
            summary = measures[measure] = Summary()
        if bucket is None:
            summary.count, summary.sum, summary.min, summary.max = count, total, least, most
        else:
            summary.histogram[bucket] = count
    if any("\\u" in group for group in keys):  # in the table a text is ASCII, and sorts as that
        found.sort(key=lambda group: (group.start, json.dumps(group.key, ensure_ascii=False)))
    return found


def _spelled(column: Any) -> list[str | None]:
    """The names of buckets: there are few different ones."""
    column = column.combine_chunks().dictionary_encode(null_encoding="encode")
    names = [None if raw is None else raw.decode("utf-8", "surrogatepass") for raw in column.dictionary.to_pylist()]
    return [names[at] for at in column.indices.to_pylist()]


# --- out of entries ---


class Counter:
    """Counts entries, for one aggregation. One thread at a time."""

    def __init__(self, asked: Asked, edges: Sequence[tuple[int, int]]) -> None:
        version = asked.meaning.version
        self._asked, self._edges, self._version = asked, edges, version
        self._contributor = Contributor(asked.rollup, asked.config, version)
        self._matches = None if asked.plan is None else matcher(asked.plan, version)
        self._time = asked.config.fields[asked.rollup.timestamp_field]
        self._texts = Texts(asked._replace(plan=None))  # it is asked of the records

    def counted(self, records: list[Any], *, plain: bool) -> Any:
        """What these records add up to, or None."""
        records = [record if record.__class__ is dict else {} for record in records]
        times = Table(Documents(records, [], plain), self._version).column(self._time).values
        kept = [record for record, ns in zip(records, times, strict=True) if ns is not None and self._within(ns)]
        if self._matches is not None:
            kept = list(filter(self._matches, kept))
        if not kept:
            return None
        part = self._contributor.part(Table(Documents(kept, [], plain), self._version), [0] * len(kept))
        if part is None:
            return None
        measures = {name: part.measures[name] for name in self._asked.measures}
        part = replace(part, intervals=[min(self._asked.interval, WINDOW_MS_MAX)], measures=measures)
        return added([summed(placed(rows, self._asked.interval, self._texts)) for rows in parts_of([part])])

    def _within(self, ns: int) -> bool:
        ms = ns // MS_NS
        return any(begin <= ms < end for begin, end in self._edges)


def loaded(texts: Sequence[bytes]) -> tuple[list[Any], bool]:
    """Records of entries, and whether their numbers are what JSON's fast reader makes of them."""
    try:
        return list(map(orjson.loads, texts)), True
    except ValueError:
        return list(map(parsed, texts)), False


# --- rows ---


class Texts:
    """What the dimensions of rows mean for an answer: whether they match, and the text of their group."""

    def __init__(self, asked: Asked) -> None:
        self._plan = asked.plan
        self._names = asked.rollup.dimensions
        self._places = [self._names.index(name) for name in asked.group_by]
        self._known: dict[str, str | None] = {}

    def taken(self, rows: Any) -> Any:
        """The rows that match."""
        if self._plan is None or not rows.num_rows:
            return rows
        return rows.filter(pc.is_valid(self.groups(rows)))

    def groups(self, rows: Any) -> Any:
        """The texts of their groups; null for what does not match."""
        column = rows.column("dimensions").cast(pa.string()).combine_chunks()
        distinct = pc.unique(column)
        groups = pa.array([self._group(text) for text in distinct.to_pylist()], pa.string())
        return groups.take(pc.index_in(column, distinct))

    def _group(self, text: str) -> str | None:
        if text not in self._known:
            values = json.loads(text)
            matches = self._plan is None or takes(self._plan, dict(zip(self._names, values, strict=True)))
            group = json.dumps([values[at] for at in self._places], separators=(",", ":"))
            self._known[text] = group if matches else None
        return self._known[text]


def placed(rows: Any, interval: int, texts: Texts) -> Any:
    """Rows of a run in windows of the answer, and in its groups."""
    starts = rows.column("start").cast(pa.int64())
    if interval > WINDOW_MS_MAX:  # there are two of them: before 1970, and after
        starts = pc.if_else(pc.less(starts, 0), pa.scalar(-1, pa.int64()), pa.scalar(0, pa.int64()))
    else:
        whole = pc.multiply(pc.divide(starts, interval), interval)
        starts = pc.if_else(pc.greater(whole, starts), pc.subtract(whole, interval), whole)
    columns = {"start": starts, "group": texts.groups(rows), "object": rows.column("object")}
    for name in _SCHEMA.names[2:]:
        columns[name] = rows.column(name).cast(_SCHEMA.field(name).type)
    return pa.table(columns)


def summed(rows: Any) -> Any:
    summed = rows.group_by(_KEY, use_threads=False).aggregate(_VALUES)
    return summed.rename_columns([*_KEY, *(name for name, _ in _VALUES)]).select(_SCHEMA.names).cast(_SCHEMA)
