"""Reads rollup runs: the windows that lie in a range of time."""

import heapq
import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple, Self

from indexers.rollups.write import FAMILY
from indexers.runs import RunReader, Source, Written
from indexers.runs.files import key_at

Ordinals = AbstractSet[int] | None  # of objects in a run; None: all of them


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
        """The same with the dimensions as they are stored, in the order of the run."""
        rows = self._rows(stream, rollup, interval, begin, end - interval)
        if ordinals is not None:
            rows = (row for row in rows if row["object"] in ordinals)
        for key, group in groupby(rows, key=lambda row: (row["start"], row["dimensions"])):
            measures = dict[str, Summary]()
            for row in group:
                summary = measures.setdefault(row["measure"], Summary())
                if row["bucket"] is None:
                    summary += Summary(row["count"], row["sum"], row["min"], row["max"])
                else:
                    bucket = row["bucket"].decode("utf-8", "surrogatepass")
                    summary.histogram[bucket] = summary.histogram.get(bucket, 0.0) + row["count"]
                measures[row["measure"]] = summary
            yield key, measures

    def tables_within(self, stream: int, rollup: str, interval: int, first: int, last: int) -> Iterator[Any]:
        """The rows of windows that start in [first, last], as Arrow tables in the order of the run."""
        for number in self.numbers_within(stream, rollup, interval, first, last):
            yield self.rows_in(number, stream, rollup, interval, first, last)

    def numbers_within(self, stream: int, rollup: str, interval: int, first: int, last: int) -> Iterator[int]:
        """The row groups that may have rows of these windows, in order."""
        bounds = [(stream, stream), (rollup, rollup), (interval, interval), (first, last)]
        return self.groups_within(bounds) if first <= last else iter(())

    def rows_in(self, number: int, stream: int, rollup: str, interval: int, first: int | None = None,
                last: int | None = None) -> Any:  # fmt: skip
        """The rows that a row group has of windows that start in [first, last], as an Arrow table in the order of the
        run; without bounds, of all windows.
        """
        table, of = self.group(number), (stream, rollup, interval)
        low = _place(bisect_left, table, of if first is None else (*of, first))
        high = _place(bisect_right, table, of if last is None else (*of, last))
        return table.slice(low, high - low).select(FAMILY.schema.names[3:])

    def _rows(self, stream: int, rollup: str, interval: int, first: int, last: int) -> Iterator[dict[str, Any]]:
        for table in self.tables_within(stream, rollup, interval, first, last):
            for batch in table.to_batches():
                yield from batch.to_pylist()


def _place(bisect: Callable[..., int], table: Any, values: Sequence[int | str]) -> int:
    """Where rows that begin with these values of the key are in a sorted table, or would be."""
    names, wanted = FAMILY.key[: len(values)], tuple((True, value) for value in values)
    return bisect(range(table.num_rows), wanted, key=lambda row: key_at(table, names, row))


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
