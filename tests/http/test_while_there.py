"""An answer that is made only as long as its client is there, and begins before anybody looks at that."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from streams_node.http.bodies import Disconnected
from streams_node.http.live import while_there
from tests.indexing.world import on_loop

LONG_S, SHORT_S = 30.0, 0.01


async def aside() -> Any:
    for _ in range(1_000_000):
        await asyncio.sleep(0)


async def never() -> Any:
    await asyncio.get_running_loop().create_future()


def asked(making: Callable[[], Any], receive: Callable[[], Awaitable[Any]] = never, seconds: float = LONG_S) -> Any:
    return while_there(making(), {}, receive, seconds)


async def gone() -> Any:
    return {"type": "http.disconnect"}


class Witness:
    """How a coroutine ended."""

    def __init__(self) -> None:
        self.ended: list[type[BaseException]] = []

    async def watched(self, waiting: Callable[[], Awaitable[Any]]) -> str:
        try:
            await waiting()
        except BaseException as failure:
            self.ended.append(type(failure))
            raise
        return "answer"


@on_loop
async def test_what_waits_for_nothing_is_answered_at_once() -> None:
    async def at_once() -> str:
        return "answer"

    async def failing() -> str:
        raise ValueError("wrong")

    assert await asked(at_once, gone, 0.0) == "answer"
    with pytest.raises(ValueError, match="wrong"):
        await asked(failing)


@pytest.mark.parametrize("asides", [0, 1, 5])
@on_loop
async def test_what_steps_aside_and_waits_is_answered(asides: int) -> None:
    async def waiting() -> list[Any]:
        found: list[Any] = []
        for at in range(asides):
            await asyncio.sleep(0)
            found.append(at)
        found.append(await asyncio.sleep(SHORT_S, "slept"))
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SHORT_S):
                await never()
        return [*found, "end"]

    assert await asked(waiting) == [*range(asides), "slept", "end"]


@pytest.mark.parametrize("asides", [0, 1, 5])
@on_loop
async def test_failures_behind_a_wait_are_its_own(asides: int) -> None:
    async def failing() -> None:
        for _ in range(asides):
            await asyncio.sleep(0)
        await asyncio.sleep(SHORT_S)
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        await asked(failing)


@pytest.mark.parametrize("asides", [0, 3])
@on_loop
async def test_it_ends_with_its_client_and_with_its_time(asides: int) -> None:
    async def waiting() -> None:
        for _ in range(asides):
            await asyncio.sleep(0)
        await never()

    witness = Witness()
    with pytest.raises(Disconnected):
        await asked(lambda: witness.watched(waiting), gone)
    with pytest.raises(TimeoutError):
        await asked(lambda: witness.watched(waiting), never, SHORT_S)
    assert witness.ended == [asyncio.CancelledError] * 2


@on_loop
async def test_who_is_cancelled_while_he_steps_aside_is_told() -> None:
    witness = Witness()
    task = asyncio.create_task(asked(lambda: witness.watched(aside)))
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert witness.ended == [asyncio.CancelledError]


@on_loop
async def test_a_time_limit_inside_may_end_while_it_steps_aside() -> None:
    async def limited() -> str:
        try:
            async with asyncio.timeout(SHORT_S):
                await aside()
        except TimeoutError:
            return "answer"
        return "late"

    assert await asked(limited) == "answer"
