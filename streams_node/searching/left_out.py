"""What an answer says of entries that nobody looked at: in how many sealed objects they are, and how old they are."""

import sqlite3
from collections.abc import Iterable

from streams_node.answers.ranges import Range
from streams_node.errors import StreamsError
from streams_node.ingest.state import StreamState
from streams_node.observe.logs import get_logger
from streams_node.read.cold import ColdReader
from streams_node.read.lineage import life_at
from streams_node.wal.database import Database
from streams_node.wal.tails import LogEnd, LogMoved, NotInLog, read_rows

log = get_logger(__name__)
_OBJECTS_MAX = 4096  # that are counted: beyond it the number is a lower bound
_PLACES_AT_ONCE = 512


async def objects_of(cold: ColdReader | None, stream: int, spans: Iterable[Range], log_from: int) -> int:
    """How many sealed objects hold some of these entries."""
    found: set[str] = set()
    if cold is None:
        return 0
    for span in spans:
        at, end = span.first, min(span.end, log_from)
        while at < end and len(found) < _OBJECTS_MAX:
            try:
                chain = await cold.located(stream, at, _PLACES_AT_ONCE)
            except StreamsError as problem:
                log.info("sealed objects could not be counted", stream=stream, error=problem.message)
                chain = []
            found.update(place.facts.made for place in chain if place.first_seq < end)
            if not chain:
                break
            at = chain[-1].end_seq
    return len(found)


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
