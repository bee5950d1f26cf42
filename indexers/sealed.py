"""Rows of sealed objects, as builders take them: pieces of an object's table, each with the index of its first row.

    sealed_rows(source, build)      reads the row groups that the stretches of a build lie in

Keeps    pages are read with their checksums verified. Whoever fetched the object has compared its sha256 before.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from indexers.messages import Build, Stretch

COLUMNS = ["stream", "seq", "append_ts", "append_start", "schema_version", "key", "payload"]
Piece = tuple[int, Any]  # the index of the first row in its object, and the rows


class SourceDamaged(ValueError):
    """A sealed object cannot be read, or does not hold what it was said to hold."""


def sealed_rows(source: Path | bytes, build: Build) -> Iterator[Piece]:
    """The row groups of an object in which its stretches lie."""
    wanted = sorted((each.row_index, each.row_index + each.end_seq - each.first_seq) for each in build.stretches)
    opened = source if isinstance(source, Path) else pa.BufferReader(source)
    try:
        with pq.ParquetFile(opened, page_checksum_verification=True, pre_buffer=False) as parquet:
            start = 0
            for number in range(parquet.metadata.num_row_groups):
                end = start + parquet.metadata.row_group(number).num_rows
                if any(first < end and start < last for first, last in wanted):
                    yield start, parquet.read_row_group(number, columns=COLUMNS, use_threads=False)
                start = end
    except (pa.ArrowException, OSError) as problem:
        raise SourceDamaged(f"object `{build.source.made}` cannot be read: {problem}") from problem


class Stretches:
    """The rows of a build's stretches, one after the other in one table."""

    def __init__(self, build: Build, pieces: Iterable[Piece]) -> None:
        held = sorted(((start, rows) for start, rows in pieces if rows.num_rows), key=lambda piece: piece[0])
        # The rows of an object are sorted by stream and sequence, so this is their order, too.
        self.stretches: list[Stretch] = sorted(build.stretches, key=lambda each: each.row_index)
        self.starts, at = [0], 0
        tables = list[Any]()
        for stretch in self.stretches:
            at = _skip(held, at, stretch.row_index)
            tables += _cut(held, at, stretch)
            self.starts.append(self.starts[-1] + stretch.end_seq - stretch.first_seq)
        self.table: Any = pa.concat_tables(tables).combine_chunks() if tables else None
        self._check(build)

    def _check(self, build: Build) -> None:
        """First and last row of each stretch: rows are sorted, so all between them follow."""
        if self.table is None:
            return
        ends = [at - 1 for at in self.starts[1:]]
        rows = self.table.select(["stream", "seq"]).take(self.starts[:-1] + ends).to_pydict()
        found = list(zip(rows["stream"], rows["seq"], strict=True))
        firsts = [(each.stream, each.first_seq) for each in self.stretches]
        lasts = [(each.stream, each.end_seq - 1) for each in self.stretches]
        if found != firsts + lasts:
            raise SourceDamaged(f"object `{build.source.made}` does not hold the entries that it should")


def _skip(held: list[Piece], at: int, row: int) -> int:
    while at < len(held) and held[at][0] + held[at][1].num_rows <= row:
        at += 1
    return at


def _cut(held: list[Piece], at: int, stretch: Stretch) -> list[Any]:
    """The rows of one stretch: it may lie in several pieces."""
    found, row, end = [], stretch.row_index, stretch.row_index + stretch.end_seq - stretch.first_seq
    while row < end:
        if at == len(held) or held[at][0] > row:
            raise SourceDamaged(
                f"its rows from {row} on are missing: they should be entries of stream {stretch.stream}"
            )
        start, rows = held[at]
        taken = rows.slice(row - start, end - row)
        found.append(taken)
        row += taken.num_rows
        at += 1
    return found
