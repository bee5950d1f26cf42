"""Writes a sealed file: batches of columns come in, sorted by (stream, seq), and row groups of about 1 MiB go out."""

import hashlib
from array import array
from bisect import bisect_right
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from streams_node.errors import invariant
from streams_node.segments.directory import Directory
from streams_node.segments.format import (
    FORMAT,
    GROUP_BYTES,
    GROUP_ENTRIES,
    SCHEMA,
    Format,
    Kind,
    metadata_of,
    payload_offsets,
)

_ZSTD_LEVEL = 1  # of JSON log events, level 3 makes files as large in a fifth more time
_STATISTICS = ["stream", "seq", "append_ts", "key"]
_DICTIONARY = ["stream", "schema_version", "key"]
_ENCODINGS = {"seq": "DELTA_BINARY_PACKED", "append_ts": "DELTA_BINARY_PACKED"}  # both count up within a stream


class Written(NamedTuple):
    """A whole file, and what is known of it. A pack has neither a stream nor sequences of its own."""

    made: str
    kind: Kind
    level: int
    stream: int | None
    first_seq: int
    end_seq: int
    min_stream: int
    max_stream: int
    streams: int
    entries: int
    size: int  # of the file
    sha256: str
    payload_bytes: int
    min_ts: int
    max_ts: int
    file: Path
    directory: bytes | None


class _Runs(NamedTuple):
    """Stretches of one stream each."""

    streams: "array[int]"
    first_seqs: "array[int]"
    counts: "array[int]"


class ObjectWriter:
    """One file in the making: `write` in order, then `finish`. Left without that, it leaves no file behind."""

    def __init__(self, folder: Path, made: str, *, kind: Kind, level: int) -> None:
        self.payload_bytes = 0
        self.entries = 0
        self._form = Format(FORMAT, made, kind, level)
        self._path = folder / f"{made}.parquet"
        self._sink = _Sink(self._path.open("xb"))
        self._parquet = pq.ParquetWriter(
            pa.PythonFile(self._sink, mode="w"),
            SCHEMA,
            compression="zstd",
            compression_level=_ZSTD_LEVEL,
            use_dictionary=_DICTIONARY,
            column_encoding=_ENCODINGS,
            write_statistics=_STATISTICS,
            write_page_checksum=True,
            store_schema=False,
        )
        self._group: list[Any] = []  # batches of the row group that is not full yet
        self._group_bytes = 0
        self._group_entries = 0
        self._streams, self._first_seqs, self._counts = array("Q"), array("Q"), array("I")
        self._min_ts = (1 << 63) - 1
        self._max_ts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._sink.closed:
            self.abandon()

    def write(self, batch: Any) -> None:
        """The next entries: a RecordBatch of the format's schema."""
        invariant(batch.schema.equals(SCHEMA), "a batch has the columns of the format")
        if not batch.num_rows:
            return
        self._note(batch)
        offsets = payload_offsets(batch.column("payload"))
        self.payload_bytes += offsets[-1] - offsets[0]
        self.entries += batch.num_rows
        start = 0
        while start < batch.num_rows:
            end = self._room(offsets, start)
            self._group.append(batch.slice(start, end - start))
            self._group_bytes += offsets[end] - offsets[start]
            self._group_entries += end - start
            start = end
            if self._group_bytes >= GROUP_BYTES or self._group_entries >= GROUP_ENTRIES:
                self._end_group()

    def _room(self, offsets: "memoryview[int]", start: int) -> int:
        """The entry up to which the open row group has room: the one that fills it is in it, so never none."""
        full = bisect_right(offsets, offsets[start] + GROUP_BYTES - self._group_bytes - 1, start + 1)
        return min(full, start + GROUP_ENTRIES - self._group_entries, len(offsets) - 1)

    def _end_group(self) -> None:
        if self._group:
            self._parquet.write_table(pa.Table.from_batches(self._group, SCHEMA), row_group_size=self._group_entries)
            self._group, self._group_bytes, self._group_entries = [], 0, 0

    def _note(self, batch: Any) -> None:
        """Keep the runs of streams; refuse what no reader would find again."""
        runs = _runs(batch.column("stream"), batch.column("seq"))
        if self._streams and self._streams[-1] == runs.streams[0]:
            follows = runs.first_seqs[0] == self._first_seqs[-1] + self._counts[-1]
            invariant(follows, "entries of a stream follow each other", stream=runs.streams[0])
            self._counts[-1] += runs.counts[0]
            runs = _Runs(*(column[1:] for column in runs))
        elif self._streams:
            invariant(self._streams[-1] < runs.streams[0], "streams come in order", stream=runs.streams[0])
        self._streams += runs.streams
        self._first_seqs += runs.first_seqs
        self._counts += runs.counts
        times = pc.min_max(batch.column("append_ts").cast(pa.int64()))
        self._min_ts = min(self._min_ts, times["min"].as_py())
        self._max_ts = max(self._max_ts, times["max"].as_py())

    def finish(self) -> Written:
        """Write the rest and the footer."""
        streams, form, pack = self._streams, self._form, self._form.kind == "pack"
        invariant(streams, "a sealed file has entries")
        invariant(pack or len(streams) == 1, "a segment is of one stream", streams=len(streams))
        self._end_group()
        directory = Directory(streams, self._first_seqs, self._counts).pack() if pack else None
        self._parquet.add_key_value_metadata(metadata_of(form, directory))
        self._parquet.close()
        size = self._sink.end()
        return Written(
            made=form.made,
            kind=form.kind,
            level=form.level,
            stream=None if pack else streams[0],
            first_seq=0 if pack else self._first_seqs[0],
            end_seq=0 if pack else self._first_seqs[0] + self._counts[0],
            min_stream=streams[0],
            max_stream=streams[-1],
            streams=len(streams),
            entries=self.entries,
            size=size,
            sha256=self._sink.sha256.hexdigest(),
            payload_bytes=self.payload_bytes,
            min_ts=self._min_ts,
            max_ts=self._max_ts,
            file=self._path,
            directory=directory,
        )

    def abandon(self) -> None:
        """Leave no file behind."""
        self._sink.dropped = True
        with suppress(pa.ArrowException, OSError):
            self._parquet.close()
        with suppress(OSError):  # what is still buffered may find the disk full
            self._sink.close()
        self._path.unlink(missing_ok=True)


