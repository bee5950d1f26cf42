"""Moves one subscription at a time from wake to wake: what is decided is stored, and only then counts.

Owns     `subscriptions`, the acknowledgements in `subscription_links`, and all that memory holds of them.
Keeps    a subscription's lock is held from a decision until it is stored, so decisions about it come one by one. A
         change whose outcome is unknown makes its subscription suspect: it is read again before the next decision.
Dies     before a commit: nothing has happened. After it, before the answer: a worker that asks again is told the truth;
         a wake that was not delivered is delivered by the next start.
"""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from streams_node.errors import (
    AckRefused,
    AlreadyClaimed,
    BadSubscription,
    Gone,
    InvalidOffset,
    NothingPending,
    SubscriptionMissing,
    WakeFenced,
)
from streams_node.ingest.ledger import Ledger
from streams_node.ingest.state import StreamState
from streams_node.observe.logs import get_logger
from streams_node.protocol import offsets
from streams_node.subscriptions import wakes
from streams_node.subscriptions.counts import Counts
from streams_node.subscriptions.journal import Statement, keep, keep_with_event
from streams_node.subscriptions.news import BEGINNING, News
from streams_node.subscriptions.patterns import path_of
from streams_node.subscriptions.registry import Registry
from streams_node.subscriptions.subscription import Link, Subscription, moved, wake_of
from streams_node.subscriptions.tables import SUBSCRIPTIONS, find_links, load_one, text_of, wake_links
from streams_node.subscriptions.tokens import LIFE_US, Claims, check, mint
from streams_node.subscriptions.wakes import Kind, Phase, Seen, Wake
from streams_node.wal.lookup import Name

log = get_logger(__name__)
WAKE_STREAMS_MAX = 256  # a wake tells of so many streams; the others are the next one's. It is stored, some 40 KB
COMPANIONS_MAX = 16  # streams without news that a wake with few streams tells of, too
ACKS_MAX = 10_000
_WAKE_BYTES = 12
_MILLI_US = 1000


class Ack(NamedTuple):
    """How far a stream has been processed."""

    name: Name
    offset: str


class Acked(NamedTuple):
    """An acknowledgement that fits its stream."""

    state: StreamState
    seq: int
    offset: str

    @property
    def row(self) -> tuple[object, ...]:
        return (*self.state.name, self.state.id, self.seq, self.offset)


class Claim(NamedTuple):
    """A wake that a worker has got."""

    wake: Wake
    token: str
    lease_ms: int


class Holding(NamedTuple):
    """What a request shows to act for the holder of a wake."""

    token: str | None
    generation: int
    wake_id: str


