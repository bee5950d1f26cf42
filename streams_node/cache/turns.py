"""Who may ask the store: a few at once, and what stands still makes room for the next."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

STILL_S = 1.0  # 8 MiB at 8 MB/s: longer is a slow line, where one more does little harm, or a store that hangs


class Turns:
    """`limit` at once, and up to `still_max` more that have stood still: objects that hang do not stop the others."""

    def __init__(self, limit: int, still_max: int) -> None:
        self._turns = asyncio.Semaphore(limit)
        self._still_max = still_max
        self.still = 0

    @asynccontextmanager
    async def one(self) -> AsyncIterator["Turn"]:
        await self._turns.acquire()
        turn = Turn(self)
        try:
            yield turn
        finally:
            turn.end()

    def pass_on(self) -> bool:
        """Somebody who stands still gives up its place; False if too many have."""
        if self.still >= self._still_max:
            return False
        self.still += 1
        self._turns.release()
        return True

    def end(self, *, passed_on: bool) -> None:
        if passed_on:
            self.still -= 1
        else:
            self._turns.release()


class Turn:
    """Somebody's place, until it ends or has stood still for too long."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._passed_on = False
        self._watch()

    def moved(self) -> None:
        """Something came: the time begins anew."""
        if not self._passed_on:
            self._timer.cancel()
            self._watch()

    def end(self) -> None:
        self._timer.cancel()
        self._turns.end(passed_on=self._passed_on)

    def _watch(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(STILL_S, self._stands_still)

    def _stands_still(self) -> None:
        self._passed_on = self._turns.pass_on()
        if not self._passed_on:
            self._watch()
