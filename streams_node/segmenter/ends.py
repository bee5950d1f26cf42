"""What the catalogue learns from the rows of a seal: how far each stream goes, and what its producers sent last."""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.compute as pc

from streams_node.manifest.records import End, Producer, encode_all
from streams_node.segmenter.columns import Rows, Stretches
from streams_node.segmenter.rows import SEALING
from streams_node.wal.heads import CLOSES

_LEN_BYTES = 4
_MARKED_ROWS = 10_000  # in one read transaction, for the sake of checkpoints


def write_ends(
    db: sqlite3.Connection, path: Path, rows: Rows, stretches: Stretches, marked: list[tuple[int, int]]
) -> Path | None:
    """The lines of all these streams in a file; None when there are none."""
    if not len(stretches.streams):
        return None
    marks, producers = _marks(db, set(stretches.streams.to_pylist()), marked)
    ends = _ends(db, rows._replace(columns=rows.columns.take(pc.subtract(stretches.ends, 1))), marks)
    with path.open("xb") as file:
        file.write(encode_all([*ends, *producers]))
        file.flush()
        os.fsync(file.fileno())
    return path


def _ends(db: sqlite3.Connection, last: Rows, marks: Mapping[int, Mapping[str, Any]]) -> Iterator[End]:
    """How far each stream goes, from its last row."""
    names = ("row_id", "stream", "seq", "count", "ordinal", "position", "ts", "schema_version", "size")
    columns = [last.column(name).to_pylist() for name in names]
    commas = pc.subtract(pc.divide(pc.binary_length(last.column("lens")), _LEN_BYTES), 1).fill_null(0).to_pylist()
    places = _places(db, last)
    for row, stream, seq, count, ordinal, position, ts, version, size, gaps in zip(*columns, commas, strict=True):
        place = places.get(row) if ordinal is None else (ordinal, position)
        if place is not None:  # or it is freed by now, as its stream has died
            yield End(
                id=stream,
                next_seq=seq + count,
                ordinal=place[0],
                position=place[1] + size - gaps,
                ts=ts,
                schema_version=version,
                **marks.get(stream, {}),
            )


def _places(db: sqlite3.Connection, last: Rows) -> dict[int, tuple[int, int]]:
    """Ordinal and position of the rows that were read without."""
    wanted = last.column("row_id").filter(last.column("ordinal").is_null()).sort()  # as neighbours share pages
    rows = db.execute(SEALING.ends_of_rows, (msgspec.json.encode(wanted.to_pylist()).decode(),))
    return {row: (ordinal, position) for row, ordinal, position in rows}


def _marks(
    db: sqlite3.Connection, streams: set[int], marked: list[tuple[int, int]]
) -> tuple[dict[int, dict[str, Any]], list[Producer]]:
    """What only some rows say; the newest of each stream, and of each of its producers, counts."""
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
