"""What the catalogue learns from the rows of a seal: how far each stream goes, and what its producers sent last."""

import hashlib
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from streams_node.manifest.records import End, Producer, encode, encode_all
from streams_node.segmenter.columns import Rows, Stretches
from streams_node.segmenter.plain import numbers_of
from streams_node.segmenter.rows import SEALING
from streams_node.wal.heads import CLOSES

_LEN_BYTES = 4
_MARKED_ROWS = 10_000  # in one read transaction, for the sake of checkpoints
_NAMES = ("id", "next_seq", "ordinal", "position", "ts", "schema_version")
# What stands around the numbers of a line.
_ZEROS = End(id=0, next_seq=0, ordinal=0, position=0, ts=0, schema_version=0)
_PIECES = re.split(r"(?<=:)0", encode(_ZEROS).decode() + "\n")


def write_ends(
    db: sqlite3.Connection, folder: Path, rows: Rows, stretches: Stretches, marked: list[tuple[int, int]]
) -> Path | None:
    """The lines of all these streams in a file, whose name is its checksum; None when there are none."""
    if not len(stretches.streams):
        return None
    marks, producers = _marks(db, stretches.streams, marked)
    ends = _ends(db, rows._replace(columns=rows.columns.take(pc.subtract(stretches.ends, 1))))
    told = pc.is_in(ends.column("id"), value_set=pa.array(marks, pa.int64()))
    more = [End(**end, **marks[end["id"]]) for end in ends.filter(told).to_pylist()]
    parts = [_lines(ends.filter(pc.invert(told))), encode_all([*more, *producers])]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    path = folder / f"{digest.hexdigest()}.ends"
    with path.open("wb") as file:
        file.writelines(parts)
    return path


def _ends(db: sqlite3.Connection, last: Rows) -> Any:
    """How far each stream goes, from its last row: columns named as in `End`."""
    row_ids, streams, seqs, counts, ordinals, positions, times, versions, sizes = (
        last.column(name)
        for name in ("row_id", "stream", "seq", "count", "ordinal", "position", "ts", "schema_version", "size")
    )
    commas = pc.subtract(pc.divide(pc.binary_length(last.column("lens")), _LEN_BYTES), 1).fill_null(0)
    if ordinals.null_count:
        known, *places = _places(db, row_ids.filter(ordinals.is_null()))
        at = pc.index_in(row_ids, value_set=known)
        ordinals, positions = (
            pc.coalesce(column, found.take(at)) for column, found in zip((ordinals, positions), places, strict=True)
        )
    ends = pc.subtract(pc.add(positions, sizes), commas.cast(pa.int64()))
    columns = [streams, pc.add(seqs, counts), ordinals, ends, times, versions]
    batch = pa.RecordBatch.from_arrays(columns, names=_NAMES)
    return batch.filter(ordinals.is_valid()) if ordinals.null_count else batch  # freed by now: its stream has died


def _lines(ends: Any) -> Any:
    """The lines of ends that say nothing else, all columns at once: a line by itself took longer than its Parquet."""
    pieces = [_PIECES[0]]
    for column, piece in zip(ends.columns, _PIECES[1:], strict=True):
        pieces += [column.cast(pa.string()), piece]
    joined = pc.binary_join_element_wise(*pieces, "")
    size = pc.sum(pc.binary_length(joined)).as_py() or 0
    return memoryview(joined.buffers()[2])[:size] if size else b""


def _places(db: sqlite3.Connection, rows: Any) -> tuple[Any, Any, Any]:
    """Numbers, ordinals and positions of the rows that were read without; those that are freed by now are missing."""
    wanted = msgspec.json.encode(rows.sort().to_pylist()).decode()  # neighbours share pages
    count, *texts = db.execute(SEALING.ends_of_rows, (wanted,)).fetchone()
    known, ordinals, positions = (numbers_of([text]) if count else pa.array([], pa.int64()) for text in texts)
    return known, ordinals, positions


def _marks(
    db: sqlite3.Connection, told: Any, marked: list[tuple[int, int]]
) -> tuple[dict[int, dict[str, Any]], list[Producer]]:
    """What only some rows say of these streams; the newest of each, and of each of its producers, counts."""
    streams: set[int] = set(told.to_pylist()) if marked else set()
    marks: dict[int, dict[str, Any]] = {}
    producers: dict[tuple[int, str], tuple[int, int, int]] = {}
    for stream, next_seq, flags, producer, epoch, number, stream_seq in _marked(db, marked):
        if stream not in streams:
            continue
        if producer is not None:
            producers[stream, producer] = (epoch, number, next_seq)
        if stream_seq is not None:
            marks.setdefault(stream, {})["stream_seq"] = stream_seq
        if flags & CLOSES:
            mark = marks.setdefault(stream, {})
            mark["closed"] = 1
            if producer is not None:
                mark.update(closed_by=producer, closed_epoch=epoch, closed_seq=number)
    return marks, [
        Producer(id=stream, producer=producer, epoch=epoch, seq=number, next_seq=next_seq)
        for (stream, producer), (epoch, number, next_seq) in sorted(producers.items())
    ]


def _marked(db: sqlite3.Connection, ranges: list[tuple[int, int]]) -> Iterator[tuple[Any, ...]]:
    for start, through in ranges:
        after: int | None = start
        while after is not None:
            values = {"after": after, "through": through, "limit": _MARKED_ROWS}
            rows = db.execute(SEALING.marked_rows, values).fetchall()
            yield from (row[1:] for row in rows)
            after = rows[-1][0] if len(rows) == _MARKED_ROWS else None
