"""Whose turn it is: some searches at once, and of those that wait, one stream after another."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from streams_node.errors import Overloaded


class Turns:
    """On the event loop only. A stream that many search delays others by one search at most."""

    def __init__(self, at_once: int, waiting_max: int) -> None:
        self._free = at_once
        self._waiting_max = waiting_max
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
        if self._free:
            self._free -= 1
            return
        if self.waiting >= self._waiting_max:
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

    def _leave(self) -> None:
        while self._queues:
            stream, queue = self._queues.popitem(last=False)
            found = queue.popleft()
            if queue:
                self._queues[stream] = queue  # behind the others
            if not found.done():
                found.set_result(None)
                return
        self._free += 1
