"""Whose turn it is: some searches at once, and of those that wait, one stream after another."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from streams_node.errors import Overloaded
from streams_node.observe.phases import note


class Turns:
    """On the event loop only. A stream that many search delays others by one search at most.

    `limit` and `waiting_max` may change at any time; what is under way goes on.
    """

    def __init__(self, at_once: int, waiting_max: int) -> None:
        self.limit = at_once
        self.active = 0
        self.waiting_max = waiting_max
        self._queues: OrderedDict[int, deque[asyncio.Future[None]]] = OrderedDict()
        self.waiting = 0
        self.observe: Callable[[str, float], None] = lambda _phase, _seconds: None  # how long turns wait and take

    @asynccontextmanager
    async def turn(self, stream: int) -> AsyncIterator[None]:
        """Wait for a turn, and have it. Overloaded when too many wait."""
        began = time.perf_counter()
        await self._enter(stream)
        entered = time.perf_counter()
        self._note("wait", entered - began)
        try:
            yield
        finally:
            self._leave()
            self._note("work", time.perf_counter() - entered)

    async def _enter(self, stream: int) -> None:
        if self.active < self.limit:
            self.active += 1
            return
        if self.waiting >= self.waiting_max:
            raise Overloaded("the queue of searches is full; try again")
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(stream, deque()).append(mine)
        self.waiting += 1
        try:
            await mine
        except BaseException:
            if mine.done() and not mine.cancelled():
                self._leave()  # it was this one's turn already
            raise
        finally:
            self.waiting -= 1

    def bound(self, at_once: int, waiting_max: int) -> None:
        """Other bounds from now on."""
        self.limit, self.waiting_max = at_once, waiting_max
        self._admit()

    def _note(self, phase: str, seconds: float) -> None:
        note(phase, seconds)
        self.observe(phase, seconds)

    def _leave(self) -> None:
        self.active -= 1
        self._admit()

    def _admit(self) -> None:
        while self._queues and self.active < self.limit:
            stream, queue = self._queues.popitem(last=False)
            found = queue.popleft()
            if queue:
                self._queues[stream] = queue  # behind the others
            if not found.done():
                self.active += 1
                found.set_result(None)
