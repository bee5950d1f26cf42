"""Cuts the rows of an object into batches of entries that mean the same and go to the same families."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from indexers.messages import Stretch
from indexers.plan import Family
from indexers.sealed import Stretches

_ROWS_MAX = 16_384  # with 4,096 the fixed costs of tables took a quarter of the time of exact values and rollups
_BYTES_MAX = 8 << 20  # of payload, and of one entry at least
_Range = tuple[int, int]


class Batch(NamedTuple):
    """Rows of an object in their order; `rows` are their indexes there."""

    meaning: int
    families: frozenset[Family]
    rows: Sequence[int]
    table: Any

    def column(self, name: str) -> list[Any]:
        column = self.table.column(name)
        return list((column.cast("int64") if name == "append_ts" else column).to_pylist())


def batches(stretches: Stretches) -> Iterator[Batch]:
    """Stretches that mean the same share batches, though they lie apart: a pack has thousands of small ones."""
    ranges: dict[tuple[int, frozenset[Family]], list[_Range]] = {}
    for stretch, start, end in zip(stretches.stretches, stretches.starts, stretches.starts[1:], strict=False):
        known = ranges.setdefault(_kind(stretch), [])
        if known and known[-1][1] == start:
            known[-1] = known[-1][0], end
        else:
            known.append((start, end))
    for (meaning, families), found in ranges.items():
        for rows, table in _cut(stretches.table, found):
            yield Batch(meaning, families, rows, table)


def _kind(stretch: Stretch) -> tuple[int, frozenset[Family]]:
    return stretch.meaning, frozenset(stretch.families)


def _cut(table: Any, ranges: list[_Range]) -> Iterator[tuple[Sequence[int], Any]]:
    rows: Sequence[int] = range(*ranges[0])
    if len(ranges) > 1:
        rows = list(chain.from_iterable(range(*each) for each in ranges))
    held = pa.concat_tables([table.slice(start, end - start) for start, end in ranges]).combine_chunks()
    size = pc.sum(pc.binary_length(held.column("payload"))).as_py() or 0
    step = max(1, min(_ROWS_MAX, _BYTES_MAX * held.num_rows // max(1, size)))
    for at in range(0, held.num_rows, step):
        yield rows[at : at + step], held.slice(at, step)
