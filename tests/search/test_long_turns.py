"""Turns of what takes long: fewer while others are answered, and all again when it is quiet."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from streams_node.searching import turns as turns_module
from streams_node.searching.turns import LongTurns
from tests.indexing.world import on_loop

QUIET_S = 0.02


@pytest.fixture(autouse=True)
def soon_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_module, "QUIET_S", QUIET_S)


@on_loop
async def test_without_others_all_turns_are_given() -> None:
    turns = LongTurns(4, 10, 1)
    async with AsyncExitStack() as stack:
        for stream in range(4):
            await stack.enter_async_context(turns.turn(stream))
        assert (turns.active, turns.limit, turns.waiting) == (4, 4, 0)


@on_loop
async def test_beside_others_fewer_are_given_until_it_is_quiet() -> None:
    turns, order, through = LongTurns(4, 10, 1), list[int](), asyncio.Event()
    turns.others()

    async def work(number: int) -> None:
        async with turns.turn(number):
            order.append(number)
            await through.wait()

    running = [asyncio.create_task(work(number)) for number in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (order, turns.active, turns.limit, turns.waiting) == ([0], 1, 1, 2)
    async with asyncio.timeout(5):
        while turns.waiting:  # noqa: ASYNC110 - nothing tells of it; the first one is not through
            await asyncio.sleep(QUIET_S / 10)
        assert (turns.active, turns.limit) == (3, 4)
        through.set()
        await asyncio.gather(*running)
    assert sorted(order) == [0, 1, 2]


@on_loop
async def test_what_is_under_way_goes_on_when_others_come() -> None:
    turns = LongTurns(2, 10, 1)
    async with turns.turn(1), turns.turn(2):
        turns.others()
        assert (turns.active, turns.limit) == (2, 1)


@on_loop
async def test_as_long_as_others_come_it_stays_so() -> None:
    turns = LongTurns(4, 10, 2)
    for _ in range(10):
        turns.others()
        assert turns.limit == 2
        await asyncio.sleep(QUIET_S / 10)


@on_loop
async def test_other_bounds_hold_in_both_ways() -> None:
    """Memory is short, say."""
    turns = LongTurns(4, 10, 2)
    turns.bound(1, 3)
    turns.others()
    assert (turns.limit, turns.waiting_max) == (1, 3)
    turns.bound(3, 10)
    assert (turns.limit, turns.waiting_max) == (2, 10)
    async with asyncio.timeout(5):
        while turns.limit != 3:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(QUIET_S / 10)
