"""Who waits for another state of a stream, and the one computation that serves them all."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Literal, NamedTuple

from streams_node.details.moment import Kept
from streams_node.indexing.desk import Desk
from streams_node.ingest.state import StreamState
from streams_node.live.hub import Hub
from streams_node.protocol.etags import matches

WATCHES_MAX = 512  # bodies that are kept, of the streams that were looked at last
SOFT_S = 1.0  # numbers that no tag tells of are at most as old
_REST_S = 0.1  # between two answers to one waiter: a stream may change a thousand times a second
_REST_S_MAX = 1.0
_ANSWERS_A_SECOND = 1000  # of one stream: each costs some 0.1 ms, and who was answered comes back


class Shown(NamedTuple):
    """A body, its tag, and what it was made of: it stands as long as these are the same."""

    tag: str
    body: bytes
    change: int
    generation: int
    subscriptions: int


class News(NamedTuple):
    """Where changes are seen that are not the stream's own. `desk` is None until the object store is open."""

    generation: Callable[[], int]
    desk: Callable[[], Desk | None]
    now_s: Callable[[], float]
    subscriptions: Callable[[], int]  # counts the changes of which there are


Make = Callable[[StreamState], Awaitable[Shown]]
What = Literal["details", "index status"]


class Watches:
    """One a node. All of it belongs to the event loop."""

    def __init__(self, news: News) -> None:
        self._news = news
        self._watches: OrderedDict[tuple[int, What], _Watch] = OrderedDict()
        self.kept = Kept()
        self.made = 0  # bodies

    async def shown(self, what: What, state: StreamState, make: Make) -> Shown:
        """As it is now."""
        return await self._watch(what, state).current(make)

    async def changed(
        self, what: What, state: StreamState, hub: Hub, known: str, seconds: float, make: Make
    ) -> Shown | None:
        """A state that `known`, an If-None-Match, does not name; None when there is none for so long, or the stream has
        ended.
        """
        return await self._watch(what, state).changed(hub, known, seconds, make)

    def published(self) -> None:
        """A generation of the catalogue is out, or there are other subscriptions."""
        for watch in self._watches.values():
            watch.stir.set()

    @property
    def waiting(self) -> int:
        return sum(len(watch.waiters) for watch in self._watches.values())

    def waiters(self) -> dict[int, int]:
        """By stream."""
        found = Counter[int]()
        for (stream, _), watch in self._watches.items():
            if watch.waiters:
                found[stream] += len(watch.waiters)
        return found

    def _watch(self, what: What, state: StreamState) -> "_Watch":
        watch = self._watches.get((state.id, what))
        if watch is None:
            watch = self._watches[state.id, what] = _Watch(self, self._news, state)
            self._trim()
        watch.state = state
        self._watches.move_to_end((state.id, what))
        return watch

    def _trim(self) -> None:
        """The longest unlooked at leave. Those that somebody waits for stay: live readers have a bound of theirs."""
        over = len(self._watches) - WATCHES_MAX
        idle = [key for key, watch in self._watches.items() if not watch.busy] if over > 0 else []
        for key in idle[: max(0, min(over, len(idle) - 1))]:
            self._watches.pop(key).close()


