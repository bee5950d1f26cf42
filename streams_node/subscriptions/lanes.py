"""Who may call now: so many at once, so many to one receiver, so many that failed before, and so many a second.

Receivers that do not answer keep their places for the whole time limit of a call. They share a quarter of the places,
so that the others go on; and no address, with however many subscriptions, gets more than a quarter.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_SHARE = 4
_APPENDS_A_GAP = 1000.0  # a call costs about as much as thirty appends: this keeps calls below a tenth of the time
_GAPS_MAX = 4.0
_LAG_S = 0.005  # that a turn begins late while appends keep the event loop busy, and it has a processor to itself
_SCARCITY_MAX = 4.0
_SMOOTHING = 0.2
_STREAMS_A_TURN = 16


class Lanes:
    """Places for calls."""

    def __init__(self, *, parallel_max: int, per_second_max: int) -> None:
        share = max(1, parallel_max // _SHARE)
        self._share = share
        self._all = asyncio.Semaphore(parallel_max)
        self._failing = asyncio.Semaphore(share)
        self._origins: dict[str, tuple[asyncio.Semaphore, int]] = {}
        self._gap_s = 1 / per_second_max
        self._next_s = 0.0
        self._stretch = 1.0
        self._lag_s = 0.0

    @asynccontextmanager
    async def place(self, origin: str, *, failing: bool) -> AsyncIterator[None]:
        """A place for one call, for as long as the block runs."""
        async with self._origin(origin):
            if failing:
                async with self._failing, self._all:
                    yield
            else:
                async with self._all:
                    yield

    async def pace(self, appends_per_second: float) -> None:
        """Wait for a turn. The more appends there are, the rarer turns are: they take their time from appends."""
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        turn_s = max(self._next_s, now_s)
        self._stretch = stretch_of(appends_per_second, self._lag_s)
        self._next_s = turn_s + self._gap_s * self._stretch
        if turn_s > now_s:
            await asyncio.sleep(turn_s - now_s)
            self._lag_s += (loop.time() - turn_s - self._lag_s) * _SMOOTHING

    def spend(self, streams: int) -> None:
        """A call that tells of many streams takes more than one turn."""
        self._next_s += self._gap_s * self._stretch * (streams // _STREAMS_A_TURN)

    @asynccontextmanager
    async def _origin(self, origin: str) -> AsyncIterator[None]:
        semaphore, users = self._origins.get(origin) or (asyncio.Semaphore(self._share), 0)
        self._origins[origin] = (semaphore, users + 1)
        try:
            async with semaphore:
                yield
        finally:
            semaphore, users = self._origins[origin]
            if users == 1:
                del self._origins[origin]
            else:
                self._origins[origin] = (semaphore, users - 1)


def stretch_of(appends_per_second: float, lag_s: float) -> float:
    """How many times rarer turns are than they may be. A processor that is shared with others takes longer for a call,
    and does fewer appends meanwhile: then their number says too little, and how late turns begin says the rest.
    """
    scarcity = min(_SCARCITY_MAX, max(1.0, lag_s / _LAG_S))
    return 1 + min(_GAPS_MAX - 1, appends_per_second / _APPENDS_A_GAP) * scarcity
