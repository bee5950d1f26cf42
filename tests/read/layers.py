"""Streams whose entries lie in the log, in packs and in segments, moved about at will, beside plain lists of them.

Sealing, releasing, merging and collecting are done here by the tables and files alone, without the stages that will do
them: a reader must be right whatever they do, and whenever.
"""

import random
import sqlite3
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import pyarrow as pa

import sql
from streams_node.cache import Cache, Limits
from streams_node.config import Settings
from streams_node.errors import invariant
from streams_node.ingest.append import AppendRequest, pieces_of, store
from streams_node.ingest.ledger import Ledger, log_end
from streams_node.ingest.state import StreamState
from streams_node.objects.counts import RequestCounts
from streams_node.objects.faults import FaultPlan, FaultyStore
from streams_node.objects.memory import MemoryStore
from streams_node.objects.protocol import WriteId
from streams_node.objects.retry import RetryingStore, RetryPolicy
from streams_node.placement.made import ObjectFacts
from streams_node.read.cold import ColdReader
from streams_node.read.pages import Page, read_page
from streams_node.segments.format import SCHEMA
from streams_node.segments.writer import ObjectWriter, Written
from streams_node.wal.batch import Writes, commit
from streams_node.wal.database import Database
from streams_node.wal.lookup import Configured, Name
from tests.stage.interleaved import NEW_HEAD, Recorder

_PLACEMENT = sql.queries("placement")
_STREAMS = sql.queries("streams")
_QUICK = RetryPolicy(attempts_max=3, wait_ms=1, wait_ms_max=2, total_ms_max=1000)
Run = tuple[int, int, int]  # index of a stream, first seq, end seq


class Sealed(NamedTuple):
    """An object, and what is in it."""

    facts: ObjectFacts
    runs: list[Run]


