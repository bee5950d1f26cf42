"""Threads for requests to the store: the event loop waits without standing still."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_END_S = 2.0  # to a folder a request ends within this; to a network it ends by itself, and changes nothing that matters


class Threads:
    """Runs what blocks. Who gives up waiting leaves the request under way."""

    def __init__(self, threads: int, name: str) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._under_way: set[Future[Any]] = set()

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        future = self._executor.submit(partial(work, *args, **kwargs))
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return await asyncio.wrap_future(future)

    async def close(self) -> None:
        """Nothing begins any more; what is under way gets a moment to end."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        under_way = list(self._under_way)
        if under_way:
            await asyncio.to_thread(wait, under_way, _END_S)
