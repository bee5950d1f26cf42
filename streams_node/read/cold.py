"""Reads sealed entries: finds their objects, has them fetched, and decodes in threads what a page shows."""

import asyncio
import math
import os
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, Protocol, TypeVar

from streams_node.cache import Cache
from streams_node.config import Settings
from streams_node.errors import (
    ObjectDamaged,
    ObjectMissing,
    Overloaded,
    ShortHere,
    StoreRefused,
    StoreUnavailable,
    StreamsError,
    Unavailable,
    invariant,
)
from streams_node.observe.logs import get_logger
from streams_node.observe.phases import phase
from streams_node.placement.directories import Directories, keep_directories, unpacked
from streams_node.placement.locate import DirectoriesMissing, Located, locate, locate_each
from streams_node.placement.made import ObjectFacts
from streams_node.read.endings import ENDING_BYTES, directory_in, footer_size
from streams_node.read.sealed import Files, Groups, Part, Slice, first_group
from streams_node.wal.database import Database

if TYPE_CHECKING:
    from streams_node.segments.reader import SealedFile

log = get_logger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
PIECES_MAX = 32  # objects that one page looks into: a small stream may have an entry in each pack
_PIECES_MS_MAX = 1000  # a page that has something ends after this time, however little it is
_PLACES_KEPT = 1024  # readers that are in the middle of a stream
_WAIT_SHARE = 0.6  # of a request's time: what has not come by then is answered 503, or ends a page that has something
_DAMAGED_S = 5.0  # an object that is damaged in the store is not fetched again for every request
_DAMAGED_MAX = 256
_DIRECTORIES_AT_ONCE = 4
_LOOKS_MAX = 8  # for directories: merges may bring new packs meanwhile
_WAY_OUT = "; put it back from a copy of the bucket: streams without entries in it are served meanwhile"
_JOIN_BYTES = 1 << 17  # a smaller join takes the loop no longer than a hop to a thread


class Found(NamedTuple):
    """Entries up to seq `end`, in parts; `length` counts the commas between them. `full`: no more is to be had now."""

    end: int
    pieces: list[Part]
    length: int
    full: bool


