"""Does a job, in a worker: reads the inputs a row group at a time and writes the outputs in one pass.

The order of all entries is known from the columns `stream` and `seq` before a payload is read. Then window after window
of some 16 MiB is gathered from all inputs and put in order by one `take`; no entry is touched by itself. A chain of a
stream goes
  into segments of its own if it has `own_segment_bytes` of payload, or if the job is of segments;
  into the pack if it is the newest of its stream;
  otherwise, as segments lie between it and the next one, into a small segment, which will be merged with these; or, if
  the job has more than `OLDER_RUNS_MAX` of such, into a further pack. A small segment costs no more objects than the
  segments that separated it have cost; the further pack bounds it where many streams had some.
"""

import secrets
import sqlite3
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from streams_node.compactor.jobs import OLDER_RUNS_MAX, Kind, Limits
from streams_node.compactor.runs import Chains, Runs, Source, chains_of, numbers, runs_of, windows_of
from streams_node.compactor.slots import cuts
from streams_node.errors import ObjectDamaged
from streams_node.objects.keys import object_id
from streams_node.placement.dead import count_dead, gone_among, kept_directory
from streams_node.placement.made import ObjectFacts
from streams_node.segments.directory import Directory
from streams_node.segments.format import payload_offsets
from streams_node.segments.reader import SealedFile
from streams_node.segments.writer import ObjectWriter, Written
from streams_node.testing.crashpoints import crash_point

_WINDOW_BYTES = 16 << 20  # of payload in memory; and as much again while it is put in order
_OWN = -1  # goes into segments; 0, 1, …: into the pack for chains of this age


class Input(msgspec.Struct):
    facts: ObjectFacts
    file: str


class Order(msgspec.Struct):
    """Arguments of the command `compact`: a job, where its inputs are, where its outputs go."""

    kind: Kind
    inputs: list[Input]
    folder: str
    database: str
    level: int
    first_row: int
    last_row: int
    cuts: list[int]
    limits: Limits


class Counted(msgspec.Struct):
    """A pack to count in; its file is given when nobody has kept its directory."""

    made: str
    file: str | None = None


class Count(msgspec.Struct):
    """Arguments of the command `compact` of kind `count`."""

    database: str
    packs: list[Counted]


def compact(arguments: dict[str, Any]) -> dict[str, Any]:
    """The worker's command. A job: `outputs`, each with facts, file and directory. A count: `dead` and `missing`."""
    if arguments.get("kind") == "count":
        return _count(msgspec.convert(arguments, Count))
    order = msgspec.convert(arguments, Order)
    with ExitStack() as stack:
        files = [stack.enter_context(SealedFile(Path(one.file), one.facts.made)) for one in order.inputs]
        for one, file in zip(order.inputs, files, strict=True):
            if file.entries != one.facts.entries:
                raise ObjectDamaged(file.made, f"it has {file.entries} entries, the catalogue says {one.facts.entries}")
        outputs = stack.enter_context(_Outputs(order))
        sources = [
            Source(file, one.facts.payload_bytes / one.facts.entries)
            for one, file in zip(order.inputs, files, strict=True)
        ]
        _build(order, sources, outputs)
        return {"outputs": outputs.finish()}


def _build(order: Order, sources: Sequence[Source], outputs: "_Outputs") -> None:
    runs = runs_of(sources)
    with closing(_database(order.database)) as db:
        runs = runs.without(list(gone_among(db, _distinct(runs.stream))))
    chains = chains_of(runs)
    outputs.cuts = order.cuts or _cuts(chains, order.limits)
    few_older = chains.older <= OLDER_RUNS_MAX
    inputs = [_Cursor(source.file) for source in sources]
    for number, (start, end) in enumerate(windows_of(chains, _WINDOW_BYTES)):
        window = _window(runs.part(chains.start[start], chains.start[end]), inputs)
        goals = [
            _goal(order, age, size, few_older=few_older)
            for age, size in zip(chains.age[start:end], _sizes(window, chains, start, end), strict=True)
        ]
        _write(window, goals, [at - chains.start[start] for at in chains.start[start : end + 1]], outputs)
        if number == 0:
            crash_point("worker.compact.inside")


def _goal(order: Order, age: int, size: int, *, few_older: bool) -> int:
    if order.kind == "segments" or size >= order.limits.own_segment_bytes or (age and few_older):
        return _OWN
    return age


