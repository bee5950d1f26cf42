"""A small node around the compaction: a real database, a store in memory, the stages beside it in a few lines."""

import asyncio
import secrets
import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import msgspec

import sql
from streams_node.compactor.build import compact
from streams_node.compactor.stage import Compactor
from streams_node.config.tiers import TierSettings
from streams_node.errors import StreamsError
from streams_node.objects import (
    FaultPlan,
    FaultyStore,
    MemoryStore,
    ObjectStore,
    RequestCounts,
    RetryingStore,
    RetryPolicy,
    WriteId,
)
from streams_node.objects.keys import parse
from streams_node.placement.directories import keep_directories
from streams_node.placement.made import Made, ObjectFacts, Rewrite
from streams_node.segments.writer import Written
from streams_node.testing.clock import FakeClock
from streams_node.wal.database import Database
from tests.compaction.objects import entries_in, facts_of
from tests.segments.entries import Entry, sealed

_PLACEMENT = sql.queries("placement")
_COMPACTION = sql.queries("compaction")
_STREAMS = sql.queries("streams")
QUICK = RetryPolicy(wait_ms=0, wait_ms_max=1)
SETTINGS = TierSettings(
    own_segment_bytes=2000,
    segment_bytes=1 << 20,
    segment_entries=40,
    pack_bytes=1 << 20,
    compaction_packs=3,
    compaction_pause_ms=0,
    dead_data_ms_max=60_000,
    object_grace_ms=60_000,
    orphan_grace_ms=60_000,
    collect_deletes_per_s=1_000_000,
)


class Here:
    """A worker that is no process: the command runs in a thread."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def run(self, command: str, arguments: dict[str, Any], timeout_s: float) -> dict[str, Any]:  # noqa: ARG002
        assert command == "compact"
        self.asked.append(arguments["kind"])
        answer = await asyncio.to_thread(compact, arguments)
        found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(answer))  # bytes become base64
        return found


class Cache:
    """Fetches each object anew."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self.dropped: list[str] = []

    @asynccontextmanager
    async def held(self, facts: ObjectFacts, *, at_leisure: bool) -> AsyncIterator[Path]:
        assert at_leisure
        path = self._node.folder / f"copy-{secrets.token_hex(4)}"
        data = await asyncio.to_thread(self._node.store.get, facts.key())
        path.write_bytes(data.data)
        try:
            yield path
        finally:
            path.unlink()

    async def drop(self, made: str, *, damaged: bool = False) -> None:
        assert damaged
        self.dropped.append(made)


