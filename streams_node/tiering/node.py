"""One node's tiers, from opening the store to letting go of it."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from streams_node.answers import Indexes
from streams_node.cache import Cache, Limits
from streams_node.collector import Collector
from streams_node.compactor.stage import Compactor
from streams_node.config import Settings
from streams_node.http.tiers import TierFacts
from streams_node.indexing.desk import Desk, Parts
from streams_node.indexing.known import KnownCovers
from streams_node.indexing.leases import LEASES_A_CLAIM
from streams_node.ingest.batches import Batch
from streams_node.ingest.ledger import Ledger
from streams_node.manifest import Local, local
from streams_node.objects import RequestCounts, RetryingStore
from streams_node.objects.threads import Threads
from streams_node.observe.logs import get_logger
from streams_node.observe.metrics import Metrics
from streams_node.placement.made import Made
from streams_node.read.cold import ColdReader
from streams_node.segmenter.stage import Segmenter
from streams_node.tiering.facts import facts
from streams_node.tiering.gauges import register
from streams_node.tiering.indexing import Indexing, store_at
from streams_node.tiering.pressure import Pressure, stick
from streams_node.tiering.store import Opening, store_of
from streams_node.uploader import Outbox, Uploader
from streams_node.uploader.accounts import keep
from streams_node.uploader.place import Placer
from streams_node.uploader.publisher import Composed
from streams_node.uploader.snapshots import Snapshots
from streams_node.uploader.stage import Hooks
from streams_node.wal.database import Database
from streams_node.wal.folder import DataFolder
from streams_node.worker.parent import Worker

log = get_logger(__name__)
_SPARE_THREADS = 2  # beside uploads: the catalogue, collection
_WATCH_S = 0.25
_ACCOUNTS_S = 30.0
_IDLE_S = 300.0  # a worker without work ends, and gives its memory back


class Tiering:
    """Made with the node; `open` asks the store, `start` begins the stages."""

    def __init__(self, settings: Settings, folder: DataFolder, database: Database, ledger: Ledger) -> None:
        self._settings = settings
        self._folder = folder
        self._database = database
        self._ledger = ledger
        self.counts = RequestCounts()
        self.connect: Callable[[Settings, RequestCounts, Local], RetryingStore] = store_of  # tests have their own
        self.heard: Callable[[], None] = lambda: None  # of each generation, by whoever shows how far the bucket is
        self.observe: Callable[[str, float], None] = lambda _stage, _seconds: None  # rounds of stages, and their times
        self.pressure = Pressure(ledger, settings)
        self.outbox = Outbox(settings.seals_waiting_max)
        self.threads = Threads(settings.upload_threads + _SPARE_THREADS, "object-store")
        self.covers = KnownCovers(database)
        self.cache: Cache | None = None
        self.reader: ColdReader | None = None
        self.indexes: Indexes | None = None
        self.indexing: Indexing | None = None
        self.segmenter: Segmenter | None = None
        self.uploader: Uploader | None = None
        self.compactor: Compactor | None = None
        self.collector: Collector | None = None
        self._store: RetryingStore | None = None
        self._workers: list[Worker] = []
        self._flushes = 0  # that somebody waits for
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by their names

    # --- what the edge asks ---

    @property
    def generation(self) -> int:
        return 0 if self.uploader is None else self.uploader.generation

    @property
    def published_through(self) -> int:
        return 0 if self.uploader is None else self.uploader.published_through

    @property
    def desk(self) -> Desk | None:
        return None if self.indexing is None else self.indexing.desk

    def facts(self) -> TierFacts:
        return facts(self)

    def hold_driver(self, *, hold: bool, end: bool) -> None:
        if self.indexing is not None and self.indexing.driver is not None:
            self.indexing.driver.hold(hold=hold, end=end)

    def listening(self, url: str) -> None:
        """The operator's routes can be reached from this machine."""
        if self.indexing is not None:
            self.indexing.listening(url)

    async def flush(self, row: int) -> None:
        """Return once the log up to a row is in the bucket; raises when another node has taken that over."""
        if self.uploader is None:
            raise TimeoutError("the stages have not been started")
        await self.uploader.until_open()
        if row > self.uploader.published_through:
            self._flushes += 1
            try:
                if self.segmenter is not None:
                    self.segmenter.demand()
                await self.uploader.until_published(row)
            finally:
                self._flushes -= 1
        await self.uploader.until_told()

    def committed(self, batch: Batch) -> None:
        """The ledger has stored a batch."""
        self.pressure.committed(batch)
        if batch.meant and self.indexing is not None:
            self.indexing.declared()

    def register(self, metrics: Metrics) -> None:
        """The numbers of all stages."""
        self.observe = metrics.stage_seconds.observe
        register(metrics, self)

    # --- a life ---

    async def open(self) -> None:
        """Open the store and what rests on it; refuses what can not be used, with the reason."""
        settings, database = self._settings, self._database
        known = await database.readers.run(local)
        self._store = store = await self.threads.run(self.connect, settings, self.counts, known)
        opening = Opening(store, database, self.covers, self._ledger, self.threads)
        await opening.at_start()
        await self.pressure.begin(database)
        limits = Limits(settings.cache_bytes_max, settings.cold_reader_threads + settings.read_ahead_objects)
        root = settings.objects_folder if settings.object_store == "folder" else None
        self.cache = await Cache.open(self._folder.room("cache"), store, limits, local=root)
        self.reader = ColdReader(database, self.cache, settings)
        copies = self._folder.room("cache") / "index"
        copies.mkdir(exist_ok=True)
        limits = limits._replace(bytes_max=settings.index_cache_bytes_max)
        views = self._folder.room("cache") / "views", settings.search_views_bytes_max
        self.indexes = Indexes(database, self.covers, await Cache.open(copies, store, limits, local=root), views)
        parts = Parts(
            database,
            self.covers,
            settings,
            store,
            store_at(settings),
            self.threads,
            self.reader.located,
            self._ledger.now_us,
        )
        self.indexing = Indexing(parts, settings)
        self.indexes.runs.on_doubt = self.indexing.doubt
        self.indexing.desk.observe = self.observe
        self._compose(store, opening)

    def _compose(self, store: RetryingStore, opening: Opening) -> None:
        settings, database = self._settings, self._database
        catalogue = Worker("catalogue", idle_s=_IDLE_S)
        self._workers.append(catalogue)
        timeout_s = settings.worker_command_ms_max / 1000
        snapshots = Snapshots(
            database,
            self._folder.room("catalogue"),
            catalogue,
            self.threads,
            every=settings.snapshot_generations,
            timeout_s=timeout_s,
        )
        self.uploader = Uploader(
            database,
            self._ledger,
            settings,
            self.outbox,
            Placer(store, self.threads, settings.upload_threads),
            snapshots,
            Hooks(opening.publisher, self._rewind, self._adopt, self._published),
        )
        self.uploader.observe = self.observe

    def start(self) -> None:
        assert self.uploader is not None  # noqa: S101 - `open` came first
        self._begin("upload", self.uploader.run())
        self._begin("seal", self._seal(self.uploader))
        self._begin("compact", self._compact(self.uploader))
        self._begin("collect", self._collect(self.uploader))
        self._begin("index", self._index(self.uploader))
        self._begin("watch-backlog", self._watch())
        self._begin("keep-accounts", self._keep_accounts())

    async def stop(self) -> None:
        """End the stages, then the workers, then the store."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks = {}
        if self.indexing is not None:
            await self.indexing.stop()
        for worker in self._workers:
            await worker.stop()
        if self.indexes is not None:
            await self.indexes.close()
        if self.reader is not None:
            await self.reader.close()
        if self.cache is not None:
            await self.cache.close()
        if self._store is not None:
            store, self._store = self._store, None
            await self.threads.run(store.close)
        await self.threads.close()
        await self._keep_counts()  # nobody asks the store any more

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        task.add_done_callback(_ended)
        self._tasks[name] = task

    async def _seal(self, uploader: Uploader) -> None:
        """Seal behind what is published. What the bucket has is known only once it has answered."""
        await uploader.opened.wait()
        await self.pressure.begin(self._database)
        worker = Worker("seal", idle_s=_IDLE_S)
        self._workers.append(worker)
        self.segmenter = Segmenter(
            database=self._folder.database,
            folder=self._folder.room("sealing"),
            worker=worker,
            settings=self._settings,
            log=self.pressure,
            put=self.outbox.put_seal,
            stick=self._stick,
            sealed_row=uploader.published_through,
        )
        self.segmenter.observe = self.observe
        if self._flushes:  # asked for while there was nobody to demand it from
            self.segmenter.demand()
        try:
            await self.segmenter.run()
        finally:
            await worker.stop()
            self._workers.remove(worker)

    async def _compact(self, uploader: Uploader) -> None:
        assert self.cache is not None  # noqa: S101 - stages run only after `open`
        await uploader.opened.wait()
        worker = Worker("compact", idle_s=_IDLE_S)
        self._workers.append(worker)
        self.compactor = Compactor(
            database=self._database,
            folder=self._folder.room("making"),
            worker=worker,
            settings=self._settings,
            cache=self.cache,
            put=self.outbox.put_rewrite,
            now_us=self._ledger.now_us,
        )
        await self.compactor.run()

    async def _collect(self, uploader: Uploader) -> None:
        assert self._store is not None  # noqa: S101 - stages run only after `open`
        assert self.cache is not None  # noqa: S101
        await uploader.opened.wait()
        self.collector = Collector(
            database=self._database,
            store=self._store,
            settings=self._settings,
            trusted=uploader.trusted,
            in_flight=lambda: uploader.in_flight,
            deleted=self._dropped,
            claim_ms_max=2 * LEASES_A_CLAIM * self._settings.index_lease_ms,
            now_us=self._ledger.now_us,
        )
        try:
            await self.collector.run()
        finally:
            await self.collector.close()

    async def _index(self, uploader: Uploader) -> None:
        assert self.indexing is not None  # noqa: S101 - stages run only after `open`
        await uploader.opened.wait()
        await self.indexing.run()

    # --- what the stages tell ---

    async def _stick(self, stuck: list[tuple[int, str]]) -> None:
        """Streams that cannot be sealed keep their rows."""
        await self._database.writer.run(stick, stuck, self._ledger.now_us())

    async def _rewind(self) -> None:
        """Seal anew, once the uploader knows behind what."""
        assert self.uploader is not None  # noqa: S101 - the uploader asks
        self._tasks["seal"].cancel()
        await asyncio.gather(self._tasks["seal"], return_exceptions=True)
        self._begin("seal", self._seal(self.uploader))

    async def _adopt(self, made: Made) -> None:
        """Keep what was just uploaded for readers; beside a folder store that would be a second copy on one disk."""
        assert self.cache is not None  # noqa: S101 - stages run only after `open`
        beside = self._settings.object_store == "folder"
        if beside or not await self.cache.adopt(made.facts.made, made.file):
            with contextlib.suppress(OSError):  # it takes room until the folder is emptied at the next start
                made.file.unlink(missing_ok=True)

    async def _dropped(self, made: str) -> None:
        """An object has left the bucket; copies of it are of no use."""
        assert self.cache is not None  # noqa: S101 - stages run only after `open`
        await self.cache.drop(made)
        if self.indexes is not None:
            for each in (made, f"{made}.filter"):
                await self.indexes.cache.drop(each)
            if self.indexes.views is not None:
                await self.indexes.views.drop(made)

    def _published(self, composed: Composed) -> None:
        self.pressure.published(composed.header.through_row, sum(seal.log_bytes for seal in composed.seals))
        if self.indexing is not None:
            self.indexing.published([made for seal in composed.seals for made in seal.objects])
        self.heard()

    async def _watch(self) -> None:
        while True:
            self.pressure.watch()
            await asyncio.sleep(_WATCH_S)

    async def _keep_accounts(self) -> None:
        while True:
            await asyncio.sleep(_ACCOUNTS_S)
            await self._keep_counts()

    async def _keep_counts(self) -> None:
        try:
            await keep(self._database, self.counts)
        except Exception as failure:  # noqa: BLE001 - counts are kept with the next batch
            log.warning("counts of store requests were not kept", error=repr(failure))


def _ended(task: asyncio.Task[None]) -> None:
    """A stage handles its own failures; one that ends by a failure is a fault of ours, and must be seen."""
    if not task.cancelled() and task.exception() is not None:
        log.error("a stage has ended", stage=task.get_name(), exc_info=task.exception())
