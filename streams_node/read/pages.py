"""Reads one page of a stream."""

from typing import NamedTuple

from streams_node.errors import Missing, Unavailable
from streams_node.ingest.state import StreamState
from streams_node.read.plan import plan
from streams_node.wal.database import Database
from streams_node.wal.tails import LogMoved


class Page(NamedTuple):
    """Entries [start, end); of a JSON stream joined by commas, unless they were asked for raw."""

    start: int
    end: int
    payload: bytes
    tail: int  # the end of the stream as of this read
    closed: bool  # the page reaches it, and the stream is closed there

    @property
    def up_to_date(self) -> bool:
        return self.end == self.tail


async def read_page(database: Database, state: StreamState, start: int, bytes_max: int, *, raw: bool = False) -> Page:
    """Whole entries from `start` on: as many as fit, and at least one if there is any."""
    tail, closed = state.tail, state.tail_closed  # one moment
    parts = plan(state.id, start, tail)
    if not parts:
        return Page(start, start, b"", start, closed=closed)
    hub = state.hub
    if hub is not None and not raw:
        recent = hub.recent(start, tail.seq, bytes_max)
        if recent is not None:
            return Page(start, tail.seq, recent, tail.seq, closed=closed)
    part = parts[0]
    try:
        taken = await database.read_slice(part.stream, part.end, part.start, bytes_max, is_json=state.is_json, raw=raw)
    except LogMoved:
        if state.gone:
            raise Missing(f"stream `{state.name.stream}` was deleted while it was read") from None
        raise Unavailable("the entries were moved while they were read; try again") from None
    return Page(start, taken.end, taken.payload, tail.seq, closed=closed and taken.end == tail.seq)