class Node:
    """`entries` is what must be readable: streams with all their entries."""

    def __init__(self, folder: Path, database: Database, faults: FaultPlan | None) -> None:
        self.folder = folder
        self.database = database
        self.clock = FakeClock()
        self.memory = MemoryStore(now=lambda: self.clock() / 1e6)
        bare: ObjectStore = self.memory
        if faults is not None:
            bare = FaultyStore(self.memory, faults, sleep=lambda _: None)
        self.store = RetryingStore(bare, RequestCounts(), QUICK)
        self.entries: dict[int, list[Entry]] = {}
        self.row = 0
        self.generation = 0
        self.in_flight: set[str] = set()
        self.refuse = False
        self.worker = Here()
        self.cache = Cache(self)
        self.compactor = self.new_compactor()

    @classmethod
    @asynccontextmanager
    async def open(cls, folder: Path, faults: FaultPlan | None = None) -> AsyncIterator[Self]:
        await asyncio.to_thread(folder.mkdir, parents=True)
        database, _ = await Database.open(
            folder / "streams.db", cache_bytes=1 << 22, reader_threads=1, read_queue_max=100
        )
        try:
            yield cls(folder, database, faults)
        finally:
            await database.close()
            shutil.rmtree(folder)

    def new_compactor(self, settings: TierSettings = SETTINGS) -> Compactor:
        """As after a restart."""
        return Compactor(
            database=self.database,
            folder=self.folder / "making",
            worker=self.worker,
            settings=settings,
            cache=self.cache,
            put=self.put,
            now_us=self.clock,
            clock=lambda: self.clock() / 1e6,
        )

    # --- what the other stages do ---

    async def flush(self, appends: dict[int, Sequence[bytes]], *, directory: bool = True) -> None:
        """Seal and publish some entries."""
        self.row += 1
        packed: list[Entry] = []
        made: list[Made] = []
        for stream, payloads in sorted(appends.items()):
            mine = self.entries.setdefault(stream, [])
            if not mine:
                await self.database.writer.run(_born, [stream])
            new = [Entry(stream, len(mine) + at, payload) for at, payload in enumerate(payloads)]
            mine.extend(new)
            if sum(map(len, payloads)) >= SETTINGS.own_segment_bytes:
                made.append(self._made(sealed(self.folder, new, kind="segment")))
            else:
                packed.extend(new)
        if packed:
            made.append(self._made(sealed(self.folder, packed)))
        await self.upload(made)
        await self.apply([], made, directory=directory)

    async def upload(self, objects: Iterable[Made]) -> None:
        for made in objects:
            self.in_flight.add(made.facts.made)
            await asyncio.to_thread(self.store.put, made.facts.key(), made.file, write_id=WriteId(made.facts.made))

    async def put(self, rewrite: Rewrite) -> bool:
        """The outbox and the uploader: every input must be live still."""
        while True:
            try:
                await self.upload(rewrite.outputs)
                break
            except StreamsError:
                continue
        live = {facts.made for facts in await self.live()}
        if self.refuse or not set(rewrite.inputs) <= live:
            return False
        await self.apply(rewrite.inputs, rewrite.outputs)
        return True

    async def apply(self, dead: list[str], objects: list[Made], *, directory: bool = True) -> None:
        self.generation += 1
        await self.database.writer.run(_applied, self.generation, self.clock(), dead, [made.facts for made in objects])
        if directory:
            kept = [(made.facts.made, made.directory) for made in objects if made.directory is not None]
            await self.database.writer.run(keep_directories, kept)
        for made in objects:
            made.file.unlink()
            self.in_flight.discard(made.facts.made)

    async def delete(self, stream: int) -> None:
        del self.entries[stream]
        await self.database.writer.run(_died, stream)

    # --- looking ---

    async def live(self) -> list[ObjectFacts]:
        rows = await self.database.readers.run(lambda db: db.execute(_PLACEMENT.all_live).fetchall())
        return [_facts(row) for row in rows]

    async def settle(self, compactor: Compactor | None = None) -> int:
        """Jobs until none is due; returns how many steps."""
        for steps in range(1000):
            if not await (compactor or self.compactor).step():
                return steps
        raise AssertionError("the compaction never rests")

    async def check(self, *, without_dead: bool = False) -> list[ObjectFacts]:
        """Every living entry is in exactly one live object."""
        live = await self.live()
        found: list[Entry] = []
        for facts in live:
            file = self.folder / "looked-at"
            file.write_bytes(self.memory.get(facts.key()).data)
            found.extend(entries_in(file, facts.made))
        alive = sorted(entry for entry in found if entry.stream in self.entries)
        assert alive == sorted(entry for entries in self.entries.values() for entry in entries)
        assert not without_dead or len(alive) == len(found)
        return live

    def stored(self) -> set[str]:
        """Ids of the data objects in the bucket."""
        return {
            str(place.made)
            for prefix in ("packs/", "segments/")
            for listed in self.memory.list(prefix).objects  # type: ignore[arg-type]
            if (place := parse(listed.key))
        }

    def _made(self, written: Written) -> Made:
        return Made(facts_of(written, self.row), written.file, written.directory)


def _facts(row: tuple[Any, ...]) -> ObjectFacts:
    return ObjectFacts(**dict(zip(ObjectFacts.__struct_fields__, row[1:], strict=True)))


def _born(db: sqlite3.Connection, streams: list[int]) -> None:
    db.executemany(_STREAMS.insert_head, [(stream, 0) for stream in streams])


def _died(db: sqlite3.Connection, stream: int) -> None:
    db.execute(_STREAMS.delete_head, (stream,))


def _applied(db: sqlite3.Connection, generation: int, now_us: int, dead: list[str], objects: list[ObjectFacts]) -> None:
    for made in dead:
        db.execute(_PLACEMENT.kill_object, (now_us, made))
    for facts in objects:
        db.execute(_PLACEMENT.insert_object, msgspec.structs.asdict(facts))
    db.execute(_PLACEMENT.set_node_value, (generation, "generation"))
