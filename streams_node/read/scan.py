"""Reads on through a stream, wherever its entries lie, and lets threads pick some of them: by key, by filter.

Keeps    entries are looked at in their order, each once, and an answer says up to which: what it left out does not
         match. An answer is bounded by what it shows, by what it examines, and by time, whichever comes first; it
         covers one entry at least. Nothing is decoded or evaluated on the loop, and no step keeps a thread for long.
"""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from streams_node.errors import InvariantBroken, StreamsError, Unavailable
from streams_node.ingest.state import StreamState
from streams_node.read.cold import ColdReader, Run
from streams_node.read.keyed import Chunk, NotShown, Pruner, group_chunk, log_chunk
from streams_node.read.lineage import below, life_at
from streams_node.read.pages import LOOKS_MAX, Page, deleted, explain
from streams_node.read.sealed import Part, first_group
from streams_node.wal.database import Database
from streams_node.wal.lineage import Life
from streams_node.wal.tails import LogEnd, LogMoved, NotInLog, read_keyed, read_rows

if TYPE_CHECKING:
    from streams_node.segments.reader import SealedFile

_STEP_BYTES = 2 << 20  # examined by a thread before others have their turn
_STEP_S = 0.05


class Sieve(Protocol):
    """What a read is after. Used by one thread at a time."""

    @property
    def key(self) -> str | None:
        """Only entries with this routing key are looked at; None for all."""

    @property
    def pruner(self) -> Pruner | None:
        """Rules out entries without a look at them."""

    def matching(self, chunk: Chunk, count: int) -> Iterator[tuple[int, bytes | None]]:
        """Of the first `count` entries of a chunk: the index of each that matches, and how it is shown.

        None stands for one that does not match, where telling took long. NotShown where it cannot be told.
        """


@dataclass(slots=True)
class Room:
    """What an answer may still show and cost. `show` counts a comma for every entry of JSON."""

    show: int
    scan: int
    until: float
    comma: int
    shown: bool = False
    full: bool = False

    @property
    def spent(self) -> bool:
        """Whether it ends for what it cost, not for what it shows."""
        return self.scan <= 0 or time.monotonic() > self.until


class Sifted(NamedTuple):
    """Entries were looked at up to seq `end`; `part` is what is shown of them, None for nothing."""

    end: int
    part: Part | None
    room: Room


class Bounds(NamedTuple):
    """`page_bytes` are shown, `scan_bytes` examined; both may be passed by one entry. `seconds` by one step."""

    page_bytes: int
    scan_bytes: int
    seconds: float


class Scanned(NamedTuple):
    """A page, and what it took. `spent`: it ends because it took too much."""

    page: Page
    bytes: int
    spent: bool


async def read_matching(
    database: Database, cold: ColdReader | None, state: StreamState, start: int, sieve: Sieve, bounds: Bounds,
    *, raw: bool = False, framed: bool = False,
) -> Scanned:  # fmt: skip
    """What a sieve takes of the entries from `start` on. `framed` as for a page.

    What the sieve's pruner rules out costs nothing of what an answer may examine.
    """
    tail, closed = state.tail, state.tail_closed  # one moment
    commas = state.is_json and not raw
    room = Room(bounds.page_bytes + commas, bounds.scan_bytes, time.monotonic() + bounds.seconds, int(commas))
    scan = _Scan(database, cold, state, tail, sieve)
    at, parts = start, list[Part]()
    while at < tail.seq and not room.full and not room.spent:
        try:
            sifted = await scan.step(at, room)
        except StreamsError:
            if state.gone:
                raise deleted(state) from None
            if at == start:
                raise
            break  # the next answer begins there, and says why
        at, room = sifted.end, sifted.room
        if sifted.part is not None:
            parts.append(sifted.part)
    scan.leave()
    payload, framed = await _joined(cold, parts, commas=commas, framed=framed and commas)
    page = Page(start, at, payload, tail.seq, closed=closed and at == tail.seq, framed=framed)
    return Scanned(page, bounds.scan_bytes - room.scan, at < tail.seq and room.spent and not room.full)


async def _joined(cold: ColdReader | None, parts: list[Part], *, commas: bool, framed: bool) -> tuple[bytes, bool]:
    if cold is None or not parts:
        return (b"," if commas else b"").join(parts), False
    return await cold.joined(parts, commas=commas, framed=framed), framed


