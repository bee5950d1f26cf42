"""What the catalogue learns from the rows of a seal: how far each stream goes, and what its producers sent last."""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from streams_node.manifest.records import End, Producer, encode_all
from streams_node.segmenter.rows import SEALING, Columns, Stretch
from streams_node.wal.heads import CLOSES

_LEN_BYTES = 4
_MARKED_ROWS = 10_000  # in one read transaction, for the sake of checkpoints


def write_ends(
    db: sqlite3.Connection, path: Path, columns: Columns, stretches: list[Stretch], *, after: int, through: int
) -> Path | None:
    """The lines of all these streams in a file; None when there are none."""
    if not stretches:
        return None
    streams = {each.stream for each in stretches}
    marks, producers = _marks(db, streams, after, through)
    ends = [_end(columns, each.end - 1, marks.get(each.stream, {})) for each in stretches]
    with path.open("xb") as file:
        file.write(encode_all([*ends, *producers]))
        file.flush()
        os.fsync(file.fileno())
    return path


def _end(columns: Columns, at: int, marks: Mapping[str, Any]) -> End:
    """How far a stream goes, from its last row."""
    lens = columns.lens[at]
    commas = 0 if lens is None else len(lens) // _LEN_BYTES - 1
    return End(
        id=columns.streams[at],
        next_seq=columns.seqs[at] + columns.counts[at],
        ordinal=columns.ordinals[at],
        position=columns.positions[at] + len(columns.payloads[at]) - commas,
        ts=columns.times[at],
        schema_version=columns.versions[at],
        **marks,
    )


def _marks(
    db: sqlite3.Connection, streams: set[int], after: int, through: int
) -> tuple[dict[int, dict[str, Any]], list[Producer]]:
    """What only some rows say; the newest of each stream, and of each of its producers, counts."""
    marks: dict[int, dict[str, Any]] = {}
    producers: dict[tuple[int, str], tuple[int, int, int]] = {}
    for stream, next_seq, flags, producer, epoch, number, stream_seq in _marked(db, after, through):
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


def _marked(db: sqlite3.Connection, after: int, through: int) -> Iterator[tuple[Any, ...]]:
    while True:
        values = {"after": after, "through": through, "limit": _MARKED_ROWS}
        rows = db.execute(SEALING.marked_rows, values).fetchall()
        yield from (row[1:] for row in rows)
        if len(rows) < _MARKED_ROWS:
            return
        after = rows[-1][0]
