"""Makes, changes and ends subscriptions.

Owns     rows of `subscriptions` as they come and go, and links by name.
Keeps    a subscription hears of commits from before it is stored, and what is there already is no news for it: a glob's
         streams, and those that are named, begin at their ends.
Dies     after the first commit: the streams that had no link yet join with their next append.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from streams_node.config import Settings
from streams_node.errors import BadSubscription, StreamsError, SubscriptionExists, SubscriptionLimit
from streams_node.ingest.ledger import Ledger
from streams_node.protocol import offsets
from streams_node.subscriptions.desk import Desk
from streams_node.subscriptions.journal import Statement, keep
from streams_node.subscriptions.news import BEGINNING, News, acked_before
from streams_node.subscriptions.patterns import path_of, scope_of
from streams_node.subscriptions.registry import Registry
from streams_node.subscriptions.subscription import Row, Subscription, Wanted
from streams_node.subscriptions.tables import SUBSCRIPTIONS, Place, plain_ends, streams_from, text_of
from streams_node.wal.listing import list_bucket
from streams_node.wal.lookup import Name

# What exists is looked through when a glob is made. Beyond these numbers, streams join with their next append.
LOOKED_AT_MAX = 100_000
LINKED_MAX = 10_000
_SLICE = 500
_NUMBER_BITS = 62


class Maker:
    """One subscription is made at a time."""

    def __init__(self, settings: Settings, ledger: Ledger, registry: Registry, news: News, desk: Desk) -> None:
        self._settings = settings
        self._ledger = ledger
        self._registry = registry
        self._news = news
        self._desk = desk
        self._making = asyncio.Lock()

    async def create(self, id_: str, wanted: Wanted, base: str) -> tuple[Subscription, bool]:
        """Make a subscription, or confirm the one that is there; whether it is new."""
        async with self._making:
            there = self._registry.get(id_)
            if there is not None:
                if there.digest != wanted.digest:
                    raise SubscriptionExists(f"subscription `{id_}` exists with another configuration")
                return there, False
            if len(self._registry) >= self._settings.subscriptions_max:
                raise SubscriptionLimit(f"the node has its {len(self._registry)} subscriptions already")
            self._check_count(len(wanted.streams))
            _check_wakes(wanted.wake_stream, wanted.streams)
            row = self._row(id_, wanted, base)
            subscription = Subscription(row)
            self._registry.add(subscription)  # from now on it hears of every commit
            try:
                await self._store(subscription, row, wanted.streams)
            except BaseException:
                self._registry.remove(subscription)
                subscription.deleted = True
                with suppress(StreamsError):  # then it is there again with the next start
                    await keep(self._ledger, _ending(subscription))
                raise
            return subscription, True

    async def delete(self, id_: str) -> None:
        """End a subscription, if it is there. Its links are freed later."""
        async with self._making:
            subscription = self._registry.get(id_)
            if subscription is None:
                return
            async with subscription.lock:
                await self._desk.store(subscription, _ending(subscription))
                subscription.deleted = True
                self._registry.remove(subscription)

    async def name(self, subscription: Subscription, names: Sequence[Name]) -> None:
        """Add streams by name; those that are new to the subscription begin at their ends."""
        async with subscription.lock:
            await self._desk.trusted(subscription)
            fresh = [name for name in names if name not in subscription.named]
            self._check_count(len(subscription.named) + len(fresh))
            _check_wakes(subscription.wake_stream, fresh)
            added = await self._naming(subscription, fresh)
            try:
                await self._desk.store(subscription, added)
            except BaseException:
                for name in fresh:
                    self._registry.unname(name, subscription)
                raise

    async def unname(self, subscription: Subscription, name: Name) -> None:
        """A stream leaves, unless the glob keeps it. One that was never named is no mistake."""
        async with subscription.lock:
            await self._desk.trusted(subscription)
            if name not in subscription.named:
                return
            stays = self._registry.globbed(name, subscription)
            statement = SUBSCRIPTIONS.unname_link if stays else SUBSCRIPTIONS.drop_link
            await self._desk.store(subscription, [(statement, (subscription.number, *name))])
            self._registry.unname(name, subscription)
            if not stays:
                subscription.pending.pop(name, None)

    # --- helpers ---

    def _check_count(self, count: int) -> None:
        most = self._settings.subscription_streams_max
        if count > most:
            raise BadSubscription(f"a subscription may name {most} streams; use a pattern for more")

    def _row(self, id_: str, wanted: Wanted, base: str) -> Row:
        wake = wanted.wake_stream
        return Row(
            secrets.randbits(_NUMBER_BITS),
            id_,
            wanted.kind.value,
            wanted.pattern,
            wanted.url,
            None if wake is None else wake.bucket,
            None if wake is None else wake.stream,
            wanted.lease_ms,
            wanted.description,
            wanted.digest,
            base,
            self._ledger.now_us(),
            self._ledger.committer.committed_through,
        )

    async def _store(self, subscription: Subscription, row: Row, names: Sequence[Name]) -> None:
        statements: list[Statement] = [
            (SUBSCRIPTIONS.clear_id, (row.id,)),
            (SUBSCRIPTIONS.put_subscription, row[:_CONFIGURED]),
        ]
        if len(self._registry) == 1:
            statements.append(self._news.begin())
        statements += await self._naming(subscription, names)
        newest = self._ledger.next_stream - 1
        await keep(self._ledger, statements)
        if await self._link_existing(subscription):
            await keep(self._ledger, [(SUBSCRIPTIONS.settle_links, (newest, subscription.number))])
            subscription.linked = newest

    async def _naming(self, subscription: Subscription, names: Sequence[Name]) -> list[Statement]:
        """Hear of streams from now on; what gives them their links at their ends."""
        for name in names:
            self._registry.name(name, subscription)
        rows = await self._rows(subscription, names)
        return [(SUBSCRIPTIONS.name_links, (text_of(rows),))] if rows else []

    async def _link_existing(self, subscription: Subscription) -> bool:
        """Begin at the ends of streams that match; whether that were all of them."""
        linked = looked_at = 0
        async for names in self._candidates(subscription):
            matching = [name for name in names if self._registry.globbed(name, subscription)]
            rows = await self._existing_rows(subscription, matching)
            await keep(self._ledger, [(SUBSCRIPTIONS.join_links, (text_of(rows),))] if rows else [])
            linked += len(rows)
            looked_at += len(names)
            if linked >= LINKED_MAX or looked_at >= LOOKED_AT_MAX:
                return False
        return True

    async def _existing_rows(self, subscription: Subscription, names: Sequence[Name]) -> list[tuple[object, ...]]:
        """Links at the ends of streams that exist. Those that are not in memory stay out of it: there may be very many,
        and what the database says of them is all there is.
        """
        cold = [name for name in names if self._ledger.states.peek(name) is None]
        ends = await self._ledger.database.readers.run(plain_ends, cold) if cold else {}
        rows: list[tuple[object, ...]] = [
            (
                subscription.number,
                *name,
                end.stream,
                end.seq,
                offsets.encode(end.epoch, end.seq) if end.seq else BEGINNING,
            )
            for name, end in ends.items()
        ]
        return rows + await self._rows(subscription, [name for name in names if name not in ends], existing=True)

    async def _rows(
        self, subscription: Subscription, names: Sequence[Name], *, existing: bool = False
    ) -> list[tuple[object, ...]]:
        """Links at the ends of streams. One that does not exist is all news once it does."""
        rows: list[tuple[object, ...]] = []
        for name, state in (await self._desk.states(names)).items():
            if state is not None:
                seq = state.tail.seq
                rows.append((subscription.number, *name, state.id, seq, acked_before(state, seq)))
            elif not existing:
                rows.append((subscription.number, *name, 0, 0, BEGINNING))
        return rows

    async def _candidates(self, subscription: Subscription) -> AsyncIterator[list[Name]]:
        """Streams that the glob may match, in slices."""
        if subscription.segments is None:
            return
        scope = scope_of(subscription.segments)
        pages = self._everywhere() if scope.bucket is None else self._in_bucket(scope.bucket, scope.prefix)
        if scope.alone is not None:
            yield [scope.alone]
        async for names in pages:
            yield names

    async def _everywhere(self) -> AsyncIterator[list[Name]]:
        place: Place | None = Place()
        while place is not None:
            names, place = await self._ledger.database.readers.run(streams_from, place, _SLICE)
            yield names

    async def _in_bucket(self, bucket: str, prefix: str) -> AsyncIterator[list[Name]]:
        found = await self._ledger.database.load_bucket(bucket)
        after = ""
        while found is not None:
            page = await self._ledger.database.readers.run(
                list_bucket, found.bucket, prefix, after, _SLICE, self._ledger.now_us()
            )
            yield [Name(bucket, entry.name) for entry in page]
            if len(page) < _SLICE:
                return
            after = page[-1].name


def _check_wakes(wake_stream: Name | None, names: Sequence[Name]) -> None:
    """Each wake would be news, and announced by the next one, for as long as anybody claims."""
    if wake_stream is not None and wake_stream in names:
        raise BadSubscription(f"`{path_of(wake_stream)}` is where its own wakes are announced: they would never end")


def _ending(subscription: Subscription) -> list[Statement]:
    number = (subscription.number,)
    return [(SUBSCRIPTIONS.delete_subscription, number), (SUBSCRIPTIONS.bury_subscription, number)]


_CONFIGURED = 13  # values of a row before its first wake
