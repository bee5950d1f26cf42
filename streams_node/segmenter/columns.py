"""Rows of the log, column by column: sorted by stream, and cut into the stretches of each."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

LOG_ROW = pa.schema(
    [
        pa.field("row_id", pa.int64()),
        pa.field("stream", pa.int64()),
        pa.field("seq", pa.int64()),
        pa.field("count", pa.int64()),
        pa.field("ordinal", pa.int64()),  # null of a row that was read as plain, …
        pa.field("position", pa.int64()),  # … of which only the last one of a stream is asked for its place
        pa.field("ts", pa.int64()),
        pa.field("flags", pa.int64()),
        pa.field("schema_version", pa.int32()),
        pa.field("lens", pa.binary()),
        pa.field("keys", pa.binary()),
        pa.field("size", pa.int64()),  # of the payload
        pa.field("place", pa.int64()),  # of the payload, see `Rows`
    ]
)


class Rows(NamedTuple):
    """`columns` is a RecordBatch of LOG_ROW. A `place` from 0 on is an index into `plain`, a column of small payloads.

    Below that, -1 is the first of `others`, -2 the second: some are large, so they are copied when it is their turn.
    """

    columns: Any
    plain: Any
    others: Sequence[bytes]

    @property
    def size(self) -> int:
        return int(self.columns.num_rows)

    def column(self, name: str) -> Any:
        return self.columns.column(name)

    def part(self, start: int, end: int) -> "Rows":
        return self._replace(columns=self.columns.slice(start, end - start))

    def of(self, streams: Any) -> "Rows":
        """Those of some streams only."""
        return self._replace(columns=self.columns.filter(pc.is_in(self.column("stream"), value_set=streams)))

    def without(self, streams: Any) -> "Rows":
        """Those of all others."""
        if not len(streams):
            return self
        of_them = pc.is_in(self.column("stream"), value_set=streams)
        return self._replace(columns=self.columns.filter(pc.invert(of_them)))

    def bytes_of(self, stretches: "Stretches") -> Any:
        """Payload of each stretch of all these rows."""
        sums = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(self.column("size"))])
        return pc.subtract(sums.take(stretches.ends), sums.take(stretches.starts))

    def data(self) -> Any:
        """The payloads in the order of the rows, one behind the other."""
        places = self.column("place")
        is_plain = pc.greater_equal(places, 0)
        plain = self.plain.take(places.filter(is_plain))
        if len(plain) == self.size:
            return plain.buffers()[2] or pa.py_buffer(b"")
        parts = iter(plain.to_pylist())
        return pa.py_buffer(
            b"".join([next(parts) if place >= 0 else self.others[-1 - place] for place in places.to_pylist()])
        )


class Stretches(NamedTuple):
    """The rows of each stream are neighbours: columns of the streams, of their first rows, and of the ends."""

    streams: Any
    starts: Any
    ends: Any

    def of(self, mask: Any) -> "Stretches":
        return Stretches(*(column.filter(mask) for column in self))

    def ranges(self) -> list[tuple[int, int, int]]:
        """(stream, start, end) of each."""
        return list(zip(*(column.to_pylist() for column in self), strict=True))


def sorted_by_stream(rows: Rows) -> Rows:
    """The rows of each stream stay in their order."""
    return rows._replace(columns=rows.columns.take(pc.array_sort_indices(rows.column("stream"))))


def stretches_of(rows: Rows) -> Stretches:
    """Where each stream's rows begin and end."""
    encoded = pc.run_end_encode(rows.column("stream"))
    ends = encoded.run_ends.cast(pa.int64())
    starts = pa.concat_arrays([pa.array([0], pa.int64()), ends]).slice(0, len(ends))
    return Stretches(encoded.values, starts, ends)
