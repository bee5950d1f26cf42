"""Notes which subscriptions the commits are news for, and gives each stream that is new to one its link.

Owns     the queue of what commits brought, `subscription_links` of streams that join by a glob, and the log row up to
         which all of them have joined.
Pulls    batches that have just been stored. A commit is held against the trie and costs what its streams' paths cost;
         a path that takes long is matched beside the commits and the joining of others, slice by slice.
Hands on names in `pending` of subscriptions, each once it has its link; rings.
Keeps    what is acknowledged decides, and it is in the database: memory only says where to look. What memory had no
         room for (`missed`) is found there again: links behind their streams by `refill`, streams without a link by
         `sweep`. As long as there may be such a stream, a link begins where the log says, not where the newest batch
         does: an earlier one may have brought entries that nobody noted.
Dies     at any step: the next start sweeps from the row that was stored last, and refills everything.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from streams_node.errors import StreamsError
from streams_node.ingest.batches import Batch
from streams_node.ingest.ledger import Ledger
from streams_node.ingest.state import StreamState
from streams_node.observe.logs import get_logger
from streams_node.subscriptions.journal import Statement, keep
from streams_node.subscriptions.registry import Registry
from streams_node.subscriptions.subscription import Subscription
from streams_node.subscriptions.tables import (
    SUBSCRIPTIONS,
    Late,
    Place,
    first_seqs,
    late_streams,
    links_behind,
    missing_links,
    text_of,
)
from streams_node.subscriptions.wakes import Phase
from streams_node.wal.batch import COLUMNS
from streams_node.wal.lookup import Name

log = get_logger(__name__)
PENDING_MAX = 1000  # names of one subscription in memory: more than one wake tells of
QUEUE_MAX = 10_000
LONG_MAX = 4  # paths of one commit that take long; the others are not even tried
BEGINNING = "-1"
_SLICE = 500  # links of one commit, streams of one look
_BACKOFF_S = 1.0
_LONG_WAIT_S = 0.1  # for paths that take long: what is found later is told of later
_LOOK_S = 0.01  # how often a walk lets others join
_RATE_S, _RATE_OLD_S = 0.1, 1.0  # how long appends are counted for a rate, and how long that stands
_STREAM, _SEQ = 1, 2  # columns of a log row in a batch


class Fresh(NamedTuple):
    """A stream with news for a subscription, and its first entry that is news: None when only the log can say that,
    as an earlier batch may have brought some that nobody noted.
    """

    subscription: Subscription
    state: StreamState
    seq: int | None


class News:
    """Only the event loop touches it. `committed` is called by the ledger, and neither waits nor fails."""

    def __init__(self, ledger: Ledger, registry: Registry, ring: Callable[[Subscription], None]) -> None:
        self._ledger = ledger
        self._registry = registry
        self._ring = ring
        self._queue: list[Fresh] = []
        self._ended: list[tuple[Subscription, StreamState]] = []
        self._long: dict[Name, StreamState] = {}  # streams with news for whoever is found to match them
        self._long_ended: list[StreamState] = []
        self._bell = asyncio.Event()
        self._noted = self._linked = 0  # how much was ever queued, and how much of it has its link
        self._noted_long = self._matched_long = 0  # how many paths were ever left to walks, and how many are matched
        self._progress = asyncio.Event()
        self._sweeping = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._counted, self._counted_s, self._rate = 0, self._loop.time(), 0.0
        self._failures = ledger.failures
        self.hooked = 0  # the newest row that was held against the trie
        self.joined = 0  # every row up to this one has been given its links, as far as is stored
        self.incomplete = False  # some row above `joined` was not noted: only a sweep finds it

    # --- what the ledger tells ---

    def committed(self, batch: Batch) -> None:
        """A batch is on disk: note whom it is for."""
        if len(self._registry):
            self.look_at_failures()
            self._count(len(batch.touched))
            self._note_touched(batch)
            self._note_ended(batch)
        self.hooked = batch.through
        if self._waiting:
            self._bell.set()

    def begin(self) -> Statement:
        """The first subscription of all: nothing before it matters. What says so to the next start."""
        self.joined, self.incomplete = self.hooked, False
        return (SUBSCRIPTIONS.set_joined_through, (self.hooked,))

    @property
    def _unsure(self) -> bool:
        """Whether a stream without a link may have entries above `joined` that nobody noted."""
        return self.incomplete or self._sweeping.locked() or bool(self._long)

    @property
    def _waiting(self) -> bool:
        return bool(self._queue or self._ended or self._long or self._long_ended)

    def look_at_failures(self) -> None:
        """A commit that failed may be stored all the same: nobody has noted what is in it."""
        if self._ledger.failures == self._failures or self._ledger.broken:
            return
        self._failures = self._ledger.failures
        self._miss(self._ledger.committer.committed_through)

    def _miss(self, through: int) -> None:
        """Something was not noted, and it is unknown for whom."""
        self.incomplete = True
        for subscription in self._registry:
            subscription.missed = through

    @property
    def appends_per_second(self) -> float:
        """How many there were a moment ago."""
        return self._rate if self._loop.time() - self._counted_s < _RATE_OLD_S else 0.0

    def _count(self, appends: int) -> None:
        self._counted += appends
        passed_s = self._loop.time() - self._counted_s
        if passed_s >= _RATE_S:
            self._rate = self._counted / passed_s
            self._counted, self._counted_s = 0, self._loop.time()

    def _note_touched(self, batch: Batch) -> None:
        matching = self._registry.matching
        firsts: dict[int, int] | None = None
        long = 0
        for state, _, _, _ in batch.touched:
            found = matching(state.name) if long < LONG_MAX else None
            if found is None:
                long += 1
                self._note_long(state, batch.through)
                continue
            for subscription in found:
                if self._noted_without_link(subscription, state, batch.through):
                    if firsts is None:
                        firsts = _firsts(batch)
                    self._queue.append(Fresh(subscription, state, None if self._unsure else firsts.get(state.id, 0)))
                    self._noted += 1

    def _noted_without_link(self, subscription: Subscription, state: StreamState, through: int) -> bool:
        """Note that a stream has news; whether it needs a link before anybody can be told."""
        name, pending = state.name, subscription.pending
        if pending.get(name) == state.id:
            return False
        if len(self._queue) >= QUEUE_MAX or (len(pending) >= PENDING_MAX and name not in pending):
            subscription.missed = through
            self.incomplete = True
            return False
        pending[name] = state.id
        if state.id > subscription.linked:
            return True
        if subscription.wake.phase is Phase.IDLE and not subscription.queued:
            self._ring(subscription)
        return False

    def _note_long(self, state: StreamState, through: int) -> None:
        """Whom it is for is found out later. Until then it counts as noted by nobody."""
        if state.name in self._long:
            self._long[state.name] = state
        elif len(self._long) < QUEUE_MAX:
            self._long[state.name] = state
            self._noted_long += 1
        else:
            self._miss(through)

    def _note_ended(self, batch: Batch) -> None:
        for state in batch.ended:
            found = self._registry.matching(state.name)
            if found is not None:
                self._note_end(state, found)
            elif len(self._long_ended) < QUEUE_MAX:
                self._long_ended.append(state)

    def _note_end(self, state: StreamState, found: Iterable[Subscription]) -> None:
        self._ended += [(subscription, state) for subscription in found][: QUEUE_MAX - len(self._ended)]

    # --- joining ---

    async def run(self) -> None:
        """Give links, as long as the node lives."""
        while True:
            await self._bell.wait()
            self._bell.clear()
            try:
                await self.join()
            except StreamsError as problem:
                log.debug("links were not stored", error=problem.message)
                await asyncio.sleep(_BACKOFF_S)
                self._bell.set()
            except Exception as problem:  # noqa: BLE001 - nothing is lost: the queue is as it was
                log.warning("links were not stored", error=repr(problem))
                await asyncio.sleep(_BACKOFF_S)
                self._bell.set()

    async def settle(self) -> None:
        """Wait until everything that is noted by now has its link; not for long for paths that take long, which may be
        somebody else's: test_a_long_walk_holds_nobody_else_up.
        """
        if self._long:
            long = self._noted_long
            with suppress(TimeoutError):
                async with asyncio.timeout(_LONG_WAIT_S):
                    while self._matched_long < long:
                        await self._progress.wait()
        noted = self._noted
        while self._linked < noted:
            await self._progress.wait()

    def relink(self, subscription: Subscription, name: Name) -> None:
        """A stream has news and no link, which only a sweep can make good."""
        subscription.pending.pop(name, None)
        subscription.missed = self.hooked
        self.incomplete = True

    async def join(self) -> None:
        """Those that ended first: one that was made again has its new life behind it, and needs a new link."""
        while self._waiting:
            if self._ended:
                await self._leave_some()
            elif self._long_ended:
                await self._match_ended(self._long_ended[0])
            elif self._long:
                await self._match_long(next(iter(self._long)))
            else:
                await self._join_some()

    async def _match_ended(self, state: StreamState) -> None:
        self._note_end(state, await self._found(state.name))
        del self._long_ended[0]

    async def _match_long(self, name: Name) -> None:
        """Note a stream whose path takes long. What the newest batch began with is not kept: the log knows."""
        version = self._registry.version
        found = await self._found(name)
        if self._registry.version != version:
            self._miss(self.hooked)  # a commit of meanwhile may be news for one that came behind the walk
        state = self._long.pop(name)
        fresh = [
            Fresh(subscription, state, None)
            for subscription in (() if state.gone else found)
            if not subscription.deleted and self._noted_without_link(subscription, state, self.hooked)
        ]
        self._queue += fresh
        self._noted += len(fresh)
        self._matched_long += 1
        self._told(0)

    async def _found(self, name: Name) -> set[Subscription]:
        """Who is to be told of a stream. Others join meanwhile; the loop has a turn even if that is found at once, as
        it is for thousands of streams behind a commit's first ones.
        """
        walk = asyncio.create_task(self._registry.found(name), name="subscription-walk")
        try:
            while not walk.done():
                await asyncio.wait({walk}, timeout=_LOOK_S)
                if self._ended:
                    await self._leave_some()
                elif self._queue and not self._made_again():
                    await self._join_some()
        finally:
            walk.cancel()
        return walk.result()

    def _made_again(self) -> bool:
        """Whether a stream that is to join had a life whose links have yet to go: its new link would go with them."""
        ended = {state.name for state in self._long_ended}
        return bool(ended) and any(each.state.name in ended for each in self._queue)

    async def _leave_some(self) -> None:
        ended = self._ended[:_SLICE]
        drops = [(subscription.number, *state.name, state.id) for subscription, state in ended]
        await keep(self._ledger, [(SUBSCRIPTIONS.drop_joined, drop) for drop in drops])
        del self._ended[: len(ended)]
        over = {state.id for _, state in ended}
        living = [each for each in self._queue if each.state.id not in over]
        self._told(len(self._queue) - len(living))
        self._queue = living

    async def _join_some(self) -> None:
        fresh = self._queue[:_SLICE]
        through = self.hooked if len(fresh) == len(self._queue) else None
        pairs = [(each.subscription.number, each.state.name) for each in fresh]
        missing = await self._ledger.database.readers.run(missing_links, pairs)
        rows = await self._rows([fresh[place] for place in missing])
        statements: list[Statement] = [(SUBSCRIPTIONS.join_links, (text_of(rows),))] if rows else []
        if not statements or self._unsure or through is None or through <= self.joined:
            through = self.joined
        else:
            statements.append((SUBSCRIPTIONS.set_joined_through, (through,)))
        await keep(self._ledger, statements)
        del self._queue[: len(fresh)]
        self.joined = max(self.joined, through)
        self._told(len(fresh))
        for subscription in dict.fromkeys(each.subscription for each in fresh):
            self._ring(subscription)

    def _told(self, count: int) -> None:
        """So many more have their links, or need none."""
        self._linked += count
        self._progress.set()
        self._progress = asyncio.Event()

    async def _rows(self, fresh: list[Fresh]) -> list[tuple[object, ...]]:
        """Links of streams that have none."""
        wanted = [each for each in fresh if not each.subscription.deleted]
        unsure = [each for each in wanted if each.seq is None]
        looks = [(each.state.tail.row, self._joined_for(each.subscription)) for each in unsure]
        firsts = await self._ledger.database.readers.run(first_seqs, looks) if looks else []
        sure = [each for each in wanted if each.seq is not None]
        sure += [each._replace(seq=seq) for each, seq in zip(unsure, firsts, strict=True)]
        return [_row(each) for each in sure]

    def _joined_for(self, subscription: Subscription) -> int:
        """The row up to which nothing is news for a stream that has no link."""
        return max(self.joined, subscription.since_row)

    async def move_on(self) -> None:
        """Store how far the joining has come when there was nothing to join: a start sweeps less."""
        hooked = self.hooked
        if not self._unsure and not self._queue and hooked > self.joined:
            await keep(self._ledger, [(SUBSCRIPTIONS.set_joined_through, (hooked,))])
            self.joined = max(self.joined, hooked)

    # --- finding again what memory had no room for ---

    async def refill(self, subscription: Subscription) -> None:
        """Look for streams with news in the database. They are all there once the heads are."""
        missed = subscription.missed
        if missed is None:
            return
        committer = self._ledger.committer
        if committer.heads_through < missed:
            committer.flush_heads()
            return
        if self.incomplete and not await self.sweep():
            return
        names = await self._ledger.database.readers.run(links_behind, subscription.number, PENDING_MAX)
        subscription.pending.update((name, subscription.pending.get(name)) for name in names)
        if subscription.missed == missed:
            subscription.missed = None if len(names) < PENDING_MAX else 0

    async def sweep(self) -> bool:
        """Give links to streams that were written while nobody could note it; whether all of them have one now."""
        async with self._sweeping:
            if not self.incomplete:
                return True
            if self._ledger.committer.heads_through < self.hooked:
                self._ledger.committer.flush_heads()
                return False
            through = self.hooked
            self.incomplete = False
            try:
                place: Place | None = Place()
                while place is not None:
                    late, place = await self._ledger.database.readers.run(late_streams, place, self.joined, _SLICE)
                    await self._join_late(late)
            except BaseException:
                self.incomplete = True
                raise
            if not self.incomplete:
                await keep(self._ledger, [(SUBSCRIPTIONS.set_joined_through, (through,))])
                self.joined = through
            return True

    async def _join_late(self, late: list[Late]) -> None:
        wanted = [
            (subscription, each)
            for each in late
            for subscription in await self._registry.found(each.name)
            if each.last_row > subscription.since_row
        ]
        pairs = [(subscription.number, each.name) for subscription, each in wanted]
        missing = await self._ledger.database.readers.run(missing_links, pairs) if pairs else []
        found = [wanted[place] for place in missing]
        looks = [(each.last_row, self._joined_for(subscription)) for subscription, each in found]
        firsts = await self._ledger.database.readers.run(first_seqs, looks)
        rows = []
        for (subscription, each), seq in zip(found, firsts, strict=True):
            state = await self._ledger.states.get(each.name)
            if isinstance(state, StreamState) and state.id == each.stream:
                rows.append(_row(Fresh(subscription, state, seq)))
        if rows:
            await keep(self._ledger, [(SUBSCRIPTIONS.join_links, (text_of(rows),))])
        for subscription, _ in found:
            if subscription.missed is None:
                subscription.missed = 0  # its new links are looked at
            self._ring(subscription)


def acked_before(state: StreamState, seq: int) -> str:
    """What counts as acknowledged when the entries from `seq` on are news."""
    return BEGINNING if seq == 0 else state.token(seq)


def _row(fresh: Fresh) -> tuple[object, ...]:
    state, seq = fresh.state, fresh.seq or 0
    if _inherited_is_news(fresh.subscription, state, seq):
        seq = 0
    return (fresh.subscription.number, *state.name, state.id, seq, acked_before(state, seq))


def _inherited_is_news(subscription: Subscription, state: StreamState, seq: int) -> bool:
    """Whether the first entry that a fork writes itself brings what it shares along: it is as new as the fork is. The
    clock decides, for making a fork leaves no log row; one that was set back tells of too much, or of the fork's own.
    """
    lineage = state.lineage
    return lineage is not None and seq <= lineage.fork_seq and state.created_us >= subscription.created_us


def _firsts(batch: Batch) -> dict[int, int]:
    """The first sequence that a batch brings to each of its streams."""
    rows = batch.writes.rows
    firsts: dict[int, int] = {}
    for at in range(0, len(rows), COLUMNS):
        firsts.setdefault(rows[at + _STREAM], rows[at + _SEQ])
    return firsts
