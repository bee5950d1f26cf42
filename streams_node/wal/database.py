"""The database as the rest of the node sees it: one writer, a few readers, and every question as a method."""

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Concatenate, NamedTuple, ParamSpec, Self, TypeVar

import sql
from streams_node.errors import DataFolderError, Overloaded
from streams_node.observe.logs import get_logger
from streams_node.observe.phases import phase
from streams_node.testing.crashpoints import crash_point
from streams_node.wal import listing, stretches
from streams_node.wal.batch import rollback
from streams_node.wal.checkpoint import Checkpoints, Outcome, grow, truncate
from streams_node.wal.connection import Connection, open_reader, open_writer
from streams_node.wal.graves import free_some
from streams_node.wal.heads import replay
from streams_node.wal.lookup import Found, FoundBucket, Name, load_bucket, load_streams
from streams_node.wal.migrate import check_layout, migrate
from streams_node.wal.tails import LogEnd, Slice, read_slice

log = get_logger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
_LOG = sql.queries("log")
_STREAMS = sql.queries("streams")
_BUCKETS = sql.queries("buckets")
_PLACEMENT = sql.queries("placement")
_EPOCH_VALUES = ("epoch_base", "epoch_newest", "epoch_told")


class Marks(NamedTuple):
    """The highest ids in use: where counting goes on after a start."""

    last_row: int
    last_stream: int
    last_bucket: int
    replayed: int
    epochs: "EpochMarks"


class EpochMarks(NamedTuple):
    """Where new epochs begin, the highest one that was ever given, and the highest that the bucket has been told of."""

    base: int
    newest: int
    told: int


