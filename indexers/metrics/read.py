"""Reads metric blocks: the records of a stream, by sequence and by window."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow.compute as pc

from indexers.metrics.write import FAMILY, shown
from indexers.runs import IndexDamaged, RunReader, Source, Written


class Row(NamedTuple):
    """An entry; its record is None where it is no object."""

    seq: int
    append_ts: int  # microseconds
    record: dict[str, Any] | None


class Metrics(RunReader):
    """An open metric block."""

    def __init__(self, source: Source, *, name: str = "", expected: Written | None = None) -> None:
        super().__init__(FAMILY, source, name=name, expected=expected)

    def records(
        self, stream: int, first: int, end: int, begin: int | None = None, before: int | None = None
    ) -> Iterator[Row]:
        """Entries [first, end) of a stream, in order. With bounds in milliseconds, those are left out whose window is
        known to start outside of [begin, before).
        """
        for table in self.tables_of(stream, first, end, begin, before):
            for row in table.to_pylist():
                start = row["window_start"]
                if start is None or _within(start, start, begin, before):
                    yield Row(row["seq"], row["append_ts"], self.record(row))

    def tables_of(
        self, stream: int, first: int, end: int, begin: int | None = None, before: int | None = None
    ) -> Iterator[Any]:
        """The rows of these entries as Arrow tables; of row groups whose windows may start within the bounds."""
        for number in self.groups_within([(stream, stream), (first, end - 1)]):
            if self._may_start(number, begin, before):
                table = self.group(number)
                seqs = table.column("seq")
                mask = pc.and_(pc.greater_equal(seqs, first), pc.less(seqs, end))
                yield table.filter(pc.and_(mask, pc.equal(table.column("stream"), stream)))

    def _may_start(self, number: int, begin: int | None, before: int | None) -> bool:
        if begin is None and before is None:
            return True
        least, most = self.bounds_of(number, "window_start")
        return least is None or most is None or _within(least, most, begin, before)

    def record(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """What a row says; None where the entry is no object."""
        try:
            if row["rest"] is not None:
                return dict(json.loads(row["rest"]))
            return None if row["metric"] is None else shown(row)
        except (ValueError, TypeError) as problem:
            raise IndexDamaged(self.name, f"a row of it is no record: {problem}") from problem


def _within(least: int, most: int, begin: int | None, before: int | None) -> bool:
    """Whether something between two starts of windows may lie in [begin, before)."""
    return (begin is None or most >= begin) and (before is None or least < before)
