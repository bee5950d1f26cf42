"""States of streams by name: an LRU with a byte cap, filled on demand, many names in one hop to the database."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from typing_extensions import override

from streams_node.ingest.state import StreamState
from streams_node.meaning import Meaning, Stored
from streams_node.wal.lineage import Lineage
from streams_node.wal.lookup import Found, FoundBucket, Name

if TYPE_CHECKING:
    from streams_node.ingest.batches import Batch

# Pinned states that one eviction looks past before it lets the cache stand above its cap, and what may come before it
# looks again after it found no other. Appends to ever other streams leave little else until heads are written: looking
# past 8 with each of them was a tenth of the loop's time at a million streams.
_PASSES = 8
_REST = 64
_GATHER_PASSES = 3
_GATHER_NAMES = 32
_BUCKET_PASSES = 64
_BUCKETS_MAX = 10_000
T = TypeVar("T")


class Shared(asyncio.Future[T]):
    """A result that many requests wait for: one of them being cancelled must not cancel it."""

    @override
    def cancel(self, msg: Any | None = None) -> bool:
        return False


@dataclass(slots=True)
class Bucket:
    """A bucket as decided. `streams` counts what will be there when everything decided is stored."""

    id: int
    name: str
    streams: int
    created_us: int
    alive: bool


@dataclass(slots=True)
class Absent:
    """No such stream; if the name lived before, the epoch it died in."""

    dead_epoch: int | None


class Loaded(NamedTuple):
    """What a load found of a name, and what its entries mean, if that was ever declared."""

    found: Found
    meaning: Meaning | None


class Load:
    """A load of one name, and who waits for it: requests that have a coroutine by a future, the others by a call."""

    __slots__ = ("_future", "calls", "forgotten", "name")

    def __init__(self, name: Name, forgotten: int) -> None:
        self.name = name
        self.forgotten = forgotten  # the cache's count when it was asked for: what it brings may be outdated since
        self.calls: list[Callable[[], None]] = []
        self._future: asyncio.Future[Loaded] | None = None

    def future(self, loop: asyncio.AbstractEventLoop) -> "asyncio.Future[Loaded]":
        if self._future is None:
            self._future = Shared(loop=loop)
        return self._future

    def end(self, loaded: "Loaded") -> None:
        if self._future is not None:
            self._future.set_result(loaded)
        for call in self.calls:
            call()

    def fail(self, problem: Exception) -> None:
        """Those that wait for a call come back, and are told when they ask again."""
        if self._future is not None:
            self._future.set_exception(problem)
            self._future.exception()
        for call in self.calls:
            call()


class StateCache:
    """The states in memory. A pinned state never leaves; the others leave oldest first."""

    def __init__(
        self,
        bytes_max: int,
        load: Callable[[list[Name]], Awaitable[list[Found]]],
        understand: Callable[[Stored], Awaitable[Meaning]],
    ) -> None:
        self._states: OrderedDict[Name, StreamState] = OrderedDict()
        self._bytes_max = bytes_max
        self._load = load
        self._understand = understand
        self._waiting: dict[Name, Load] = {}  # loads that may still be joined
        self._wanted: list[Load] = []  # loads that have not begun
        self._forgotten = 0  # how often something left that a load under way may have read in an older form
        self._loading: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._rest = 0  # so many states may come before the next eviction
        self.bytes = 0
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[StreamState]:
        return iter(self._states.values())

    def peek(self, name: Name) -> StreamState | None:
        """The state if it is in memory; a use, so it leaves last."""
        state = self._states.get(name)
        if state is None:
            return None
        self.hits += 1
        self._states.move_to_end(name)
        return state

    def put(self, state: StreamState) -> None:
        old = self._states.pop(state.name, None)
        if old is not None:
            self.bytes -= old.charged
        self._states[state.name] = state
        state.charged = 0
        self.weigh(state)

    def weigh(self, state: StreamState) -> None:
        """Charge a state for what it holds now; its producers may have become more."""
        if self._states.get(state.name) is not state:
            return
        size = state.size
        self.bytes += size - state.charged
        state.charged = size
        if self.bytes > self._bytes_max:
            self._evict(keep=state)

    def drop(self, state: StreamState) -> None:
        """Forget a state, unless its name has a new life already."""
        if self._states.get(state.name) is state:
            self._leave(state)

    def clear(self) -> list[StreamState]:
        """Forget everything; returns what was there."""
        states = list(self._states.values())
        self._states.clear()
        self._waiting.clear()
        self._forgotten += 1
        self.bytes = 0
        return states

    async def get(self, name: Name) -> StreamState | Absent:
        """The state of a name, loaded if need be. Nothing about an absent name is kept."""
        state = self.peek(name)
        while state is None:
            forgotten = self._forgotten
            loaded = await self._found(name)
            state = self._states.get(name)  # somebody may have loaded or created it meanwhile
            if state is None and forgotten == self._forgotten:
                return self._loaded(name, loaded)
        return state

    def _loaded(self, name: Name, loaded: "Loaded") -> StreamState | Absent:
        found, meaning = loaded
        if found.config is None or found.head is None or found.bucket is None:
            return Absent(found.dead_epoch)
        state = StreamState(name, found.bucket, found.config, found.head, found.producers, found.later_epochs, meaning)
        if found.source_name is not None and found.config.source is not None:
            config = found.config
            state.lineage = Lineage(found.config.source, found.source_name, config.fork_seq or 0, config.fork_sub or 0)
        self._states[name] = state
        state.charged = state.size
        self.bytes += state.charged
        if self.bytes > self._bytes_max:
            self._evict(keep=state)
        return state

    def load_soon(self, name: Name, then: Callable[[], None]) -> None:
        """Load a name that is not in memory, and call `then`. The state is in memory then, unless there is none, or it
        could not be loaded, or is not what it was: who needs to know asks again with `get`.
        """
        self._load_of(name).calls.append(then)

    async def _found(self, name: Name) -> "Loaded":
        # A task that waits for what cannot be cancelled would not be woken by its time limit.
        return await asyncio.shield(self._load_of(name).future(self._loop))

    def _load_of(self, name: Name) -> Load:
        load = self._waiting.get(name)
        if load is None:
            self.misses += 1
            load = self._waiting[name] = Load(name, self._forgotten)
            self._wanted.append(load)
            if self._loading is None:
                self._loading = self._loop.create_task(self._load_wanted(), name="load-states")
        return load

    async def _load_wanted(self) -> None:
        """One load after the other: they have one thread, and what comes meanwhile shares the next one's snapshot.

        As with commits, what the loop holds already may join a small one: each load looks through the upper pages anew.
        """
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted, []
                await self._load_all(wanted)
                for _ in range(_GATHER_PASSES):
                    if len(self._wanted) >= _GATHER_NAMES:
                        break
                    await asyncio.sleep(0)
        finally:
            self._loading = None

    async def _load_all(self, wanted: list[Load]) -> None:
        try:
            results = [
                Loaded(found, await self._meaning(found) if found.declared is not None else None)
                for found in await self._load([load.name for load in wanted])
            ]
        except Exception as problem:  # noqa: BLE001 - handed to everybody who waits for it
            for load in wanted:
                self._close(load)
                load.fail(problem)
            return
        for load, loaded in zip(wanted, results, strict=True):
            self._close(load)
            if load.calls and load.forgotten == self._forgotten and load.name not in self._states:
                self._loaded(load.name, loaded)
            load.end(loaded)

    async def _meaning(self, found: Found) -> Meaning | None:
        """What was declared of a stream, made ready while its load can still be told to be outdated."""
        if found.config is None or found.declared is None:
            return None
        registry, config = found.declared
        return await self._understand(Stored(registry, found.config.profile, config))

    def _close(self, load: Load) -> None:
        """Nobody joins this load any more."""
        if self._waiting.get(load.name) is load:
            del self._waiting[load.name]

    def _leave(self, state: StreamState) -> None:
        """Take a state out. A load of its name that is under way may have read what was before it: it is made again."""
        del self._states[state.name]
        self.bytes -= state.charged
        if self._waiting.pop(state.name, None) is not None:
            self._forgotten += 1

    def _evict(self, *, keep: StreamState) -> None:
        """Make room, but never with the state that has just come: others may wait for the same load, and there must be
        one state a stream, or two requests would decide on the same sequence numbers.
        """
        if self._rest:
            self._rest -= 1
            return
        fruitless = True
        for _ in range(_PASSES):
            if self.bytes <= self._bytes_max or not self._states:
                return
            name, state = next(iter(self._states.items()))
            if state is keep or state.pinned():
                self._states.move_to_end(name)
            else:
                self._leave(state)
                fruitless = False
        self._rest = _REST if fruitless else 0


class BucketCache:
    """Buckets by name, as decided. `moving` has the last batch that changes a bucket: a load waits for it."""

    def __init__(self, load: Callable[[str], Awaitable[FoundBucket | None]], *, newest: int) -> None:
        self._load = load
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()
        self.newest = newest
        self._cleared = 0
        self.moving: dict[int, Batch] = {}

    def peek(self, name: str) -> Bucket | None:
        return self._buckets.get(name)

    async def get(self, name: str) -> Bucket | None:
        """The bucket, dead or alive; None when the name was never used."""
        while True:
            bucket = self._buckets.get(name)
            if bucket is not None:
                self._buckets.move_to_end(name)
                return bucket
            cleared = self._cleared
            found = await self._load(name)
            if name in self._buckets or cleared != self._cleared:
                continue
            if found is None:
                return None
            batch = self.moving.get(found.bucket)
            if batch is None or batch.settled:
                return self._put(Bucket(found.bucket, name, found.streams, found.created_us, bool(found.alive)))
            await batch.settling

    async def stored(self, name: str) -> Bucket | None:
        """The bucket once everything decided about it is on disk: an answer may rest on it."""
        bucket = await self.get(name)
        batch = None if bucket is None else self.moving.get(bucket.id)
        if batch is None or batch.settled:
            return bucket
        await batch.settling
        return await self.get(name)

    def create(self, name: str, now_us: int) -> Bucket:
        """A new bucket, decided and not stored yet."""
        self.newest += 1
        return self._put(Bucket(self.newest, name, 0, now_us, alive=True))

    def clear(self, newest: int) -> None:
        self._buckets.clear()
        self.moving.clear()
        self._cleared += 1
        self.newest = newest

    def _put(self, bucket: Bucket) -> Bucket:
        self._buckets[bucket.name] = bucket
        if len(self._buckets) > _BUCKETS_MAX:
            self._evict()
        return bucket

    def _evict(self) -> None:
        self.moving = {id_: batch for id_, batch in self.moving.items() if not batch.settled}
        for name, old in list(self._buckets.items())[:_BUCKET_PASSES]:
            if old.id not in self.moving:
                del self._buckets[name]
