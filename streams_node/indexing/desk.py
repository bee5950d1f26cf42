"""Where index drivers come for work and bring it back: claim, renew, commit; and what there is to do."""

import asyncio
import contextlib
import secrets
import socket
import sqlite3
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import sql
from indexers.messages import Claim, ClaimRequest, CommitRequest, Failed, Merge, RenewRequest, StoreAt
from indexers.plan import Family
from streams_node.config.indexing import IndexSettings
from streams_node.errors import IndexRefused, LeaseEnded, StreamsError
from streams_node.indexing.commit import (
    Checked,
    Outcome,
    any_idle,
    check,
    commit,
    discard,
    discard_object,
    kill_idle,
    known,
    retire_unplanned,
)
from streams_node.indexing.failures import Failure, Failures, keep, kept
from streams_node.indexing.known import KnownCovers
from streams_node.indexing.leases import Finished, Lease, Leases
from streams_node.indexing.plans import plan_some
from streams_node.indexing.spans import Span, meeting, without
from streams_node.indexing.standing import Measured, Standing, measure
from streams_node.indexing.work import Claimed, Lacking, lacking, merges
from streams_node.objects import RetryingStore
from streams_node.objects.keys import Key, ObjectId, index_key
from streams_node.objects.threads import Threads
from streams_node.observe.logs import get_logger
from streams_node.placement.locate import Located
from streams_node.testing.crashpoints import crash_point
from streams_node.wal.database import Database

log = get_logger(__name__)
_INDEX = sql.queries("index")
_PLANS_AT_ONCE = 2000
_UNPLANNED_AT_ONCE = 200
_CANDIDATES = 512  # streams that one claim looks at
_PLACES_AT_ONCE = 8
_MERGES_MAX = 8  # in one claim
_INPUT_FAILURES_MAX = 3  # then an index object is given up, and what it covered is indexed again
_IDLE_AT_ONCE = 1000
_OUTLOOK_MAX = 5000  # streams that one look at what waits goes through
_REST_S = 10.0
_OPEN_END = 1 << 62

Locate = Callable[[int, int, int], Awaitable[list[Located]]]


class Outlook(NamedTuple):
    """What waits: for whoever starts a driver, and for people."""

    streams: int
    entries: int
    bytes: int
    oldest_s: float  # for how long the oldest of it has been waiting
    asked: bool  # somebody wants it now


class Sealed(NamedTuple):
    """Entries of a stream before `end` that are in an object from now on."""

    stream: int
    end: int
    entries: int
    bytes: int


class Parts(NamedTuple):
    """What the desk works with. `locate` finds the sealed objects of a stream from an entry on."""

    database: Database
    covers: KnownCovers
    settings: IndexSettings
    store: RetryingStore
    store_at: StoreAt | None  # none that a driver could reach
    threads: Threads
    locate: Locate
    now_us: Callable[[], int]


