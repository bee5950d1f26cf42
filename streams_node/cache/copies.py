"""The cache as readers see it: runs on the event loop, which owns every count; files are touched in threads."""

import asyncio
import contextlib
import errno
import tempfile
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, ParamSpec, Self, TypeVar

from streams_node.cache import fetch
from streams_node.cache.fetch import Facts, Source
from streams_node.cache.listing import Listed, file_name, listed, part_name
from streams_node.cache.shelf import Copy, Shelf
from streams_node.cache.turns import Turn, Turns
from streams_node.errors import ObjectDamaged, Overloaded, ShortHere, StoreError
from streams_node.observe.logs import get_logger
from streams_node.testing.crashpoints import crash_point

log = get_logger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
_Bytes = bytes  # `Cache.bytes` is a number
_RANGES_AT_ONCE = 4  # of one object; more gained nothing on a line that they share
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_AHEAD_SHARE = 4  # a copy that is only likely to be wanted takes at most this part of the room
_FILE_THREADS = 2  # for what is done to files here: it never waits behind a store that hangs
_STILL_MAX = 24  # requests, or objects, that stand still beside those that get on


class Limits(NamedTuple):
    """`threads` requests get on at once; `waiting_max` objects may be on their way, beyond it readers are refused."""

    bytes_max: int
    threads: int
    waiting_max: int = 64


@dataclass(slots=True)
class CacheCounts:
    """Since the start. `filled_bytes` came from the store; `damaged` copies were dropped, `homeless` never kept."""

    hits: int = 0
    fills: int = 0
    filled_bytes: int = 0
    evictions: int = 0
    damaged: int = 0
    homeless: int = 0


