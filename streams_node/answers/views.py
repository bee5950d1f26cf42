"""Companions of streams, unpacked on this disk and opened as one view each.

Keeps    a companion is unpacked once, checked as it is, however many views are of it; a view is closed when it is not
         used, and others need the room, or what it is of was replaced. One that cannot be read is not covered: it is
         left out, and told to whoever can have it made again.
Dies     leaving a folder that the next start empties.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from search.language import Plan
from streams_node.answers.bounds import Directories, Known
from streams_node.answers.runs import Runs, run_of
from streams_node.answers.unpacked import Unpacked, remove, unpacked
from streams_node.indexing import Covering
from streams_node.observe.logs import get_logger
from streams_node.read.keyed import Pruner
from streams_node.schema.search_config import SearchConfig

if TYPE_CHECKING:
    from search.engine import Searcher

log = get_logger(__name__)
T = TypeVar("T")
_VIEWS_MAX = 256  # open ones; each has some file descriptors for a segment of Tantivy's
_PRUNING_SHARE = 0.2  # of the time: to find out what need not be opened
_SPARED_MAX, _COUNTED_MAX = 32, 4096  # how often one need not be opened before it is; for how many that is counted
_HANDS_MAX, _HAND_COVERS_MAX = 32, 2048
_MINI = "mini-"  # what the names of companions begin with that only this node has


def mini_names(stream: int) -> str:
    """What the names of a stream's minis begin with; a number comes behind it."""
    return f"{_MINI}{stream}-"


class _Key(NamedTuple):
    """Which view: the configuration's hash, the version, and the companions in the order of their names."""

    config: str
    version: int
    names: tuple[str, ...]


@dataclass(slots=True, eq=False)
class Opened:
    """A view, and the companions that it is of."""

    searcher: "Searcher"
    packs: Sequence[Unpacked]
    folder: Path
    latest: dict[tuple[str, int], tuple[bool, int | None]] = field(default_factory=dict)  # answers about fields so far
    users: int = 0
    kept: bool = True
    used: int = 0  # when it was used last, as `Views` counts


class _Wanted(NamedTuple):
    """What a view is to be of."""

    covers: Sequence[Covering]
    config: SearchConfig
    version: int
    more: Sequence[Unpacked]


class _Hand(NamedTuple):
    """The view of some covers, all of which were open."""

    covers: Sequence[Covering]
    version: int
    key: _Key
    view: Opened


class Use:
    """A view, entered as a block, and the covers that are in it: None and nothing if there is no view in time."""

    __slots__ = ("_opened", "_seconds", "_views", "_wanted")

    def __init__(self, views: "Views", wanted: _Wanted, seconds: float) -> None:
        self._views = views
        self._wanted = wanted
        self._seconds = seconds
        self._opened: Opened | None = None

    async def __aenter__(self) -> tuple[Opened | None, Sequence[Covering]]:
        wanted, at_hand = self._wanted, self._views.at_hand(self._wanted)
        if at_hand is not None:
            return self._used(at_hand), wanted.covers
        opened = await self._views.opened(wanted, self._seconds)
        if opened is None:
            return None, ()
        ready = {pack.name for pack in opened.packs}
        return self._used(opened), [cover for cover in wanted.covers if cover.made in ready]

    async def __aexit__(self, *_: object) -> None:
        if self._opened is not None:
            await self._views.left(self._opened)

    def _used(self, opened: Opened) -> Opened:
        opened.users += 1
        self._opened = opened
        return opened