class _Scan:
    """A reader in order, up to the end of the stream at one moment."""

    def __init__(
        self, database: Database, cold: ColdReader | None, state: StreamState, tail: LogEnd, sieve: Sieve
    ) -> None:
        self._database = database
        self._cold = cold
        self._state = state
        self._tail = tail
        self._sieve = sieve
        self._until = 0  # the end of the stretch that may match
        self._life: StreamState | Life = state  # whose entries come next,
        self._stop = tail.seq if state.lineage is None else 0  # and up to where; of a fork that is to be found out
        self._run: Run | None = None

    async def step(self, at: int, room: Room) -> Sifted:
        """Look at some entries from one on; at least at that one."""
        if at >= self._until:
            start, self._until = at, self._tail.seq
            if self._sieve.pruner is not None:
                start, self._until = await self._sieve.pruner.stretch(at, self._tail.seq)
            if start > at:
                return Sifted(start, None, room)
        if at >= self._stop:
            life = await life_at(self._database, self._state, at)
            self._life, self._stop = (self._state, self._tail.seq) if life is None else (life, life.end)
        for _ in range(LOOKS_MAX):
            found = await self._from_log(at, room) or await self._from_objects(at, room)
            if found is not None:
                return found
            await explain(self._database, self._state, at)
        stream = self._state.name.stream
        raise InvariantBroken("an entry is neither in the log nor in any object", stream=stream, seq=at)

    def leave(self) -> None:
        if self._cold is not None and self._run is not None:
            self._cold.leave(self._run)

    async def _from_log(self, at: int, room: Room) -> Sifted | None:
        state, life = self._state, self._life
        if at < life.cold_below:
            return None
        tail = life.tail if isinstance(life, Life) else self._tail
        try:
            return await self._database.readers.run(_sift_log, life.id, tail, at, self._stop, self._sieve, room)
        except NotInLog as missing:
            if state.gone:
                raise deleted(state) from None
            life.cold_below = max(life.cold_below, missing.first_seq or self._stop)
            return None
        except LogMoved:
            raise Unavailable("the entries were moved while they were read; try again") from None

    async def _from_objects(self, at: int, room: Room) -> Sifted | None:
        cold = self._cold
        if cold is None:
            raise Unavailable("the entries are not in the log, and sealed ones cannot be read yet; try again")
        run = self._run
        if run is None or run.end != at or run.stream != self._life.id:
            run = self._run = cold.run_at(self._life.id, at)
        sieve, until = self._sieve, min(self._until, self._stop)

        def work(file: "SealedFile", row: int, start: int, end: int) -> Sifted:
            return _sift_file(file, row, start, min(end, until), sieve, room)

        sifted = await cold.look(run, work)
        if sifted is not None:
            run.advance(sifted.end)
        return sifted


def _sift_log(
    db: sqlite3.Connection, stream: int, tail: LogEnd, at: int, stop: int, sieve: Sieve, room: Room
) -> Sifted:
    """In a reader's thread: entries from `at` on, before `stop`."""
    bytes_max = min(_STEP_BYTES, room.scan)
    if sieve.key is None:
        chunk = log_chunk(read_rows(db, stream, tail, at, bytes_max), at)
    else:
        rows, end, passed = read_keyed(db, stream, tail, at, bytes_max, sieve.key)
        chunk = log_chunk(rows, at, sieve.key, end, passed)
    if chunk.end > stop:  # who has forks goes on behind the fork point
        chunk = below(chunk, stop)
    room = replace(room)  # it may be done again, elsewhere
    end, entries = _sift(chunk, sieve, room)
    return Sifted(end, _part(entries, room), room)


def _sift_file(file: "SealedFile", row: int, start: int, end: int, sieve: Sieve, room: Room) -> Sifted:
    """In a thread for sealed entries: some row groups from a row on, which is entry `start`."""
    room = replace(room)
    entries: list[bytes] = []
    number, at, before, until = first_group(file.footer, row), start, room.scan, time.monotonic() + _STEP_S
    while at < end and not room.full and room.scan > 0:
        stop = min(end, start + file.footer.starts[number + 1] - row)
        if sieve.key is None or file.may_hold_key(number, sieve.key):
            chunk = group_chunk(file, number, row + at - start, at, stop, sieve.key)
            at, some = _sift(chunk, sieve, room)
            entries += some
            if at < stop:  # in the middle of the group: what comes next cannot be shown, or the page is full
                break
        else:
            at = stop
        number += 1
        if before - room.scan > _STEP_BYTES or time.monotonic() > until:
            break
    return Sifted(at, _part(entries, room), room)


def _part(entries: Sequence[bytes], room: Room) -> bytes | None:
    return (b"," if room.comma else b"").join(entries) if entries else None


def _sift(chunk: Chunk, sieve: Sieve, room: Room) -> tuple[int, list[bytes]]:
    """What is shown of a chunk, and up to which entry it was looked at.

    A full page ends right behind its last entry, or right before the next one that matches: where it ends tells nothing
    of how the entries lie, or of what an index knew.
    """
    count = stop = chunk.within(room.scan)
    entries: list[bytes] = []
    try:
        for at, entry in sieve.matching(chunk, count):
            size = 0 if entry is None else len(entry) + room.comma
            if size > room.show and room.shown:
                room.full, stop = True, at
                break
            if entry is not None:
                entries.append(entry)
                room.show, room.shown = room.show - size, True
                if room.show <= room.comma:
                    room.full, stop = True, at + 1
                    break
            elif time.monotonic() > room.until:
                stop = at + 1
                break
    except NotShown as problem:
        stop = problem.index
        if chunk.seqs[stop] == chunk.start:
            raise problem.reason from None
    room.scan -= chunk.size(stop) + chunk.passed
    if room.full and entries and room.show <= room.comma:
        return chunk.seqs[stop - 1] + 1, entries
    return (chunk.end if stop == len(chunk.seqs) else chunk.seqs[stop]), entries
