"""The loop of the collector: dead objects always, old generations after a snapshot, orphans now and then."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, TypeVar

from streams_node.collector.bucket import is_whole, store_now_us
from streams_node.collector.plan import old_generations, old_indexes, old_objects, old_parts, orphans
from streams_node.collector.rows import (
    dead_indexes,
    dead_objects,
    forget,
    forget_indexes,
    known,
    known_indexes,
    node_value,
)
from streams_node.config.tiers import TierSettings
from streams_node.errors import StoreError, StreamsError
from streams_node.manifest.snapshots import snapshots
from streams_node.objects.keys import GENERATIONS, INDEXES, PACKS, PROBES, SEGMENTS, Key, KeyPrefix, parse
from streams_node.objects.protocol import Page
from streams_node.objects.retry import RetryingStore
from streams_node.objects.threads import Threads
from streams_node.observe.logs import get_logger
from streams_node.placement.made import ObjectFacts
from streams_node.protocol.numbers import StreamId
from streams_node.testing.crashpoints import crash_point
from streams_node.wal.database import Database

log = get_logger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
_SNAPSHOTS_KEPT = 2
_LOOK_S = 5.0
_FIRST_SCAN_S = 60.0  # a node that is restarted often scans, too
_BATCH = 200  # rows forgotten in one transaction; deletes between two looks whether the bucket is still ours
_FAILURES_MAX = 3  # in a row: then the store is in trouble, and not the object
_BACKOFF_S = 1.0
_BACKOFF_S_MAX = 60.0


@dataclass(slots=True)
class Counts:
    """Since the start of the node."""

    dead: int = 0
    orphans: int = 0
    indexes: int = 0  # objects of indexes
    catalogue: int = 0  # generations and parts of snapshots
    failures: int = 0
    distrusted: int = 0  # passes that ended because the bucket may be somebody else's
    problem: str | None = None  # the newest failure, until a pass succeeds


class _Distrusted(Exception):
    """The bucket may be another node's, or know more than this one: nothing may be deleted now."""


