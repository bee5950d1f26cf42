"""Whose turn it is: some searches at once, and of those that wait, one stream after another; of a stream, who came
first, or a little later and takes less.
"""

import asyncio
import heapq
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, Self, TypeVar

from typing_extensions import override

from streams_node.errors import Overloaded
from streams_node.observe.phases import note
from streams_node.searching.short import spent_s

_T = TypeVar("_T")
_Waiting = tuple[float, int, asyncio.Future[None]]  # until when its turn is due, and which one it is
LOOK_S = 0.05  # between two looks at how busy others are
_BUSY, _LEAST = 0.5, 0.2  # threads of others that are at work, on average: from when on, and as long as, a core is left


class Turn:
    """Entered as a block, whether or not it came. A search in a short queue costs no task, timer or generator."""

    __slots__ = ("_entered", "_later_s", "_mine", "_seconds", "_stream", "_turns", "waited_s")

    def __init__(self, turns: "Turns", stream: int, seconds: float | None, later_s: float) -> None:
        self._turns = turns
        self._stream = stream
        self._seconds = seconds
        self._later_s = later_s
        self._entered = 0.0
        self._mine = False
        self.waited_s = 0.0

    async def __aenter__(self) -> Self:
        turns, began = self._turns, time.perf_counter()
        if turns.active < turns.limit:
            turns.active += 1
            self._mine = True
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await turns.enter(self._stream, self._later_s)
                    self._mine = True
        self._entered = time.perf_counter()
        self.waited_s = self._entered - began
        if self._mine:
            turns.note(turns.phases[0], self.waited_s)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._mine:
            self._turns.leave()
            self._turns.note(self._turns.phases[1], time.perf_counter() - self._entered)


class Turns:
    """On the event loop only. A stream that many search delays others by one search at most.

    `limit` and `waiting_max` may change at any time; what is under way goes on.
    """

    def __init__(self, at_once: int, waiting_max: int, phases: tuple[str, str] = ("wait", "work")) -> None:
        self.limit = at_once
        self.phases = phases  # what the time before a turn is called, and that of the turn
        self.active = 0
        self.waiting_max = waiting_max
        self._queues: OrderedDict[int, list[_Waiting]] = OrderedDict()
        self._came = count()
        self.waiting = 0
        self.observe: Callable[[str, float], None] = lambda _phase, _seconds: None  # how long turns wait and take

    def turn(self, stream: int, seconds: float | None = None, later_s: float = 0.0) -> Turn:
        """Wait for a turn, and have it. Overloaded when too many wait; a turn that does not come in time is none.

        Others of its stream go first who have come so much later at most as they may be later less than it.
        """
        return Turn(self, stream, seconds, later_s)

    async def enter(self, stream: int, later_s: float) -> None:
        """Not at once: there is no room."""
        if self.waiting >= self.waiting_max:
            raise Overloaded("the queue of searches is full; try again")
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = time.monotonic() + later_s, next(self._came), mine
        heapq.heappush(self._queues.setdefault(stream, []), waiting)
        self.waiting += 1
        try:
            await mine
        except BaseException:
            if mine.done() and not mine.cancelled():
                self.leave()  # it was this one's turn already
            else:
                self._drop(stream, waiting)
            raise
        finally:
            self.waiting -= 1

    def bound(self, at_once: int, waiting_max: int) -> None:
        """Other bounds from now on."""
        self.limit, self.waiting_max = at_once, waiting_max
        self._admit()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Somebody else's turn meanwhile; it goes on at once behind it, and may be one too many for that moment."""
        self.leave()
        try:
            yield
        finally:
            self.active += 1

    def note(self, phase: str, seconds: float) -> None:
        note(phase, seconds)
        self.observe(phase, seconds)

    def leave(self) -> None:
        self.active -= 1
        self._admit()

    def _drop(self, stream: int, waiting: _Waiting) -> None:
        """Who waits no longer may be anywhere in the queue, and would stay until the others had their turns."""
        queue = self._queues.get(stream, [])
        if waiting in queue:
            queue.remove(waiting)
            heapq.heapify(queue)
        if not queue:
            self._queues.pop(stream, None)

    def _admit(self) -> None:
        while self._queues and self.active < self.limit:
            stream, queue = self._queues.popitem(last=False)
            *_, found = heapq.heappop(queue)
            if queue:
                self._queues[stream] = queue  # behind the others
            if not found.done():
                self.active += 1
                found.set_result(None)


class Busy:
    """How long a thread is at work on something, without what it waits for: then no core would help it."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.spent_s = 0.0  # what of it is its own

    def at(self, work: Callable[..., _T], *given: Any) -> _T:
        began, before = time.monotonic(), spent_s()
        try:
            return work(*given)
        finally:
            self.seconds += time.monotonic() - began
            self.spent_s += spent_s() - before

    def without(self, wait: Callable[[], _T]) -> _T:
        began = time.monotonic()
        try:
            return wait()
        finally:
            self.seconds -= time.monotonic() - began


class LongTurns(Turns):
    """Turns of what takes long. While others are busy, too, `beside` at once, so that a core is left to those."""

    def __init__(self, at_once: int, waiting_max: int, beside: int) -> None:
        super().__init__(at_once, waiting_max, ("wait_long", "long"))
        self._at_once = at_once
        self._beside = beside
        self._held = False
        self._busy_s = 0.0  # that others were, since the last look
        self._timer: asyncio.TimerHandle | None = None

    @override
    def bound(self, at_once: int, waiting_max: int) -> None:
        self._at_once = at_once
        super().bound(min(at_once, self._beside) if self._held else at_once, waiting_max)

    def others(self, seconds: float) -> None:
        """Somebody was busy for so long who took no such turn."""
        self._busy_s += seconds
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _look(self) -> None:
        share, self._busy_s = self._busy_s / LOOK_S, 0.0
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look) if share else None
        held = share >= (_LEAST if self._held else _BUSY)
        if held is not self._held:
            self._held = held
            self.bound(self._at_once, self.waiting_max)