class Layers:
    """Made by `layers`."""

    def __init__(self, folder: Path, database: Database, cache: Cache, settings: Settings, faults: FaultPlan) -> None:
        self.folder = folder
        self.database = database
        self.cache = cache
        self.settings = settings
        self.faults = faults
        self.bucket = MemoryStore()
        self.counts = RequestCounts()
        self.cold: ColdReader
        self.recorder = Recorder(row_bytes_max=64)
        self.streams: list[StreamState] = []
        self.entries: list[list[bytes]] = []
        self.living: list[Sealed] = []
        self.dead: list[Sealed] = []
        self._ends: list[tuple[int, int, int]] = []  # of each append: its last row, its stream, and the end there
        self._sealed: list[int] = []
        self._sealed_row = 0
        self._released_row = 0
        self._made = 0
        self._spoilt: set[str] = set()
        self.unreleased: list[int] = []  # rows up to which objects hold everything

    # --- the log ---

    async def create(self, content_type: str) -> int:
        at = len(self.streams)
        config = Configured(at + 1, content_type, 0, None, None, None, 0, 1, "generic", 0, 0, 0)
        await self.database.writer.run(_execute, [(_STREAMS.insert_head, (at + 1, 0))])
        self.streams.append(StreamState(Name("bucket", f"stream-{at}"), 1, config, NEW_HEAD, {}, []))
        self.entries.append([])
        self._sealed.append(0)
        return at

    async def append(self, which: int, fresh: Sequence[bytes]) -> None:
        """One append: of all entries to a JSON stream, of the first to a stream of bytes."""
        state, ledger = self.streams[which], cast("Ledger", self.recorder)
        fresh = fresh if state.is_json else fresh[:1]
        request = AppendRequest(b"[" + b",".join(fresh) + b"]" if state.is_json else fresh[0])
        store(ledger, state, pieces_of(ledger, request, is_json=state.is_json).pieces, request)
        writes, self.recorder.open.writes = self.recorder.open.writes, Writes()
        # In this order, as a node does: the list is what may be seen, the tail is what is seen.
        self.entries[which] += fresh
        end = log_end(state)
        await self.database.writer.run(commit, writes)
        state.tail = end
        self._ends.append((end.row, which, end.seq))

    # --- what the stages do ---

    async def seal(self, *, own_bytes: int = 200) -> None:
        """Everything that is not sealed: large streams get segments, the others share a pack. Then it is published."""
        row, ends = self._sealed_row, list(self._sealed)
        for last_row, which, end in self._ends:
            row, ends[which] = max(row, last_row), max(ends[which], end)
        self._ends.clear()
        runs = [(at, self._sealed[at], ends[at]) for at in range(len(ends)) if self._sealed[at] < ends[at]]
        self._sealed, self._sealed_row = ends, row
        own = [run for run in runs if self._size(run) >= own_bytes]
        shared = [run for run in runs if run not in own]
        fresh = [self._write([run], own=True) for run in own] + ([self._write(shared, own=False)] if shared else [])
        await self._publish([], fresh)
        self.unreleased.append(row)

    async def release(self, rows_max: int | None = None) -> None:
        """Take sealed rows out of the log, all or some."""
        through = self.unreleased[-1] if self.unreleased else self._released_row
        if rows_max is not None:
            through = min(through, self._released_row + rows_max)
        if through > self._released_row:
            values = {"after": self._released_row, "through": through}
            await self.database.writer.run(_execute, [(_PLACEMENT.release_rows, values)])
            self._released_row = through

    async def merge(self, inputs: Sequence[Sealed], *, split: bool = False, segments: bool = False) -> None:
        """Other objects with the same entries take the place of some."""
        inputs = [one for one in inputs if one in self.living]
        runs = _merged(run for one in inputs for run in one.runs)
        if not runs:
            return
        if segments:
            groups = [[run] for run in runs]
        elif split and len(runs) > 1:
            groups = [runs[: len(runs) // 2], runs[len(runs) // 2 :]]
        else:
            groups = [runs]
        # A run with a gap in its stream cannot be in one object with the rest of that stream.
        fresh = [
            self._write(part, own=segments and len(part) == 1) for group in groups for part in _without_gaps(group)
        ]
        await self._publish(inputs, fresh)

    async def collect(self) -> None:
        """Delete the objects that no generation names any more."""
        dead, self.dead = self.dead, []
        for one in dead:
            self.bucket.delete(one.facts.key())
            made = one.facts.made
            statements = [(_PLACEMENT.forget_directory, (made,)), (_PLACEMENT.forget_object, (made,))]
            await self.database.writer.run(_execute, statements)
            await self.cache.drop(made)

    async def forget_directories(self) -> None:
        """As after a recovery from the bucket."""
        await self.database.writer.run(_execute, [("DELETE FROM directories", ())])
        for one in self.living:
            self.cold.directories.forget(one.facts.made)

    # --- what goes wrong ---

    async def evict(self) -> None:
        for one in self.living + self.dead:
            await self.cache.drop(one.facts.made)

    def damage_copies(self, chance: random.Random) -> None:
        """Flip a byte in each file of the cache; once an object, as a read stands for one bad copy of it at a time."""
        for path in (self.folder / "cache").glob("*.parquet"):
            made = path.name.partition("-")[0]
            if made not in self._spoilt:
                self._spoilt.add(made)
                flip(path, chance)

    def damage_object(self, one: Sealed, at: int | None = None) -> None:
        """In the bucket itself, for good; in the middle, or where it is said."""
        key = one.facts.key()
        held = self.bucket._objects[key]
        data = bytearray(held.data)
        data[len(data) // 2 if at is None else at] ^= 1
        self.bucket._objects[key] = held._replace(data=bytes(data))

    def gets(self) -> int:
        """Requests for bytes of objects, so far."""
        return sum(tally.requests for (_, op), tally in self.counts.totals().items() if op == "get")

    async def sealed(self, which: int, entries: Sequence[Sequence[bytes]], *, own_bytes: int = 1) -> None:
        """Append, seal and release, an object for each of the lists; copies are nowhere."""
        for fresh in entries:
            await self.append(which, fresh)
            await self.seal(own_bytes=own_bytes)
        await self.release()
        await self.evict()

    # --- reading ---

    async def page(self, which: int, start: int, bytes_max: int, *, raw: bool = False) -> Page:
        return await read_page(self.database, self.streams[which], start, bytes_max, raw=raw, cold=self.cold)

    async def check(self, which: int, start: int, bytes_max: int, *, raw: bool = False) -> Page:
        """One page against the list."""
        before = self.streams[which].tail.seq
        page = await self.page(which, start, bytes_max, raw=raw)
        shown = self.entries[which][start : page.end]
        assert (page.start, page.tail >= before) == (start, True)
        assert start < page.end <= page.tail or start == page.end == page.tail
        comma = b"," if self.streams[which].is_json and not raw else b""
        assert page.payload == comma.join(shown), f"stream {which}, entries {start} to {page.end}"
        assert len(page.payload) <= bytes_max or len(shown) == 1
        return page

    async def walk(self, which: int, bytes_max: int, *, raw: bool = False) -> int:
        """Page after page from the start to the end; returns how many."""
        at = pages = 0
        while at < self.streams[which].tail.seq:
            at, pages = (await self.check(which, at, bytes_max, raw=raw)).end, pages + 1
        return pages

    # --- steps ---

    def _size(self, run: Run) -> int:
        return sum(map(len, self.entries[run[0]][run[1] : run[2]]))

    def _write(self, runs: Sequence[Run], *, own: bool) -> Sealed:
        self._made += 1
        made = f"{self._made:032x}"
        writer = ObjectWriter(self.folder / "sealing", made, kind="segment" if own else "pack", level=0)
        for run in sorted(runs):
            for batch in self._batches(run):
                writer.write(batch)
        written = writer.finish()
        facts = _facts_of(written, rows=(self._made, self._made))
        self.bucket.put(facts.key(), written.file, write_id=WriteId(made))
        if self._made % 3:
            written.file.unlink()
        return Sealed(facts, list(runs))

    def _batches(self, run: Run) -> list[Any]:
        which, first, end = run
        count = end - first
        columns = [
            [which + 1] * count, list(range(first, end)), [1] * count, [True] * count, [0] * count, [None] * count,
            self.entries[which][first:end],
        ]  # fmt: skip
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        return [pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)]

    async def _publish(self, gone: Sequence[Sealed], fresh: Sequence[Sealed]) -> None:
        statements: list[tuple[str, Any]] = []
        for one in fresh:
            statements.append((_PLACEMENT.insert_object, {name: getattr(one.facts, name) for name in _FIELDS}))
            file = self.folder / "sealing" / f"{one.facts.made}.parquet"
            if one.facts.kind == "pack":
                values = {"made": one.facts.made, "directory": _directory(one)}
                statements.append((_PLACEMENT.keep_directory, values))
            if file.exists():
                invariant(await self.cache.adopt(one.facts.made, file), "the cache takes it")
        statements += [(_PLACEMENT.kill_object, (1, one.facts.made)) for one in gone]
        await self.database.writer.run(_execute, statements)
        self.living = [one for one in self.living if one not in gone] + list(fresh)
        self.dead += gone


@asynccontextmanager
async def layers(folder: Path, *, seed: int = 0, cache_bytes: int = 1 << 20, **settings: Any) -> AsyncIterator[Layers]:
    """An empty node's worth of database, bucket, cache and reader."""
    for name in ("sealing", "cache"):
        (folder / name).mkdir()
    chosen = Settings(data=folder, no_auth=True, **{"request_ms_max": 60_000} | settings)  # a machine with load is slow
    database, _ = await Database.open(folder / "streams.db", cache_bytes=8 << 20, reader_threads=2, read_queue_max=999)
    faults = FaultPlan(seed)
    bucket, counts = MemoryStore(), RequestCounts()
    source = RetryingStore(FaultyStore(bucket, faults), counts, _QUICK)
    cache = await Cache.open(folder / "cache", source, Limits(cache_bytes, 4))
    world = Layers(folder, database, cache, chosen, faults)
    world.bucket, world.counts = bucket, counts
    world.cold = ColdReader(database, cache, chosen)
    try:
        yield world
    finally:
        await world.cold.close()
        await cache.close()
        await database.close()


def flip(path: Path, chance: random.Random) -> None:
    """Change one byte of a file in its place."""
    try:
        with path.open("r+b") as file:
            at = chance.randrange(path.stat().st_size)
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ 0x55]))
    except FileNotFoundError:  # evicted a moment ago
        pass


