"""Reads one page of a stream, from as many places as it takes."""

import sqlite3
from typing import NamedTuple

import sql
from streams_node.errors import Gone, InvariantBroken, Missing, StreamsError, Unavailable
from streams_node.ingest.state import StreamState
from streams_node.read.cold import ColdReader, Found
from streams_node.read.lineage import life_at, read_below
from streams_node.read.sealed import Part
from streams_node.wal.database import Database
from streams_node.wal.lineage import Life
from streams_node.wal.tails import LogEnd, LogMoved, NotInLog

_STREAMS = sql.queries("streams")
LOOKS_MAX = 2  # at the log, then at the objects: what was released between the two is there at the second look


class Page(NamedTuple):
    """Entries [start, end); of a JSON stream joined by commas, unless they were asked for raw."""

    start: int
    end: int
    payload: bytes
    tail: int  # the end of the stream as of this read
    closed: bool  # the page reaches it, and the stream is closed there
    framed: bool = False  # the payload is the whole array, as that was asked for: one copy less on the loop
    limit: tuple[int, int] | None = None  # of a filtered page that ended for it: the scan limit, and what was examined
    version: int = 0  # of the schema that its entries are shown in; 0 where they are as they were stored
    selection: str = ""  # what its tag says of how its entries were picked; empty where all of them are shown

    @property
    def up_to_date(self) -> bool:
        return self.end == self.tail


async def read_page(
    database: Database,
    state: StreamState,
    start: int,
    bytes_max: int,
    *,
    raw: bool = False,
    cold: ColdReader | None = None,
    framed: bool = False,
) -> Page:
    """Whole entries from `start` on: as many as fit, and at least one if there is any. Sealed ones come from `cold`.

    `framed` allows, and does not force, a page of JSON that has its brackets.
    """
    tail, closed = state.tail, state.tail_closed  # one moment
    if start >= tail.seq:
        return Page(start, start, b"", start, closed=closed)
    hub = state.hub
    if hub is not None and not raw:
        recent = hub.recent(start, tail.seq, bytes_max)
        if recent is not None:
            return Page(start, tail.seq, recent, tail.seq, closed=closed)
    view = _View(database, cold, state, tail, raw=raw)
    try:
        await view.gather(start, bytes_max)
    except StreamsError:
        if state.gone:
            raise deleted(state) from None
        raise
    closed = closed and view.end == tail.seq
    first = view.pieces[0]
    if len(view.pieces) == 1 and isinstance(first, bytes):
        return Page(start, view.end, first, tail.seq, closed=closed)
    if cold is None:  # a fork in the log of a node without tiers
        payload = (b"," if view.commas else b"").join(view.pieces)
        return Page(start, view.end, payload, tail.seq, closed=closed)
    framed = framed and view.commas
    payload = await cold.joined(view.pieces, commas=view.commas, framed=framed)
    return Page(start, view.end, payload, tail.seq, closed, framed)


class _View:
    """A page in the making: what was found so far."""

    def __init__(
        self, database: Database, cold: ColdReader | None, state: StreamState, tail: LogEnd, *, raw: bool
    ) -> None:
        self._database = database
        self._cold = cold
        self._state = state
        self._tail = tail
        self._raw = raw
        self._life: StreamState | Life = state  # whose entries come next,
        self._stop = tail.seq if state.lineage is None else 0  # and up to where; of a fork that is to be found out
        self.commas = state.is_json and not raw
        self.end = 0
        self.pieces: list[Part] = []

    async def gather(self, start: int, bytes_max: int) -> None:
        """What objects have, then what the log has. Where something cannot be had, a page that is not empty ends."""
        self.end, left = start, bytes_max
        while self.end < self._tail.seq and left > 0:
            try:
                if self.end >= self._stop:
                    await self._turn()
                found = await self._next(left)
            except StreamsError:
                if self.pieces:
                    return
                raise
            if self.pieces and found.length > left:
                return
            self.pieces += found.pieces
            self.end = found.end
            left -= found.length + self.commas
            if found.full:
                return

    async def _turn(self) -> None:
        """Of a fork: go on with whoever has the next entry."""
        life = await life_at(self._database, self._state, self.end)
        self._life, self._stop = (self._state, self._tail.seq) if life is None else (life, life.end)

    async def _next(self, bytes_max: int) -> Found:
        for _ in range(LOOKS_MAX):
            found = await self._from_log(bytes_max) or await self._from_objects(bytes_max)
            if found is not None:
                return found
            await explain(self._database, self._state, self.end)
        stream = self._state.name.stream
        raise InvariantBroken("an entry is neither in the log nor in any object", stream=stream, seq=self.end)

    async def _from_log(self, bytes_max: int) -> Found | None:
        """What the log has from here on; None when it does not have the next entry."""
        state, life = self._state, self._life
        if self.end < life.cold_below:
            return None
        try:
            if life is state:
                taken = await self._database.read_slice(
                    state.id, self._tail, self.end, bytes_max, is_json=state.is_json, raw=self._raw
                )
            else:
                where = life.id, life.tail, self.end, self._stop, bytes_max
                taken = await self._database.readers.run(read_below, *where, commas=self.commas)
        except NotInLog as missing:
            if state.gone:
                raise deleted(state) from None
            life.cold_below = max(life.cold_below, missing.first_seq or self._stop)
            return None
        except LogMoved:
            raise Unavailable("the entries were moved while they were read; try again") from None
        full = taken.end < self._stop or self._stop == self._tail.seq
        return Found(taken.end, [taken.payload], len(taken.payload), full=full)

    async def _from_objects(self, bytes_max: int) -> Found | None:
        if self._cold is None:
            raise Unavailable("the entries are not in the log, and sealed ones cannot be read yet; try again")
        found = await self._cold.read(self._life.id, self.end, self._stop, bytes_max, commas=self.commas)
        if found is not None and found.end == self._stop < self._tail.seq:
            return found._replace(full=False)  # who comes next has more
        return found


async def explain(database: Database, state: StreamState, seq: int) -> None:
    """Why an entry can be nowhere: its stream died, perhaps in another state than this one, or it was trimmed."""
    if state.gone or await database.readers.run(_is_dead, state.id):
        raise deleted(state)
    if seq < state.earliest_seq:
        earliest = state.token(state.earliest_seq)
        raise Gone("entries below the earliest retained offset are gone", earliest=earliest)


def deleted(state: StreamState) -> Missing | Gone:
    """What a reader is told whose stream ended under it: what the next one will be told."""
    if state.kept:
        return Gone(f"stream `{state.name.stream}` was deleted while it was read; its data is kept for forks of it")
    return Missing(f"stream `{state.name.stream}` was deleted while it was read")


def _is_dead(db: sqlite3.Connection, stream: int) -> bool:
    return db.execute(_STREAMS.read_head, (stream,)).fetchone() is None
