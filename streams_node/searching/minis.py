"""Mini-companions: entries of searched streams that no index covers yet, as companions that only this node has.

Keeps    a mini covers neighbouring entries as they are meant now, none of which a companion in the catalogue covers:
         where that has come to cover one of them, the mini leaves as a whole. Eight of one size become one. All of
         them together are bounded by bytes; those of the stream that was not searched for longest leave first. Without
         one, entries are looked through.
Dies     with its files in the folder of views, which the next start empties.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count, pairwise
from typing import NamedTuple, ParamSpec, TypeVar

from streams_node.answers.ranges import Range
from streams_node.answers.unpacked import Unpacked, remove, unpacked
from streams_node.answers.views import Views, mini_names
from streams_node.errors import StreamsError
from streams_node.ingest.state import StreamState
from streams_node.meaning import Meaning
from streams_node.observe.logs import get_logger
from streams_node.read.cold import ColdReader
from streams_node.read.keyed import Lenses
from streams_node.read.scan import Bounds, read_matching
from streams_node.schema.search_config import SearchConfig
from streams_node.searching.recent import Collector
from streams_node.wal.database import Database

log = get_logger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
_ENTRIES_MIN = 2000  # below it, looking through them is as fast as one more index in the view
_ENTRIES_MAX = 8192  # of one that is built; about 200 ms of a processor
_BYTES_MAX = 16 << 20  # of the entries of one
_STEP_BYTES = 4 << 20
_READ_S = 30.0
_NOTHING_SHOWN = 1 << 20
_MERGED = 8  # Tantivy makes one segment of so many
_STREAMS_MAX = 4096
_WAITING_MAX = 64  # streams whose turn comes later; a search asks again
_INTEREST_S = 60.0  # after a search: then its stream waits for the next one
_FAILED_S = 30.0  # until it is tried again


class Mini(NamedTuple):
    """Entries [first, end), of one configuration's companions; how often minis became one to make it."""

    first: int
    end: int
    pack: Unpacked
    level: int = 0


class Wish(NamedTuple):
    """A searched stream with much that nothing covers; `gap` is the first such stretch."""

    cold: ColdReader | None
    state: StreamState
    meaning: Meaning
    lenses: Lenses
    config: SearchConfig
    hashed: str
    gap: Range
    views: Views
    asked: float = 0.0  # when, by the monotonic clock


class _Kept:
    """The minis of a stream in their order; `meant` says of which meaning."""

    def __init__(self, meant: object) -> None:
        self.meant = meant
        self.minis: list[Mini] = []

    @property
    def size(self) -> int:
        return sum(mini.pack.size for mini in self.minis)