class Views:
    """Made once a node; on the event loop."""

    def __init__(self, runs: Runs, folder: Path, bytes_max: int) -> None:
        remove(folder)
        self._runs = runs
        self._directories = Directories(runs.cache)
        self._folder = folder
        self._bytes_max = bytes_max
        self._packs: dict[str, Unpacked] = {}
        self._used: dict[str, int] = {}  # when each of them was looked up last
        self._views: OrderedDict[_Key, Opened] = OrderedDict()
        self._hands: OrderedDict[int, _Hand] = (
            OrderedDict()
        )  # by the identity of the covers: hundreds need not be looked up each time
        self._spared: OrderedDict[str, int] = OrderedDict()  # how often a closed one was ruled out
        self._sparing: asyncio.Task[Any] | None = None
        self._tasks: dict[object, asyncio.Task[Any]] = {}
        self._numbers, self._moments = count(), count(1)
        self.bytes = 0

    def view(
        self, covers: Sequence[Covering], config: SearchConfig, version: int, seconds: float,
        more: Sequence[Unpacked] = (),
    ) -> Use:  # fmt: skip
        """A view of companions, and those of the covers that it is of. What is not ready in time is later.

        `more` are others of this configuration, which somebody else keeps: if there is a view, all of them are in it.
        """
        return Use(self, _Wanted(covers, config, version, more), seconds)

    @property
    def roomy(self) -> bool:
        """Whether all that is open fits: then one more view costs no other one its companions."""
        return self.bytes <= self._bytes_max

    def at_hand(self, wanted: _Wanted) -> Opened | None:
        """The view of all of them, if it is open and nothing has to make room."""
        if not self.roomy:
            return None
        hand = None if wanted.more else self._hand(wanted.covers)
        if hand is not None and hand.version == wanted.version:
            self._hands.move_to_end(id(wanted.covers))
            return self._view(hand.key)
        packs: dict[str, Unpacked] = {}
        for cover in wanted.covers:
            pack = self._known(cover.made)
            if pack is None:
                return None
            packs[pack.name] = pack
        for pack in wanted.more:
            packs[pack.name] = pack
        if not packs:
            return None
        hashed = next(iter(packs.values())).directory.config
        key = _Key(hashed, wanted.version, tuple(sorted(packs)))
        view = self._view(key)
        if view is not None and not wanted.more and len(wanted.covers) <= _HAND_COVERS_MAX:
            self._hands[id(wanted.covers)] = _Hand(wanted.covers, wanted.version, key, view)
            if len(self._hands) > _HANDS_MAX:
                self._hands.popitem(last=False)
        return view

    def _hand(self, covers: Sequence[Covering]) -> _Hand | None:
        found = self._hands.get(id(covers))
        return found if found is not None and found.covers is covers else None

    async def opened(self, wanted: _Wanted, seconds: float) -> Opened | None:
        """The view of those that are ready in time."""
        packs: list[Unpacked] = []
        try:
            async with asyncio.timeout(seconds):
                packs = [*await self._unpacked(wanted.covers), *wanted.more]
                if packs:
                    return await self._opened(packs, packs[0].directory.config, wanted.config, wanted.version)
        except TimeoutError:
            log.info("companions were not ready in time", count=len(wanted.covers))
        except Exception as problem:  # one of them has just been replaced, or had to go
            if not isinstance(problem, FileNotFoundError) and all(pack.folder.exists() for pack in packs):
                raise
            log.info("companions could not be opened", error=repr(problem))
        return None

    async def left(self, opened: Opened) -> None:
        """Somebody does not use a view any more."""
        opened.users -= 1
        if not opened.users and not opened.kept:
            await asyncio.to_thread(remove, opened.folder)

    async def ruled_out(
        self, covers: Sequence[Covering], plan: Plan, pruner: Callable[[], Pruner | None], seconds: float
    ) -> dict[Covering, Literal["col", "exact"]]:
        """Those that would have to be fetched or unpacked, and need not be: no match lies in them. And what said so."""
        if self._hand(covers) is not None:
            return {}
        closed = [cover for cover in covers if cover.made not in self._packs]
        if not closed:
            return {}
        found = await self._directories.ruled_out(closed, plan, pruner(), seconds * _PRUNING_SHARE)
        for cover, by in found.items():
            if by == "exact":  # what it says of its numbers is known by now, and costs nothing
                self._spare(cover)
        return found

    def known(self, made: str) -> Known | None:
        """What is known of a companion that was asked what it holds, or opened."""
        return self._directories.known(made)

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._views.clear()
        self._hands.clear()
        await asyncio.to_thread(remove, self._folder)

    async def drop(self, made: str) -> None:
        """The object has left the bucket."""
        self._spared.pop(made, None)
        self._hands.clear()
        if made in self._packs:
            await self._retired([self._taken_out(made)])

    def room(self, name: str) -> Path:
        """A new folder for somebody who makes companions for views."""
        folder = self._folder / "made" / name
        folder.mkdir(parents=True)
        return folder

    async def retire(self, packs: Sequence[Unpacked]) -> None:
        """Close the views of companions that somebody else kept, and remove these; what is in use goes on."""
        await self._retired(packs)

    # --- companions ---

    async def _unpacked(self, covers: Sequence[Covering]) -> list[Unpacked]:
        """Those that can be read, in the order of their names."""
        wanted = {cover.made: cover for cover in covers}
        if self._packs.keys() >= wanted.keys():
            found = [self._known(made) for made in wanted]
        else:
            found = await asyncio.gather(*(self._one(cover) for cover in wanted.values()))
        packs = sorted((pack for pack in found if pack is not None), key=lambda pack: pack.name)
        await self._make_room({pack.name for pack in packs})
        return packs

    def _known(self, made: str) -> Unpacked | None:
        known = self._packs.get(made)
        if known is not None:
            self._used[made] = next(self._moments)
        return known

    def _taken_out(self, made: str) -> Unpacked:
        pack = self._packs.pop(made)
        self._used.pop(made, None)
        self.bytes -= pack.size
        return pack

    def _spare(self, cover: Covering) -> None:
        """Ruled out once more: one that is asked again and again costs searches more than if it were in the view.

        One after another is unpacked, and as long as they take no more than half of the room.
        """
        count = self._spared.pop(cover.made, 0) + 1
        self._spared[cover.made] = count
        if len(self._spared) > _COUNTED_MAX:
            self._spared.popitem(last=False)
        room = 2 * (self.bytes + 2 * cover.bytes) <= self._bytes_max
        idle = self._sparing is None or self._sparing.done()
        if count >= _SPARED_MAX and room and idle and cover.made not in self._tasks and self._runs.usable(cover.made):
            self._sparing = self._begin(cover.made, self._unpacking(cover))

    async def _one(self, cover: Covering) -> Unpacked | None:
        known = self._known(cover.made)
        if known is not None:
            return known
        if not self._runs.usable(cover.made):
            return None
        return await self._once(cover.made, self._unpacking(cover))

    def _unpacking(self, cover: Covering) -> Callable[[], Coroutine[Any, Any, Unpacked | None]]:
        async def unpack() -> Unpacked | None:
            folder = self._folder / "packs" / f"{cover.made}-{next(self._numbers)}"
            made = await self._runs.whole(run_of(cover), lambda path: unpacked(path, cover.made, folder))
            if made is not None:
                self._directories.note(made.name, made.directory)
                self._packs[cover.made] = made
                self._used[cover.made] = next(self._moments)
                self.bytes += made.size
            return made

        return unpack

    async def _make_room(self, used: set[str]) -> None:
        """Let go of the longest unused: by themselves, or in a view."""
        if self.bytes <= self._bytes_max:
            return
        self._hands.clear()
        used_at = dict(self._used)
        for view in self._views.values():
            for pack in view.packs:
                used_at[pack.name] = max(used_at.get(pack.name, 0), view.used)
        gone: list[Unpacked] = []
        for made in sorted(self._packs, key=lambda made: used_at.get(made, 0)):
            if self.bytes <= self._bytes_max:
                break
            if made not in used:
                gone.append(self._taken_out(made))
        if gone:  # whether or not the search has time left
            await self._once(object(), lambda: self._retired(gone))

    async def _retired(self, packs: Sequence[Unpacked]) -> None:
        names = {pack.name for pack in packs}
        for key, view in list(self._views.items()):
            if any(pack.name in names for pack in view.packs):
                await self._let_go(key)
        for pack in packs:
            await asyncio.to_thread(remove, pack.folder)

    # --- views ---

    async def _opened(self, packs: Sequence[Unpacked], hashed: str, config: SearchConfig, version: int) -> Opened:
        key = _Key(hashed, version, tuple(sorted(pack.name for pack in packs)))
        known = self._view(key)
        if known is not None:
            return known

        async def open_it() -> Opened:
            folder = self._folder / "views" / str(next(self._numbers))
            opened = await self._runs.run(_open, packs, folder, config, version)
            await self._supersede(packs)
            self._views[key] = opened
            opened.used = next(self._moments)
            while len(self._views) > _VIEWS_MAX:
                await self._let_go(next(iter(self._views)))
            return opened

        return await self._once(key, open_it)

    def _view(self, key: _Key) -> Opened | None:
        known = self._views.get(key)
        if known is not None:
            self._views.move_to_end(key)
            known.used = next(self._moments)
        return known

    async def _supersede(self, packs: Sequence[Unpacked]) -> None:
        """Close the views with older minis of the same stream: nobody asks for them again."""
        found = {name[: name.rindex("-") + 1] for name in (pack.name for pack in packs) if name.startswith(_MINI)}
        for key in [key for key in self._views if any(name.startswith(tuple(found)) for name in key.names)]:
            await self._let_go(key)

    async def _let_go(self, key: _Key) -> None:
        view = self._views.pop(key, None)
        if view is None:
            return
        self._hands.clear()
        view.kept = False
        if not view.users:
            await asyncio.to_thread(remove, view.folder)

    async def _once(self, key: object, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Make something that others may wait for, too; it goes on when whoever began it has left."""
        return await asyncio.shield(self._begin(key, make))

    def _begin(self, key: object, make: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        task: asyncio.Task[T] | None = self._tasks.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(make(), name="open-companions")
            self._tasks[key] = task
            task.add_done_callback(lambda done: self._ended(key, done))
        return task

    def _ended(self, key: object, task: "asyncio.Task[Any]") -> None:
        self._tasks.pop(key, None)
        if not task.cancelled():
            task.exception()  # seen: whoever waited may have left


def _open(packs: Sequence[Unpacked], folder: Path, config: SearchConfig, version: int) -> Opened:
    from search.engine import Searcher, open_views  # noqa: PLC0415

    try:
        views = open_views(packs, folder)  # type: ignore[arg-type]
    except BaseException:
        remove(folder)
        raise
    if len(views) > 1:
        log.warning("this tantivy does not search several indexes as one: searches are slower", count=len(views))
    return Opened(Searcher(views, config, version), packs, folder)
