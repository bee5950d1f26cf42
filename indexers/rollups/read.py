"""Reads rollup runs: the windows that lie in a range of time."""

import heapq
import json
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc

from indexers.rollups.cells import starts_of
from indexers.rollups.write import FAMILY, apart
from indexers.runs import RunReader, Source, Written

Ordinals = AbstractSet[int] | None  # of objects in a run; None: all of them
_OF_WINDOW = FAMILY.schema.names[FAMILY.schema.get_field_index("start") :]


@dataclass(slots=True)
class Summary:
    """A measure of a window. A count has neither sum nor bounds; a summary without records has none either."""

    count: float = 0.0
    sum: float | None = None
    min: float | None = None
    max: float | None = None
    histogram: dict[str, float] = field(default_factory=dict)

    def __iadd__(self, other: Self) -> Self:
        self.count += other.count
        if other.sum is not None:
            self.sum = other.sum if self.sum is None else self.sum + other.sum
        if other.min is not None:
            self.min = other.min if self.min is None else min(self.min, other.min)
        if other.max is not None:
            self.max = other.max if self.max is None else max(self.max, other.max)
        for bucket, count in other.histogram.items():
            self.histogram[bucket] = self.histogram.get(bucket, 0.0) + count
        return self


class Window(NamedTuple):
    """What the records of [start, start + interval) with these dimension values add up to."""

    start: int
    dimensions: tuple[str | None, ...]
    measures: Mapping[str, Summary]


class Rollups(RunReader):
    """An open rollup run."""

    def __init__(self, source: Source, *, name: str = "", expected: Written | None = None) -> None:
        super().__init__(FAMILY, source, name=name, expected=expected)

    def windows(
        self, stream: int, rollup: str, interval: int, begin: int, end: int, ordinals: Ordinals = None
    ) -> Iterator[Window]:
        """The windows that lie in [begin, end) as a whole, by start, then by the JSON text of their dimensions.

        Times are milliseconds. What the range cuts off at its edges is the caller's to count from the entries. With
        `ordinals`, only what is of these objects counts: those whose covers may be used.
        """
        for (start, text), measures in self.rows_within(stream, rollup, interval, begin, end, ordinals):
            yield Window(start, tuple(json.loads(text)), measures)

    def rows_within(
        self, stream: int, rollup: str, interval: int, begin: int, end: int, ordinals: Ordinals = None
    ) -> Iterator[tuple[tuple[int, str], dict[str, Summary]]]:
        """The same with the dimensions as they are stored."""
        for key, group in groupby(self._rows(stream, rollup, interval, begin, end - interval), key=itemgetter(0, 1)):
            measures = dict[str, Summary]()
            for _, _, measure, raw, ordinal, count, *of_summary in group:
                if ordinals is not None and ordinal not in ordinals:
                    continue
                summary = measures.setdefault(measure, Summary())
                if raw is None:
                    summary += Summary(count, *of_summary)
                else:
                    bucket = raw.decode("utf-8", "surrogatepass")
                    summary.histogram[bucket] = summary.histogram.get(bucket, 0.0) + count
                measures[measure] = summary
            if measures:
                yield key, measures

    def tables_within(self, stream: int, rollup: str, interval: int, first: int, last: int) -> Iterator[Any]:
        """The rows of windows that start in [first, last], as `rows_in` has them."""
        for number in self.numbers_within(stream, rollup, interval, first, last):
            yield self.rows_in(number, stream, rollup, interval, first, last)

    def numbers_within(self, stream: int, rollup: str, interval: int, first: int, last: int) -> Iterator[int]:
        """The row groups that may have rows of these windows, in order."""
        low, high = _starts(interval, first, last)
        bounds = [(stream, stream), (rollup, rollup), (None, interval), (interval, None), (low, high)]
        return self.groups_within(bounds) if low <= high else iter(())

    def rows_in(self, number: int, stream: int, rollup: str, interval: int, first: int | None = None,
                last: int | None = None) -> Any:  # fmt: skip
        """The rows that a row group has of windows that start in [first, last]; without bounds, of all windows.

        They are an Arrow table. Each is of a summary or of a bucket, and of such a window or of a part of it.
        """
        table = self.group(number)
        of_stream = pc.and_(pc.equal(table.column("stream"), stream), pc.equal(table.column("rollup"), rollup))
        shorter = pc.less_equal(table.column("interval"), interval)
        wanted = pc.and_(of_stream, pc.and_(shorter, pc.greater_equal(table.column("longest"), interval)))
        if first is not None and last is not None:
            low, high = _starts(interval, first, last)
            starts = table.column("start")
            wanted = pc.and_(wanted, pc.and_(pc.greater_equal(starts, low), pc.less_equal(starts, high)))
        return apart(table.select(_OF_WINDOW).filter(wanted))

    def _rows(self, stream: int, rollup: str, interval: int, first: int, last: int) -> Iterator[tuple[Any, ...]]:
        """By window and dimensions."""
        tables = list(self.tables_within(stream, rollup, interval, first, last))
        if not tables:
            return iter(())
        rows = pa.concat_tables(tables)
        rows = rows.set_column(0, "start", starts_of(rows.column("start"), interval))
        rows = rows.sort_by([("start", "ascending"), ("dimensions", "ascending")])
        return zip(*(column.to_pylist() for column in rows.columns), strict=True)


def _starts(interval: int, first: int, last: int) -> tuple[int, int]:
    """Where windows that start in [first, last] begin and end: there their parts start."""
    return -(-first // interval) * interval, last // interval * interval + interval - 1


def windows(
    readers: Sequence[tuple[Rollups, Ordinals]], stream: int, rollup: str, interval: int, begin: int, end: int
) -> Iterator[Window]:
    """The windows of these objects of the runs in [begin, end), those of one start and dimensions added up."""
    sorted_runs = (each.rows_within(stream, rollup, interval, begin, end, ordinals) for each, ordinals in readers)
    merged = heapq.merge(*sorted_runs, key=lambda row: row[0])
    for (start, text), group in groupby(merged, key=lambda row: row[0]):
        added = dict[str, Summary]()
        for _, measures in group:
            for name, summary in measures.items():
                if name in added:
                    added[name] += summary
                else:
                    added[name] = summary
        yield Window(start, tuple(json.loads(text)), added)
