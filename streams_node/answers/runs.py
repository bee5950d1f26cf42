"""Open index objects: fetched when they are first asked for, checked as they come, and read by threads one at a time.

A run that cannot be read now is left out, and whoever asked goes to the entries instead. It is left alone for a while,
so that an answer does not wait for it again and again; one that is damaged or gone is told to `on_doubt`.
"""

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, TypeVar

import xxhash

from streams_node.cache import Cache
from streams_node.errors import ObjectDamaged, ObjectMissing, Overloaded, StoreCorrupt, StoreError, StreamsError
from streams_node.indexing import Covering
from streams_node.objects.keys import Key, ObjectId, index_filter_key, index_key
from streams_node.observe.logs import get_logger

if TYPE_CHECKING:  # they load pyarrow, which a node without indexes need not do
    from indexers.exact import Filter
    from indexers.runs import RunReader

log = get_logger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
_THREADS = 2
_WAITING_MAX = 256  # looks that wait for a thread; beyond it, reads go to the entries
_IDLE_MAX = 64  # open runs; each keeps a row group in memory, about a megabyte at most
_FETCHES_AT_ONCE = 4  # for one answer
_FILTERS_BYTES_MAX = 16 << 20
_AWAY_S = 2.0
_DOUBTED_S = 30.0
_SHUNNED_MAX = 1024


class IndexFacts(NamedTuple):
    """An immutable index object, or the filter beside one, as a cache wants to know it."""

    made: str
    bytes: int
    sum: str  # xxh3_128, hexadecimal
    where: Key
    stream: int | None = None  # of many

    def key(self) -> Key:
        """Where it lies in the bucket."""
        return self.where

    def digest(self) -> tuple[xxhash.xxh3_128, str]:
        """A hash that has seen nothing yet, and what the object's bytes make of it."""
        return xxhash.xxh3_128(), self.sum


def run_of(cover: Covering) -> IndexFacts:
    """The object of a cover."""
    return IndexFacts(cover.made, cover.bytes, cover.sum, index_key(cover.family, ObjectId(cover.made)))


def filter_of(cover: Covering) -> IndexFacts:
    """The filter beside it."""
    where = index_filter_key(ObjectId(cover.made))
    return IndexFacts(f"{cover.made}.filter", cover.filter_bytes, cover.filter_sum, where)


@dataclass(slots=True)
class RunCounts:
    """Since the start. `looks` in runs; `opened` of them; `doubted` were damaged or gone, `away` not to be had."""

    looks: int = 0
    opened: int = 0
    doubted: int = 0
    away: int = 0


class Taken(NamedTuple):
    """Open runs by their objects; how long fetching and opening them took, in seconds."""

    readers: "dict[str, RunReader]"
    get_s: float
    open_s: float


