"""What a fork takes of its source's next append: messages are shared, bytes are copied."""

import sqlite3
from typing import TYPE_CHECKING

from streams_node.errors import InvalidRequest, Unavailable
from streams_node.ingest.forks import Taken
from streams_node.ingest.state import StreamState
from streams_node.read.cold import ColdReader
from streams_node.read.lineage import life_at
from streams_node.read.pages import deleted, read_page
from streams_node.read.sealed import first_group
from streams_node.wal.database import Database
from streams_node.wal.heads import FIRST
from streams_node.wal.tails import LogEnd, LogMoved, NotInLog, read_rows

if TYPE_CHECKING:
    from streams_node.segments.reader import SealedFile

_STEP_BYTES = 1 << 20
_LOOKS_MAX = 3  # for entries that are on their way from the log to an object


async def taken(database: Database, cold: ColdReader | None, state: StreamState, anchor: int, sub: int) -> Taken:
    """What lies `sub` messages or bytes beyond an offset; refused when that is beyond the append that begins there."""
    if state.is_json:
        end = anchor + sub
        if end > state.tail.seq or await _begins_within(database, cold, state, anchor, end):
            raise _beyond(sub)
        return Taken(end, b"")
    if anchor >= state.tail.seq:
        raise _beyond(sub)
    page = await read_page(database, state, anchor, 1, raw=True, cold=cold)
    if len(page.payload) < sub:
        raise _beyond(sub)
    return Taken(anchor, page.payload[:sub])


def _beyond(sub: int) -> InvalidRequest:
    return InvalidRequest("Stream-Fork-Sub-Offset", "at most the length of the append at the fork offset", sub)


async def _begins_within(database: Database, cold: ColdReader | None, state: StreamState, start: int, end: int) -> bool:
    """Whether an append begins behind entry `start` and before entry `end`."""
    life = await life_at(database, state, start)
    stream, tail, stop = (state.id, state.tail, state.tail.seq) if life is None else (life.id, life.tail, life.end)
    if end > stop:
        return True  # what follows was written by the fork
    at, looks = start, 0
    while at < end:
        try:
            at, begins = await database.readers.run(_in_log, stream, tail, at, start, end)
        except LogMoved:
            raise Unavailable("the entries were moved while they were read; try again") from None
        except NotInLog:
            if cold is None:
                raise Unavailable("the entries are not in the log, and sealed ones cannot be read yet") from None
            found = await _in_object(cold, stream, at, start, end)
            if found is None:
                looks += 1
                if state.gone:
                    raise deleted(state) from None
                if looks == _LOOKS_MAX:
                    raise Unavailable("the entries were moved while they were read; try again") from None
                continue
            at, begins = found
        if begins:
            return True
    return False


def _in_log(db: sqlite3.Connection, stream: int, tail: LogEnd, at: int, start: int, end: int) -> tuple[int, bool]:
    """In a reader's thread: up to where rows were looked at, and whether one of them begins an append in between."""
    rows = read_rows(db, stream, tail, at, _STEP_BYTES)
    done = at
    for row in rows:
        if row.flags & FIRST and start < row.seq < end:
            return row.seq, True
        if row.entries:
            done = max(done, row.seq + row.entries)
    if done == at:
        raise LogMoved
    return done, False


async def _in_object(cold: ColdReader, stream: int, at: int, start: int, end: int) -> tuple[int, bool] | None:
    def work(file: "SealedFile", row: int, first: int, stop: int) -> tuple[int, bool]:
        """In a thread: one row group."""
        number = first_group(file.footer, row)
        group = file.footer.starts[number]
        stop = min(stop, end, first + file.footer.starts[number + 1] - row)
        marks = file.columns(number, ("append_start",))["append_start"].slice(row - group, stop - first).to_pylist()
        return stop, any(mark and first + index > start for index, mark in enumerate(marks))

    run = cold.run_at(stream, at)
    found = await cold.look(run, work)
    if found is not None:
        run.advance(found[0])
        cold.leave(run)
    return found
