"""Runs searches: each in its turn, in the threads of searches."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from streams_node.answers import Indexes
from streams_node.config import Settings
from streams_node.errors import StreamsError
from streams_node.indexing.priority import lower
from streams_node.ingest.state import StreamState
from streams_node.read.cold import ColdReader
from streams_node.read.pages import deleted
from streams_node.searching.answer import Answer
from streams_node.searching.asked import Asked, Found
from streams_node.searching.minis import Minis
from streams_node.searching.recent import Recent
from streams_node.searching.sources import Texts
from streams_node.searching.turns import Turns
from streams_node.wal.database import Database

P = ParamSpec("P")
T = TypeVar("T")
_NICE = 5


def _give_way() -> None:
    """A thread of searches lets the loop and the writer go first (decisions/0002)."""
    if sys.platform == "linux":  # where threads have priorities of their own
        lower(threading.get_native_id(), _NICE)


class Searches:
    """Made once a node; on the event loop."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database = database
        self.scan_bytes = settings.search_scan_bytes_max
        self._pool = ThreadPoolExecutor(settings.search_concurrency, "search", _give_way)
        self.recent = Recent(database, settings.search_recent_bytes_max)
        self.minis = Minis(database, settings.search_minis_bytes_max)
        self.texts = Texts()
        self.turns = Turns(settings.search_concurrency, settings.search_queue_max)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """In one of the threads of searches."""
        return await asyncio.wrap_future(self._pool.submit(work, *args, **kwargs))

    async def close(self) -> None:
        await self.minis.close()
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)

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
