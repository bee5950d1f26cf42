"""Whose entries a read of a fork comes to. A stream that is no fork has one life, and is not asked for any other."""

import sqlite3
from bisect import bisect_left
from dataclasses import replace

from streams_node.errors import InvariantBroken
from streams_node.ingest.state import StreamState
from streams_node.read.keyed import Chunk, log_chunk
from streams_node.wal.database import Database
from streams_node.wal.lineage import Life, load_lives
from streams_node.wal.tails import LogEnd, LogMoved, Slice, read_rows


async def lives_of(database: Database, state: StreamState) -> tuple[Life, ...]:
    """Those whose entries a fork shares, newest first."""
    lineage = state.lineage
    if lineage is None or not lineage.fork_seq:
        return ()
    if lineage.lives is None:
        found = await database.readers.run(load_lives, lineage.source, lineage.fork_seq)
        lineage.lives = tuple(life for life in found if life.first < life.end)
    return lineage.lives


async def life_at(database: Database, state: StreamState, seq: int) -> Life | None:
    """Who has an entry of a fork; None for the fork itself."""
    if state.lineage is None or seq >= state.lineage.fork_seq:
        return None
    for life in await lives_of(database, state):
        if life.first <= seq < life.end:
            return life
    if state.gone:
        return None  # what explains that nobody has the entry
    raise InvariantBroken("an entry below a fork point has no owner", stream=state.name.stream, seq=seq)


def below(chunk: Chunk, stop: int) -> Chunk:
    """What of a chunk lies before an entry."""
    if chunk.end <= stop:
        return chunk
    count = bisect_left(chunk.seqs, stop)
    return replace(chunk, end=stop, seqs=chunk.seqs[:count], begins=chunk.begins[:count], ends=chunk.ends[:count])


def read_below(
    db: sqlite3.Connection, stream: int, tail: LogEnd, start: int, stop: int, bytes_max: int, *, commas: bool
) -> Slice:
    """As `tails.read_slice`, of entries before one in the middle of a stream, and perhaps of an append."""
    chunk = below(log_chunk(read_rows(db, stream, tail, start, bytes_max), start), stop)
    entries: list[bytes] = []
    size = 0
    for begin, end in zip(chunk.begins, chunk.ends, strict=True):
        if entries and size + end - begin > bytes_max:
            break
        entries.append(chunk.data[begin:end])
        size += end - begin + commas
    if not entries:
        raise LogMoved
    return Slice(start, start + len(entries), (b"," if commas else b"").join(entries))
