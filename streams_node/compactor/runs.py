"""Which entries the inputs of a job hold, before a payload is read: runs of streams, in order, and in chains.

A *run* is what one object holds of a stream; a *chain* is runs that follow each other without a gap, in any objects.
Everything is columns: a job may have a million runs.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from streams_node.errors import ObjectDamaged
from streams_node.segments.reader import SealedFile


class Source(NamedTuple):
    """An input: its file, and how many bytes its entries have on average."""

    file: SealedFile
    entry_bytes: float


class Runs(NamedTuple):
    """Runs in the order of (stream, seq), as columns of int64; `row` is a run's first row in its source."""

    stream: Any
    first_seq: Any
    count: Any
    source: Any
    row: Any
    size: Any  # bytes, about: known exactly once the payload is read

    def part(self, start: int, end: int) -> "Runs":
        """Those from one index up to another."""
        return Runs(*(column.slice(start, end - start) for column in self))

    def without(self, gone: Sequence[int]) -> "Runs":
        """Those of streams that are not gone."""
        if not gone:
            return self
        kept = pc.invert(pc.is_in(self.stream, pa.array(gone, pa.int64())))
        return Runs(*(column.filter(kept) for column in self))


class Chains(NamedTuple):
    """Chains in the order of their runs. `age` is 0 for a stream's newest one, 1 for the one before it, …"""

    start: Sequence[int]  # index of the first run; one more at the end, the number of runs
    stream: Sequence[int]
    size: Sequence[int]  # bytes, about
    age: Sequence[int]

    @property
    def older(self) -> int:
        return len(self.age) - sum(age == 0 for age in self.age)


def runs_of(sources: Sequence[Source]) -> Runs:
    """All runs of all inputs; an input that is not in order, or holds what another one holds, is damaged."""
    tables = [_runs_of(number, source) for number, source in enumerate(sources)]
    table = pa.concat_tables(tables).combine_chunks().sort_by([("stream", "ascending"), ("first_seq", "ascending")])
    runs = Runs(*(table.column(name).combine_chunks() for name in Runs._fields))
    overlap = pc.indices_nonzero(pc.greater(_touch(runs), 0)) if len(runs.stream) > 1 else []
    if len(overlap):
        made = sources[runs.source[overlap[0].as_py() + 1].as_py()].file.made
        raise ObjectDamaged(made, "it holds entries that another object holds, too")
    return runs


def chains_of(runs: Runs) -> Chains:
    """Runs that follow each other, together."""
    if not len(runs.stream):
        return Chains([0], [], [], [])
    begins = (
        pa.concat_arrays([pa.array([True]), pc.not_equal(_touch(runs), 0)])
        if len(runs.stream) > 1
        else pa.array([True])
    )
    start = pc.indices_nonzero(begins).cast(pa.int64())
    streams = numbers(pc.take(runs.stream, start))
    starts = pa.concat_arrays([start, pa.array([len(runs.stream)], pa.int64())])
    sums = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(runs.size)])
    sizes = pc.pairwise_diff(pc.take(sums, starts)).slice(1)
    return Chains(numbers(starts), streams, numbers(sizes), _ages(streams))


def windows_of(chains: Chains, bytes_max: int) -> Iterator[tuple[int, int]]:
    """Stretches of chains of about so many bytes each; a larger chain is one by itself."""
    start = size = 0
    for at, chain_bytes in enumerate(chains.size):
        if size and size + chain_bytes > bytes_max:
            yield start, at
            start, size = at, 0
        size += chain_bytes
    if start < len(chains.size):
        yield start, len(chains.size)


def numbers(column: Any) -> "memoryview[int]":
    """A column of int64 as it lies in memory: a list of its numbers takes four times as much."""
    return memoryview(column.buffers()[1]).cast("B").cast("q")[column.offset :][: len(column)]


def _ages(streams: Sequence[int]) -> Sequence[int]:
    ages = array("H", bytes(2 * len(streams)))
    for at in range(len(streams) - 2, -1, -1):
        if streams[at] == streams[at + 1]:
            ages[at] = ages[at + 1] + 1
    return ages


def _touch(runs: Runs) -> Any:
    """For each run but the first: 0 where it follows the one before, above 0 where both overlap, else below."""
    size = len(runs.stream) - 1
    same = pc.equal(runs.stream.slice(0, size), runs.stream.slice(1))
    end = pc.add(runs.first_seq.slice(0, size), runs.count.slice(0, size))
    return pc.if_else(same, pc.subtract(end, runs.first_seq.slice(1)), -1)


def _runs_of(number: int, source: Source) -> Any:
    file = source.file
    groups = [file.columns(group, ("stream", "seq")) for group in range(file.groups)]
    streams = pa.concat_arrays([group["stream"] for group in groups])
    seqs = pa.concat_arrays([group["seq"] for group in groups])
    _check_order(file.made, streams, seqs)
    encoded = pc.run_end_encode(streams)
    ends = encoded.run_ends.cast(pa.int64())
    starts = pa.concat_arrays([pa.array([0], pa.int64()), ends.slice(0, len(ends) - 1)])
    count = pc.subtract(ends, starts)
    columns = {
        "stream": encoded.values,
        "first_seq": pc.take(seqs, starts),
        "count": count,
        "source": pa.repeat(pa.scalar(number, pa.int64()), len(ends)),
        "row": starts,
        "size": pc.multiply(count, source.entry_bytes).cast(pa.int64(), safe=False),
    }
    return pa.table(columns)


def _check_order(made: str, streams: Any, seqs: Any) -> None:
    """By stream, and within a stream without a gap: the plan, and every reader, counts on it."""
    if len(streams) < 2:  # noqa: PLR2004 - nothing to compare
        return
    up = pc.pairwise_diff(streams).slice(1)
    right = pc.if_else(pc.equal(up, 0), pc.equal(pc.pairwise_diff(seqs).slice(1), 1), pc.greater(up, 0))
    if not pc.all(right).as_py():
        raise ObjectDamaged(made, "its entries are not in order")
