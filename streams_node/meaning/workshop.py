"""The threads in which meanings are made and used."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from streams_node.errors import InvariantBroken
from streams_node.meaning.common import Commons
from streams_node.meaning.meaning import Meaning
from streams_node.meaning.standing import Stored
from streams_node.observe.logs import get_logger

log = get_logger(__name__)
T = TypeVar("T")


class Workshop:
    """Only the event loop touches it; what runs in its threads touches nothing but its arguments."""

    def __init__(self) -> None:
        self.commons = Commons()
        self._making = ThreadPoolExecutor(1, thread_name_prefix="make-meaning")
        # Two each: work of one stream, bounded but long, does not keep all others waiting.
        self._checking = ThreadPoolExecutor(2, thread_name_prefix="check-entries")
        self._promoting = ThreadPoolExecutor(2, thread_name_prefix="promote-entries")

    async def make(self, make: Callable[[], T]) -> T:
        """Run what compiles, or decides about what compiles."""
        return await asyncio.get_running_loop().run_in_executor(self._making, make)

    async def check(self, check: Callable[[], T]) -> T:
        """Run what looks into the entries of an append."""
        return await asyncio.get_running_loop().run_in_executor(self._checking, check)

    async def promote(self, promote: Callable[[], T]) -> T:
        """Run what looks into the entries of a page."""
        return await asyncio.get_running_loop().run_in_executor(self._promoting, promote)

    async def meaning(self, stored: Stored) -> Meaning:
        """The meaning of a stored row; one that cannot be used says why to who asks it, and to nobody else."""
        try:
            return await self.make(lambda: Meaning.stored(stored, self.commons))
        except Exception as failure:
            log.exception("a stored schema cannot be used", reason=repr(failure))
            return Meaning.unusable(InvariantBroken("the stream's schema cannot be used; the node's log says why"))

    def close(self) -> None:
        for pool in (self._making, self._checking, self._promoting):
            pool.shutdown(wait=False, cancel_futures=True)
