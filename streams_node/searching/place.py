"""Somebody in a thread who works for a search: until when, and how he gets records, which only the loop can fetch."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Self

from streams_node.searching.turns import Busy

Fetch = Callable[[Sequence[int]], Coroutine[Any, Any, Mapping[int, object]]]  # what no index decides


class Place:
    """Made on the loop, and entered as a block: behind it nobody waits any more. The rest is called by who works."""

    def __init__(self, until: float, fetch: Fetch) -> None:
        self.busy = Busy()
        self.until = until
        self._fetch = fetch
        self._left = False
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._left = True

    def over(self) -> bool:
        """Whether the time is over, or nobody waits any more."""
        return self._left or time.monotonic() >= self.until

    def records(self, seqs: Sequence[int]) -> Mapping[int, object]:
        return self.busy.without(asyncio.run_coroutine_threadsafe(self._fetch(seqs), self._loop).result)
