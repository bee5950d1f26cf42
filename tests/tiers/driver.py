"""The driver of the protocol's model on a node whose tiers run, over a bucket that fails."""

import asyncio
import json
import secrets
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, cast

from typing_extensions import override

from streams_node.errors import StoreError
from streams_node.manifest import Chain
from streams_node.manifest.restore import bootstrap
from streams_node.manifest.verify import Finding, verify
from streams_node.objects.keys import GENERATIONS
from streams_node.testing.inprocess import InProcess, in_process
from streams_node.tiering import Tiering
from streams_node.wal.folder import DATABASE
from streams_node.wal.listing import DEFAULT_BUCKET
from streams_node.wal.lookup import Name
from tests.http.wire import Reply, ask
from tests.model.driver import Driver
from tests.model.requests import code_of
from tests.tiers.bucket import Bucket

CACHE_BYTES = 4 << 10  # two or three objects of these lives, and less than a large one
# So that every few appends are a flush, every few flushes a merge, and every generation or two a snapshot.
TINY: dict[str, Any] = {
    "flush_bytes": 64 << 10, "flush_bytes_max": 64 << 10, "flush_ms_max": 10, "own_segment_bytes": 2000,
    "segment_entries": 12, "publish_ms_min": 0, "publish_metadata_ms": 50, "snapshot_generations": 3,
    "release_rows": 3, "compaction_packs": 2, "compaction_pause_ms": 0, "object_grace_ms": 1000,
    "collect_deletes_per_s": 1000, "dead_data_ms_max": 1000, "decoded_bytes_max": 1 << 20,
}  # fmt: skip
# What a reader may be told while the store is in trouble: its failure, by name.
TROUBLE = {"unavailable": 503, "object_store_unavailable": 503, "object_corrupt": 500, "object_damaged": 500}
_PATIENCE_S = 30.0
_TRIES = 2
_MERGE_S = 0.4  # much longer than a merge of what there is here
_MERGES_MAX = 10


