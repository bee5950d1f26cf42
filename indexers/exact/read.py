"""Reads exact runs: which objects may hold a value."""

import pyarrow as pa
import pyarrow.compute as pc

from indexers.exact.filter import Filter
from indexers.exact.write import FAMILY, STORED_BYTES_MAX, hash_of, utf8
from indexers.runs import RunReader, Source, Written


class Exact(RunReader):
    """An open exact run; with its filter, most values that are not in it cost no read."""

    def __init__(
        self, source: Source, *, filtered: Filter | None = None, name: str = "", expected: Written | None = None
    ) -> None:
        super().__init__(FAMILY, source, name=name, expected=expected)
        self._filter = filtered

    def objects_of(self, stream: int, field: str, value: str) -> list[str]:
        """The objects that may hold the canonical text `value`; all others of the run do not."""
        return self.names_of(self.ordinals_of(stream, field, value))

    def ordinals_of(self, stream: int, field: str, value: str) -> list[int]:
        """The same by their index in `objects`: what covers name them by."""
        data = utf8(value)
        hashed = hash_of(stream, field, data)
        if self._filter is not None and not self._filter.may_hold_hash(hashed):
            return []
        found = list[int]()
        stored = pa.scalar(data[:STORED_BYTES_MAX], pa.binary())
        for number in self.groups_within([(stream, stream), (field, field), (hashed, hashed)]):
            table = self.group(number, ("stream", "field", "hash", "value", "object"))
            table = table.filter(pc.equal(table.column("hash"), pa.scalar(hashed, pa.uint64())))
            if table.num_rows:
                same = pc.and_(pc.equal(table.column("stream"), stream), pc.equal(table.column("field"), field))
                table = table.filter(pc.and_(same, pc.equal(table.column("value"), stored)))
                found += self.checked(table.column("object").to_pylist())
        return found


def may_hold(filtered: Filter, stream: int, field: str, value: str) -> bool:
    """False: no object of the filter's run holds the canonical text `value`, and the run need not be read."""
    return filtered.may_hold_hash(hash_of(stream, field, utf8(value)))