class Cache:
    """Made by `open`. All methods belong to one event loop."""

    def __init__(self, folder: Path, source: Source, limits: Limits, *, local: Path | None = None) -> None:
        self._folder = folder
        self._source = source
        self._limits = limits
        self._local = local
        self._shelf = Shelf(limits.bytes_max)
        self._number = 0
        self._coming: dict[str, _Coming] = {}
        self._errands: set[asyncio.Future[None]] = set()
        self._turns = Turns(limits.threads, _STILL_MAX)  # of objects,
        self._requests = Turns(limits.threads, _STILL_MAX)  # and of requests for parts of them
        self._askers = ThreadPoolExecutor(limits.threads + _STILL_MAX, thread_name_prefix="cold-fetch")
        self._pool = ThreadPoolExecutor(_FILE_THREADS, thread_name_prefix="cold-file")
        self.counts = CacheCounts()
        self.on_gone: Callable[[str], None] = _nobody_asks  # a copy left: whoever has it open may let go of it

    @classmethod
    async def open(cls, folder: Path, source: Source, limits: Limits, *, local: Path | None = None) -> Self:
        """`local` is the root of a folder store: its objects lie there as files, under their keys."""
        cache = cls(folder, source, limits, local=local)
        cache._know(await cache._run(listed, folder))
        return cache

    @property
    def bytes(self) -> int:
        return self._shelf.bytes

    @property
    def objects(self) -> int:
        return len(self._shelf)

    @property
    def fetching(self) -> int:
        return len(self._coming)

    def has(self, made: str) -> bool:
        return self._shelf.peek(made) is not None

    def size_of(self, made: str) -> int:
        """Of the copy of an object; 0 when there is none."""
        copy = self._shelf.peek(made)
        return 0 if copy is None else copy.size

    def touch(self, made: str) -> None:
        """An object is being read from a file that is still open: its copy leaves last."""
        if self._shelf.use(made) is not None:
            self.counts.hits += 1

    @asynccontextmanager
    async def held(self, facts: Facts, *, at_leisure: bool = False) -> AsyncIterator[Path]:
        """The object as a file, fetched if need be; it stays while the block runs.

        `at_leisure`: nobody waits for it, so one request at a time is enough, and readers have the others.
        """
        copy = self._shelf.use(facts.made)
        if copy is not None and copy.verified:
            self.counts.hits += 1
            copy.pins += 1
        else:
            copy = await self._arrived(facts, at_leisure=at_leisure)
        try:
            yield copy.path
        finally:
            self._unpin(copy)

    async def ending(self, facts: Facts, size: int) -> _Bytes:
        """The last bytes of an object, straight from the store: for footers of objects that nobody reads yet."""
        return await self._ask(fetch.ending, self._source, facts, min(size, facts.bytes))

    async def beginning(self, facts: Facts, size: int) -> _Bytes:
        """The first bytes of an object, straight from the store: what one says of itself that may not be needed."""
        return await self._ask(fetch.beginning, self._source, facts, min(size, facts.bytes))

    def ahead(self, facts: Facts) -> None:
        """Fetch an object that is likely to be wanted; not while others wait, and never a large part of the room."""
        if (
            not self.has(facts.made)
            and facts.made not in self._coming
            and len(self._coming) < (self._limits.threads + 1) // 2
            and facts.bytes <= self._limits.bytes_max // _AHEAD_SHARE
        ):
            self._begin(facts).hurry()

    async def adopt(self, made: str, file: Path) -> bool:
        """Take a file that was just uploaded, by rename; False if that failed, and the file is where it was."""
        path = self._folder / file_name(made, self._next())
        try:
            size = await self._run(_moved, file, path)
        except OSError as problem:
            log.info("an uploaded file could not be kept as a copy", object=made, error=str(problem))
            return False
        self._remove(self._shelf.put(Copy(made, path, size, verified=True)), evicted=True)
        return True

    async def drop(self, made: str, *, damaged: bool = False) -> None:
        """Forget the copy of an object: its bytes are not right, or the object is gone."""
        copy = self._shelf.take(made)
        if copy is not None:
            self.counts.damaged += damaged
            self._remove([copy])

    async def close(self) -> None:
        """Fetches under way end with their present request."""
        tasks = [coming.task for coming in self._coming.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._errands, return_exceptions=True)
        self._askers.shutdown(wait=False, cancel_futures=True)
        self._pool.shutdown(wait=False, cancel_futures=True)

    # --- one fetch an object ---

    async def _arrived(self, facts: Facts, *, at_leisure: bool) -> Copy:
        """The copy that the one fetch of an object makes, pinned. Giving up leaves the fetch running."""
        coming = self._coming.get(facts.made)
        if coming is None:
            if len(self._coming) >= self._limits.waiting_max:
                raise Overloaded(f"{len(self._coming)} sealed objects are being fetched; try again")
            coming = self._begin(facts)
        if not at_leisure:
            coming.hurry()
        coming.waiters += 1
        try:
            return await asyncio.shield(coming.task)
        except asyncio.CancelledError:
            coming.waiters -= 1
            if coming.copy is not None:  # it came at the moment when its reader left
                self._unpin(coming.copy)
            raise

    def _begin(self, facts: Facts) -> "_Coming":
        coming = self._coming[facts.made] = _Coming()
        coming.task = asyncio.get_running_loop().create_task(self._arrive(facts, coming), name=f"fetch-{facts.made}")
        coming.task.add_done_callback(_seen)
        return coming

    async def _arrive(self, facts: Facts, coming: "_Coming") -> Copy:
        """Bring the copy, and pin it for each reader that waits: nothing may take it before they run."""
        try:
            async with self._turns.one() as coming.turn:
                copy = await self._brought(facts)
            copy.pins += coming.waiters
            coming.copy = copy
            if copy.kept and self._shelf.peek(facts.made) is not copy:
                self._remove(self._shelf.put(copy), evicted=True)
                crash_point("cache.filled")
            self._unpin(copy)
            return copy
        except StoreError as failure:
            log.warning("a sealed object could not be fetched", object=facts.made, error=failure.message)
            raise
        finally:
            del self._coming[facts.made]

    async def _brought(self, facts: Facts) -> Copy:
        """The copy that is there, if its bytes are right; otherwise a new one. Pinned once."""
        copy = self._shelf.peek(facts.made)
        if copy is None or not await self._proven(copy, facts):
            copy = await self._fill(facts)
        copy.pins += 1
        return copy

    async def _proven(self, copy: Copy, facts: Facts) -> bool:
        """Whether a copy is right; one of an earlier process is read through once."""
        if copy.verified:
            return True
        copy.pins += 1
        try:
            await self._run(fetch.check, copy.path, facts)
            copy.verified = True
        except (OSError, ObjectDamaged) as problem:
            if isinstance(problem, OSError) and ShortHere.says(problem):
                raise ShortHere(f"the copy of object `{facts.made}` cannot be read: {problem.strerror}") from problem
            log.warning("a copy was damaged", object=facts.made, error=str(problem))
            await self.drop(facts.made, damaged=True)
        finally:
            copy.pins -= 1
            if not copy.kept:
                self._remove([copy])
        return copy.verified and copy.kept

    async def _fill(self, facts: Facts) -> Copy:
        self._remove(self._shelf.promise(facts.bytes), evicted=True)
        try:
            copy = await self._kept(facts)
        except OSError as problem:
            copy = await self._elsewhere(facts, problem)
        finally:
            self._shelf.unpromise(facts.bytes)
        self.counts.fills += 1
        return copy

    async def _kept(self, facts: Facts) -> Copy:
        """A copy in the folder; if the disk is full, once more without half of the others."""
        try:
            return await self._made(facts, self._folder)
        except OSError as problem:
            if problem.errno not in _FULL or not len(self._shelf):
                raise
            gone = self._shelf.leaving(self._shelf.bytes // 2)
            self.counts.evictions += len(gone)
            for left in gone:
                self.on_gone(left.made)  # as long as it is open somewhere, its room is not free
            await self._run(_remove_all, [copy.path for copy in gone])
            return await self._made(facts, self._folder)

    async def _elsewhere(self, facts: Facts, problem: OSError) -> Copy:
        """A copy for this one read, where the system keeps such files."""
        log.warning("copies cannot be kept", folder=str(self._folder), error=str(problem))
        self.counts.homeless += 1
        try:
            folder = Path(tempfile.gettempdir())
            copy = await self._made(facts, folder)
        except OSError as worse:
            raise ShortHere(f"no disk takes a copy of object `{facts.made}` to read: {worse.strerror}") from worse
        copy.kept = False
        return copy

    async def _made(self, facts: Facts, folder: Path) -> Copy:
        number = self._next()
        part, path = folder / part_name(facts.made, number), folder / file_name(facts.made, number)
        try:
            if not await self._linked(facts, part):
                await self._fetched(facts, part)
            await self._run(part.rename, path)
        except BaseException:
            fetch.remove(part)
            raise
        return Copy(facts.made, path, facts.bytes, verified=True)

    async def _linked(self, facts: Facts, part: Path) -> bool:
        if self._local is None or not await self._run(fetch.link, self._local, facts, part):
            return False
        await self._run(fetch.check, part, facts)
        return True

    async def _fetched(self, facts: Facts, part: Path) -> None:
        """In ranges, a few at once; what is damaged is fetched once more, as that mostly happens on the way."""
        await self._run(fetch.create, part)
        await self._fetch_ranges(facts, part)
        if await self._run(fetch.damage, part, facts):
            self.counts.damaged += 1
            await self._fetch_ranges(facts, part)
            await self._run(fetch.check, part, facts)

    async def _fetch_ranges(self, facts: Facts, part: Path) -> None:
        coming = self._coming[facts.made]

        async def one(start: int, end: int) -> None:
            async with coming.requests:
                await self._ask(fetch.fetch_range, self._source, facts, part, start, end)
            coming.turn.moved()

        try:
            async with asyncio.TaskGroup() as group:
                for start, end in fetch.ranges(facts.bytes):
                    group.create_task(one(start, end), name=f"range-{facts.made}-{start}")
        except BaseExceptionGroup as problems:
            raise problems.exceptions[0] from None
        self.counts.filled_bytes += facts.bytes

    # --- files that leave ---

    def _unpin(self, copy: Copy) -> None:
        copy.pins -= 1
        if not copy.pins:
            if not copy.kept:
                self._remove([copy])
            self._remove(self._shelf.leaving(), evicted=True)

    def _remove(self, copies: list[Copy], *, evicted: bool = False) -> None:
        """Unlink what nobody reads; the rest is unlinked when its last reader has left."""
        self.counts.evictions += len(copies) if evicted else 0
        for copy in copies:
            self.on_gone(copy.made)
        paths = [copy.path for copy in copies if not copy.pins]
        if paths:
            errand = asyncio.ensure_future(self._run(_remove_all, paths))
            self._errands.add(errand)
            errand.add_done_callback(self._errands.discard)

    def _know(self, found: Listed) -> None:
        self._number = found.newest
        for copy in found.copies:
            self._remove(self._shelf.put(copy))

    def _next(self) -> int:
        self._number += 1
        return self._number

    async def _run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Something with files here."""
        return await asyncio.wrap_future(self._pool.submit(work, *args, **kwargs))

    async def _ask(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """A request to the store."""
        async with self._requests.one():
            return await asyncio.wrap_future(self._askers.submit(work, *args, **kwargs))


class _Coming:
    """A fetch under way, and how many readers wait for it. It may have so many `requests` at once."""

    __slots__ = ("_hurries", "copy", "requests", "task", "turn", "waiters")
    task: "asyncio.Task[Copy]"
    turn: Turn  # once it has one

    def __init__(self) -> None:
        self.waiters = 0
        self.copy: Copy | None = None
        self.requests = asyncio.Semaphore(1)
        self._hurries = False

    def hurry(self) -> None:
        """Somebody waits for it."""
        if not self._hurries:
            self._hurries = True
            for _ in range(_RANGES_AT_ONCE - 1):
                self.requests.release()


def _nobody_asks(_: str) -> None:
    """Until a reader is there."""


def _seen(task: "asyncio.Task[Copy]") -> None:
    """Nobody may be waiting any more; whoever asks next finds out for itself."""
    if not task.cancelled():
        task.exception()


def _moved(file: Path, path: Path) -> int:
    size = file.stat().st_size
    file.rename(path)
    return size


def _remove_all(paths: list[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()