def _cuts(chains: Chains, limits: Limits) -> list[int]:
    """Where packs are cut, of what will probably be in them."""
    streams = array("q")
    sizes = array("q")
    for stream, size, age in zip(chains.stream, chains.size, chains.age, strict=True):
        if not age and size < limits.own_segment_bytes:
            streams.append(stream)
            sizes.append(max(size, limits.run_bytes))
    return cuts(streams, array("q", accumulate(sizes, initial=0)), limits.pack_bytes)


# --- windows --------------------------------------------------------------------------------------------------------


class _Window(NamedTuple):
    """Entries in order; `rows` is where each run begins among them, and where the last one ends."""

    batch: Any
    rows: Any
    run_bytes: Any


def _window(runs: Runs, inputs: Sequence["_Cursor"]) -> _Window:
    """Gather what the runs need from all inputs, and put it in order."""
    parts: list[Any] = []
    shifts: list[int] = []
    size = 0
    for number, cursor in enumerate(inputs):
        mine = pc.indices_nonzero(pc.equal(runs.source, number))
        if not len(mine):
            shifts.append(0)
            continue
        first, last = mine[0].as_py(), mine[-1].as_py()
        start = runs.row[first].as_py()
        end = runs.row[last].as_py() + runs.count[last].as_py()
        parts.extend(cursor.take(start, end))
        shifts.append(size - start)
        size += end - start
    batch = pa.concat_batches(parts) if len(parts) > 1 else parts[0]
    where = pc.add(runs.row, pc.take(pa.array(shifts, pa.int64()), runs.source))
    offsets = _array(payload_offsets(batch.column("payload")))
    run_bytes = pc.subtract(pc.take(offsets, pc.add(where, runs.count)), pc.take(offsets, where)).cast(pa.int64())
    rows = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(runs.count)])
    return _Window(batch.take(_order(where, rows)), rows, run_bytes)


def _order(where: Any, rows: Any) -> Any:
    """The index of every entry: a run's entries follow each other, so it is its distance from where it goes to."""
    ends = rows.slice(1)
    distance = pc.subtract(where, rows.slice(0, len(where)))
    decoded = pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, distance))
    return pc.add(decoded, pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), len(decoded))), 1))


def _sizes(window: _Window, chains: Chains, start: int, end: int) -> list[int]:
    """Bytes of the chains of a window, exactly."""
    base = chains.start[start]
    at = pa.array([first - base for first in chains.start[start : end + 1]], pa.int64())
    sums = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(window.run_bytes)])
    found: list[int] = pc.pairwise_diff(pc.take(sums, at)).slice(1).to_pylist()
    return found


def _write(window: _Window, goals: Sequence[int], starts: Sequence[int], outputs: "_Outputs") -> None:
    """Hand on the chains in order: neighbours for the same pack together, others one by one."""
    at = 0
    rows = window.rows.take(pa.array(starts, pa.int64())).to_pylist()
    while at < len(goals):
        end = at + 1
        while end < len(goals) and goals[end] == goals[at] != _OWN:
            end += 1
        batch = window.batch.slice(rows[at], rows[end] - rows[at])
        if goals[at] == _OWN:
            outputs.write_segments(batch)
        else:
            outputs.write_pack(goals[at], batch)
        at = end


class _Cursor:
    """Goes through an input once; it holds no more than the row groups that the window needs."""

    def __init__(self, file: SealedFile) -> None:
        self._starts = file.footer.starts
        self._batches = file.batches()
        self._read = 0  # rows
        self._held: list[tuple[int, Any]] = []  # with the index of their first rows

    def take(self, start: int, end: int) -> Iterator[Any]:
        """The rows from `start` up to `end`, neither before what was taken before."""
        while self._read < end:
            batch = next(self._batches)
            self._held.append((self._read, batch))
            self._read += batch.num_rows
        self._held = [(first, batch) for first, batch in self._held if first + batch.num_rows > start]
        for first, batch in self._held:
            if first < end:
                low, high = max(start, first), min(end, first + batch.num_rows)
                yield batch.slice(low - first, high - low)


# --- outputs --------------------------------------------------------------------------------------------------------