class TieredDriver(Driver):
    """One node after another on one bucket."""

    def __init__(self, bucket: Bucket, *, tiny_cache: bool, heads_flush_rows: int, commit_rows_max: int) -> None:
        self.bucket = bucket
        self.failed_reads = 0
        self.serves = False  # not between two nodes; and not when the second one did not start, which is a failure
        super().__init__(tiny_cache=tiny_cache, heads_flush_rows=heads_flush_rows, commit_rows_max=commit_rows_max)

    @property
    def tiers(self) -> Tiering:
        return cast("Tiering", self.node.context.tiers)

    @override
    async def _open(self) -> InProcess:
        """A start may refuse what it is shown; it is never because the store is away, but for the very first one."""
        try:
            return await self._opened()
        except StoreError as problem:
            refusal = problem
        first = not any(key.startswith(GENERATIONS) for key in self.bucket.all_keys())
        assert self.bucket.plan.chances or (self.bucket.plan.away and first), refusal
        assert self.bucket.place in refusal.message, refusal
        self.bucket.calm()
        return await self._opened()

    async def _opened(self) -> InProcess:
        settings = self._settings | TINY | self.bucket.settings
        node = await self._stack.enter_async_context(
            in_process(self._folder, clock=self.clock, tiers=True, store=self.bucket.connect, **settings)
        )
        if self._tiny_cache:
            node.context.ledger.states._bytes_max = 0
        tiers = cast("Tiering", node.context.tiers)
        assert tiers.cache is not None
        tiers.cache._shelf._bytes_max = CACHE_BYTES
        self.serves = True
        return node

    @override
    async def _close(self) -> None:
        self.serves = False
        await super()._close()

    @override
    def crash(self) -> None:
        """Go on from the database as its last commit left it, and from nothing else: no cache, no sealed files."""

        async def again() -> None:
            await self.node.context.ledger.committer.settled()
            before, self._generation = self._folder / DATABASE, self._generation + 1
            self._folder.mkdir()
            with closing(sqlite3.connect(before)) as old, closing(sqlite3.connect(self._folder / DATABASE)) as new:
                old.backup(new)
            await self._close()
            self.node = await self._open()

        self.run(again())

    @override
    def ask(self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Reply:
        """A reader who meets a store in trouble is told so, and asks again until the trouble is over.

        So is who makes a fork, for a sub-offset is looked up; what it looks at may also be on its way, without trouble.
        """
        forks = "stream-forked-from" in (headers or {})

        async def patiently() -> Reply:
            for _ in range(_TRIES):
                reply = await ask(self.node, method, path, headers, body)
                if reply.status < 500 or not (forks or (method == "GET" and self.bucket.troubled)):
                    return reply
                if forks:
                    assert TROUBLE.get(code_of(reply)) == reply.status, reply
                else:
                    self._named(reply)
            self.calm()
            return await ask(self.node, method, path, headers, body)

        return self.run(patiently())

    def _named(self, reply: Reply) -> None:
        error = json.loads(reply.body)["error"]
        assert TROUBLE.get(error["code"]) == reply.status, reply
        assert "object" in error["message"], reply  # which one, or that the store does not answer
        assert ("retry-after" in reply.headers) == (reply.status == 503), reply
        self.failed_reads += 1

    # --- the tiers ---

    def demand(self) -> None:
        if self.tiers.segmenter is not None:
            self.tiers.segmenter.demand()

    def let_run(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    def trim(self, stream: str, earliest_seq: int) -> None:
        """Entries before a sequence leave a stream of the default bucket, as the node will have it do one day."""

        async def trim() -> None:
            ledger = self.node.context.ledger
            state = await ledger.readable(Name(DEFAULT_BUCKET, stream))
            await ledger.committer.settled()
            await self.node.context.database.writer.run(_trim, state.id, earliest_seq)
            state.earliest_seq = earliest_seq

        self.run(trim())

    def evict(self) -> None:
        """Readers have to fetch everything again."""

        async def evict() -> None:
            cache = self.tiers.cache
            assert cache is not None
            for made in list(cache._shelf._copies):
                await cache.drop(made)

        self.run(evict())

    def calm(self) -> None:
        self.bucket.calm()
        assert self.tiers.reader is not None
        self.tiers.reader._damaged.clear()  # it would be believed in for some seconds more

    def publish_all(self) -> None:
        """Wait until the bucket has everything and the log nothing."""

        async def wait() -> None:
            committer = self.node.context.ledger.committer
            await committer.settled()
            async with asyncio.timeout(_PATIENCE_S):
                await self.tiers.flush(committer.committed_through)
                while await self._left_behind():  # noqa: ASYNC110 - the stages ring no bell for all of it
                    await asyncio.sleep(0.01)

        try:
            self.run(wait())
        except TimeoutError:
            raise AssertionError(self.run(self._left_behind())) from None

    def merge_all(self) -> None:
        """Wait until the compaction finds nothing to do any more; it looks at most so long."""

        async def wait() -> None:
            for _ in range(_MERGES_MAX):
                before = await self.node.context.database.readers.run(_live)
                await asyncio.sleep(_MERGE_S)
                if before == await self.node.context.database.readers.run(_live):
                    return

        self.run(wait())

    async def _left_behind(self) -> dict[str, object]:
        """What is not as it should be once all is published; empty when nothing is."""
        uploader, pressure = self.tiers.uploader, self.tiers.pressure
        assert uploader is not None
        rows, untold, stuck = await self.node.context.database.readers.run(_rest)
        found = {
            "backlog": pressure.bytes, "lag": pressure.lag_s(), "outbox": self.tiers.outbox.waiting, "rows": rows,
            "untold": untold, "stuck": stuck, "problem": uploader.problem,
        }  # fmt: skip
        return {name: value for name, value in found.items() if value}

    def verify(self) -> None:
        """All that the catalogue names is there and whole, and each entry in exactly one object."""

        def problems() -> list[Finding]:
            store, folder = self.bucket.direct(), self._folders / "verify"
            folder.mkdir(exist_ok=True)
            found = [finding for finding in verify(Chain(store), folder) if finding.problem]
            store.close()
            return found

        assert self.run(asyncio.to_thread(problems)) == []

    def start_from_bucket(self) -> None:
        """The data folder is lost: an empty one begins with what the bucket holds."""

        async def again() -> None:
            await self._close()
            before = _known_objects(self._folder)
            self._generation += 1
            store = self.bucket.direct()
            node = secrets.token_hex(16)
            await asyncio.to_thread(bootstrap, Chain(store), self._folder, node, "test", self.clock())
            store.close()
            assert _known_objects(self._folder) == before, "the folder and the bucket name other objects"
            self.node = await self._open()

        self.run(again())
        self.tags, self.spans = {}, {}


def _trim(db: sqlite3.Connection, stream: int, earliest_seq: int) -> None:
    db.execute("UPDATE streams SET earliest_seq = ? WHERE id = ?", (earliest_seq, stream))


def _rest(db: sqlite3.Connection) -> tuple[int, int, int]:
    rows = db.execute("SELECT count(*) FROM log").fetchone()[0]
    untold = db.execute("SELECT count(*) FROM unpublished").fetchone()[0]
    stuck = db.execute("SELECT count(*) FROM stuck").fetchone()[0]
    return rows, untold, stuck


def _known_objects(folder: Path) -> list[object]:
    with closing(sqlite3.connect(folder / DATABASE)) as db:
        return _live(db)


def _live(db: sqlite3.Connection) -> list[object]:
    return db.execute("SELECT made FROM objects WHERE dead_us IS NULL ORDER BY made").fetchall()
