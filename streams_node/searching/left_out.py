"""What an answer says of entries that nobody looked at: in how many sealed objects they are, and how old they are."""

import sqlite3
from collections.abc import Iterable

from streams_node.answers.ranges import Range, within
from streams_node.errors import StreamsError
from streams_node.indexing.spans import without
from streams_node.ingest.state import StreamState
from streams_node.observe.logs import get_logger
from streams_node.read.cold import ColdReader
from streams_node.read.lineage import life_at, lives_of
from streams_node.searching.recount import split
from streams_node.wal.database import Database
from streams_node.wal.keys import log_start
from streams_node.wal.tails import LogEnd, LogMoved, NotInLog, read_rows

log = get_logger(__name__)
_OBJECTS_MAX = 4096  # that are counted: beyond it the number is a lower bound
_PLACES_AT_ONCE = 512


async def in_log(
    database: Database, cold: ColdReader | None, state: StreamState, tail: LogEnd, first: int
) -> list[Range]:
    """What of the entries from one on is in the log, in order: a fork's own ones, and those that it shares."""
    lives = [life for life in reversed(await lives_of(database, state)) if first < life.end]
    own = max(first, 0 if state.lineage is None else state.lineage.fork_seq)
    shares = [(life.tail, Range(max(first, life.first), life.end), life.cold_below) for life in lives]
    shares.append((tail, Range(own, tail.seq), state.cold_below))

    def look(db: sqlite3.Connection) -> list[Range]:
        starts = (
            log_start(db, tail, max(span.first, 0 if cold is None else published)) for tail, span, published in shares
        )
        return [Range(start, span.end) for start, (_, span, _) in zip(starts, shares, strict=True) if start < span.end]

    return await database.readers.run(look)


def count_of(spans: Iterable[Range], among: Iterable[Range]) -> int:
    """How many entries of some spans are among others."""
    return sum(part.end - part.first for each in among for part in within(spans, *each))


async def objects_of(
    database: Database, cold: ColdReader | None, state: StreamState, spans: Iterable[Range], logged: Iterable[Range]
) -> int:
    """How many sealed objects hold some of these entries, but for those in the log; of a fork, also those that it
    shares.
    """
    found: set[str] = set()
    if cold is None:
        return 0
    lives = [(Range(life.first, life.end), life.id) for life in reversed(await lives_of(database, state))]
    for span in without(spans, logged):
        for part, owner in split(Range(*span), lives):
            await _add_objects(cold, state.id if owner is None else owner, part, found)
    return len(found)


async def _add_objects(cold: ColdReader, stream: int, span: Range, found: set[str]) -> None:
    at = span.first
    while at < span.end and len(found) < _OBJECTS_MAX:
        try:
            chain = await cold.located(stream, at, _PLACES_AT_ONCE)
        except StreamsError as problem:
            log.info("sealed objects could not be counted", stream=stream, error=problem.message)
            return
        found.update(place.facts.made for place in chain if place.first_seq < span.end)
        if not chain:
            return
        at = chain[-1].end_seq


async def time_of(
    database: Database, cold: ColdReader | None, state: StreamState, tail: LogEnd, seq: int
) -> int | None:
    """When an entry was appended; of a sealed one, when the oldest entry of its object was."""
    life = await life_at(database, state, seq)  # of a fork, another stream may have it
    stream, end = (state.id, tail) if life is None else (life.id, life.tail)

    def in_log(db: sqlite3.Connection) -> int | None:
        try:
            return read_rows(db, stream, end, seq, 1)[0].ts
        except (NotInLog, LogMoved):
            return None

    found = await database.readers.run(in_log)
    if found is not None or cold is None:
        return found
    try:
        chain = await cold.located(stream, seq, 1)
    except StreamsError:
        return None
    return chain[0].facts.min_ts if chain else None
