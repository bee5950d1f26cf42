"""The producers of a stream, page by page: what each was accepted with last, and when that was.

Nothing of it is stored for its own sake. Memory has the turns of all producers of a stream that is in use; when a turn
was taken is the time of the entry before the place that it left the stream at.
"""

import heapq
from contextlib import suppress
from typing import NamedTuple

from streams_node.errors import StreamsError
from streams_node.ingest.state import StreamState
from streams_node.placement.locate import Located
from streams_node.protocol.producers import Producer
from streams_node.read.cold import ColdReader
from streams_node.wal.database import Database
from streams_node.wal.tails import times_of


class Turn(NamedTuple):
    """The newest accepted request of a producer, as it was when the page was made."""

    id: str
    last: Producer
    closing: bool  # it closed the stream


class Turns(NamedTuple):
    """A page of them by their ids. `ts`: of the stream's newest append."""

    total: int
    turns: list[Turn]
    more: bool
    ts: int


class Seen(NamedTuple):
    """When a turn was taken; unless `exact`, at that time or before."""

    ts: int
    exact: bool


def turns(state: StreamState, after: str | None, limit: int) -> Turns:
    """As decided: who shows it waits until that is on disk."""
    known = state.producers
    found = heapq.nsmallest(limit + 1, known if after is None else (each for each in known if each > after))
    page = [Turn(each, known[each], (each, *known[each][:2]) == state.closed_by) for each in found[:limit]]
    return Turns(len(known), page, len(found) > limit, state.ts)


async def seen(
    database: Database, cold: ColdReader | None, state: StreamState, page: Turns, parts_max: int
) -> list[Seen | None]:
    """When the turns were taken. One whose entry left the log: as its object says; None when it is gone."""
    own = 0 if state.lineage is None else state.lineage.fork_seq
    wanted = {each.last.next_seq - 1 for each in page.turns if not each.closing}
    exact = await database.readers.run(times_of, state.tail, {seq for seq in wanted if seq >= own})
    left = sorted(seq for seq in wanted if seq >= max(own, state.earliest_seq) and seq not in exact)
    places = await _places(cold, state, left, parts_max)

    def of(turn: Turn) -> Seen | None:
        seq = turn.last.next_seq - 1
        if turn.closing:
            return Seen(page.ts, exact=True)
        if seq < own:  # it came with the creation: nothing was appended before it
            return Seen(state.created_us, exact=True)
        if seq in exact:
            return Seen(exact[seq], exact=True)
        place = next((each for each in places if each.first_seq <= seq < each.end_seq), None)
        return None if place is None else Seen(place.facts.max_ts, exact=False)

    return [of(turn) for turn in page.turns]


async def _places(cold: ColdReader | None, state: StreamState, seqs: list[int], most: int) -> list[Located]:
    """The objects that hold these entries, the newest first and so many at most."""
    found: list[Located] = []
    with suppress(StreamsError):  # who is there is known without the object store; since when may be unknown
        for seq in reversed(seqs):
            if cold is None or len(found) == most:
                break
            if not found or seq < found[-1].first_seq:
                found += await cold.located(state.id, seq, 1)
    return found