class _Outputs:
    """The files that come out. Left without `finish`, none is left behind."""

    def __init__(self, order: Order) -> None:
        self.cuts: Sequence[int] = ()
        self._order = order
        self._folder = Path(order.folder)
        self._folder.mkdir(exist_ok=True)
        self._open: dict[int, tuple[ObjectWriter, int]] = {}  # by age: a pack and the stream at which it ends
        self._done: list[Written] = []
        self._finished = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for writer, _end in self._open.values():
            writer.abandon()
        if not self._finished:
            for written in self._done:
                written.file.unlink(missing_ok=True)

    def finish(self) -> list[dict[str, Any]]:
        for age in sorted(self._open):
            self._close(age)
        self._finished = True
        return [self._answer(written) for written in self._done]

    def write_pack(self, age: int, batch: Any) -> None:
        """The next streams of a pack; where the plan cuts, another one begins."""
        streams = numbers(batch.column("stream"))
        start = 0
        while start < len(streams):
            if age in self._open and streams[start] >= self._open[age][1]:
                self._close(age)
            if age not in self._open:
                at = bisect_right(self.cuts, streams[start])
                end = self.cuts[at] if at < len(self.cuts) else 1 << 63
                self._open[age] = self._writer("pack"), end
            writer, end = self._open[age]
            stop = bisect_left(streams, end, start)
            writer.write(batch.slice(start, stop - start))
            start = stop

    def write_segments(self, batch: Any) -> None:
        """A whole chain of a stream, in parts of about the same size."""
        offsets = payload_offsets(batch.column("payload"))
        limits, size = self._order.limits, offsets[-1] - offsets[0]
        parts = max(1, -(-size // limits.segment_bytes), -(-batch.num_rows // limits.segment_entries))
        by_entries = batch.num_rows * limits.segment_bytes > size * limits.segment_entries
        marks = [0]
        for part in range(1, parts):
            even = batch.num_rows * part // parts
            mark = even if by_entries else bisect_left(offsets, offsets[0] + size * part // parts)
            marks.append(max(marks[-1], min(mark, batch.num_rows)))
        for start, end in pairwise([*marks, batch.num_rows]):
            if end > start:
                with self._writer("segment") as writer:
                    writer.write(batch.slice(start, end - start))
                    self._done.append(writer.finish())

    def _writer(self, kind: Any) -> ObjectWriter:
        return ObjectWriter(self._folder, object_id(secrets.token_bytes(16)), kind=kind, level=self._order.level)

    def _close(self, age: int) -> None:
        writer, _ = self._open.pop(age)
        with writer:
            self._done.append(writer.finish())

    def _answer(self, written: Written) -> dict[str, Any]:
        first_row, last_row = self._stretch(written.stream)
        facts = ObjectFacts(
            made=written.made,
            kind=written.kind,
            level=written.level,
            stream=written.stream,
            first_seq=written.first_seq,
            end_seq=written.end_seq,
            min_stream=written.min_stream,
            max_stream=written.max_stream,
            streams=written.streams,
            entries=written.entries,
            bytes=written.size,
            sha256=written.sha256,
            payload_bytes=written.payload_bytes,
            min_ts=written.min_ts,
            max_ts=written.max_ts,
            first_row=first_row,
            last_row=last_row,
        )
        return {"facts": msgspec.to_builtins(facts), "file": str(written.file), "directory": written.directory}

    def _stretch(self, stream: int | None) -> tuple[int, int]:
        """The log rows that a job of several streams' segments has of one of them; of other jobs, the job's."""
        mine = [one.facts for one in self._order.inputs if stream is not None and one.facts.stream == stream]
        if not mine:
            return self._order.first_row, self._order.last_row
        return min(facts.first_row for facts in mine), max(facts.last_row for facts in mine)


# --- counting -------------------------------------------------------------------------------------------------------


def _count(order: Count) -> dict[str, Any]:
    """Dead entries by pack; `missing` are packs whose directories nobody has; `found` are those out of files."""
    dead: dict[str, int] = {}
    missing: list[str] = []
    found: dict[str, bytes] = {}
    with closing(_database(order.database)) as db:
        for pack in order.packs:
            directory = _kept(db, pack.made)
            if directory is None and pack.file is not None:
                with SealedFile(Path(pack.file), pack.made) as file:
                    found[pack.made] = blob = file.directory() or b""
                directory = Directory.unpack(blob, pack.made)
            if directory is None:
                missing.append(pack.made)
            else:
                dead[pack.made] = count_dead(db, directory)
    return {"dead": dead, "missing": missing, "found": found}


def _kept(db: sqlite3.Connection, made: str) -> Directory | None:
    """What is kept of a pack's directory; one that cannot be read is none, and stops no other count."""
    try:
        return kept_directory(db, made)
    except ObjectDamaged:
        return None


def _database(path: str) -> sqlite3.Connection:
    """The node's database, to look at: a stream that has no head there is gone for good."""
    db = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=5.0)
    db.execute("PRAGMA query_only = ON")
    return db


def _distinct(streams: Any) -> Sequence[int]:
    return numbers(pc.run_end_encode(streams).values)


def _array(numbers: "memoryview[int]") -> Any:
    return pa.Array.from_buffers(pa.int32(), len(numbers), [None, pa.py_buffer(numbers)])
