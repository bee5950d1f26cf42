"""The loop that keeps the bucket up to date: upload, publish, apply, release; again and again until it works."""

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import sql
from streams_node.config import Settings
from streams_node.errors import Fenced, ObjectDamaged, StoreError, StoreUnavailable, StreamsError, Unavailable
from streams_node.ingest.ledger import Ledger
from streams_node.manifest import AlreadyPublished
from streams_node.observe.logs import get_logger
from streams_node.placement.made import Made, Rewrite
from streams_node.uploader.outbox import Outbox
from streams_node.uploader.place import Placer
from streams_node.uploader.publisher import Composed, Publisher
from streams_node.uploader.release import release
from streams_node.uploader.snapshots import Snapshots
from streams_node.wal.database import Database

log = get_logger(__name__)
_PLACEMENT = sql.queries("placement")
_BACKOFF_S = 0.5
_BACKOFF_S_MAX = 15.0


class Hooks(NamedTuple):
    """What the composition does: `open_publisher` finds out whose the bucket is, `rewind` has the log sealed again from
    where it has been published to, `adopt` takes a file that is in the bucket now, `on_published` hears of each
    generation.
    """

    open_publisher: Callable[[], Awaitable[Publisher]]
    rewind: Callable[[], Awaitable[None]]
    adopt: Callable[[Made], Awaitable[None]]
    on_published: Callable[[Composed], None]