class Desk:
    """What holders of wakes ask for, and what the node itself does about a wake."""

    def __init__(
        self, ledger: Ledger, registry: Registry, news: News, counts: Counts, token_secret: Callable[[], bytes]
    ) -> None:
        self._ledger = ledger
        self._registry = registry
        self._news = news
        self._counts = counts
        self._secret = token_secret

    # --- what workers and receivers ask for ---

    async def claim(self, subscription: Subscription, worker: str) -> Claim:
        """Give the current wake to a worker, or a new one when there is none."""
        async with subscription.lock:
            await self.trusted(subscription)
            if subscription.kind is not Kind.PULL:
                raise BadSubscription("wakes of a webhook cannot be claimed")
            await self.end_if_over(subscription)
            wake = subscription.wake
            if wake.phase is Phase.CLAIMED:
                raise AlreadyClaimed(wake.holder or "", wake.generation)
            if not subscription.pending:
                await self._news.refill(subscription)
            seen = await self.survey(subscription)
            if not any(each.pending for each in seen):
                if wake.phase is not Phase.IDLE:
                    await self._move(subscription, wakes.cleared(wake))  # what comes is announced anew
                raise NothingPending("nothing is pending")
            if wake.phase is Phase.IDLE:
                wake = self._begun(subscription, wake, seen)
            now_us = self._ledger.now_us()
            wake = wakes.claimed(msgspec.structs.replace(wake, seen=seen), worker, now_us + lease_us(subscription))
            await self._move(subscription, wake)
            self._counts.claims += 1
            return Claim(wake, self.token(subscription, wake), subscription.lease_ms)

    async def ack(self, subscription: Subscription, holding: Holding, acks: Sequence[Ack], *, done: bool) -> bool:
        """Store what was processed and go on holding the wake, or let go of it; whether there will be a next one."""
        async with subscription.lock:
            wake = await self._held(subscription, holding)
            fitting = await self._fitting(subscription, acks)
            now_us = self._ledger.now_us()
            after = wakes.cleared(wake) if done else wakes.extended(wake, now_us + lease_us(subscription))
            await self._move(subscription, after, _acks(subscription, [each.row for each in fitting]))
            self._counts.acks += len(fitting)
            for each in fitting:
                self._forget(subscription, each.state.name, each.state.id, each.seq)
            return done and subscription.news

    async def release(self, subscription: Subscription, holding: Holding) -> None:
        """Let go of a wake without acknowledging anything."""
        async with subscription.lock:
            await self._move(subscription, wakes.cleared(await self._held(subscription, holding)))

    # --- what the node does ---

    async def begin(self, subscription: Subscription) -> None:
        """The next wake, if there is news. The lock is held."""
        if not subscription.pending:
            await self._news.refill(subscription)
        if not subscription.pending:
            return
        seen = await self.survey(subscription)
        first = next((each for each in seen if each.pending), None)
        if first is None:
            return
        wake = self._begun(subscription, subscription.wake, seen)
        if subscription.wake_stream is None:
            await self._move(subscription, wake)
        else:
            await self._announce(subscription, wake, first.who)

    def call_due(self, subscription: Subscription) -> bool:
        """Whether a webhook is to be called with its current wake, now."""
        wake = subscription.wake
        waits = wake.phase is Phase.CALLING and not wake.delivered and subscription.calling != wake.generation
        return waits and wake.attempt_us <= self._ledger.now_us()

    async def wake_to_call(self, subscription: Subscription) -> Wake | None:
        """What a webhook is to be called with: as late as this, so that the wake tells of all that came meanwhile."""
        async with subscription.lock:
            subscription.queued = False
            await self.trusted(subscription)
            if subscription.wanting:
                await self.begin(subscription)
            if not self.call_due(subscription):
                return None
            subscription.calling = subscription.wake.generation
            return subscription.wake

    async def end_if_over(self, subscription: Subscription) -> None:
        """Take the wake from a holder whose lease has ended. The lock is held."""
        if subscription.wake.over(self._ledger.now_us()):
            self._counts.leases_over += 1
            await self._move(subscription, wakes.cleared(subscription.wake))

    async def delivered(self, subscription: Subscription, call: Wake, *, done: bool) -> None:
        """A receiver has taken a wake, or has finished with it: then exactly what it was told of is acknowledged."""
        async with subscription.lock:
            await self.trusted(subscription)
            wake = subscription.wake
            if not _current(wake, call):
                return
            if not done:
                now_us = self._ledger.now_us()
                await self._move(subscription, wakes.extended(wake, now_us + lease_us(subscription)))
                return
            rows = [(*each.who, each.stream, each.seq, each.tail) for each in call.seen if each.pending]
            await self._move(subscription, wakes.cleared(wake), _acks(subscription, rows))
            self._counts.acks += len(rows)
            for each in call.seen:
                self._forget(subscription, each.who, each.stream, each.seq)

    async def failed(self, subscription: Subscription, call: Wake, chance: float) -> None:
        """A call came to nothing, unless the receiver has called back meanwhile."""
        async with subscription.lock:
            await self.trusted(subscription)
            wake = subscription.wake
            if _current(wake, call) and not wake.delivered:
                await self._move(subscription, wakes.failed(wake, self._ledger.now_us(), chance))

    async def trusted(self, subscription: Subscription) -> None:
        """Refuse what is gone, and read what is suspect. The lock is held."""
        self._ledger.trust()
        if subscription.suspect:
            row = await self._ledger.database.readers.run(load_one, subscription.number)
            if row is None:
                subscription.deleted = True
                self._registry.remove(subscription)
            else:
                subscription.wake = wake_of(row)
            subscription.suspect = False
        if subscription.deleted:
            raise SubscriptionMissing(f"there is no subscription `{subscription.id}`")

    async def store(self, subscription: Subscription, statements: Sequence[Statement]) -> None:
        """Store a change of a subscription. The lock is held."""
        await self._stored(subscription, keep(self._ledger, statements))

    async def survey(self, subscription: Subscription) -> tuple[Seen, ...]:
        """Streams with news, first those; what turns out to have none leaves `pending`."""
        names = list(islice(subscription.pending, WAKE_STREAMS_MAX))
        await self._news.settle()  # after them: what is noted while this waits has no link yet
        links = await self._ledger.database.readers.run(wake_links, subscription.number, names, COMPANIONS_MAX)
        states = await self.states(list(dict.fromkeys([*names, *links])))
        seen = []
        for name, state in states.items():  # without waiting from here on: ends are what they are
            link = links.get(name)
            if state is None:
                subscription.pending.pop(name, None)
            elif link is None:
                self._news.relink(subscription, name)
            else:
                seen.append(_seen(link, state))
                if not seen[-1].pending:
                    self._forget(subscription, name, state.id, state.tail.seq)
        return tuple(sorted(seen, key=lambda one: not one.pending))

    async def states(self, names: Sequence[Name]) -> dict[Name, StreamState | None]:
        """The living streams of some names, as they are when this returns."""
        cache = self._ledger.states
        held = {name: cache.peek(name) for name in names}
        cold = [name for name, state in held.items() if not _plain(state)]
        loaded = dict(zip(cold, await asyncio.gather(*map(self._ledger.state, cold)), strict=True))
        found: dict[Name, StreamState | None] = {}
        for name, first in held.items():
            state = cache.peek(name) or loaded.get(name) or first  # the newest first: it is the one that grows
            found[name] = state if isinstance(state, StreamState) and not state.gone else None
        return found

    @property
    def appends_per_second(self) -> float:
        return self._news.appends_per_second

    def now_us(self) -> int:
        return self._ledger.now_us()

    def token(self, subscription: Subscription, wake: Wake) -> str:
        """What the holder of a wake shows."""
        ends_us = self._ledger.now_us() + LIFE_US
        return mint(self._secret(), Claims(subscription.number, wake.generation, ends_us))

    # --- helpers ---

    def _begun(self, subscription: Subscription, wake: Wake, seen: tuple[Seen, ...]) -> Wake:
        self._counts.wakes += 1
        return wakes.begun(wake, subscription.kind, secrets.token_urlsafe(_WAKE_BYTES), seen)

    async def _held(self, subscription: Subscription, holding: Holding) -> Wake:
        """The wake that a request acts for, if it holds it."""
        token = check(self._secret(), holding.token, subscription.number, self._ledger.now_us())
        await self.trusted(subscription)
        await self.end_if_over(subscription)
        try:
            wakes.guard(
                subscription.wake,
                token_generation=token.generation,
                generation=holding.generation,
                wake_id=holding.wake_id,
            )
        except WakeFenced:
            self._counts.fenced += 1
            raise
        return subscription.wake

    async def _fitting(self, subscription: Subscription, acks: Sequence[Ack]) -> list[Acked]:
        """Every acknowledgement as it is stored, or the reason why none of them is."""
        names = list(dict.fromkeys(each.name for each in acks))
        links = await self._ledger.database.readers.run(find_links, subscription.number, names) if names else {}
        states = await self.states(names)
        fitting: dict[Name, Acked] = {}
        for each in acks:
            link, state = links.get(each.name), states[each.name]
            if link is None or state is None:
                raise AckRefused(f"`{path_of(each.name)}` is no stream of this subscription")
            seq = _seq_of(state, each)
            before = fitting.get(each.name)
            if seq < (before.seq if before is not None else _acked_seq(link, state)):
                raise AckRefused(f"`{path_of(each.name)}` was acknowledged further than `{each.offset}` already")
            fitting[each.name] = Acked(state, seq, state.token(seq))
        return list(fitting.values())

    def _forget(self, subscription: Subscription, name: Name, stream: int, seq: int) -> None:
        """A stream has no more news, if its state in memory says so: any other may be older than the stream is."""
        state = self._ledger.states.peek(name)
        if state is not None and state.id == stream and not state.gone and state.tail.seq <= seq:
            subscription.pending.pop(name, None)

    async def _move(self, subscription: Subscription, wake: Wake, statements: Sequence[Statement] = ()) -> None:
        change = (SUBSCRIPTIONS.move_subscription, moved(subscription.number, wake))
        await self._stored(subscription, keep(self._ledger, [*statements, change]))
        subscription.wake = wake

    async def _announce(self, subscription: Subscription, wake: Wake, news: Name) -> None:
        """Store a wake together with its event."""
        assert subscription.wake_stream is not None  # noqa: S101 - the caller has looked
        state = (await self.states([subscription.wake_stream]))[subscription.wake_stream]
        change = (SUBSCRIPTIONS.move_subscription, moved(subscription.number, wake))
        if state is None:
            log.warning("a wake stream does not exist", subscription=subscription.id)
            await self._stored(subscription, keep(self._ledger, [change]))
        else:
            event = {
                "type": "wake", "subscription_id": subscription.id, "stream": path_of(news),
                "generation": wake.generation, "ts": self._ledger.now_us() // _MILLI_US,
            }  # fmt: skip
            await self._stored(subscription, keep_with_event(self._ledger, [change], state, msgspec.json.encode(event)))
        subscription.wake = wake

    async def _stored(self, subscription: Subscription, storing: Coroutine[None, None, None]) -> None:
        subscription.suspect = True
        await storing
        subscription.suspect = False