class Minis:
    """On the event loop, but for the building."""

    def __init__(self, database: Database, bytes_max: int) -> None:
        self._database = database
        self._bytes_max = bytes_max
        self.entries_min, self.entries_max = _ENTRIES_MIN, _ENTRIES_MAX
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="mini-build")
        self._wishes: OrderedDict[int, Wish] = OrderedDict()
        self._failed: OrderedDict[int, float] = OrderedDict()
        self._numbers = count()
        self._task: asyncio.Task[None] | None = None
        self._building: int | None = None
        self._asked = 0.0  # when the stream in the making was last searched
        self.bytes = 0

    async def of(
        self, views: Views, stream: int, meaning: Meaning, hashed: str, covered: Sequence[Range], first: int
    ) -> Sequence[Mini]:
        """The minis of a stream beside what companions cover; those that lie before `first` leave."""
        kept = self._kept.get(stream)
        if kept is None:
            return ()
        self._kept.move_to_end(stream)
        meant = _meant(meaning, hashed)
        stay = [mini for mini in kept.minis if mini.end > first and not _overlaps(mini, covered)]
        if kept.meant != meant:
            stay = []
        gone = [mini for mini in kept.minis if mini not in stay]
        if gone:
            kept.minis = stay
            if not stay:
                del self._kept[stream]
            await self._drop(views, gone)
        return stay

    def want(self, wish: Wish) -> bool:
        """Build what is missing, soon, if it is much: one stream after another, and a piece of each at a time."""
        stream, now = wish.state.id, time.monotonic()
        if wish.gap.end - wish.gap.first < self.entries_min:
            return False
        if stream == self._building:  # the first of what it finds missing comes soon
            self._asked = now
            return True
        if now < self._failed.get(stream, 0.0):
            return True
        if stream in self._wishes or len(self._wishes) < _WAITING_MAX:
            self._wishes[stream] = wish._replace(asked=now)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._build_wanted(), name="build-minis")
        return True

    async def settled(self) -> None:
        """Once nothing is being built."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)

    # --- building ---

    async def _build_wanted(self) -> None:
        try:
            while self._wishes:
                stream, wish = self._wishes.popitem(last=False)
                self._building, self._asked = stream, wish.asked
                try:
                    rest = await self._build_one(wish)
                except (StreamsError, OSError, ValueError) as problem:
                    log.info("recent entries could not be indexed", stream=stream, error=repr(problem))
                    self._failed[stream] = time.monotonic() + _FAILED_S
                    self._failed.move_to_end(stream)
                    while len(self._failed) > _STREAMS_MAX:
                        self._failed.popitem(last=False)
                else:
                    wanted = time.monotonic() - self._asked < _INTEREST_S
                    if wanted and rest.end - rest.first >= self.entries_min:
                        self._wishes[stream] = wish._replace(gap=rest, asked=self._asked)  # behind the others
        finally:
            self._task = self._building = None

    async def _build_one(self, wish: Wish) -> Range:
        """Build one piece; what is left of the gap."""
        state, gap = wish.state, wish.gap
        nothing = Range(gap.end, gap.end)
        each = max(1.0, state.position / max(1, state.next_seq))
        end = min(gap.end, gap.first + max(1, min(self.entries_max, int(_BYTES_MAX / each))))
        if state.gone or state.earliest_seq > gap.first or not self._fits():
            return nothing
        collector = await self._collected(wish, Range(gap.first, end))
        if collector is None:
            return nothing
        span = Range(gap.first, end)
        pack = await self._run(_built, wish, collector, span, self._name(wish))
        await self._add(wish, Mini(*span, pack))
        return Range(end, gap.end)

    async def _collected(self, wish: Wish, span: Range) -> Collector | None:
        collector, at, until = Collector(wish.lenses, span.end), span.first, time.monotonic() + _READ_S
        while at < span.end:
            seconds = until - time.monotonic()
            if seconds <= 0:
                return None
            bounds = Bounds(_NOTHING_SHOWN, _STEP_BYTES, seconds)
            scanned = await read_matching(self._database, wish.cold, wish.state, at, collector, bounds)
            at = scanned.page.end
        return collector

    async def _add(self, wish: Wish, mini: Mini) -> None:
        stream, meant = wish.state.id, _meant(wish.meaning, wish.hashed)
        kept = self._kept.get(stream)
        if kept is None or kept.meant != meant:
            gone = [] if kept is None else kept.minis
            kept = self._kept[stream] = _Kept(meant)
            await self._drop(wish.views, gone)
        if any(mini.first < each.end and each.first < mini.end for each in kept.minis):
            await asyncio.to_thread(remove, mini.pack.folder)
            return
        kept.minis.append(mini)
        kept.minis.sort()
        self.bytes += mini.pack.size
        self._kept.move_to_end(stream)
        while (some := _to_merge(kept.minis)) and self._kept.get(stream) is kept:
            if not await self._merge(wish, kept, some):
                break
        await self._make_room(wish.views, stream)

    async def _merge(self, wish: Wish, kept: _Kept, some: Sequence[Mini]) -> bool:
        """Whether minis can be merged."""
        pack = await self._run(_merged, wish, some, self._name(wish))
        if pack is None:
            return False
        if any(mini not in kept.minis for mini in some) or self._kept.get(wish.state.id) is not kept:
            await asyncio.to_thread(remove, pack.folder)  # some of them left meanwhile
            return True
        one = Mini(some[0].first, some[-1].end, pack, some[0].level + 1)
        kept.minis = sorted([*(mini for mini in kept.minis if mini not in some), one])
        self.bytes += pack.size
        await self._drop(wish.views, some)
        return True

    async def _run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """In the thread of minis; nothing is left of it if nobody waits any more."""
        future = self._pool.submit(work, *args, **kwargs)
        try:
            return await asyncio.shield(asyncio.wrap_future(future))
        except asyncio.CancelledError:
            future.add_done_callback(lambda done: None if done.cancelled() else done.exception())
            raise

    def _name(self, wish: Wish) -> str:
        return f"{mini_names(wish.state.id)}{next(self._numbers)}"

    # --- room ---

    def _fits(self) -> bool:
        """Whether there is room, or somebody who can make some."""
        return self.bytes < self._bytes_max or len(self._kept) > 1

    async def _make_room(self, views: Views, stream: int) -> None:
        while self.bytes > self._bytes_max or len(self._kept) > _STREAMS_MAX:
            oldest = next(iter(self._kept))
            if oldest == stream:
                break  # the last one may be above the bound by one mini
            await self._drop(views, self._kept.pop(oldest).minis)

    async def _drop(self, views: Views, gone: Sequence[Mini]) -> None:
        self.bytes -= sum(mini.pack.size for mini in gone)
        await views.retire([mini.pack for mini in gone])


def _meant(meaning: Meaning, hashed: str) -> object:
    return hashed, meaning.common, meaning.version, meaning.registry.current_from


def _overlaps(mini: Mini, covered: Sequence[Range]) -> bool:
    return any(mini.first < span.end and span.first < mini.end for span in covered)


def _to_merge(minis: Sequence[Mini]) -> Sequence[Mini]:
    """Neighbours of one level, without a gap, if there are enough."""
    for at in range(len(minis) - _MERGED + 1):
        some = minis[at : at + _MERGED]
        if all(mini.level == some[0].level for mini in some) and all(
            one.end == other.first for one, other in pairwise(some)
        ):
            return some
    return ()


# --- in the thread of minis ---


def _built(wish: Wish, collector: Collector, span: Range, name: str) -> Unpacked:
    from indexers.companion import Layout  # noqa: PLC0415 - loads tantivy
    from search.engine import Entry, build_mini  # noqa: PLC0415

    folder = wish.views.room(name)
    try:
        path = build_mini(
            [Entry(seq, 0, collector.record(seq)) for seq in range(*span)], stream=wish.state.id,
            config=wish.hashed, layout=Layout(wish.config.fields), version=wish.meaning.version,
            folder=folder / "build", target=folder / "packed",
        )  # fmt: skip
        return unpacked(path, name, folder.with_name(f"{name}-open"))
    finally:
        remove(folder)


def _merged(wish: Wish, minis: Sequence[Mini], name: str) -> Unpacked | None:
    """Nothing where Tantivy's files cannot be put together: then there are more of them."""
    from indexers.companion import merge, stitching_works  # noqa: PLC0415 - loads tantivy

    if not stitching_works():
        return None
    folder = wish.views.room(name)
    try:
        packs = [mini.pack for mini in minis]
        merge(packs, [pack.directory.covers for pack in packs], folder / "merge", folder / "packed")  # type: ignore[arg-type]
        return unpacked(folder / "packed", name, folder.with_name(f"{name}-open"))
    finally:
        remove(folder)
