"""Finds the first entry that is not older than a time. Times never run backwards within a stream, so it is searched by
halves: over the log by the anchors of its rows, over objects by the times that the catalogue has of them.
"""

from bisect import bisect_left
from typing import TYPE_CHECKING

from streams_node.errors import Unavailable
from streams_node.ingest.state import StreamState
from streams_node.placement.locate import Located
from streams_node.read.cold import ColdReader, Run
from streams_node.read.lineage import lives_of
from streams_node.read.sealed import first_group
from streams_node.wal.database import Database
from streams_node.wal.tails import LogEnd, NotInLog, TimeFound, find_time

if TYPE_CHECKING:
    from streams_node.segments.reader import SealedFile

_LOOKS_MAX = 3  # for entries that are on their way from the log to an object


async def seq_since(database: Database, cold: ColdReader | None, state: StreamState, ts: int) -> int:
    """The sequence of the first entry at or after a time; the end of the stream when there is none."""
    if state.lineage is None:
        return await _since(database, cold, state.id, state.tail, state.earliest_seq, state.tail.seq, ts)
    first = max(state.earliest_seq, state.lineage.fork_seq)
    seq = await _since(database, cold, state.id, state.tail, first, state.tail.seq, ts)
    for life in await lives_of(database, state):  # times never run backwards over a fork point either
        if seq > first or first <= state.earliest_seq:
            break
        first = max(state.earliest_seq, life.first)
        seq = await _since(database, cold, life.id, life.tail, first, life.end, ts)
    return seq


async def _since(
    database: Database, cold: ColdReader | None, stream: int, tail: LogEnd, low: int, high: int, ts: int
) -> int:
    """The same among the entries [low, high) of one life."""
    try:
        found = await database.readers.run(find_time, tail, ts)
    except NotInLog:
        found = TimeFound(high, sure=high <= low)
    if found.sure or found.seq <= low:
        return min(max(low, found.seq), high)
    if cold is None:
        raise Unavailable("the entries are not in the log, and sealed ones cannot be read yet; try again")
    return await _among_objects(cold, stream, low, min(found.seq, high), ts)


async def _among_objects(cold: ColdReader, stream: int, low: int, high: int, ts: int) -> int:
    """The first one among the entries [low, high), which objects hold; or `high`."""
    looks = 0
    while low < high:
        run = Run(stream, (low + high) // 2, None)
        place = await cold.place(run)
        if place is None:
            looks += 1
            if looks == _LOOKS_MAX:
                raise Unavailable("the entries were moved while they were read; try again")
            continue
        first, end, found = await _within(cold, run, place, ts)
        if found <= first:
            high = min(high, first)
        elif found >= end:
            low = max(low, end)
        else:
            return min(max(low, found), high)
    return max(low, high)


async def _within(cold: ColdReader, run: Run, place: Located, ts: int) -> tuple[int, int, int]:
    """Of the entries [first, end) of an object, which is the first; what the catalogue knows saves opening it."""
    if place.facts.max_ts < ts:
        return place.first_seq, place.end_seq, place.end_seq
    if place.facts.min_ts >= ts:
        return place.first_seq, place.end_seq, place.first_seq

    def work(file: "SealedFile", row: int, start: int, end: int) -> tuple[int, int, int]:
        first = run.places[0].first_seq  # of another object than that, if a merge has replaced it
        return first, end, _within_file(file, row - (start - first), first, end, ts)

    found = await cold.look(run, work)
    if found is None:
        raise Unavailable("the entries were moved while they were read; try again")
    return found


def _within_file(file: "SealedFile", row: int, start: int, end: int, ts: int) -> int:
    """In a thread: the rows from `row` on are the entries [start, end). Groups first, by the last time in each."""
    starts, end_row = file.footer.starts, row + end - start
    low, high = first_group(file.footer, row), first_group(file.footer, end_row - 1)
    while low < high:
        middle = (low + high) // 2
        if _times(file, middle, row, end_row)[-1] < ts:
            low = middle + 1
        else:
            high = middle
    return start + max(row, starts[low]) - row + bisect_left(_times(file, low, row, end_row), ts)


def _times(file: "SealedFile", number: int, row: int, end_row: int) -> list[int]:
    """The times of a group's rows, as far as they are the stream's."""
    first = file.footer.starts[number]
    column = file.columns(number, ("append_ts",))["append_ts"]
    times: list[int] = column.slice(max(0, row - first), end_row - max(row, first)).to_pylist()
    return times