def lease_us(subscription: Subscription) -> int:
    return subscription.lease_ms * _MILLI_US


def _acks(subscription: Subscription, rows: Sequence[tuple[object, ...]]) -> list[Statement]:
    return [(SUBSCRIPTIONS.ack_links, (text_of(rows), subscription.number))] if rows else []


def _current(wake: Wake, call: Wake) -> bool:
    return wake.phase is Phase.CALLING and wake.generation == call.generation


def _plain(state: StreamState | None) -> bool:
    """Whether a state in memory is certainly that of a living stream."""
    return state is not None and not state.gone and state.ttl_s is None and state.expires_us is None


def _acked_seq(link: Link, state: StreamState) -> int:
    """What was acknowledged of this life of a stream."""
    return link.acked_seq if link.stream == state.id else 0


def _seen(link: Link, state: StreamState) -> Seen:
    acked = link.acked if link.stream == state.id else BEGINNING
    seq = state.tail.seq
    return Seen(
        *state.name, state.id, seq, acked, state.tail_token(), link.explicit, seq > _acked_seq(link, state)
    )  # fmt: skip


def _seq_of(state: StreamState, ack: Ack) -> int:
    """The entries that an acknowledged offset stands for."""
    position = offsets.decode(ack.offset)
    if position is None:
        raise AckRefused(f"`{ack.offset[:64]}` is no offset that can be acknowledged")
    try:
        return state.resolve(position)
    except (Gone, InvalidOffset) as problem:
        raise AckRefused(f"`{path_of(state.name)}`: {problem.message}") from None
