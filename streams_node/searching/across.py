"""Searches several streams as one: a page of the hits of all of them, in one order.

Keeps    the page is what pages of the streams, put together, have first; equal places are in the order of the names.
         A page after another one neither skips nor repeats a hit. All streams together examine what one search may.
         What was not searched is counted: one stream that cannot be does not stop the others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from search.engine import SortKey, SortValue
from streams_node.errors import BadSearch, Gone, Missing, Overloaded, StreamsError
from streams_node.ingest.state import StreamState
from streams_node.observe.logs import get_logger
from streams_node.searching.asked import Asked, Found
from streams_node.searching.hits import PAGE_BYTES_MAX, Hit, Rank

log = get_logger(__name__)
_AT_ONCE = 4  # streams: what is fetched for one is fetched while another is looked through
_ROOM_BYTES = 64 << 10  # that a scan may examine beyond what a stream was known to have


class Place(NamedTuple):
    """A hit as the end of a page. Without a stream it is behind the hits of all of them with such values."""

    values: tuple[SortValue, ...]
    stream: str | None

    def within(self, stream: str, keys: Sequence[SortKey]) -> tuple[SortValue, ...]:
        """The same place in one of the streams. An entry of equal values comes yet if its stream does."""
        *values, seq = self.values
        if self.stream is not None and stream > self.stream and isinstance(seq, int):
            seq += 1 if keys[-1].descending else -1
        return (*values, seq)


class Part(NamedTuple):
    """One of the streams, and what is asked of it."""

    name: str
    state: StreamState
    asked: Asked


class Searched(NamedTuple):
    """One of the streams, and what came of it. Its hits are in the page."""

    part: Part
    found: Found


class Merged(NamedTuple):
    """A hit of the page, and where it is from."""

    rank: Rank
    name: str
    hit: Hit
    of: Searched


@dataclass(slots=True)
class Page:
    """`refused` are streams that cannot be asked that, and why; `late` how many nobody came to in time."""

    hits: list[Merged]
    last: Merged | None  # where the next page begins
    searched: list[Searched]
    refused: dict[str, BadSearch] = field(default_factory=dict)
    failed: int = 0
    late: int = 0

    @property
    def timed_out(self) -> bool:
        return self.late > 0 or any(one.found.timed_out for one in self.searched)


Search = Callable[[StreamState, Asked], Awaitable[Found]]
Opener = Callable[[str], Awaitable[Part]]


class Across:
    """Of one request; on the event loop.

    `opened` says what is asked of a stream: BadSearch when that cannot be, Missing or Gone when it is not there.
    """

    def __init__(self, search: Search, opened: Opener, size: int, scan_bytes: int) -> None:
        self._search, self._opened = search, opened
        self._size = size
        self._purse = _Purse(scan_bytes)
        self._page = Page([], None, [])
        self._bound: Merged | None = None  # behind it a stream may have hits that nobody asked for
        self._asked: tuple[str, tuple[SortKey, ...]] | None = None
        self._failure: StreamsError | None = None

    async def page(self, names: Sequence[str], *, late: Callable[[], bool]) -> Page:
        """Search all of them. Overloaded when too many searches wait; BadSearch when there is no order of all."""
        left = iter(names)
        async with asyncio.TaskGroup() as group:
            for number in range(min(_AT_ONCE, len(names))):
                group.create_task(self._work(left, late), name=f"search-across-{number}")
        if self._failure is not None:
            raise self._failure
        return self._ended()

    async def _work(self, names: Iterator[str], late: Callable[[], bool]) -> None:
        for name in names:
            if self._failure is not None:
                return
            if late():
                self._page.late += 1
                continue
            try:
                await self._one(name)
            except (Missing, Gone):
                pass  # deleted meanwhile: there is nothing to be found
            except Overloaded as problem:
                self._failure = problem
            except StreamsError as problem:
                self._page.failed += 1
                log.info("a stream of several could not be searched", stream=name, error=problem.message)

    async def _one(self, name: str) -> None:
        try:
            part = await self._opened(name)
        except BadSearch as problem:
            self._page.refused[name] = problem
            return
        if not self._fits(part):
            return
        granted = await self._purse.take(part.state.position + _ROOM_BYTES)
        used = 0
        try:
            asked = part.asked._replace(scan_bytes=granted, useful=lambda rank: self._useful(rank, name))
            found = await self._search(part.state, asked)
            used = found.work.bytes
        except StreamsError as problem:
            if isinstance(problem, Gone) and not part.state.gone:
                self._page.failed += 1  # its beginning was trimmed again and again
                return
            raise
        finally:
            self._purse.give_back(granted, used)
        self._merge(Searched(part, found))

    def _fits(self, part: Part) -> bool:
        """Whether hits of a stream can be put in one order with those of others."""
        if self._asked is None:
            self._asked = part.name, part.asked.keys
        other, keys = self._asked
        if _shape(keys) == _shape(part.asked.keys):
            return True
        self._failure = BadSearch(
            f"`{min(other, part.name)}` and `{max(other, part.name)}` have no order in common: name `sort` keys that "
            "are of one kind in all streams, or fewer streams"
        )
        return False

    # --- the page ---

    def _useful(self, rank: Rank, name: str) -> bool:
        hits, bound = self._page.hits, self._bound
        if bound is not None and (rank, name) > _order(bound):
            return False
        return len(hits) < self._size or (rank, name) < _order(hits[-1])

    def _merge(self, searched: Searched) -> None:
        (name, _, _), found = searched
        merged = [Merged(hit.rank, name, hit, searched) for hit in found.hits]
        self._page.hits = sorted([*self._page.hits, *merged], key=_order)[: self._size]
        if found.last is not None:
            self._end_at(Merged(found.last.rank, name, found.last, searched))
        size = 0
        for at, hit in enumerate(self._page.hits, 1):
            size += len(hit.hit.text or b"")
            if size >= PAGE_BYTES_MAX:
                self._end_at(hit)
                del self._page.hits[at:]
        found.hits = ()
        self._page.searched.append(searched)

    def _end_at(self, last: Merged) -> None:
        self._bound = last if self._bound is None else min(self._bound, last, key=_order)

    def _ended(self) -> Page:
        page, bound = self._page, self._bound
        if bound is not None:
            page.hits = [hit for hit in page.hits if _order(hit) <= _order(bound)]
        page.last = page.hits[-1] if len(page.hits) == self._size else bound
        page.searched = sorted((one for one in page.searched if not one.part.state.gone), key=lambda one: one.part.name)
        page.hits = [hit for hit in page.hits if _is_there(hit)]
        return page


def _order(hit: Merged) -> tuple[Rank, str]:
    return hit.rank, hit.name


def _is_there(hit: Merged) -> bool:
    state = hit.of.part.state
    return not state.gone and hit.hit.seq >= state.earliest_seq


def _shape(keys: Sequence[SortKey]) -> list[tuple[object, ...]]:
    return [(key.by, key.descending, None if key.field is None else key.field.kind) for key in keys]


class _Purse:
    """Bytes that all streams together may examine. One that may need more than is left waits for what others leave."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._out = 0
        self._back = asyncio.Event()

    async def take(self, about: int) -> int:
        while self._left < about and self._out:
            self._back.clear()
            await self._back.wait()
        taken = max(0, min(self._left, about))
        self._left -= taken
        self._out += 1
        return taken

    def give_back(self, taken: int, used: int) -> None:
        self._left += taken - used
        self._out -= 1
        self._back.set()
