"""The subscriptions of a node: made, changed and deleted here; attended to whenever something is due.

Owns     the registry, and the tasks that attend to subscriptions.
Pulls    batches that were stored (`committed`), leases and retries whose time has come.
Hands on wakes: to webhooks, to wake streams, to workers that claim.
Keeps    a request that goes away does not leave half a change: what has begun is finished without it.
Dies     at any step: everything that matters is in the database, see `desk` and `news`.
"""

import asyncio
import contextlib
import heapq
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from streams_node.config import Settings
from streams_node.errors import StreamsError, SubscriptionMissing
from streams_node.ingest.batches import Batch
from streams_node.ingest.ledger import Ledger
from streams_node.observe.logs import get_logger
from streams_node.observe.metrics import Metrics
from streams_node.protocol.times import SECOND_US
from streams_node.subscriptions.addresses import Policy, networks_of, target_of
from streams_node.subscriptions.counts import Counts
from streams_node.subscriptions.deliveries import Deliveries
from streams_node.subscriptions.desk import Ack, Claim, Desk, Holding
from streams_node.subscriptions.keys import Keys
from streams_node.subscriptions.maker import Maker
from streams_node.subscriptions.news import News
from streams_node.subscriptions.registry import Registry
from streams_node.subscriptions.subscription import Link, Subscription, Wanted
from streams_node.subscriptions.tables import free_links, load, some_links
from streams_node.subscriptions.wakes import Kind
from streams_node.wal.lookup import Name

log = get_logger(__name__)
T = TypeVar("T")
VIEW_LINKS_MAX = 1000
_ATTENDED_MAX = 64  # at once
_TICK_S = 1.0
_LAST_S = 2.0  # at a stop, for links
_TICKS_TO_MOVE_ON = 10


