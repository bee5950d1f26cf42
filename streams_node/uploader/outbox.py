"""Where stages put what is to be uploaded: bounded, so that a bucket that is away stops them and not the disk."""

import asyncio
from collections import deque

from streams_node.placement.made import Rewrite, Seal

_REWRITES_MAX = 2


class Outbox:
    """Seals in the order of the log, and rewrites. `taken` leaves room only once something is published or refused."""

    def __init__(self, seals_max: int) -> None:
        self._seals_max = seals_max
        self._seals: deque[Seal] = deque()
        self._rewrites: deque[tuple[Rewrite, asyncio.Future[bool]]] = deque()
        self._changed = asyncio.Condition()
        self.filled = asyncio.Event()

    @property
    def waiting_bytes(self) -> int:
        """Of log that is sealed and not published."""
        return sum(seal.log_bytes for seal in self._seals)

    @property
    def waiting(self) -> int:
        return len(self._seals) + len(self._rewrites)

    async def put_seal(self, seal: Seal) -> None:
        """Wait for room, then hand it over."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._seals) < self._seals_max)
            self._seals.append(seal)
            self.filled.set()

    async def put_rewrite(self, rewrite: Rewrite) -> bool:
        """Hand it over and wait for what comes of it: False when one of its inputs has left the catalogue meanwhile."""
        outcome: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._rewrites) < _REWRITES_MAX)
            self._rewrites.append((rewrite, outcome))
            self.filled.set()
        return await outcome

    def seals(self) -> list[Seal]:
        """What waits, oldest first; it stays until it is done."""
        return list(self._seals)

    def rewrites(self) -> list[Rewrite]:
        return [rewrite for rewrite, _ in self._rewrites]

    async def dropped_seals(self) -> list[Seal]:
        """Take all seals out: they are not to be published any more."""
        async with self._changed:
            dropped = list(self._seals)
            self._seals.clear()
            if not self._rewrites:
                self.filled.clear()
            self._changed.notify_all()
            return dropped

    async def done(self, seals: int, rewrites: dict[int, bool]) -> None:
        """The oldest seals are published; rewrites, by their place, are published or refused."""
        async with self._changed:
            for _ in range(seals):
                self._seals.popleft()
            kept: deque[tuple[Rewrite, asyncio.Future[bool]]] = deque()
            for at, (rewrite, outcome) in enumerate(self._rewrites):
                if at in rewrites:
                    if not outcome.done():  # nobody waits any more if its stage was stopped
                        outcome.set_result(rewrites[at])
                else:
                    kept.append((rewrite, outcome))
            self._rewrites = kept
            if not (self._seals or self._rewrites):
                self.filled.clear()
            self._changed.notify_all()
