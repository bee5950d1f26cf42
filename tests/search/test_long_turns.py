"""Turns of what takes long: fewer while others are busy, and all again when they are not."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

import pytest

from streams_node.searching import turns as turns_module
from streams_node.searching.turns import Busy, LongTurns
from tests.indexing.world import on_loop

LOOK_S = 0.02


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_module, "LOOK_S", LOOK_S)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(LOOK_S / 10)


def test_what_is_waited_for_is_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("streams_node.searching.turns.time.monotonic", lambda: now[0])
    busy = Busy()

    def passing(seconds: float) -> float:
        now[0] += seconds
        return seconds

    def work(first: float, wait: float) -> str:
        passing(first)
        assert busy.without(lambda: passing(wait)) == wait
        with pytest.raises(ZeroDivisionError):
            busy.without(lambda: passing(wait) / 0)
        return "done"

    assert busy.at(work, 2, 30) == "done"
    assert busy.at(work, 1, 500) == "done"
    assert busy.seconds == 3
    with pytest.raises(TypeError):
        busy.at(work)


@on_loop
async def test_without_others_all_turns_are_given() -> None:
    turns = LongTurns(4, 10, 1)
    async with AsyncExitStack() as stack:
        for stream in range(4):
            await stack.enter_async_context(turns.turn(stream))
        assert (turns.active, turns.limit, turns.waiting) == (4, 4, 0)


@on_loop
async def test_beside_busy_others_fewer_are_given_until_these_are_quiet() -> None:
    turns, order, through = LongTurns(4, 10, 1), list[int](), asyncio.Event()
    turns.others(1.0)
    await until(lambda: turns.limit == 1)
    turns.others(1.0)

    async def work(number: int) -> None:
        async with turns.turn(number):
            order.append(number)
            await through.wait()

    running = [asyncio.create_task(work(number)) for number in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (order, turns.active, turns.limit, turns.waiting) == ([0], 1, 1, 2)
    await until(lambda: turns.waiting == 0)  # though the first one is not through
    assert (turns.active, turns.limit) == (3, 4)
    through.set()
    await asyncio.gather(*running)
    assert sorted(order) == [0, 1, 2]


@on_loop
async def test_others_that_have_little_to_do_change_nothing() -> None:
    turns = LongTurns(4, 10, 1)
    for _ in range(20):
        turns.others(LOOK_S / 1000)
        assert turns.limit == 4
        await asyncio.sleep(LOOK_S / 5)


@on_loop
async def test_less_is_enough_to_go_on_than_to_begin() -> None:
    """What is quicker for having a core is not to lose it for that."""
    turns = LongTurns(4, 10, 2)
    turns.others(1.0)
    await until(lambda: turns.limit == 2)
    turns.others(0.3 * LOOK_S)
    turns._look()
    assert turns.limit == 2
    turns.others(0.1 * LOOK_S)
    turns._look()
    assert turns.limit == 4
    turns.others(0.3 * LOOK_S)
    turns._look()
    assert turns.limit == 4


@on_loop
async def test_what_is_under_way_goes_on_when_others_come() -> None:
    turns = LongTurns(2, 10, 1)
    async with turns.turn(1), turns.turn(2):
        turns.others(1.0)
        await until(lambda: turns.limit == 1)
        assert turns.active == 2


@on_loop
async def test_other_bounds_hold_in_both_ways() -> None:
    """Memory is short, say."""
    turns = LongTurns(4, 10, 2)
    turns.others(1.0)
    await until(lambda: turns.limit == 2)
    turns.bound(1, 3)
    assert (turns.limit, turns.waiting_max) == (1, 3)
    turns.bound(3, 10)
    assert (turns.limit, turns.waiting_max) == (2, 10)
    await until(lambda: turns.limit == 3)


async def served(turns: LongTurns, later_s: Mapping[int, float], stream: Callable[[int], int]) -> list[int]:
    """The order in which turns are had by those who all come while another one has the only turn."""
    order = list[int]()

    async def work(number: int) -> None:
        async with turns.turn(stream(number), None, later_s[number]):
            order.append(number)

    async with turns.turn(0):
        running = [asyncio.create_task(work(number)) for number in later_s]
        while turns.waiting < len(later_s):  # noqa: ASYNC110 - they come one after another, at once
            await asyncio.sleep(0)
    await asyncio.gather(*running)
    return order


@on_loop
async def test_of_a_stream_what_takes_less_goes_first_if_it_came_little_later() -> None:
    turns = LongTurns(1, 10, 1)
    assert await served(turns, {1: 60.0, 2: 30.0, 3: 0.0, 4: 30.0}, lambda _: 1) == [3, 2, 4, 1]
    assert (turns.active, turns.waiting) == (0, 0)


@on_loop
async def test_who_has_waited_long_goes_before_what_takes_less(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def later() -> float:
        now[0] += 1.0
        return now[0]

    monkeypatch.setattr("streams_node.searching.turns.time.monotonic", later)
    assert await served(LongTurns(1, 10, 1), {1: 2.5, 2: 0.0, 3: 0.0, 4: 0.0}, lambda _: 1) == [2, 3, 1, 4]


@on_loop
async def test_streams_take_turns_whatever_takes_less() -> None:
    found = await served(LongTurns(1, 10, 1), {1: 0.0, 2: 0.0, 11: 60.0}, lambda number: number // 10)
    assert found == [1, 11, 2]


@on_loop
async def test_who_waits_no_longer_is_forgotten() -> None:
    turns, order = LongTurns(1, 10, 1), list[int]()

    async def work(number: int, later_s: float) -> None:
        async with turns.turn(number % 2, None, later_s):
            order.append(number)

    async with turns.turn(0):
        running = [asyncio.create_task(work(number, 60.0 - number)) for number in range(6)]
        await until(lambda: turns.waiting == 6)
        for task in (running[0], running[3], running[2], running[4]):
            task.cancel()
        await asyncio.gather(running[0], running[3], running[2], running[4], return_exceptions=True)
        assert (turns.waiting, [len(queue) for queue in turns._queues.values()]) == (2, [2])
    await asyncio.gather(running[1], running[5])
    assert (order, turns.active, turns._queues) == ([5, 1], 0, {})


@on_loop
async def test_who_is_closed_while_waiting_had_no_turn() -> None:
    """As what is left when a loop ends."""
    turns = LongTurns(1, 10, 1)
    async with turns.turn(0):
        waiting = turns.enter(1, 0.0)
        waiting.send(None)
        assert turns.waiting == 1
        waiting.close()
        assert (turns.active, turns.waiting, turns._queues) == (1, 0, {})
    assert turns.active == 0