class Desk:
    """One a node. All of it belongs to the event loop."""

    def __init__(self, parts: Parts, clock: Callable[[], float] = time.monotonic) -> None:
        self._parts = parts
        self._database = parts.database
        self._covers = parts.covers
        self._settings = parts.settings
        self._clock = clock
        self.leases = Leases(parts.settings.index_lease_ms / 1000, clock)
        self.failures = Failures(clock, parts.now_us)
        self.counts: Counter[str] = Counter()
        self._streams: dict[int, Standing] = {}  # those with a plan
        self._later: dict[int, float] = {}  # due, but nothing of theirs can be used before a moment
        self._due: dict[int, None] = {}  # in the order in which they are served
        self._change = 0  # of the newest plan that is known here
        self._unmerged: tuple[int, ...] | None = None  # what was known when there was nothing to merge
        self._unmerged_until = 0.0
        self._restored = False  # what could not be used before this start is known
        self._unplanned: int | None = 0  # streams declared before there were plans: where to go on
        self._planning = asyncio.Lock()
        self._committing = asyncio.Lock()
        self._bell = asyncio.Event()
        self._ended = False
        self._watchers: dict[int, set[asyncio.Event]] = {}
        self.observe: Callable[[str, float], None] = lambda _stage, _seconds: None

    # --- drivers ---

    async def claim(self, request: ClaimRequest, wait_s: float) -> Claim | None:
        """Work for a driver; None when there is none for so long."""
        deadline = self._clock() + wait_s
        while True:
            bell = self._bell
            async with self._planning:
                found = await self._claimed(request)
            if found is not None:
                return found
            left_s = deadline - self._clock()
            if left_s <= 0 or self._ended:
                return None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await bell.wait()

    async def renew(self, request: RenewRequest) -> Lease:
        return self.leases.renew(request.claim, request.fence, request.done)

    async def commit(self, request: CommitRequest) -> Finished:
        """What came of a claim, once and for all: a driver that lost the answer may ask again."""
        async with self._committing:
            done = self.leases.finished(request.claim, request.fence)
            if done is not None:
                return done
            try:
                lease = self.leases.find(request.claim, request.fence)
            except LeaseEnded:
                made = tuple(each.made for each in request.objects)
                if await self._database.readers.run(_known, made):  # by a node that died before it could answer
                    return Finished(request.fence, sum(len(each.covers) for each in request.objects), 0)
                raise
            checked = check(request, lease)
            await self._require_parts(checked)
            lease = self.leases.find(request.claim, request.fence)
            outcome = await self._covers.change(commit, checked, self._parts.now_us())
            self.leases.finish(lease, outcome.covers, outcome.left_out)
            self.observe("index", self._clock() - lease.began)
        await self._after(lease, outcome, request)
        return Finished(request.fence, outcome.covers, outcome.left_out)

    def died(self, pid: int) -> None:
        """A driver of this machine has ended: what it was at need not wait for the end of its lease."""
        if self.leases.give_up(f"{socket.gethostname()}-{pid}-"):
            self._ring()

    # --- news ---

    def published(self, found: Iterable[Sealed]) -> None:
        """What a generation has brought into objects, of streams that have a plan."""
        rang = False
        for stream, end, entries, size in found:
            standing = self._streams.get(stream)
            if standing is None:
                continue
            standing.sealed_end = max(standing.sealed_end, end)
            standing.uncovered += entries
            standing.entry_bytes = size / max(entries, 1)
            rang = self._look(stream, standing) or rang
            self.changed(stream)
        if rang:
            self._ring()

    def knows(self, stream: int) -> bool:
        """Whether a stream has a plan."""
        return stream in self._streams

    @property
    def planned(self) -> int:
        return len(self._streams)

    async def follow(self) -> None:
        """Learn of plans that were made or changed."""
        async with self._planning:
            await self._follow()

    async def doubt(self, made: str, reason: str) -> None:
        """A reader could not use an index object: if it is not as it was put, what it covered is indexed again."""
        await self._input_failed(Failed(made=made, reason=reason))
        await self._keep_failures()

    # --- people ---

    async def rebuild(self, stream: int, families: list[Family], *, anew: bool) -> Measured | None:
        """Index all that is sealed and not covered, however little; `anew` forgets what is covered first."""
        await self.follow()
        if stream not in self._streams:
            return None
        if anew:
            await self._covers.change(discard, stream, families, self._parts.now_us())
        self._streams[stream].asked = True
        found = await self._measure([stream])
        self._ring()
        self.changed(stream)
        return found.get(stream)

    def outlook(self) -> Outlook:
        """What waits for a driver; of very many streams, the first ones stand for all.

        The node's own numbers wait for none: a node that nobody uses would start Java for them again and again.
        """
        now = self._clock()
        first = [self._streams[stream] for stream in islice(self._due, _OUTLOOK_MAX)]
        looked = [each for each in first if each.asked or not each.own]
        share = len(self._due) / max(1, len(first))
        return Outlook(
            round(share * len(looked)),
            int(share * sum(each.uncovered for each in looked)),
            int(share * sum(each.bytes for each in looked)),
            now - min((each.due_at for each in looked if each.due_at is not None), default=now),
            any(each.asked for each in looked),
        )

    @property
    def wanted(self) -> bool:
        """Whether there is enough to do to start a driver."""
        outlook, settings = self.outlook(), self._settings
        due = outlook.bytes > settings.index_due_bytes or outlook.oldest_s * 1000 > settings.index_due_ms
        return bool(outlook.streams) and (due or outlook.asked)

    @contextlib.contextmanager
    def watching(self, stream: int) -> Iterator[asyncio.Event]:
        """An event that is set whenever what is indexed of a stream may have changed."""
        bell = asyncio.Event()
        self._watchers.setdefault(stream, set()).add(bell)
        try:
            yield bell
        finally:
            bells = self._watchers[stream]
            bells.discard(bell)
            if not bells:
                del self._watchers[stream]

    def changed(self, stream: int) -> None:
        for bell in self._watchers.get(stream, ()):
            bell.set()

    async def tend(self) -> None:
        """What is to be done now and then: leases that ended, objects without covers, plans that changed."""
        await self.follow()
        if await self._database.readers.run(any_idle):
            await self._covers.change(kill_idle, self._parts.now_us(), _IDLE_AT_ONCE)

    def end(self) -> None:
        """The node stops: nobody waits for work any more."""
        self._ended = True
        self._ring()

    # --- planning ---

    async def _claimed(self, request: ClaimRequest) -> Claim | None:
        await self._follow()
        await self._expire()
        if self._parts.store_at is None:
            return None
        claimed = Claimed(request.bytes_max)
        merged: list[Merge] = []
        await self._gather(claimed)
        work = claimed.work()
        if not work:
            merged = await self._mergeable(request.bytes_max)
            work = list(merged)
        if not work:
            return None
        fence = await self._database.writer.run(_next_fence)
        crash_point("index.claim")
        lease = Lease(
            claim=secrets.token_hex(16),
            fence=fence,
            driver=request.driver,
            began=0,
            ends=0,
            bytes=claimed.source_bytes,
            work=len(work),
            builds=claimed.wanted,
            merges={tuple(each.made for each in merge.inputs): merge for merge in merged},
            sources=claimed.sources,
        )
        self.leases.grant(lease)
        self.counts["claims"] += 1
        return Claim(
            claim=lease.claim,
            fence=fence,
            lease_ms=self._settings.index_lease_ms,
            store=self._parts.store_at,
            meanings=claimed.meanings,
            work=work,
        )

    async def _mergeable(self, bytes_max: int) -> list[Merge]:
        """After a look at all objects that found nothing, another one comes with news, or with the end of a rest."""
        known = (self.counts["commits"], self.counts["given_up"], len(self.leases))
        if known == self._unmerged and self._clock() < self._unmerged_until:
            return []
        busy = {*self.leases.merging(), *self._resting()}
        found = await self._database.readers.run(
            merges, busy, bytes_max, self._settings.index_merge_bytes_max, _MERGES_MAX
        )
        self._unmerged = None if found else known
        self._unmerged_until = self._clock() + _REST_S
        return found

    async def _gather(self, claimed: Claimed) -> None:
        """Fresh entries before old ones; from each stream an object in turn."""
        self._wake()
        streams = list(islice(self._due, _CANDIDATES))
        if not streams:
            return
        lacks = await self._lacks(streams)
        walks: list[_Walk] = []
        for fresh in (True, False):
            walking = [walk for stream, lack in lacks.items() if (walk := self._walk(stream, lack, fresh=fresh)).spans]
            walks += walking
            while walking and not claimed.full:
                for walk in walking:
                    await self._step(walk, claimed)
                walking = [walk for walk in walking if walk.spans]
        served = {stream for stream, _ in claimed.wanted}
        left = {walk.stream for walk in walks if walk.spans or walk.crowded}
        resting = {walk.stream for walk in walks if walk.rests}
        for stream in streams:
            if stream not in self._due or (stream in left and stream not in served):
                continue  # those that had no room keep their place
            del self._due[stream]
            if stream in served:  # to the end of the queue
                self._due[stream] = None
            elif stream in resting:
                self._later[stream] = self._clock() + _REST_S
        await self._measure([stream for stream in streams if stream not in lacks])

    async def _lacks(self, streams: list[int]) -> dict[int, Lacking]:
        """What nobody is at yet."""
        found = await self._database.readers.run(lacking, self._ends(streams))
        lacks: dict[int, Lacking] = {}
        for stream, (meaning, wanted) in found.items():
            taken = {family: self.leases.taken(stream, family) for family in wanted}
            left = {family: rest for family, spans in wanted.items() if (rest := without(spans, taken[family]))}
            if left:
                lacks[stream] = Lacking(meaning, left)
        return lacks

    def _walk(self, stream: int, lack: Lacking, *, fresh: bool) -> "_Walk":
        border = self._streams[stream].fresh_from if stream in self._streams else 0
        spans = lack.spans(border, _OPEN_END) if fresh else lack.spans(0, border)
        return _Walk(self._parts.locate, stream, lack, spans)

    async def _step(self, walk: "_Walk", claimed: Claimed) -> None:
        """Take the stretches of one more object."""
        try:
            place = await walk.next()
        except StreamsError as problem:
            log.warning("entries that should be indexed cannot be found", stream=walk.stream, error=problem.message)
            walk.spans, walk.rests = [], True
            return
        if place is None:  # the rest is not sealed
            walk.spans = []
        elif self.failures.rests(place.facts.made):
            walk.rests = True
            walk.skip(place)
        elif claimed.fits(place.facts):
            claimed.take(walk.stream, walk.lacking, place, meeting(walk.spans, place.first_seq, place.end_seq))
            walk.skip(place)
        else:
            walk.spans, walk.crowded = [], True

    def _wake(self) -> None:
        """Streams whose objects could not be used are looked at again after a while."""
        now = self._clock()
        for stream in [stream for stream, at in self._later.items() if at <= now]:
            del self._later[stream]
            if stream in self._streams:
                self._look(stream, self._streams[stream])

    async def _follow(self) -> None:
        if not self._restored:
            self.failures.restore(await self._database.readers.run(kept))
            self._restored = True
        while self._unplanned is not None:
            self._unplanned = await self._database.writer.run(
                plan_some, self._unplanned, _UNPLANNED_AT_ONCE, self._parts.now_us()
            )
        while rows := await self._database.readers.run(_plans_after, self._change, _PLANS_AT_ONCE):
            self._change = rows[-1][0]
            await self._measure([stream for _, stream in rows], anew=True)
            for _, stream in rows:
                self.changed(stream)

    async def _measure(self, streams: list[int], *, anew: bool = False) -> dict[int, Measured]:
        """Look at streams anew; those that are gone, or have no plan any more, are forgotten."""
        ends = self._ends(streams)
        found = await self._database.readers.run(measure, ends) if ends else {}
        for stream in streams:
            seen = found.get(stream)
            if seen is None:
                self._streams.pop(stream, None)
                self._due.pop(stream, None)
                self._later.pop(stream, None)
                continue
            if seen.stale:
                await self._covers.change(retire_unplanned, stream, self._parts.now_us())
            standing = self._streams.get(stream)
            if standing is None:
                standing = self._streams[stream] = Standing(*seen[:5])
            else:
                standing.sealed_end = max(standing.sealed_end, seen.sealed_end)
                standing.uncovered, standing.entry_bytes = seen.uncovered, seen.entry_bytes
                if anew:
                    standing.fresh_from = seen.fresh_from
            if not standing.uncovered:
                standing.asked = False
            self._look(stream, standing)
        return found

    def _ends(self, streams: Iterable[int]) -> dict[int, int]:
        """How far streams are sealed, as far as that is known here."""
        return {stream: self._streams[stream].sealed_end if stream in self._streams else 0 for stream in streams}

    def _look(self, stream: int, standing: Standing) -> bool:
        """Whether a stream is due by now."""
        settings = self._settings
        due = standing.uncovered > 0 and (
            standing.asked
            or standing.uncovered >= settings.index_stream_entries
            or standing.bytes >= settings.index_stream_bytes
        )
        if due:
            if stream not in self._later:
                self._due.setdefault(stream, None)
            if standing.due_at is None:
                standing.due_at = self._clock()
        else:
            self._due.pop(stream, None)
            self._later.pop(stream, None)
            standing.due_at = None
        return due

    async def _expire(self) -> None:
        for lease in self.leases.ended():
            self.counts["leases_ended"] += 1
            log.warning("an index driver was not heard of in time", driver=lease.driver, claim=lease.claim)
            await self._measure(sorted(lease.streams()))

    # --- commits ---

    async def _require_parts(self, checked: Checked) -> None:
        """Everything that is to be indexed by is in the store, and of its size."""
        parts = list(checked.parts())
        seen = await asyncio.gather(*(self._parts.threads.run(self._parts.store.head, key) for key, _ in parts))
        for (key, size), stored in zip(parts, seen, strict=True):
            if stored is None:
                raise IndexRefused(f"the object store has no `{key}`")
            if stored.size != size:
                raise IndexRefused(f"`{key}` has {stored.size} bytes in the object store, not {size}")

    async def _after(self, lease: Lease, outcome: Outcome, request: CommitRequest) -> None:
        self.counts["commits"] += 1
        self.counts["covers"] += outcome.covers
        for failed in request.failed:
            self.counts["failed"] += 1
            if failed.made in lease.sources:
                self.failures.add(failed.made, failed.reason)
            elif any(failed.made in inputs for inputs in lease.merges):
                await self._input_failed(failed)
        for made in lease.sources - {failed.made for failed in request.failed}:
            self.failures.forget(made)
        await self._keep_failures()
        streams = lease.streams() | outcome.streams
        await self._measure(sorted(streams))
        for stream in streams:
            self.changed(stream)
        self._ring()

    async def _input_failed(self, failed: Failed) -> None:
        """Give an index object up that is not as it was put, or that nobody can use.

        One that a driver's memory was too small to merge stays: it serves, and made anew it would be as large.
        """
        made, reason = failed.made, failed.reason
        failure = self.failures.add(made, reason)
        row = await self._database.readers.run(_index_object, made)
        if row is None:
            return
        family, size = row
        key = index_key(family, ObjectId(made))
        if (failed.ended or failure.count < _INPUT_FAILURES_MAX) and await self._is_there(key, size):
            return
        log.warning("an index object is given up; what it covered is indexed again", object=made, reason=reason)
        self.counts["given_up"] += 1
        streams = await self._covers.change(discard_object, made, self._parts.now_us())
        self.failures.forget(made)
        await self._measure(sorted(streams))
        for stream in streams:
            self.changed(stream)
        self._ring()

    async def _keep_failures(self) -> None:
        """For the next start: until then what is in memory counts."""
        if self.failures.changed:
            await self._database.writer.run(keep, self.failures.rows())

    async def _is_there(self, key: Key, size: int) -> bool:
        try:
            stored = await self._parts.threads.run(self._parts.store.head, key)
        except StreamsError:
            return True  # nobody can say now
        return stored is not None and stored.size == size

    def _resting(self) -> set[str]:
        return {failure.made for failure in self.failures.listed() if self.failures.rests(failure.made)}

    def _ring(self) -> None:
        bell, self._bell = self._bell, asyncio.Event()
        bell.set()

    def failed(self) -> list[Failure]:
        return self.failures.listed()


