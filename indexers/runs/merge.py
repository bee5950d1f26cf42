"""Merges sorted runs block by block: vectorised, and in memory by the number of runs.

From every run one row group is held. The smallest of their last keys is a bound: all rows up to it are in memory, so
they can be combined and written, and every key is combined once, whole. Then the groups that are used up are replaced.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indexers.runs.files import RunReader, key_at

Combine = Callable[[Any], Any]
Living = AbstractSet[tuple[int, int]] | None  # (stream, ordinal): whose rows are kept; None: all


def merge_blocks(tables: Sequence[Iterator[Any]], key: Sequence[str], combine: Combine) -> Iterator[Any]:
    """Sorted tables of distinct keys, out of iterators of sorted tables; `combine` sorts rows and joins equal keys."""
    held = [each for each in (_Held(tables_of, key) for tables_of in tables) if each.advance()]
    while held:
        bound = min(each.last for each in held)
        yield combine(pa.concat_tables([each.take(bound) for each in held]))
        held = [each for each in held if each.left or each.advance()]


def combined(readers: Iterable[RunReader]) -> tuple[str, ...]:
    """The objects of a merged run; the ordinals of a run move by the number of objects before it.

    Two runs may be of one object, each with entries of its own: then it is in the list twice.
    """
    return tuple(name for reader in readers for name in reader.objects)


def moved(reader: RunReader, before: int, living: Living) -> Iterator[Any]:
    """The tables of a run whose rows name an `object`, as the merged run has them: behind so many objects."""
    at = reader.family.schema.get_field_index("object")
    for table in reader.tables():
        mask = None if living is None else alive(table, living)
        kept = table if mask is None else table.filter(mask)
        ordinals = pc.add(kept.column("object"), pa.scalar(before, pa.int32()))
        if kept.num_rows:
            yield kept.set_column(at, reader.family.schema.field(at), ordinals)


def alive(table: Any, living: AbstractSet[tuple[int, int]]) -> Any:
    """Which rows are of living covers; None: all. Some are not after streams were deleted, or covers superseded."""
    distinct = table.select(["stream", "object"]).group_by(["stream", "object"], use_threads=False).aggregate([])
    if all((row["stream"], row["object"]) in living for row in distinct.to_pylist()):
        return None
    pairs = zip(table.column("stream").to_pylist(), table.column("object").to_pylist(), strict=True)
    return pa.array([pair in living for pair in pairs], pa.bool_())


class _Held:
    """The row group of one run that is in memory, from `_start` on."""

    def __init__(self, tables: Iterator[Any], key: Sequence[str]) -> None:
        self._tables = tables
        self._key = key
        self._table: Any = None
        self._start = 0
        self.last: tuple[Any, ...] = ()

    @property
    def left(self) -> bool:
        return bool(self._start < self._table.num_rows)

    def advance(self) -> bool:
        """Hold the next row group; false at the end of the run."""
        self._table = next(self._tables, None)
        if self._table is None:
            return False
        self._start = 0
        self.last = key_at(self._table, self._key, self._table.num_rows - 1)
        return True

    def take(self, bound: tuple[Any, ...]) -> Any:
        """The rows up to the bound."""
        low, high = self._start, self._table.num_rows
        while low < high:
            middle = (low + high) // 2
            if key_at(self._table, self._key, middle) <= bound:
                low = middle + 1
            else:
                high = middle
        taken = self._table.slice(self._start, low - self._start)
        self._start = low
        return taken