class ColdReader:
    """Made once; all methods belong to the event loop."""

    def __init__(self, database: Database, cache: Cache, settings: Settings) -> None:
        self._database = database
        self._cache = cache
        self._ahead_max = settings.read_ahead_objects
        self._queue_max = settings.read_queue_max
        self._threads = settings.cold_reader_threads
        self._wait_s = settings.request_ms_max / 1000 * _WAIT_SHARE
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="cold-read")
        self._busy = 0
        self._places: OrderedDict[tuple[int, int], list[Located]] = OrderedDict()  # where readers in order go on
        self._learning: dict[str, asyncio.Task[None]] = {}
        self._warming: set[asyncio.Task[None]] = set()
        self._keeping: set[asyncio.Task[None]] = set()
        self._damaged: OrderedDict[str, tuple[float, ObjectDamaged]] = OrderedDict()
        self.directories = Directories(settings.directory_bytes_max)
        self.files = Files()
        self.groups = Groups(settings.decoded_bytes_max)
        cache.on_gone = self.files.drop

    @property
    def waiting(self) -> int:
        return self._busy

    async def read(self, stream: int, start: int, end: int, bytes_max: int, *, commas: bool) -> Found | None:
        """Entries from `start` on, before `end`: whole ones, as many as fit, and at least one. None: no object has it.

        A page that has something ends where an object cannot be had; the next one begins there, and says why.
        """
        run = self.run_at(stream, start)
        run.until = time.monotonic() + _PIECES_MS_MAX / 1000
        full = False
        while run.end < end and not full:
            left = bytes_max - run.length - (commas if run.pieces else 0)
            try:
                with phase("sealed"):
                    taken = await self._piece(run, end, left, commas=commas)
            except StreamsError:
                if not run.pieces:
                    raise
                break
            if taken is None:
                return run.found(full=False) if run.pieces else None
            if run.pieces and taken.length > left:
                break
            place = run.places[0]
            run.add(taken, comma=int(commas))
            full = run.objects >= PIECES_MAX or run.length + commas >= bytes_max or time.monotonic() > run.until
            if taken.end < min(place.end_seq, end):
                if run.in_order:
                    self._warm(place, taken.end, bytes_max, commas=commas)
                break
        self._remember(stream, run.end, run.places)
        return run.found(full=True)

    async def look(self, run: "Run", work: "Work[T]") -> T | None:
        """Have a thread look at the entries of the next object; None when no object has them.

        `work` is told where in the file they are, and for which entries that stands; what it took, `advance` is told.
        """

        async def look_at(place: Located) -> T:
            def opened(file: "SealedFile") -> T:
                return work(file, place.row_index + run.end - place.first_seq, run.end, place.end_seq)

            return await self._in_thread(place.facts, opened)

        return await self._next(run, look_at)

    async def located(self, stream: int, seq: int, places_max: int) -> list[Located]:
        """The objects that hold the entries from `seq` on, without a gap; none when it is not sealed."""
        return await self._locate(stream, seq, places_max)

    async def places_of(self, stream: int, seqs: Sequence[int]) -> list[tuple[Located, list[int]]]:
        """The objects that hold some of these entries, which ascend, each with its own; as far as it is known here."""
        return await self._database.readers.run(locate_each, self.directories, stream, seqs)

    async def place(self, run: "Run") -> Located | None:
        """The object that has the next entry, if one has."""
        if not run.places:
            run.places = await self._locate(run.stream, run.end, PIECES_MAX if run.objects else 1 + self._ahead_max)
        return run.places[0] if run.places else None

    def run_at(self, stream: int, start: int) -> "Run":
        """A reader in order, at an entry."""
        return Run(stream, start, self._places.pop((stream, start), None))

    def leave(self, run: "Run") -> None:
        """Remember where a reader goes on."""
        self._remember(run.stream, run.end, run.places)

    async def _piece(self, run: "Run", end: int, bytes_max: int, *, commas: bool) -> Slice | None:
        async def slice_of(place: Located) -> Slice:
            return await self._slice(place, run.end, end, bytes_max, commas=commas)

        return await self._next(run, slice_of)

    async def _next(self, run: "Run", read: Callable[[Located], Awaitable[T]]) -> T | None:
        """What the next object has; None when none has the next entry. A merge may replace it at any moment.

        An object that does not come goes on coming when this gives up: whoever asks again may find it here.
        """
        wait_s = self._wait_s
        if run.pieces:  # there is something to show
            wait_s = min(wait_s, max(0.0, run.until - time.monotonic()))
        time_box = asyncio.timeout(wait_s)
        try:
            async with time_box:
                return await self._found(run, read)
        except TimeoutError:
            if not time_box.expired():
                raise
            raise Unavailable("the object store does not give a sealed object in time; try again") from None

    async def _found(self, run: "Run", read: Callable[[Located], Awaitable[T]]) -> T | None:
        absent = ""
        while True:
            place = await self.place(run)
            if place is None:
                return None
            missing = ObjectMissing(place.facts.key())
            if place.facts.made != absent:
                if run.in_order:
                    self._look_ahead(run.places)
                try:
                    return await read(place)
                except ObjectMissing as seen:
                    missing = seen
            if place.facts.made == absent:  # looked up anew, and the catalogue still names it
                log.error("a sealed object is missing", object=absent, stream=run.stream, seq=run.end)
                missing.message += _WAY_OUT
                raise missing
            absent, run.places = place.facts.made, []

    async def joined(self, parts: list[Part], *, commas: bool, framed: bool = False) -> bytes:
        """One copy of all parts, with commas between them and brackets around them if asked for; off the loop if large.

        A join of this size lets go of the interpreter's lock while it copies.
        """
        if sum(map(len, parts)) < _JOIN_BYTES:
            return _join(parts, commas=commas, framed=framed)
        return await self._run(_join, parts, commas=commas, framed=framed)

    async def close(self) -> None:
        tasks = [*self._learning.values(), *self._warming]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.kept()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self.files.close()

    # --- where ---

    async def _locate(self, stream: int, seq: int, places_max: int) -> list[Located]:
        """The objects that hold the entries from `seq` on. Directories that are not here yet are fetched; one that
        cannot be had is a failure only of those streams whose entries are found nowhere else.
        """
        failures: dict[str, StreamsError] = {}
        for _ in range(_LOOKS_MAX):
            try:
                return await self._database.readers.run(locate, self.directories, stream, seq, places_max=places_max)
            except DirectoriesMissing as missing:
                again = [failures[facts.made] for facts in missing.packs if facts.made in failures]
                if again:
                    raise again[0] from None
                failures.update(await self._learn(missing.packs))
        raise Unavailable("the directories of packs change faster than they can be read; try again")

    async def _learn(self, packs: list[ObjectFacts]) -> dict[str, StreamsError]:
        """Read the directories of packs out of the packs themselves, and keep them; returns those that failed."""
        some = asyncio.Semaphore(_DIRECTORIES_AT_ONCE)
        failures: dict[str, StreamsError] = {}

        async def one(facts: ObjectFacts) -> None:
            async with some:
                task = self._learning.get(facts.made)
                if task is None:
                    task = asyncio.get_running_loop().create_task(self._learn_one(facts), name=f"learn-{facts.made}")
                    self._learning[facts.made] = task
                    task.add_done_callback(lambda task: self._learned(facts.made, task))
                try:
                    await asyncio.shield(task)
                except StreamsError as failure:
                    failures[facts.made] = failure

        await asyncio.gather(*map(one, packs))
        return failures

    def _learned(self, made: str, task: "asyncio.Task[None]") -> None:
        del self._learning[made]
        if not task.cancelled():
            task.exception()  # seen: whoever waited may have left

    async def _learn_one(self, facts: ObjectFacts) -> None:
        async def attempt(*, fresh: bool) -> bytes:
            """From the copy, if there is one; the second time, or otherwise, from the end of the object itself."""
            if not fresh and self._cache.has(facts.made):
                async with self._cache.held(facts) as path:
                    return await self._run(self._directory_of_copy, facts, path)
            ending = await self._cache.ending(facts, ENDING_BYTES)
            size = footer_size(ending, facts)
            if size > len(ending):
                ending = await self._cache.ending(facts, size)
            return await self._run(self._directory, facts, ending)

        blob = await self._twice(facts.made, attempt)
        # Not waited for: the reader has what it needs, and the writer may be in the middle of a publish on a slow disk.
        task = asyncio.get_running_loop().create_task(self._keep(facts.made, blob), name=f"keep-{facts.made}")
        self._keeping.add(task)
        task.add_done_callback(self._keeping.discard)

    async def _keep(self, made: str, directory: bytes) -> None:
        try:
            await self._database.writer.run(keep_directories, [(made, directory)])
        except (
            sqlite3.Error,
            StreamsError,
        ) as problem:  # a full disk: it is in memory, and is fetched again after that
            log.warning("the directory of a pack was not kept", object=made, error=str(problem))

    async def kept(self) -> None:
        """Until what was learnt so far is in the database, or has failed to get there."""
        await asyncio.gather(*self._keeping, return_exceptions=True)

    def _directory_of_copy(self, facts: ObjectFacts, path: Path) -> bytes:
        try:
            with path.open("rb") as file:
                file.seek(-min(ENDING_BYTES, facts.bytes), os.SEEK_END)
                size = footer_size(file.read(), facts)
                file.seek(-size, os.SEEK_END)
                return self._directory(facts, file.read())
        except OSError as problem:
            if ShortHere.says(problem):
                raise ShortHere(f"sealed object `{facts.made}` cannot be read now: {problem.strerror}") from problem
            raise _CopyDamaged(ObjectDamaged(facts.made, f"its copy cannot be read: {problem}")) from problem
        except ObjectDamaged as damage:
            raise _CopyDamaged(damage) from damage

    def _directory(self, facts: ObjectFacts, ending: bytes) -> bytes:
        blob = directory_in(ending, facts)
        self.directories.put(facts.made, unpacked(blob, facts))
        return blob

    def _remember(self, stream: int, seq: int, places: list[Located]) -> None:
        """Where a reader goes on that comes back for what follows."""
        self._places[stream, seq] = places
        while len(self._places) > _PLACES_KEPT:
            self._places.popitem(last=False)

    def _look_ahead(self, places: list[Located]) -> None:
        for place in places[1 : 1 + self._ahead_max]:
            self._cache.ahead(place.facts)

    # --- what ---

    async def _slice(self, place: Located, start: int, end: int, bytes_max: int, *, commas: bool) -> Slice:
        """Entries of one object."""

        async def attempt(*, fresh: bool) -> Slice:
            return await self._slice_once(place, start, end, bytes_max, commas=commas, fresh=fresh)

        return await self._twice(place.facts.made, attempt)

    async def _twice(self, made: str, attempt: "_Attempt[T]") -> T:
        """Read an object; if its copy turns out to be damaged, once more from a new one."""
        self._refuse_damaged(made)
        try:
            try:
                return await attempt(fresh=False)
            except _CopyDamaged as problem:
                log.warning("a copy was damaged", object=made, error=problem.damage.message)
                await self._forget(made)
                return await attempt(fresh=True)
        except _CopyDamaged as problem:
            await self._forget(made)
            raise self._noted(problem.damage) from None
        except ObjectDamaged as damage:  # as it came from the store
            raise self._noted(damage) from None
        except ShortHere:  # its message is for whoever asked, too
            raise
        except (StoreUnavailable, StoreRefused) as failure:  # its message is for the operator: the cache has logged it
            why = "does not answer" if isinstance(failure, StoreUnavailable) else "refuses the node"
            raise Unavailable(
                f"sealed object `{made}` is not on this node, and the object store {why}; try again", object=made
            ) from failure

    async def _slice_once(
        self, place: Located, start: int, end: int, bytes_max: int, *, commas: bool, fresh: bool
    ) -> Slice:
        row = place.row_index + start - place.first_seq
        end_row = place.row_index + min(end, place.end_seq) - place.first_seq

        def take(file: "SealedFile") -> Slice:
            taken = self.groups.take(file, row, end_row, bytes_max, commas=commas)
            return taken._replace(end=start + taken.end - row)

        return await self._once(place.facts, take, fresh=fresh)

    async def _in_thread(self, facts: ObjectFacts, work: "Callable[[SealedFile], T]") -> T:
        """Have a thread read an object."""

        async def attempt(*, fresh: bool) -> T:
            return await self._once(facts, work, fresh=fresh)

        return await self._twice(facts.made, attempt)

    async def _once(self, facts: ObjectFacts, work: "Callable[[SealedFile], T]", *, fresh: bool) -> T:
        """`fresh`: from the copy that the cache has now; an open file may still be the one that was damaged."""
        if not fresh and self.files.has(facts.made):
            self._cache.touch(facts.made)
            done = await self._run(self._read, None, facts, work, fresh=False)
            if done:
                return done[0]
        async with self._cache.held(facts) as path:
            done = await self._run(self._read, path, facts, work, fresh=fresh)
        invariant(bool(done), "a file that is held can be opened", object=facts.made)
        return done[0]

    def _read(
        self, path: Path | None, facts: ObjectFacts, work: "Callable[[SealedFile], T]", *, fresh: bool
    ) -> tuple[T, ...]:
        """In a thread: what the work makes of the file. Nothing: the file is not open, and no path was given."""
        file = self._file(path, facts, fresh=fresh)
        if file is None:
            return ()
        try:
            made = work(file)
        except ObjectDamaged as damage:
            self.files.discard(file)
            raise _CopyDamaged(damage) from damage
        except BaseException:
            self.files.discard(file)
            raise
        self.files.give(file)
        return (made,)

    def _file(self, path: Path | None, facts: ObjectFacts, *, fresh: bool) -> "SealedFile | None":
        file = None if fresh else self.files.take(facts.made)
        if file is not None or path is None:
            return file
        try:
            return self.files.open(path, facts, fresh=fresh)
        except ObjectDamaged as damage:
            raise _CopyDamaged(damage) from damage

    def _warm(self, place: Located, seq: int, bytes_max: int, *, commas: bool) -> None:
        """Decode what the next page of a reader in order will show, while it is busy with this one."""
        if self._busy < self._threads:
            row = place.row_index + seq - place.first_seq
            end_row = place.row_index + place.end_seq - place.first_seq
            size_max = min(bytes_max, self.groups.bytes_max // 3)
            task = asyncio.get_running_loop().create_task(
                self._run(self._decode, place.facts, row, end_row, size_max, commas=commas),
                name=f"warm-{place.facts.made}",
            )
            self._warming.add(task)
            task.add_done_callback(self._warmed)

    def _decode(self, facts: ObjectFacts, row: int, end_row: int, size_max: int, *, commas: bool) -> None:
        """In a thread: the row groups from a row on. What is wrong is found again by whoever needs them."""
        file = self.files.take(facts.made)
        if file is None:
            return
        number, size = first_group(file.footer, row), 0
        try:
            while size < size_max and number < file.groups and file.footer.starts[number] < end_row:
                size += self.groups.get(file, number, commas=commas).size
                number += 1
        except BaseException:
            self.files.discard(file)
            raise
        self.files.give(file)

    def _warmed(self, task: "asyncio.Task[None]") -> None:
        self._warming.discard(task)
        if not task.cancelled():
            task.exception()  # seen

    async def _forget(self, made: str) -> None:
        """Let go of everything that came from a damaged copy."""
        self.files.drop(made)
        self.groups.drop(made)
        self.directories.forget(made)
        await self._cache.drop(made, damaged=True)

    # --- what is damaged in the store ---

    def _noted(self, damage: ObjectDamaged) -> ObjectDamaged:
        made = str(damage.facts["object"])
        log.error("a sealed object is damaged", object=made, error=damage.message)
        if not damage.message.endswith(_WAY_OUT):  # all who wait for one fetch have it
            damage.message += _WAY_OUT
        self._damaged[made] = time.monotonic() + _DAMAGED_S, damage
        while len(self._damaged) > _DAMAGED_MAX:
            self._damaged.popitem(last=False)
        return damage

    def _refuse_damaged(self, made: str) -> None:
        """An object that was just found damaged is not fetched again for every request."""
        until, damage = self._damaged.get(made, (0.0, None))
        if damage is not None and time.monotonic() < until:
            raise damage.with_traceback(None)

    async def _run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """In one of the few threads; a long queue refuses."""
        if self._busy >= self._queue_max:
            raise Overloaded("the queue of reads of sealed entries is full; try again")
        self._busy += 1
        future = self._pool.submit(work, *args, **kwargs)
        try:
            return await asyncio.wrap_future(future)
        finally:
            self._busy -= 1


def _join(parts: list[Part], *, commas: bool, framed: bool) -> bytes:
    if not framed:
        return bytes(parts[0]) if len(parts) == 1 else (b"," if commas else b"").join(parts)
    between: list[Part] = [b","] * (2 * len(parts) + 1)
    between[0], between[-1] = b"[", b"]"
    between[1::2] = parts
    return b"".join(between)


class _Attempt(Protocol[T_co]):
    async def __call__(self, *, fresh: bool) -> T_co: ...


class Work(Protocol[T_co]):
    """Looks at rows of a file from `row` on, which are the entries [start, end) of a stream."""

    def __call__(self, file: "SealedFile", row: int, start: int, end: int, /) -> T_co: ...


class Run:
    """Where a read of one stream has come to."""

    def __init__(self, stream: int, start: int, places: list[Located] | None) -> None:
        self.stream = stream
        self.end = start
        self.in_order = places is not None or start == 0
        self.places = places or []  # the objects from here on, as far as they have been looked up
        self.pieces: list[Part] = []
        self.objects = 0
        self.length = 0
        self.until = math.inf  # when a page that has something ends

    def add(self, taken: Slice, *, comma: int) -> None:
        self.length += taken.length + (comma if self.pieces else 0)
        self.pieces += taken.parts
        self.advance(taken.end)

    def advance(self, end: int) -> None:
        """The entries up to one have been read, out of one object."""
        self.objects += 1
        self.end = end
        if self.places[0].end_seq <= end:
            self.places = self.places[1:]
            self.in_order = True

    def found(self, *, full: bool) -> Found:
        return Found(self.end, self.pieces, self.length, full)


class _CopyDamaged(Exception):
    """The local copy is damaged: the object itself may be whole."""

    def __init__(self, damage: ObjectDamaged) -> None:
        super().__init__(damage)
        self.damage = damage