class _Watch:
    def __init__(self, watches: Watches, news: News, state: StreamState) -> None:
        self._watches = watches
        self._news = news
        self._bells = ExitStack()
        self._bell: asyncio.Event | None = None  # of the index desk
        self._shown: Shown | None = None
        self._at_s = 0.0
        self._making: asyncio.Task[None] | None = None
        self._begun = 0
        self._rest_until_s = 0.0
        self._following: asyncio.Task[None] | None = None
        self.state = state
        self.stir = asyncio.Event()
        self.waiters: dict[asyncio.Future[Shown | None], str] = {}

    @property
    def busy(self) -> bool:
        return bool(self.waiters) or self._making is not None or self._following is not None

    def close(self) -> None:
        self._bells.close()

    # --- the newest state ---

    async def current(self, make: Make) -> Shown:
        """The state as it is now, or as it was at a moment after this call."""
        came = self._begun
        while True:
            if self._shown is not None and self._fresh(self._shown):
                return self._shown
            if self._making is None:
                self._begun += 1
                self._making = asyncio.get_running_loop().create_task(self._make(make), name="details")
            making, number = self._making, self._begun
            await asyncio.shield(making)
            if number > came and self._shown is not None:
                return self._shown

    def _fresh(self, shown: Shown) -> bool:
        return self._stands(shown) and self._news.now_s() - self._at_s < SOFT_S

    def _stands(self, shown: Shown) -> bool:
        """Whether nothing that its tag tells of has changed."""
        self._listen()
        rung = self._bell is not None and self._bell.is_set()
        news = self._news
        same = shown.generation == news.generation() and shown.subscriptions == news.subscriptions()
        return same and not rung and shown.change == self.state.change

    async def _make(self, make: Make) -> None:
        self._listen()
        if self._bell is not None and self._bell.is_set():
            self._bell.clear()  # before the look: what comes in between is seen with the next one
            self._shown = None  # else it would seem to stand until then
        try:
            self._shown = await make(self.state)
            self._at_s = self._news.now_s()
            self._watches.made += 1
        except BaseException:
            self._shown = None
            raise
        finally:
            self._making = None

    def _listen(self) -> None:
        desk = self._news.desk()
        if self._bell is None and desk is not None:
            self._bell = self._bells.enter_context(desk.watching(self.state.id))
            self._shown = None

    # --- waiting for another one ---

    async def changed(self, hub: Hub, known: str, seconds: float, make: Make) -> Shown | None:
        if self._shown is None or not matches(known, self._shown.tag):
            shown = await self.current(make)
            if not matches(known, shown.tag):
                return shown
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Shown | None] = loop.create_future()
        self.waiters[waiter] = known
        timer = loop.call_later(seconds, _resolve, waiter, None)
        if self._following is None:
            self._following = loop.create_task(self._follow(hub, make), name="follow-details")
        else:
            self.stir.set()  # it may have looked before
        try:
            return await waiter
        finally:
            timer.cancel()
            self.waiters.pop(waiter, None)
            if not self.waiters:
                self.stir.set()

    async def _follow(self, hub: Hub, make: Make) -> None:
        """As long as anybody waits."""
        try:
            while self.waiters:
                self.stir.clear()
                news = hub.waiter()
                news.add_done_callback(self._stirred)
                try:
                    if hub.ended or hub.state.gone:
                        self._tell(None)
                    elif self._shown is None or not self._stands(self._shown):
                        await self._rest()
                        self._tell(await self.current(make))
                    else:
                        self._tell(self._shown)
                    if self.waiters:
                        await self._stirring()
                finally:
                    hub.leave(news)
                    news.remove_done_callback(self._stirred)
                    news.cancel()
        except Exception as failure:  # noqa: BLE001 - who waits is told, and answers as for any other failure
            for waiter in self.waiters:
                if not waiter.done():
                    waiter.set_exception(failure)
            self.waiters.clear()
        finally:
            self._following = None

    async def _rest(self) -> None:
        """Changes that come while answers go out are told of together."""
        left_s = self._rest_until_s - self._news.now_s()
        if left_s > 0:
            await asyncio.sleep(left_s)

    def _tell(self, shown: Shown | None) -> None:
        """Answer those who know another state."""
        told = [waiter for waiter, known in self.waiters.items() if shown is None or not matches(known, shown.tag)]
        for waiter in told:
            _resolve(waiter, shown)
            del self.waiters[waiter]
        if told:
            rest_s = min(_REST_S_MAX, max(_REST_S, len(told) / _ANSWERS_A_SECOND))
            self._rest_until_s = self._news.now_s() + rest_s

    async def _stirring(self) -> None:
        """Until a commit, a generation, the desk, or somebody new."""
        bell = self._bell
        if bell is None:
            await self.stir.wait()
            return
        waits = [asyncio.ensure_future(event.wait()) for event in (self.stir, bell)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _stirred(self, _: "asyncio.Future[bool]") -> None:
        self.stir.set()


def _resolve(waiter: "asyncio.Future[Shown | None]", shown: Shown | None) -> None:
    if not waiter.done():
        waiter.set_result(shown)