class _Sink:
    """A file that is hashed while it is written: reading it again would take the page cache of a neighbour."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.dropped = False
        self.sha256 = hashlib.sha256()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:
        if self.dropped:
            return len(data)
        self.sha256.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def end(self) -> int:
        """The size of the whole. Nothing is synced: see `Keeps` of the room."""
        self._file.flush()
        size = self._file.tell()
        self._file.close()
        return size

    def close(self) -> None:
        self._file.close()


def _runs(streams: Any, seqs: Any) -> _Runs:
    """The runs of a batch, which come in order and have no gaps."""
    encoded = pc.run_end_encode(streams)
    ends, values = encoded.run_ends.cast(pa.int64()), encoded.values
    starts = pa.concat_arrays([pa.array([0], pa.int64()), ends.slice(0, len(ends) - 1)])
    counts, first_seqs = pc.subtract(ends, starts), seqs.take(starts)
    last_seqs = seqs.take(pc.subtract(ends, 1))
    gaps = pc.not_equal(pc.subtract(last_seqs, first_seqs), pc.subtract(counts, 1))
    unordered = pc.less_equal(values.slice(1), values.slice(0, len(values) - 1))
    for bad, what in ((gaps, "entries of a stream follow each other"), (unordered, "streams come in order")):
        if pc.any(bad).as_py():
            wrong = values.slice(len(values) - len(bad)).filter(bad)
            invariant(False, what, stream=wrong[0].as_py())  # noqa: FBT003 - it is broken
    return _Runs(_numbers("Q", values), _numbers("Q", first_seqs), _numbers("I", counts.cast(pa.uint32())))


def _numbers(code: str, column: Any) -> "array[int]":
    """A column without nulls as an array of the same width."""
    found = array(code)
    found.frombytes(memoryview(column.buffers()[1])[column.offset * found.itemsize :][: len(column) * found.itemsize])
    return found