class Subscriptions:
    """Only the event loop touches it."""

    def __init__(self, settings: Settings, folder: Path, ledger: Ledger, chance: Callable[[], float]) -> None:
        self._settings = settings
        self._ledger = ledger
        tried_out = settings.no_auth and settings.public_url is None
        loopback = tried_out if settings.webhook_loopback is None else settings.webhook_loopback
        self.policy = Policy(loopback, networks_of(settings.webhook_networks))
        self.keys = Keys(folder, age_us_max=settings.webhook_key_ms_max * 1000, now_us=ledger.now_us)
        self.registry = Registry()
        self.counts = Counts()
        self._news = News(ledger, self.registry, self._ring_if_wanting)
        self._desk = Desk(ledger, self.registry, self._news, self.counts, lambda: self.keys.token_secret)
        self._deliveries = Deliveries(settings, self.policy, self.keys, self._desk, self.counts, chance)
        self._maker = Maker(settings, ledger, self.registry, self._news, self._desk)
        self._alarms: list[tuple[int, int]] = []
        self._bell = asyncio.Event()
        self._places = asyncio.Semaphore(_ATTENDED_MAX)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.get_running_loop()
        self._tick_s = 0.0
        self._stopping = False

    def register(self, metrics: Metrics) -> None:
        self.counts.register(metrics, self.registry)

    def committed(self, batch: Batch) -> None:
        """The ledger has stored a batch."""
        self._news.committed(batch)

    # --- a life ---

    async def open(self) -> None:
        """Load every subscription. All of them look for what they missed, beside the requests."""
        loaded = await self._ledger.database.readers.run(load)
        last_row = self._ledger.committer.committed_through
        self._news.hooked = self._news.joined = last_row
        for row in loaded.rows:
            subscription = Subscription(row)
            subscription.missed = 0
            self.registry.add(subscription)
        for number, name in loaded.named:
            named = self.registry.numbered(number)
            if named is not None:
                self.registry.name(name, named)
        if loaded.rows:
            self._news.joined = loaded.joined_through or 0
            self._news.incomplete = self._news.joined < last_row
        _ = self._begin(self._news.run(), "subscription-links")
        _ = self._begin(self._tend(), "subscription-alarms")
        for subscription in self.registry:
            self.ring(subscription)

    async def stop(self) -> None:
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._deliveries.stop()
        with contextlib.suppress(StreamsError, TimeoutError):
            async with asyncio.timeout(_LAST_S):
                await self._news.join()  # what is still noted: no start finds links of streams that have ended

    # --- what requests ask for ---

    def get(self, id_: str) -> Subscription:
        subscription = self.registry.get(id_)
        if subscription is None or subscription.deleted:
            raise SubscriptionMissing(f"there is no subscription `{id_}`")
        return subscription

    async def create(self, id_: str, wanted: Wanted, base: str) -> tuple[Subscription, bool]:
        """Make a subscription, or confirm the one that is there; whether it is new."""
        if wanted.url is not None:
            target_of(wanted.url, self.policy)
        return await self._whole(self._maker.create(id_, wanted, base))

    async def delete(self, id_: str) -> None:
        """End a subscription, if it is there."""
        await self._whole(self._maker.delete(id_))

    async def name_streams(self, subscription: Subscription, names: Sequence[Name]) -> None:
        """Add streams by name; from their ends on, if they are new to it."""
        await self._whole(self._then_ring(subscription, self._maker.name(subscription, names)))

    async def unname_stream(self, subscription: Subscription, name: Name) -> None:
        """A stream that was added by name leaves, unless the glob keeps it."""
        await self._whole(self._maker.unname(subscription, name))

    async def claim(self, subscription: Subscription, worker: str) -> Claim:
        return await self._whole(self._then_ring(subscription, self._desk.claim(subscription, worker)))

    async def ack(self, subscription: Subscription, holding: Holding, acks: Sequence[Ack], *, done: bool) -> bool:
        """Acknowledge, and go on or be done; whether there is more already."""
        acking = self._desk.ack(subscription, holding, acks, done=done)
        return await self._whole(self._then_ring(subscription, acking))

    async def release(self, subscription: Subscription, holding: Holding) -> None:
        await self._whole(self._then_ring(subscription, self._desk.release(subscription, holding)))

    async def links(self, subscription: Subscription) -> tuple[list[Link], bool]:
        """The first links, and whether there are more."""
        await self._news.settle()
        found = await self._ledger.database.readers.run(some_links, subscription.number, VIEW_LINKS_MAX + 1)
        return found[:VIEW_LINKS_MAX], len(found) > VIEW_LINKS_MAX

    # --- attending ---

    def ring(self, subscription: Subscription) -> None:
        """Look at a subscription, now or once more."""
        if subscription.attending:
            subscription.again = True
        elif not subscription.deleted and not self._stopping:
            subscription.attending = True
            _ = self._begin(self._attend(subscription), f"subscription-{subscription.id}")

    def _ring_if_wanting(self, subscription: Subscription) -> None:
        if subscription.wanting and not subscription.queued:  # one whose turn comes looks for news then
            self.ring(subscription)

    async def _attend(self, subscription: Subscription) -> None:
        """Do what is due, until nothing is."""
        try:
            subscription.again = True
            while subscription.again and not subscription.deleted:
                subscription.again = False
                async with self._places, subscription.lock:
                    await self._do_due(subscription)
        except StreamsError as problem:
            log.debug("a subscription waits", subscription=subscription.id, error=problem.message)
        except Exception as problem:  # noqa: BLE001 - one subscription's trouble is its own; it is rung again
            log.warning("a subscription was not attended to", subscription=subscription.id, error=repr(problem))
        finally:
            subscription.attending = False
            self._set_alarm(subscription)

    async def _do_due(self, subscription: Subscription) -> None:
        await self._desk.trusted(subscription)
        await self._desk.end_if_over(subscription)
        if subscription.kind is Kind.WEBHOOK:
            if not subscription.queued and (subscription.wanting or self._desk.call_due(subscription)):
                self._deliveries.begin(subscription, self.ring)
        elif subscription.wanting:
            await self._desk.begin(subscription)

    def _set_alarm(self, subscription: Subscription) -> None:
        due_us = subscription.wake.due_us
        calling = subscription.queued or subscription.calling == subscription.wake.generation
        if due_us is None or subscription.deleted or calling:
            return
        if not subscription.alarm_us or due_us < subscription.alarm_us:
            subscription.alarm_us = due_us
            heapq.heappush(self._alarms, (due_us, subscription.number))
            self._bell.set()

    async def _tend(self) -> None:
        """Leases and retries at their time; now and then, whatever else could have been left lying."""
        ticks = 0
        while True:
            wait_s = await self._ring_due()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._bell.wait()
            self._bell.clear()
            if self._loop.time() >= self._tick_s and len(self.registry):
                self._tick_s, ticks = self._loop.time() + _TICK_S, ticks + 1
                await self._tick(move_on=ticks % _TICKS_TO_MOVE_ON == 0)

    async def _ring_due(self) -> float:
        """Ring whoever is due; how long to wait for the next one."""
        now_us = self._ledger.now_us()
        while self._alarms and self._alarms[0][0] <= now_us:
            due_us, number = heapq.heappop(self._alarms)
            subscription = self.registry.numbered(number)
            if subscription is not None and subscription.alarm_us == due_us:
                subscription.alarm_us = 0
                self.ring(subscription)
        if not self._alarms:
            return _TICK_S
        return min(_TICK_S, (self._alarms[0][0] - now_us) / SECOND_US)

    async def _tick(self, *, move_on: bool) -> None:
        ledger = self._ledger
        try:
            self._news.look_at_failures()
            for subscription in self.registry:
                self._ring_if_wanting(subscription)
            if move_on and not ledger.refusals:
                await self._news.move_on()
            if not ledger.refusals:
                await ledger.database.writer.run(free_links)
        except Exception as problem:  # noqa: BLE001 - it is tried again with the next tick
            log.warning("subscriptions could not be tended", error=repr(problem))

    # --- helpers ---

    async def _then_ring(self, subscription: Subscription, asked: Coroutine[Any, Any, T]) -> T:
        try:
            return await asked
        finally:
            self.ring(subscription)

    async def _whole(self, change: Coroutine[Any, Any, T]) -> T:
        """Finish a change that has begun, whether or not somebody still waits for it."""
        return await asyncio.shield(self._begin(change, "subscription-change"))

    def _begin(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # seen: whoever asked may be gone
