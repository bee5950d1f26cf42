"""Reads a sealed file: a row group is decoded at a time, and a page of entries is a slice of its bytes."""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from streams_node.errors import ObjectDamaged, ShortHere
from streams_node.segments.format import Footer, check, directory_of, payload_offsets

_MICROSECONDS = pa.int64()
_COLUMN_AT = {"stream": 0, "seq": 1, "append_ts": 2, "append_start": 3, "schema_version": 4, "key": 5, "payload": 6}


class Page(NamedTuple):
    """Entries up to row `end`: a JSON stream's are joined by commas, others simply follow each other."""

    end: int
    payload: bytes


class Group:
    """The payloads of one row group, decoded. `start` is the index of its first row in the file."""

    __slots__ = ("_data", "_offsets", "_payloads", "end", "start")

    def __init__(self, start: int, payloads: Any) -> None:
        self.start = start
        self.end = start + len(payloads)
        self._payloads = payloads
        self._offsets = payload_offsets(payloads)
        self._data = memoryview(payloads.buffers()[2] or b"").cast("B")

    @property
    def size(self) -> int:
        """Bytes it takes in memory."""
        return len(self._data) + self._offsets.nbytes

    def fits(self, row: int, end: int, bytes_left: int, *, comma: int) -> int:
        """The row up to which entries from `row` on take at most `bytes_left`, a comma after each counted."""
        offsets, at = self._offsets, row - self.start
        base = offsets[at] + comma * at
        low, high = at, min(end, self.end) - self.start
        while low < high:
            middle = (low + high + 1) // 2
            if offsets[middle] + comma * middle - base <= bytes_left:
                low = middle
            else:
                high = middle - 1
        return self.start + low

    def length(self, row: int, end: int) -> int:
        """Bytes of the entries from `row` up to `end`."""
        return self._offsets[end - self.start] - self._offsets[row - self.start]

    def raw(self, row: int, end: int) -> "memoryview[int]":
        """Those entries, one behind the other; no copy."""
        return self._data[self._offsets[row - self.start] : self._offsets[end - self.start]]

    def joined(self, row: int, end: int) -> "bytes | memoryview[int]":
        """Those entries, joined by commas."""
        if end - row == 1:
            return self.raw(row, end)
        entries = self._payloads.slice(row - self.start, end - row)
        listed = pa.ListArray.from_arrays(pa.array([0, end - row], pa.int32()), entries)
        return memoryview(pc.binary_join(listed, b",")[0].as_buffer())

    def entries(self, row: int, end: int) -> list[bytes]:
        """Those entries, each by itself."""
        found: list[bytes] = self._payloads.slice(row - self.start, end - row).to_pylist()
        return found


class SealedFile:
    """An open file, read where it is asked: deleting it takes nothing away from who has it open."""

    def __init__(self, path: Path, made: str, *, footer: Footer | None = None) -> None:
        self.made = made
        with _damage(made):
            self._source = pa.OSFile(str(path))  # a map is as fast, and ends the process when somebody cuts the file
        try:
            with _damage(made):
                self._parquet = pq.ParquetFile(
                    self._source,
                    metadata=None if footer is None else footer.metadata,
                    page_checksum_verification=True,
                    pre_buffer=False,  # a page reads few parts, and these are in the system's memory mostly
                )
            self.footer = check(self._parquet.metadata, made) if footer is None else footer
        except BaseException:
            self._source.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Groups and columns that were read stay usable."""
        self._parquet.close()
        self._source.close()

    @property
    def entries(self) -> int:
        return self.footer.starts[-1]

    @property
    def groups(self) -> int:
        return len(self.footer.starts) - 1

    def directory(self) -> bytes | None:
        """The packed directory of a pack; None for a segment."""
        return directory_of(self.footer)

    def group(self, number: int) -> Group:
        """The payloads of a row group."""
        return Group(self.footer.starts[number], self._column(self._read(number, ("payload",)), "payload"))

    def columns(self, number: int, names: Sequence[str]) -> dict[str, Any]:
        """Whole columns of a row group as Arrow arrays, times as integers of microseconds."""
        table = self._read(number, names)
        return {name: self._column(table, name) for name in names}

    def batches(self) -> Iterator[Any]:
        """Every row group in order, all columns: what a merge reads."""
        for number in range(self.groups):
            yield self._whole(number)

    def may_hold_key(self, number: int, key: str) -> bool:
        """Whether the statistics of a row group leave room for a routing key."""
        found = self.footer.metadata.row_group(number).column(_COLUMN_AT["key"]).statistics
        if found is None or not found.has_min_max:
            return found is None or found.null_count < self.footer.starts[number + 1] - self.footer.starts[number]
        # Parquet orders text by bytes, and so do code points: the order of Python's strings.
        return bool(found.min <= key <= found.max)

    def _whole(self, number: int) -> Any:
        with _damage(self.made):
            table = self._parquet.read_row_group(number, use_threads=False).combine_chunks()
            table.validate()
        self._expect(number, table.num_rows)
        return table.to_batches()[0]

    def _read(self, number: int, names: Sequence[str]) -> Any:
        with _damage(self.made):
            table = self._parquet.read_row_group(number, columns=list(names), use_threads=False)
            table.validate()
        self._expect(number, table.num_rows)
        return table

    def _expect(self, number: int, rows: int) -> None:
        if rows != self.footer.starts[number + 1] - self.footer.starts[number]:
            raise ObjectDamaged(self.made, f"row group {number} has {rows} rows, and not what the footer says")

    def _column(self, table: Any, name: str) -> Any:
        column = table.column(name).combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # of no or several chunks, by version
            column = column.chunk(0)
        return column.cast(_MICROSECONDS) if name == "append_ts" else column


def read_page(
    group_at: Callable[[int], Group], footer: Footer, row: int, end: int, bytes_max: int, *, is_json: bool
) -> Page:
    """Whole entries from row `row` on: as many before `end` as fit in `bytes_max`, and at least one."""
    number = bisect_right(footer.starts, row) - 1
    comma = int(is_json)
    parts: list[bytes | memoryview[int]] = []
    left = bytes_max + comma  # the last entry has no comma
    while row < end:
        group = group_at(number)
        stop = group.fits(row, end, left, comma=comma)
        if stop == row:
            if parts:
                break
            stop = row + 1
        parts.append(group.joined(row, stop) if is_json else group.raw(row, stop))
        left -= group.length(row, stop) + comma * (stop - row)
        row, number = stop, number + 1
        if stop < group.end:
            break
    return Page(row, (b"," if is_json else b"").join(parts))


def keyed_rows(keys: Any, start: int, key: str) -> "array[int]":
    """The rows of a `key` column that begins at row `start` which have this key."""
    found = pc.indices_nonzero(pc.fill_null(pc.equal(keys, key), False))  # noqa: FBT003 - pyarrow's way
    return array("Q", (start + at for at in found.to_pylist()))


@contextmanager
def _damage(made: str) -> Iterator[None]:
    """Whatever is wrong with the bytes is one error; that there are none is another."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError) as problem:
        if isinstance(problem, OSError) and ShortHere.says(problem):
            raise ShortHere(f"sealed object `{made}` cannot be read now: {problem.strerror}") from problem
        reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise ObjectDamaged(made, reason) from problem