class Collector:
    """One pass at a time."""

    def __init__(  # noqa: PLR0913 - what a stage is put together from
        self,
        *,
        database: Database,
        store: RetryingStore,
        settings: TierSettings,
        trusted: Callable[[], Awaitable[bool]],
        in_flight: Callable[[], Collection[str]],
        deleted: Callable[[str], Awaitable[None]] | None = None,
        claim_ms_max: int = 0,
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`trusted` says whether the bucket is this node's and has no generation that it does not know.

        `in_flight` names objects from before their first byte is sent until the database has them, or nobody ever will.
        `deleted` is told of each object that went, as there may be a copy of it. For `claim_ms_max` at most an index
        driver works at one claim: what it put it may still commit.
        """
        self.counts = Counts()
        self._database = database
        self._store = store
        self._settings = settings
        self._trusted = trusted
        self._in_flight = in_flight
        self._deleted = deleted
        self._claim_ms_max = claim_ms_max
        self._now_us = now_us
        self._sleep = sleep
        self._thread = Threads(1, "collector")
        self._snapshot: int | None = None  # the local one as of the last look at the catalogue
        self._scan_at = time.monotonic() + min(_FIRST_SCAN_S, settings.orphan_scan_ms / 1000)

    async def run(self) -> None:
        """Collect for ever; a failure is logged and counted, and tried again later."""
        wait_s = _BACKOFF_S
        while True:
            try:
                await self.step()
            except Exception as problem:  # noqa: BLE001 - what is not deleted now is deleted later
                self.counts.failures += 1
                self.counts.problem = problem.message if isinstance(problem, StreamsError) else repr(problem)
                log.warning("nothing can be deleted", error=self.counts.problem, again_in_s=wait_s)
                await self._sleep(wait_s)
                wait_s = min(2 * wait_s, _BACKOFF_S_MAX)
            else:
                self.counts.problem, wait_s = None, _BACKOFF_S
                await self._sleep(min(_LOOK_S, self._settings.orphan_scan_ms / 1000))

    async def step(self) -> None:
        """Whatever is due."""
        await self.collect_dead()
        await self.collect_dead_indexes()
        snapshot = await self._database.looks.run(node_value, "snapshot")
        if snapshot != self._snapshot:
            await self.collect_catalogue()
            self._snapshot = snapshot
        if time.monotonic() >= self._scan_at:
            await self.collect_orphans()
            self._scan_at = time.monotonic() + self._settings.orphan_scan_ms / 1000

    async def close(self) -> None:
        """A request under way ends by itself."""
        await self._thread.close()

    async def collect_dead(self) -> int:
        """Delete objects that left the catalogue long enough ago."""
        total = 0
        while True:
            before = self._now_us() - self._settings.object_grace_ms * 1000
            found = await self._database.looks.run(dead_objects, before, _BATCH)
            if not found:
                return total
            try:
                deleted = await self._collect(found)
            except _Distrusted:
                return total
            total += deleted
            if deleted < len(found):
                return total

    async def collect_dead_indexes(self) -> int:
        """Delete objects of indexes that nothing has named for long enough."""
        before = self._now_us() - self._settings.object_grace_ms * 1000
        total = 0
        with contextlib.suppress(_Distrusted):
            while found := await self._database.looks.run(dead_indexes, before, _BATCH):
                await self._trust()
                for each in found:
                    crash_point("collect.before")
                    for key in each.places():
                        await self._delete(key, None)
                    crash_point("collect.after")
                    await self._tell(each.made)
                await self._database.writer.run(forget_indexes, [each.made for each in found])
                self.counts.indexes += len(found)
                total += len(found)
        return total

    async def collect_catalogue(self) -> int:
        """Delete generations and snapshots that are older than the two newest whole snapshots."""
        try:
            return await self._collect_catalogue()
        except _Distrusted:
            return 0

    async def collect_orphans(self) -> int:
        """Delete packs and segments that nobody knows and that are old by the store's clock."""
        try:
            return await self._collect_orphans()
        except _Distrusted:
            return 0

    # --- dead objects ---

    async def _collect(self, found: list[ObjectFacts]) -> int:
        await self._trust()
        done: list[str] = []
        failures = 0
        try:
            for facts in found:
                crash_point("collect.before")
                try:
                    await self._delete(facts.key(), facts.stream)
                except StoreError as problem:
                    failures += 1
                    self.counts.failures += 1
                    if failures >= _FAILURES_MAX:
                        raise
                    log.warning("an object could not be deleted", object=facts.made, error=problem.message)
                    continue
                crash_point("collect.after")
                failures = 0
                done.append(facts.made)
                await self._tell(facts.made)
        finally:
            if done:
                await self._database.writer.run(forget, done)
                self.counts.dead += len(done)
        return len(done)

    # --- the catalogue ---

    async def _collect_catalogue(self) -> int:
        listed = await self._run(snapshots, self._store)
        whole: list[int] = []
        for each in listed:
            if len(whole) < _SNAPSHOTS_KEPT and each.complete and await self._run(is_whole, self._store, each):
                whole.append(each.generation)
        if len(whole) < _SNAPSHOTS_KEPT:
            return 0
        oldest = min(whole[-1], await self._database.looks.run(node_value, "generation"))
        total = await self._delete_all(old_parts(listed, oldest))
        async for page in self._pages(GENERATIONS):
            keys = old_generations(page.objects, oldest)
            total += await self._delete_all(keys)
            if len(keys) < len(page.objects):
                break
        return total

    async def _delete_all(self, keys: list[Key]) -> int:
        for at, key in enumerate(keys):
            if at % _BATCH == 0:
                await self._trust()
            crash_point("collect.before")
            await self._delete(key, None)
            crash_point("collect.after")
            self.counts.catalogue += 1
        return len(keys)

    # --- orphans ---

    async def _collect_orphans(self) -> int:
        now_us = await self._run(store_now_us, self._store)
        if now_us is None:
            log.info("the store does not list what was just put there; orphans are looked for later")
            return 0
        before_us = now_us - self._settings.orphan_grace_ms * 1000
        indexes_us = now_us - max(self._settings.orphan_grace_ms, self._claim_ms_max) * 1000
        total = 0
        for prefix in (PACKS, SEGMENTS):
            async for page in self._pages(prefix):
                total += await self._collect_page(page, before_us)
        async for page in self._pages(INDEXES):
            total += await self._collect_indexes(page, indexes_us)
        async for page in self._pages(PROBES):
            for listed in page.objects:
                place = parse(listed.key)
                if place and place.artifact == "probe" and listed.modified_us <= before_us:
                    await self._trust()
                    await self._delete(listed.key, None)
        return total

    async def _collect_page(self, page: Page, before_us: int) -> int:
        old = old_objects(page.objects, before_us)
        if not old:
            return 0
        in_flight = set(self._in_flight())
        names = await self._database.looks.run(known, list(old))
        found = orphans(old, in_flight, names)
        for at, (made, key) in enumerate(found):
            if at % _BATCH == 0:
                await self._trust()
            crash_point("collect.before")
            await self._delete(key, None)
            crash_point("collect.after")
            self.counts.orphans += 1
            log.info("an orphan was deleted", object=made)
        return len(found)

    async def _collect_indexes(self, page: Page, before_us: int) -> int:
        """What a driver put and never committed. It is older than any lease may be, so nobody will commit it."""
        old = old_indexes(page.objects, before_us)
        known_ones = await self._database.looks.run(known_indexes, list(old)) if old else set()
        count = 0
        for made, keys in old.items():
            if made in known_ones:
                continue
            if count % _BATCH == 0:
                await self._trust()
            crash_point("collect.before")
            for key in keys:
                await self._delete(key, None)
            crash_point("collect.after")
            count += 1
            self.counts.orphans += 1
            log.info("an orphan of an index was deleted", object=made)
        return count

    # --- steps ---

    async def _pages(self, prefix: KeyPrefix) -> Any:
        after = None
        while True:
            page = await self._run(self._store.list, prefix, after)
            yield page
            if page.next_after is None:
                return
            after = page.next_after

    async def _delete(self, key: Key, stream: int | None) -> None:
        owner = None if stream is None else StreamId(stream)
        await self._run(partial(self._store.delete, key, owner=owner))
        await self._sleep(1 / self._settings.collect_deletes_per_s)

    async def _trust(self) -> None:
        if not await self._trusted():
            self.counts.distrusted += 1
            raise _Distrusted

    async def _tell(self, made: str) -> None:
        if self._deleted is not None:
            await self._deleted(made)

    async def _run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._thread.run(work, *args, **kwargs)