class _Walk:
    """Through the objects that hold what one stream lacks, in order."""

    def __init__(self, locate: Locate, stream: int, lack: Lacking, spans: list[Span]) -> None:
        self._locate = locate
        self.stream = stream
        self.lacking = lack
        self.spans = spans
        self.rests = False  # an object of it is not to be tried yet
        self.crowded = False  # there was no room for it any more
        self._places: list[Located] = []

    async def next(self) -> Located | None:
        """The object with the first entry that is left; None when it is not sealed."""
        seq = self.spans[0][0]
        self._places = [place for place in self._places if place.end_seq > seq]
        if not self._places or self._places[0].first_seq > seq:
            self._places = await self._locate(self.stream, seq, _PLACES_AT_ONCE)
        return self._places[0] if self._places else None

    def skip(self, place: Located) -> None:
        """It has been looked at."""
        self.spans = without(self.spans, [(0, place.end_seq)])


def _next_fence(db: sqlite3.Connection) -> int:
    row = db.execute(_INDEX.next_fence).fetchone()
    return int(row[0])


def _plans_after(db: sqlite3.Connection, after: int, limit: int) -> list[tuple[int, int]]:
    rows = db.execute(_INDEX.plans_after, {"after": after, "limit": limit})
    return [(change, stream) for change, stream, _, _, _ in rows]


def _known(db: sqlite3.Connection, made: tuple[str, ...]) -> bool:
    return bool(made) and known(db, made)


def _index_object(db: sqlite3.Connection, made: str) -> tuple[Family, int] | None:
    row = db.execute(_INDEX.index_object, (made,)).fetchone()
    return None if row is None or row[-1] is not None else (row[2], row[4])