_FIELDS = ObjectFacts.__struct_fields__


def _facts_of(written: Written, *, rows: tuple[int, int]) -> ObjectFacts:
    values = written._asdict()
    size = values.pop("size")
    known = {name: values[name] for name in _FIELDS if name in values}
    return ObjectFacts(**known, bytes=size, first_row=rows[0], last_row=rows[1])


def _directory(one: Sealed) -> bytes:
    from streams_node.segments.directory import Directory  # noqa: PLC0415

    return Directory.of((which + 1, first, end - first) for which, first, end in sorted(one.runs)).pack()


def _merged(runs: Iterable[Run]) -> list[Run]:
    """The same entries in as few runs as they are."""
    whole: list[Run] = []
    for run in sorted(runs):
        if whole and whole[-1][0] == run[0] and whole[-1][2] == run[1]:
            whole[-1] = (run[0], whole[-1][1], run[2])
        else:
            whole.append(run)
    return whole


def _without_gaps(runs: Sequence[Run]) -> list[list[Run]]:
    """Lists of runs in which no stream is twice."""
    lists: list[list[Run]] = []
    for run in runs:
        for one in lists:
            if all(other[0] != run[0] for other in one):
                one.append(run)
                break
        else:
            lists.append([run])
    return lists


def _execute(db: sqlite3.Connection, statements: Sequence[tuple[str, Any]]) -> None:
    """In one transaction."""
    db.execute("BEGIN IMMEDIATE")
    for statement, values in statements:
        db.execute(statement, values)
    db.execute("COMMIT")
