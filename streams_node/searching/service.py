"""Runs searches: each in its turn, in the threads of searches; what takes long in threads of its own, in another turn.

With one queue for both, a search of a millisecond took 16 beside four clients that ask for much; and what takes long
leaves a core to the others while these are busy (decisions/0002).
"""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from streams_node.answers import Indexes
from streams_node.config import Settings
from streams_node.errors import StreamsError, Unavailable
from streams_node.indexing.priority import lower
from streams_node.ingest.state import StreamState
from streams_node.read.cold import ColdReader
from streams_node.read.pages import deleted
from streams_node.searching.answer import Answer
from streams_node.searching.asked import Asked, Found
from streams_node.searching.covered import Joined
from streams_node.searching.minis import Minis
from streams_node.searching.recent import Recent
from streams_node.searching.short import Short
from streams_node.searching.sources import Texts
from streams_node.searching.turns import LongTurns, Turns
from streams_node.wal.database import Database

P = ParamSpec("P")
T = TypeVar("T")
_NICE = 5
_LONG_NICE = 12
_LATER_S = 16 * 4e-9  # for each document, which takes some 4 ns: what takes less goes first if it is so little late,
_LATER_SHARE = 4  # and no later than when so much of its time is over


def _give_way(by: int) -> None:
    """A thread of searches lets the loop and the writer go first, and long work what is short (decisions/0002)."""
    if sys.platform == "linux":  # where threads have priorities of their own
        lower(threading.get_native_id(), by)


def _cores() -> int:
    """That this process may use: a container may have some of the machine's only."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def _submitted(pool: ThreadPoolExecutor, work: Callable[[], T]) -> Future[T]:
    try:
        return pool.submit(work)
    except RuntimeError:  # the node stops
        raise Unavailable("the node is stopping; no search begins any more") from None


class Searches:
    """Made once a node; on the event loop."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database = database
        self.scan_bytes = settings.search_scan_bytes_max
        at_once = settings.search_concurrency
        self._pool = ThreadPoolExecutor(at_once, "search", _give_way, (_NICE,))
        self._long_pool = ThreadPoolExecutor(at_once, "search-long", _give_way, (_LONG_NICE,))
        self.recent = Recent(database, settings.search_recent_bytes_max)
        self.minis = Minis(database, settings.search_minis_bytes_max)
        self.texts = Texts()
        self.joined = Joined()
        self.turns = Turns(at_once, settings.search_queue_max)
        self.long_turns = LongTurns(at_once, settings.search_queue_max, max(1, _cores() - 1))
        self.short = Short(lambda: self.long_turns.active > 0)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """In one of the threads of searches."""
        return await asyncio.wrap_future(_submitted(self._pool, partial(work, *args, **kwargs)))

    async def run_long(self, stream: int, until: float, docs: int, work: Callable[[], T]) -> tuple[T, float]:
        """What takes long, of somebody who has a turn: short work goes on beside it, and first. And how long it waited.

        About so many documents are looked at. When its other turn does not come in time it is run all the same, to
        find that the time is over.
        """
        left_s = max(0.0, until - time.monotonic())
        with self.turns.lent():
            async with self.long_turns.turn(stream, left_s, min(docs * _LATER_S, left_s / _LATER_SHARE)) as turn:
                pool = self._long_pool if time.monotonic() < until else self._pool
                return await asyncio.wrap_future(_submitted(pool, work)), turn.waited_s

    def bound(self, at_once: int, waiting_max: int) -> None:
        """Other bounds from now on, for short work and for what takes long each."""
        self.turns.bound(at_once, waiting_max)
        self.long_turns.bound(at_once, waiting_max)

    def observed_by(self, observe: Callable[[str, float], None]) -> None:
        """Who is told how long turns wait and take, by the names of their phases."""
        self.turns.observe = self.long_turns.observe = observe

    @property
    def running(self) -> int:
        return self.turns.active + self.long_turns.active

    @property
    def waiting(self) -> int:
        return self.turns.waiting + self.long_turns.waiting

    async def close(self) -> None:
        await self.minis.close()
        for pool in (self._pool, self._long_pool):
            await asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True)

    async def search(self, cold: ColdReader | None, indexes: Indexes | None, state: StreamState, asked: Asked) -> Found:
        """A page of the stream as it is when its turn comes. Overloaded when too many wait."""
        began = time.monotonic()
        async with self.turns.turn(state.id, max(0.0, asked.until - began)):  # without one the answer says so
            one = Answer(self, cold, indexes, state, asked)
            try:
                return await one.found(time.monotonic() - began)
            except StreamsError:
                if state.gone:
                    raise deleted(state) from None
                raise
