"""A log that several streams share, written by the ingest's own `store`, beside plain lists of what was put in."""

import random
import sqlite3
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

from streams_node.ingest.append import AppendRequest, pieces_of, store
from streams_node.ingest.ledger import Ledger, log_end
from streams_node.ingest.state import StreamState
from streams_node.wal.batch import Writes, commit
from streams_node.wal.lookup import Configured, Head, Name
from streams_node.wal.migrate import migrate
from streams_node.wal.tails import LogEnd

NEW_HEAD = Head(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, None, None, None, None)


class Recorder:
    """As much of a ledger as `store` uses: it numbers rows and keeps what would be committed."""

    def __init__(self, row_bytes_max: int) -> None:
        self.settings = SimpleNamespace(
            log_row_bytes_max=row_bytes_max, append_entries_max=10**6, timestamp_ahead_ms_max=0
        )
        self.open = SimpleNamespace(writes=Writes(), touched=[])
        self.committer = self
        self.next_row = 1

    def now_us(self) -> int:
        return self.next_row

    def touch_rows(self, count: int) -> int:
        first, self.next_row = self.next_row, self.next_row + count
        return first

    def dirtied(self, state: StreamState) -> None:
        state.dirty = True

    def added(self, *_: int) -> None:
        """No batch: the log below commits when it likes."""


class Interleaved:
    """The streams, their entries, and every end that a reader could have seen."""

    def __init__(self, kinds: Sequence[str], row_bytes_max: int) -> None:
        self.db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        migrate(self.db)
        self.recorder = Recorder(row_bytes_max)
        self.streams = [_stream(at + 1, kind) for at, kind in enumerate(kinds)]
        self.entries: list[list[bytes]] = [[] for _ in kinds]
        self.ends: list[list[LogEnd]] = [[] for _ in kinds]

    def append(self, which: int, sizes: Sequence[int]) -> None:
        """One append: of one entry to a stream of bytes, of an entry per size to a JSON stream."""
        state, known = self.streams[which], self.entries[which]
        if state.is_json:
            fresh = [_json_entry(which, len(known) + at, size) for at, size in enumerate(sizes)]
            body = b"[" + b",".join(fresh) + b"]"
        else:
            fresh = [_text(which, len(known), max(1, sum(sizes)))]
            body = fresh[0]
        ledger = cast("Ledger", self.recorder)
        pieces = pieces_of(ledger, AppendRequest(body), is_json=state.is_json).pieces
        store(ledger, state, pieces, AppendRequest(body))
        known += fresh
        self.ends[which].append(log_end(state))

    def close_stream(self, which: int) -> None:
        """An append without entries, as a close is."""
        store(cast("Ledger", self.recorder), self.streams[which], [], AppendRequest(b"", close=True))
        self.ends[which].append(log_end(self.streams[which]))

    def commit(self) -> None:
        writes, self.recorder.open.writes = self.recorder.open.writes, Writes()
        if writes.rows:
            commit(self.db, writes)

    def row_count(self, which: int) -> int:
        return self.streams[which].ordinal


def long_history(seed: int) -> Interleaved:
    """Thousands of rows: one busy stream, one that shares its stretch, one that is rare; JSON and bytes of each."""
    chance = random.Random(seed)
    log = Interleaved(["application/json", "text/plain", "application/json", "image/png"], row_bytes_max=24)
    for _ in range(3600):
        which = chance.choices(range(4), (40, 30, 1, 2))[0]
        count = chance.choice((1, 1, 1, 2, 5)) if log.streams[which].is_json else 1
        log.append(which, [chance.choice((1, 2, 7, 11, 23, 24, 25, 60, 130)) for _ in range(count)])
    log.close_stream(0)
    log.commit()
    return log


def _stream(at: int, content_type: str) -> StreamState:
    config = Configured(at, content_type, 0, None, None, None, 0, 1, "generic", 0, 0, 0)
    return StreamState(Name("bucket", f"stream-{at}"), 1, config, NEW_HEAD, {}, [])


def _text(which: int, seq: int, size: int) -> bytes:
    """Bytes that say whose they are, so that a mixed-up read shows."""
    mark = f"{which}.{seq};".encode()
    return (mark * (size // len(mark) + 1))[:size]


def _json_entry(which: int, seq: int, size: int) -> bytes:
    """A JSON value of exactly that many bytes: a digit, or a text with commas and brackets in it."""
    return (
        str(seq % 10).encode() if size == 1 else b'"' + _text(which, seq, size).replace(b";", b",")[: size - 2] + b'"'
    )


def joined(entries: Sequence[bytes], *, is_json: bool, raw: bool) -> bytes:
    return (b"," if is_json and not raw else b"").join(entries)
