"""Whose turn it is: some searches at once, and of those that wait, one stream after another."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from streams_node.errors import Overloaded


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

    @asynccontextmanager
    async def turn(self, stream: int) -> AsyncIterator[None]:
        """Wait for a turn, and have it. Overloaded when too many wait."""
        await self._enter(stream)
        try:
            yield
        finally:
            self._leave()

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
