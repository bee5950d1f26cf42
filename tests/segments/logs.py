"""A real log, filled as the ingest fills it, and a plain list of what must come out of it."""

import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import sql
from streams_node.protocol.anchors import jump_of, moved
from streams_node.protocol.frames import Elements, Piece, cut_bytes, cut_elements, pack_key
from streams_node.wal.heads import CLOSES, CONTINUES, FIRST
from streams_node.wal.migrate import migrate
from tests.segments.entries import BIRTH_US, Entry

LOG, STREAMS, PLACEMENT = sql.queries("log"), sql.queries("streams"), sql.queries("placement")


class Sender(NamedTuple):
    producer: str
    epoch: int
    seq: int


@dataclass(slots=True)
class State:
    next_seq: int = 0
    ordinal: int = 0
    position: int = 0
    last_row: int = 0
    anchors: tuple[int, int, int, int] = (0, 0, 0, 0)


@dataclass(slots=True)
class Log:
    """`entries` and `ends` are the model: the plain list, and the newest values by stream."""

    path: Path
    db: sqlite3.Connection
    piece_bytes: int = 64
    row: int = 0
    states: dict[int, State] = field(default_factory=dict)
    entries: dict[int, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    ends: dict[int, dict[str, Any]] = field(default_factory=lambda: defaultdict(dict))
    producers: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)
    appends_end: list[int] = field(default_factory=list)  # rows

    @classmethod
    def open(cls, folder: Path, **options: Any) -> "Log":
        path = folder / "streams.db"
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = OFF")
        migrate(db)
        return cls(path, db, **options)

    def close(self) -> None:
        self.db.close()

    def create(self, stream: int, first_seq: int = 0) -> None:
        self.db.execute(STREAMS.insert_head, (stream, 0))
        self.states[stream] = State(next_seq=first_seq)

    def kill(self, stream: int) -> None:
        self.db.execute(STREAMS.delete_head, (stream,))

    def append(
        self,
        stream: int,
        entries: Sequence[bytes],
        *,
        is_json: bool = True,
        close: bool = False,
        key: str | None = None,
        keys: bytes | None = None,
        sender: Sender | None = None,
        stream_seq: str | None = None,
        schema_version: int = 0,
    ) -> None:
        """One append, by the rules of ingest/append.py; `keys` are what a row would hold instead of one key for all."""
        if stream not in self.states:
            self.create(stream)
        state = self.states[stream]
        pieces = cut_elements(Elements.of(entries), self.piece_bytes) if is_json else _raw(entries, self.piece_bytes)
        ts = BIRTH_US + self.row
        for at, entry in enumerate(entries):
            found = Entry(stream, state.next_seq + at, entry, ts, at == 0, schema_version, key)
            self.entries[stream].append(found)
        flags = FIRST
        last = len(pieces) - 1
        producer, epoch, number = sender or (None, None, None)
        for at, piece in enumerate(pieces or [Piece(0, 0, b"")]):
            flags |= CONTINUES if piece.continues else 0
            flags |= CLOSES if at >= last and close else 0
            self.row += 1
            state.ordinal += 1
            row = (
                self.row, stream, state.next_seq, piece.entries, state.ordinal, state.last_row,
                jump_of(state.ordinal, state.anchors), state.position, ts, flags, schema_version, producer, epoch,
                number, stream_seq, piece.lens, pack_key(key) if keys is None else keys, piece.payload,
            )  # fmt: skip
            self.db.execute(LOG.append_rows, row)
            state.anchors = moved(state.anchors, state.ordinal, self.row)
            state.last_row = self.row
            state.next_seq += piece.entries
            state.position += piece.size
            flags = 0
        self.appends_end.append(self.row)
        self._note(stream, state, ts, schema_version, close=close, sender=sender, stream_seq=stream_seq)

    def _note(
        self,
        stream: int,
        state: State,
        ts: int,
        schema_version: int,
        *,
        close: bool,
        sender: Sender | None,
        stream_seq: str | None,
    ) -> None:
        end = self.ends[stream]
        end.update(next_seq=state.next_seq, ordinal=state.ordinal, position=state.position, ts=ts)
        end.update(id=stream, schema_version=schema_version)
        if stream_seq is not None:
            end["stream_seq"] = stream_seq
        if close:
            end["closed"] = 1
        if close and sender is not None:
            end.update(closed_by=sender.producer, closed_epoch=sender.epoch, closed_seq=sender.seq)
        if sender is not None:
            self.producers[stream, sender.producer] = {
                "id": stream,
                "producer": sender.producer,
                "epoch": sender.epoch,
                "seq": sender.seq,
                "next_seq": state.next_seq,
            }

    def change(self, row: int, **columns: Any) -> None:
        """Damage a row."""
        names = ", ".join(f"{name} = :{name}" for name in columns)
        self.db.execute(f"UPDATE log SET {names} WHERE row_id = :row", columns | {"row": row})  # noqa: S608 - names of ours

    def rows_of(self, stream: int) -> list[int]:
        return [row for (row,) in self.db.execute("SELECT row_id FROM log WHERE stream = ? ORDER BY row_id", (stream,))]


def _raw(entries: Sequence[bytes], piece_bytes: int) -> list[Piece]:
    return [piece for entry in entries for piece in cut_bytes(entry, piece_bytes)]