class Runs:
    """Made once; all methods but the helpers of threads belong to the event loop."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="index-read")
        self._waiting = 0
        self._lock = threading.Lock()
        self._idle: OrderedDict[str, list[RunReader]] = OrderedDict()
        self._idle_count = 0
        self._filters: OrderedDict[str, tuple[Filter, int]] = OrderedDict()
        self._shunned: OrderedDict[str, float] = OrderedDict()
        self.filter_bytes = 0
        self.counts = RunCounts()
        self.on_doubt: Callable[[str, str], None] = _nobody_asks
        cache.on_gone = self._drop

    def usable(self, made: str) -> bool:
        """False: it was tried a moment ago, and could not be read."""
        return time.monotonic() >= self._shunned.get(made, 0.0)

    def all_usable(self) -> bool:
        """Whether that is so of all of them: mostly there is nothing to look up."""
        if self._shunned:
            now = time.monotonic()
            self._shunned = OrderedDict((made, until) for made, until in self._shunned.items() if until > now)
        return not self._shunned

    async def read(
        self, objects: Sequence[IndexFacts], family: str, work: "Callable[[Mapping[str, RunReader]], T]"
    ) -> tuple[T, Taken]:
        """What a thread makes of open runs, by their objects. Those that cannot be read are not among them."""
        fresh: set[str] = set()  # fetched anew, as their copies were damaged
        while True:
            taken = await self._taken([facts for facts in objects if self.usable(facts.made)], family)
            try:
                return await self.run(self._work, work, taken.readers), taken
            except _Damaged as problem:
                facts = next(facts for facts in objects if facts.made == problem.made)
                if facts.made in fresh:
                    self._doubt(facts.made, problem.reason)
                else:
                    fresh.add(facts.made)
                    log.warning("a copy of an index object was damaged", object=facts.made, error=problem.reason)
                    await self.cache.drop(facts.made, damaged=True)

    async def filter(self, facts: IndexFacts) -> "Filter | None":
        """The filter beside an exact run; None when it cannot be had."""
        known = self._filters.get(facts.made)
        if known is not None:
            self._filters.move_to_end(facts.made)
            return known[0]
        if not facts.bytes or not self.usable(facts.made):
            return None
        made = await self._attempt(facts, self._load_filter)
        if made is not None and facts.made not in self._filters:
            self._filters[facts.made] = made, facts.bytes
            self.filter_bytes += facts.bytes
            while self.filter_bytes > _FILTERS_BYTES_MAX and len(self._filters) > 1:
                _, (_, size) = self._filters.popitem(last=False)
                self.filter_bytes -= size
        return made

    async def whole(self, facts: IndexFacts, opened: Callable[[Path], T]) -> T | None:
        """What a thread makes of a whole object of any family; None when it cannot be read now."""

        def attempt(path: Path) -> T:
            from indexers.runs import IndexDamaged  # noqa: PLC0415 - see above

            try:
                return opened(path)
            except (IndexDamaged, OSError) as problem:
                raise _Damaged(facts.made, str(problem)) from problem

        return await self._attempt(facts, attempt)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """In one of the few threads; a long queue refuses."""
        if self._waiting >= _WAITING_MAX:
            raise Overloaded("the queue of looks into indexes is full; try again")
        self._waiting += 1
        future = self._pool.submit(work, *args, **kwargs)
        try:
            return await asyncio.wrap_future(future)
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)
        for made in list(self._idle):
            self._drop(made)

    # --- opening ---

    async def _taken(self, objects: Sequence[IndexFacts], family: str) -> Taken:
        """Open what can be opened, several at once."""
        some = asyncio.Semaphore(_FETCHES_AT_ONCE)
        readers: dict[str, RunReader] = {}
        opening = 0.0

        async def one(facts: IndexFacts) -> None:
            nonlocal opening

            def opened(path: Path) -> "tuple[RunReader, float]":
                began = time.monotonic()
                return _open(path, facts.made, family), time.monotonic() - began

            async with some:
                found = await self._attempt(facts, opened)
                if found is not None:
                    readers[facts.made] = found[0]
                    opening += found[1]
                    self.counts.opened += 1

        began = time.monotonic()
        try:
            for facts in objects:
                if (reader := self._take(facts.made)) is not None:
                    readers[facts.made] = reader
                    self.cache.touch(facts.made)
            closed = [facts for facts in objects if facts.made not in readers]
            await asyncio.gather(*map(one, closed))
        except BaseException:
            self._give(readers)
            raise
        self.counts.looks += len(readers)
        return Taken(readers, max(0.0, time.monotonic() - began - opening), opening)

    async def _attempt(self, facts: IndexFacts, opened: Callable[[Path], T]) -> T | None:
        """What a thread makes of the whole object; once more from a new copy if that one is damaged. None: not now."""
        reason = ""
        for _ in range(2):
            try:
                async with self.cache.held(facts) as path:
                    return await self.run(opened, path)
            except _Damaged as problem:  # since it was checked
                reason = problem.reason
                await self.cache.drop(facts.made, damaged=True)
            except (ObjectDamaged, ObjectMissing, StoreCorrupt) as problem:
                reason = problem.message
                break
            except (StoreError, Overloaded) as problem:
                self._shun(facts.made, _AWAY_S)
                self.counts.away += 1
                log.info("an index object cannot be had", object=facts.made, error=problem.message)
                return None
        self._doubt(facts.made, reason)
        return None

    def _doubt(self, made: str, reason: str) -> None:
        """What it covers is not covered, as long as it is as it is."""
        log.error("an index object cannot be read", object=made, error=reason)
        self.counts.doubted += 1
        self._shun(made, _DOUBTED_S)
        self._drop(made)
        gone = self._filters.pop(f"{made.removesuffix('.filter')}.filter", None)
        self.filter_bytes -= 0 if gone is None else gone[1]
        self.on_doubt(made.removesuffix(".filter"), reason)

    def _shun(self, made: str, seconds: float) -> None:
        self._shunned[made] = time.monotonic() + seconds
        self._shunned.move_to_end(made)
        while len(self._shunned) > _SHUNNED_MAX:
            self._shunned.popitem(last=False)

    # --- in threads ---

    def _work(self, work: "Callable[[Mapping[str, RunReader]], T]", readers: "dict[str, RunReader]") -> T:
        """It gives back what it was given, or closes it: whoever waits may have left."""
        from indexers.runs import IndexDamaged  # noqa: PLC0415 - see above

        try:
            made = work(readers)
        except BaseException as problem:
            for reader in readers.values():
                reader.close()
            if isinstance(problem, IndexDamaged) and problem.name in readers:
                raise _Damaged(problem.name, problem.reason) from problem
            raise
        self._give(readers)
        return made

    def _load_filter(self, path: Path) -> "Filter":
        from indexers.exact import Filter  # noqa: PLC0415
        from indexers.runs import IndexDamaged  # noqa: PLC0415

        try:
            return Filter(path.read_bytes(), name=path.name)
        except (IndexDamaged, OSError) as problem:
            raise _Damaged(path.name, str(problem)) from problem

    def _take(self, made: str) -> "RunReader | None":
        with self._lock:
            readers = self._idle.get(made)
            if not readers:
                return None
            self._idle_count -= 1
            reader = readers.pop()
            if not readers:
                del self._idle[made]
            return reader

    def _give(self, readers: "Mapping[str, RunReader]") -> None:
        with self._lock:
            for made, reader in readers.items():
                self._idle.setdefault(made, []).append(reader)
                self._idle.move_to_end(made)
                self._idle_count += 1
            while self._idle_count > _IDLE_MAX:
                made, gone = next(iter(self._idle.items()))
                gone.pop(0).close()
                self._idle_count -= 1
                if not gone:
                    del self._idle[made]

    def _drop(self, made: str) -> None:
        """Close what is idle: the object is gone, or its copy. What is in use is closed as it ends, or soon after."""
        with self._lock:
            readers = self._idle.pop(made, [])
            self._idle_count -= len(readers)
            for reader in readers:
                reader.close()


class _Damaged(Exception):
    """The copy on the disk cannot be read: the object itself may be whole."""

    def __init__(self, made: str, reason: str) -> None:
        super().__init__(made, reason)
        self.made = made
        self.reason = reason


def _open(path: Path, made: str, family: str) -> "RunReader":
    from indexers.exact import Exact  # noqa: PLC0415
    from indexers.lexicon import Lexicon  # noqa: PLC0415
    from indexers.metrics import Metrics  # noqa: PLC0415
    from indexers.rollups import Rollups  # noqa: PLC0415
    from indexers.runs import IndexDamaged  # noqa: PLC0415

    kinds: dict[str, Callable[..., RunReader]] = {
        "lexicon": Lexicon, "exact": Exact, "rollups": Rollups, "metrics": Metrics,
    }  # fmt: skip
    try:
        return kinds[family](path, name=made)
    except (IndexDamaged, OSError) as problem:
        raise _Damaged(made, str(problem)) from problem


def _nobody_asks(_made: str, _reason: str) -> None:
    """Until there is somebody who can have it made again."""


UNUSABLE = (StreamsError, TimeoutError)  # why an index says nothing; the entries do