class Readers:
    """A few read-only connections; each question goes to the least busy one, and a long queue refuses."""

    def __init__(self, connections: list[Connection], queue_max: int) -> None:
        self._connections = connections
        self._busy = [0] * len(connections)
        self._queue_max = queue_max

    @property
    def waiting(self) -> int:
        return sum(self._busy)

    async def run(self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        busy = self._busy
        at = busy.index(min(busy))
        if sum(busy) >= self._queue_max:
            raise Overloaded("the read queue is full; try again")
        busy[at] += 1
        task = asyncio.ensure_future(self._connections[at].run(work, *args, **kwargs))
        task.add_done_callback(lambda _: self._done(at))
        with phase("db"):
            return await asyncio.shield(task)  # a reader that gave up has not stopped the query

    def _done(self, at: int) -> None:
        self._busy[at] -= 1

    async def close(self) -> None:
        for connection in self._connections:
            await connection.close()


class Database:
    """Opened once a process. Writes go through `writer` in the order they are sent; reads never wait for them."""

    def __init__(
        self, path: Path, writer: Connection, syncer: Connection, readers: Readers, finder: Connection, looks: Readers
    ) -> None:
        self.path = path
        self.writer = writer
        self.readers = readers
        self.looks = looks  # of stages, some of which go through a whole table: a page must not wait behind one
        self._finder = finder
        self._checkpoints = Checkpoints(path, syncer, writer)

    @classmethod
    async def open(
        cls, path: Path, *, cache_bytes: int, reader_threads: int, read_queue_max: int, wal_bytes: int = 0
    ) -> tuple[Self, Marks]:
        share = max(1 << 21, cache_bytes // (reader_threads + 1))
        async with AsyncExitStack() as opened:  # whatever fails, no connection stays: its thread would keep the process
            try:
                writer = await _kept(opened, open_writer(path, cache_bytes=cache_bytes, check=check_layout))
                await asyncio.to_thread(grow, path, wal_bytes)
                await writer.run(migrate)
                marks = await writer.run(_marks)
                syncer = await _kept(opened, open_writer(path, cache_bytes=1 << 20))
                # Of its own: an append does not wait for long reads.
                finder = await _kept(opened, open_reader(path, cache_bytes=share))
                look = await _kept(opened, open_reader(path, cache_bytes=1 << 21))
                readers = [await _kept(opened, open_reader(path, cache_bytes=share)) for _ in range(reader_threads)]
            except (sqlite3.Error, DataFolderError) as problem:
                reason = getattr(problem, "message", problem)
                raise DataFolderError(f"the database `{path}` cannot be used: {reason}") from problem
            opened.pop_all()
        queue_max = read_queue_max
        return cls(path, writer, syncer, Readers(readers, queue_max), finder, Readers([look], queue_max)), marks

    async def recover(self) -> Marks:
        """After a failed commit: no open transaction, heads brought up to the log."""
        return await self.writer.run(_recover)

    async def load_streams(self, names: list[Name]) -> list[Found]:
        return await self._finder.run(load_streams, names)

    async def load_bucket(self, name: str) -> FoundBucket | None:
        return await self._finder.run(load_bucket, name)

    async def read_slice(
        self, stream: int, end: LogEnd, start: int, bytes_max: int, *, is_json: bool, raw: bool = False
    ) -> Slice:
        return await self.readers.run(read_slice, stream, end, start, bytes_max, is_json=is_json, raw=raw)

    async def ended_streams(self, now_us: int, limit: int) -> list[Name]:
        return await self.readers.run(listing.ended_streams, now_us, limit)

    async def orphaned_streams(self, limit: int) -> list[Name]:
        return await self.readers.run(listing.orphaned_streams, limit)

    async def list_bucket(
        self, bucket: int, prefix: str, after: str, limit: int, now_us: int
    ) -> list[listing.BucketEntry]:
        return await self.readers.run(listing.list_bucket, bucket, prefix, after, limit, now_us)

    async def list_streams(self, limit: int, offset: int, now_us: int) -> list[listing.StreamEntry]:
        return await self.readers.run(listing.list_streams, limit, offset, now_us)

    async def sealed_ends(self, rows: list[int], through: int) -> list[int | None]:
        return await self.readers.run(listing.sealed_ends, rows, through)

    async def tend_stretches(self) -> bool:
        """Do a slice of what keeps pages by offset quick; whether there was anything to do."""
        if not await self.readers.run(stretches.uneven):
            return False
        await self.writer.run(stretches.tend)
        return True

    async def free_some(self, rows: int) -> int:
        """Free some log rows of dead streams; returns how many."""
        return await self.writer.run(free_some, rows)

    async def checkpoint(self, bytes_max: int, written: Callable[[], int]) -> Outcome:
        """Move pages from the -wal file into the database, beside the commits, when it has grown."""
        return await self._checkpoints.run(bytes_max, written)

    async def close(self) -> None:
        await self.readers.close()
        await self.looks.close()
        await self._finder.close()
        await self._checkpoints.close()
        try:
            await self.writer.run(truncate)
        except sqlite3.Error as problem:  # a full disk: the -wal file stays, and the next start reads it
            log.warning("the last checkpoint failed", error=repr(problem))
        finally:
            await self.writer.close()
            self._checkpoints.index.close()


async def _kept(opened: AsyncExitStack, opening: Coroutine[None, None, Connection]) -> Connection:
    """Open a connection, and see that it is closed if one after it fails."""
    connection = await opening
    opened.push_async_callback(connection.close)
    return connection


def _recover(db: sqlite3.Connection) -> Marks:
    rollback(db)
    crash_point("recover.before")
    marks = _marks(db)
    crash_point("recover.after")
    return marks


def _marks(db: sqlite3.Connection) -> Marks:
    replayed = replay(db)
    last_row = max(db.execute(_LOG.last_row_id).fetchone()[0], replayed.last_row)
    last_stream = db.execute(_STREAMS.last_stream_id).fetchone()[0]
    last_bucket = db.execute(_BUCKETS.last_bucket_id).fetchone()[0]
    epochs = EpochMarks(*(db.execute(_PLACEMENT.node_value, (name,)).fetchone()[0] for name in _EPOCH_VALUES))
    return Marks(last_row, last_stream, last_bucket, replayed.rows, epochs)