class Uploader:
    """One loop for the life of a node."""

    def __init__(
        self,
        database: Database,
        ledger: Ledger,
        settings: Settings,
        outbox: Outbox,
        placer: Placer,
        snapshots: Snapshots,
        hooks: Hooks,
    ) -> None:
        self._database = database
        self._ledger = ledger
        self._settings = settings
        self._outbox = outbox
        self._placer = placer
        self._snapshots = snapshots
        self._hooks = hooks
        self._publisher: Publisher | None = None
        self._releasing: asyncio.Task[None] | None = None
        self._release_through = 0
        self._published = asyncio.Condition()
        self._last_at = 0.0
        self.failures = 0
        self.observe: Callable[[str, float], None] = lambda _stage, _seconds: None
        self.fenced: Unavailable | None = None  # for good: what writers and those who wait are told
        self.opened = asyncio.Event()  # set once the bucket is known to be this node's, and everything there is applied
        self.problem: str | None = None  # why the last round failed; None while all is well
        self.away = False  # it failed as the store does not answer

    @property
    def generation(self) -> int:
        return 0 if self._publisher is None else self._publisher.standing.generation

    @property
    def published_through(self) -> int:
        """The log row up to which everything is in the bucket; 0 until it has been asked."""
        return 0 if self._publisher is None else self._publisher.standing.through_row

    @property
    def open(self) -> bool:
        """Whether the bucket is known to be this node's."""
        return self._publisher is not None and self.fenced is None

    @property
    def in_flight(self) -> set[str]:
        """Objects that may be in the bucket, and that no generation names yet."""
        return self._placer.in_flight

    async def trusted(self) -> bool:
        """Whether what the bucket has beyond the catalogue may be deleted."""
        return self.open and self._publisher is not None and await self._publisher.trusted()

    async def until_open(self) -> None:
        """Wait until the bucket is known to be this node's; raises once it is known not to be."""
        await self._until(self.opened.is_set)

    async def until_published(self, row: int) -> None:
        """Wait until a generation covers a log row; raises once none will."""
        await self._until(lambda: self.published_through >= row)

    async def _until_after(self, generation: int) -> None:
        await self._until(lambda: self.generation > generation)

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with self._published:
            await self._published.wait_for(lambda: self.fenced is not None or holds())
        if self.fenced is not None and not holds():
            raise self.fenced.with_traceback(None)

    async def until_told(self) -> None:
        """Have what was created, changed or deleted by now published, without waiting for its time."""
        newest = await self._database.looks.run(_newest_change)
        while newest and await self._database.looks.run(_untold, newest):
            self._outbox.filled.set()
            await self._until_after(self.generation)

    async def run(self) -> None:
        """Until the node ends, or another one takes the bucket over."""
        try:
            await self._open()
            while True:
                await self._due()
                try:
                    await self._persist(self._round)
                except AlreadyPublished as late:
                    log.warning(
                        "a generation of an earlier life arrived late; the log is sealed anew", what=late.message
                    )
                    await self._begin_again()
                except ObjectDamaged as lost:
                    self.failures += 1
                    self.problem = lost.message
                    log.error(  # noqa: TRY400 - the message says all
                        "a sealed file is not as it was made; the log is sealed anew", what=lost.message
                    )
                    await asyncio.sleep(_BACKOFF_S)
                    await self._begin_again()
        except Fenced as failure:
            self.problem = failure.message
            log.error(  # noqa: TRY400 - the message says all
                "fenced: another node owns the bucket; nothing more is published", reason=failure.message
            )
            self.fenced = self._ledger.refusals["fenced"] = Unavailable(
                "another node has taken the bucket over: write there. What this one had not published is here only: "
                f"read it here, append it there where it is missed, then remove this data folder. {failure.message}"
            )
            await self._tell()
        finally:
            await self._snapshots.stop()
            if self._releasing is not None:
                self._releasing.cancel()
                await asyncio.gather(self._releasing, return_exceptions=True)

    async def _open(self) -> None:
        self._publisher = await self._persist(self._hooks.open_publisher)
        self.opened.set()
        self._release(self._publisher.standing.through_row)
        await self._tell()

    async def _begin_again(self) -> None:
        """What waits was sealed without knowing of that generation, and may hold the same entries: it is dropped."""
        self.opened.clear()
        for seal in await self._outbox.dropped_seals():
            self._placer.forget(seal.objects)
        await self._hooks.rewind()
        for seal in await self._outbox.dropped_seals():  # the one that waited for room
            self._placer.forget(seal.objects)
        await self._open()

    async def _due(self) -> None:
        """Wait for something to upload, or for the moment at which changed metadata is published anyway."""
        settings = self._settings
        while True:
            try:
                async with asyncio.timeout(settings.publish_metadata_ms / 1000):
                    await self._outbox.filled.wait()
            except TimeoutError:
                if not await self._database.looks.run(_any_unpublished):
                    continue
            rest_s = self._last_at + settings.publish_ms_min / 1000 - time.monotonic()
            if rest_s > 0:
                await asyncio.sleep(rest_s)
            return

    async def _round(self) -> None:
        """One generation: whatever waits by now. A failure leaves everything as it is for the next try."""
        assert self._publisher is not None  # noqa: S101 - `run` has opened it
        seals, rewrites = self._outbox.seals(), self._outbox.rewrites()
        began = time.monotonic()
        try:
            await self._placer.place(made for seal in seals for made in seal.objects)
            await self._placer.prove(seal.ends for seal in seals)
            if not await self._placed(rewrites):
                return
            placed = time.monotonic()
            composed = await self._publisher.publish(seals, rewrites)
        except (OSError, StoreError) as failure:
            for seal in seals:
                await self._placer.refuse_spoilt(seal.objects, seal.ends, failure)
            raise
        self._last_at = time.monotonic()
        self.observe("upload", placed - began)
        self.observe("publish", self._last_at - placed)
        refused = [rewrites[at] for at, taken in composed.rewrites.items() if not taken]
        for made in composed.objects:
            await self._hooks.adopt(made)
        for seal in composed.seals:
            if seal.ends is not None:
                _remove(seal.ends)
        self._placer.forget(composed.objects)
        for rewrite in refused:
            for made in rewrite.outputs:
                _remove(made.file)
            self._placer.forget(rewrite.outputs)
        await self._outbox.done(len(composed.seals), composed.rewrites)
        self._hooks.on_published(composed)
        self._release(composed.header.through_row)
        await self._tell()
        await self._snapshots.after(self._publisher.chain, self._publisher.standing, composed.data)

    async def _placed(self, rewrites: list[Rewrite]) -> bool:
        """Put what merges made; one whose files are not as they were made is refused, and its stage merges anew."""
        spoilt: dict[int, bool] = {}
        for at, rewrite in enumerate(rewrites):
            try:
                try:
                    await self._placer.place(rewrite.outputs)
                except (OSError, StoreError) as failure:
                    await self._placer.refuse_spoilt(rewrite.outputs, None, failure)
                    raise
            except ObjectDamaged as lost:
                self.failures += 1
                log.error("a merged file is not as it was made; it is merged anew", what=lost.message)  # noqa: TRY400
                self._placer.forget(rewrite.outputs)
                spoilt[at] = False
        if spoilt:
            await self._outbox.done(0, spoilt)
        return not spoilt

    async def _persist(self, work: Callable[[], Awaitable[Publisher | None]]) -> Publisher:
        """Try until it works; the waits grow. Only generations that are not this life's and lost files end it."""
        wait_s = _BACKOFF_S
        while True:
            try:
                done = await work()
            except (Fenced, AlreadyPublished, ObjectDamaged):
                raise
            except Exception as failure:  # noqa: BLE001 - whatever it is, the log keeps the entries, and it is tried again
                self.failures += 1
                self.problem = failure.message if isinstance(failure, StreamsError) else repr(failure)
                self.away = isinstance(failure, StoreUnavailable)
                log.warning("the bucket is not up to date", error=self.problem, again_in_s=wait_s)
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, _BACKOFF_S_MAX)
            else:
                self.problem, self.away = None, False
                return done  # type: ignore[return-value] # a round answers nothing, and nobody asks

    async def _tell(self) -> None:
        async with self._published:
            self._published.notify_all()

    def _release(self, through: int) -> None:
        """Free the log in a task of its own: the next generation does not wait for it."""
        self._release_through = max(self._release_through, through)
        if self._release_through and (self._releasing is None or self._releasing.done()):
            self._releasing = asyncio.get_running_loop().create_task(self._free(), name="release-log")

    async def _free(self) -> None:
        done = 0
        wait_s = _BACKOFF_S
        while done < self._release_through:
            through = self._release_through
            try:
                await release(self._database, self._ledger, through, self._settings.release_rows)
            except Exception as failure:  # noqa: BLE001 - the rows stay for now, which costs space and nothing else
                log.warning("log rows were not freed", error=repr(failure))
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, _BACKOFF_S_MAX)
            else:
                done, wait_s = through, _BACKOFF_S


def _remove(file: Path) -> None:
    """A file that is not needed any more. One that stays must not stop what follows its publication."""
    try:
        file.unlink(missing_ok=True)
    except OSError as failure:
        log.warning("a file could not be removed", file=str(file), error=str(failure))


def _newest_change(db: sqlite3.Connection) -> int:
    found: int = db.execute(_PLACEMENT.newest_change).fetchone()[0]
    return found


def _untold(db: sqlite3.Connection, through: int) -> bool:
    return bool(db.execute(_PLACEMENT.untold_through, (through,)).fetchone()[0])


def _any_unpublished(db: sqlite3.Connection) -> bool:
    return bool(db.execute(_PLACEMENT.any_unpublished).fetchone()[0])
