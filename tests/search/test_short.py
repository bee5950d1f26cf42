"""What is short is looked for on the loop: what is learnt of it, how much of a pass it takes, and what leaves it."""

import asyncio
import math
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from search.language import query, shape
from streams_node.schema.search_config import parse
from streams_node.searching import short as short_module
from streams_node.searching.short import SHORT_S, Short, spent_s
from streams_node.testing.inprocess import InProcess
from tests.indexing.world import FakeDriver, indexed, on_loop, sealed
from tests.search.world import CONFIG, append, create, found, post

KNOWN_AFTER = 7  # pages


def idle() -> bool:
    return False


# --- what is learnt ---


def test_a_kind_is_short_once_enough_of_it_were() -> None:
    short = Short(idle)
    for _ in range(KNOWN_AFTER):
        assert not short.is_short("a")
        short.took("a", SHORT_S / 4)
    assert short.is_short("a")
    assert not short.is_short("b")


def test_a_view_is_known_once_a_thread_has_looked_into_it() -> None:
    class View:
        pass

    short, view, other = Short(idle), View(), View()
    assert not short.knows(view, "a")
    short.knew(view, "a")
    assert [short.knows(view, "a"), short.knows(view, "b"), short.knows(other, "a")] == [True, False, False]
    del view
    assert len(short._views) == 0


def test_one_long_page_is_remembered_for_a_while() -> None:
    short, quick = Short(idle), SHORT_S / 4
    for _ in range(KNOWN_AFTER):
        short.took("a", quick)
    short.took("a", SHORT_S * 4)
    after = 0
    while not short.is_short("a"):
        short.took("a", quick)
        after += 1
    assert after == pytest.approx(KNOWN_AFTER, abs=1)


def test_what_needs_records_never_is() -> None:
    short = Short(idle)
    short.took("a", math.inf)
    for _ in range(1000):
        short.took("a", 0.0)
    assert not short.is_short("a")


def test_what_was_not_asked_for_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_module, "_KINDS_MAX", 2)
    monkeypatch.setattr(short_module, "SHORT_S", 1.0)
    short = Short(idle)
    for kind in ("a", "b", "a", "c"):
        short.took(kind, 0.0)
    assert [short.is_short(kind) for kind in "abc"] == [True, False, True]


def test_what_a_thread_waits_for_is_not_its_work() -> None:
    before = spent_s()
    threading.Event().wait(0.05)
    assert spent_s() - before < 0.02
    while spent_s() - before < 0.02:
        pass


def test_shapes_differ_in_everything_but_words_and_values() -> None:
    config = parse({**CONFIG.document, "aliases": {}})

    def shaped(text: str, parts_max: int = 32) -> int | None:
        return shape(query(text, config), parts_max)

    same = ["level:error", "level:warn"], ["status:>=4", "status:>=5"], ['"card declined"', '"pay again"']
    for one, other in same:
        assert shaped(one) == shaped(other)
    texts = (
        "level:error",
        "status:500",
        "status:>500",
        "has:status",
        "level:err*",
        "card",
        "card pay",
        "car*",
        "NOT card",
        '"card pay"',
        "level:error OR level:warn",
        "level:error level:warn",
        "level:a (status:1 OR status:2)",
        "(level:a status:1) OR status:2",
    )
    assert len({shaped(text) for text in texts}) == len(texts)


def test_a_long_query_has_no_shape() -> None:
    def shaped(text: str) -> int | None:
        return shape(query(text, CONFIG), 8)

    assert shaped("level:a OR level:b OR level:c") is not None
    assert shaped(" OR ".join(["level:a"] * 20)) is None
    assert shaped(f'"{" ".join(["card"] * 40)}"') is None
    assert shaped(" OR ".join(["level:a"] * 500)) is None


# --- passes of the loop ---


@on_loop
async def test_a_pass_of_the_loop_has_room_for_some_and_who_came_first_goes_first() -> None:
    short, order = Short(idle), list[Any]()
    for _ in range(20):
        short.took("a", SHORT_S)

    async def one(number: int) -> None:
        await short.room("a")
        order.append(number)

    async def passes() -> None:
        while len([each for each in order if each != "pass"]) < 20:
            order.append("pass")
            await asyncio.sleep(0)

    await asyncio.gather(*(one(number) for number in range(10)), passes(), *(one(number) for number in range(10, 20)))
    assert [each for each in order if each != "pass"] == list(range(20))
    runs, run = list[int](), 0
    for each in order:
        run = 0 if each == "pass" else run + 1
        runs.append(run)
    assert max(runs) <= 2 * math.ceil(short_module._PASS_S / SHORT_S)


@on_loop
async def test_beside_long_searches_there_is_less_room() -> None:
    async def at_once(*, busy: bool) -> int:
        short, gone = Short(lambda: busy), 0
        short.took("a", SHORT_S)
        await asyncio.sleep(0)
        short._next()

        async def one() -> None:
            nonlocal gone
            await short.room("a")
            gone += 1

        tasks = [asyncio.create_task(one()) for _ in range(50)]
        await asyncio.sleep(0)
        seen = gone
        await asyncio.gather(*tasks)
        return seen

    assert 0 < await at_once(busy=True) < await at_once(busy=False) < 50


@on_loop
async def test_who_leaves_while_he_waits_keeps_nobody_waiting() -> None:
    short = Short(idle)
    for _ in range(3):
        short.took("a", 1.0)
    await short.room("a")
    tasks = [asyncio.create_task(short.room("a")) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    async with asyncio.timeout(10):
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in ended] == [type(None), asyncio.CancelledError, type(None)]


# --- of a node ---


async def stored(node: InProcess, entries: list[Any]) -> None:
    """And indexed."""
    await append(node, entries)
    await sealed(node)
    await FakeDriver(node).finish()


@pytest.fixture
def on_the_loop(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each page, whether it was looked for there; all are short, once they are known."""
    from search.engine import Searcher  # noqa: PLC0415 - loads tantivy

    seen, real = list[bool](), Searcher.page

    def page(searcher: Any, ask: Any) -> Any:
        seen.append(threading.current_thread() is threading.main_thread())
        return real(searcher, ask)

    monkeypatch.setattr(Searcher, "page", page)
    monkeypatch.setattr(short_module, "SHORT_S", 1.0)  # on any machine
    monkeypatch.setattr("streams_node.searching.paged.GIVEN_UP_S", 10.0)
    return seen


@on_loop
async def test_pages_are_looked_for_on_the_loop_once_they_are_known_to_be_short(
    tmp_path: Path, on_the_loop: list[bool]
) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node)
        await stored(node, [{"text": f"card {at % 3}", "level": "error", "status": at} for at in range(300)])
        answers = [await found(node, q="level:error", size=7, sort=["offset"]) for _ in range(4)]
        assert on_the_loop == [False, True, True, True]
        assert all(each["hits"] == answers[0]["hits"] and len(each["hits"]) == 7 for each in answers)
        del on_the_loop[:]
        assert [(await found(node, q=f"card {at % 3}"))["hits"] for at in range(6)]
        assert on_the_loop == [False, *[True] * 5]  # another shape


@on_loop
async def test_a_page_that_takes_longer_than_was_known_ends_in_a_thread(
    tmp_path: Path, on_the_loop: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams_node.searching.paged.GIVEN_UP_S", 0.0)
    async with indexed(tmp_path / "node") as node:
        await create(node)
        await stored(node, [{"text": "card", "status": at} for at in range(300)])
        for _ in range(2):
            answer = await found(node, q="status:<200", sort=["offset"], size=500)
            assert len(answer["hits"]) == 200
            assert not answer["timed_out"]
            assert answer["coverage"]["complete"]
        assert on_the_loop == [False, True, False]


@on_loop
async def test_a_page_for_which_records_are_read_is_never_on_the_loop_again(
    tmp_path: Path, on_the_loop: list[bool]
) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node)
        await stored(node, [{"text": ["card one", "two declined"], "status": at} for at in range(40)])
        for _ in range(12):
            assert (await found(node, q='"one two"', sort=["offset"]))["hits"] == []
            assert len((await found(node, q='"card one"', sort=["offset"]))["hits"]) == 40
        assert not any(on_the_loop)
        # One of the same shape, the first one for which records are needed.
        await found(node, q="status:7", sort=["offset"])
        await found(node, q="status:8", sort=["offset"])
        assert on_the_loop[-2:] == [False, True]
        huge = 2**70
        await stored(node, [{"status": huge}])
        assert len((await found(node, q=f"status:{huge}", sort=["offset"]))["hits"]) == 1
        assert on_the_loop[-2:] == [True, False]
        assert len((await found(node, q=f"status:{huge}", sort=["offset"]))["hits"]) == 1
        assert on_the_loop[-1] is False


@on_loop
async def test_a_page_that_had_no_time_teaches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from search.engine import Page, Searcher  # noqa: PLC0415 - loads tantivy

    learnt, real, late = list[float](), Searcher.page, False
    monkeypatch.setattr(Short, "took", lambda _short, _kind, seconds: learnt.append(seconds))

    def page(searcher: Any, ask: Any) -> Page:
        found: Page = real(searcher, ask)
        return replace(found, timed_out=True) if late else found

    monkeypatch.setattr(Searcher, "page", page)
    async with indexed(tmp_path / "node") as node:
        await create(node)
        await stored(node, [{"level": "error"}])
        await found(node, q="level:error")
        assert len(learnt) == 1
        late = True
        await post(node, q="level:error")
        assert len(learnt) == 1
        monkeypatch.setattr(Short, "is_short", lambda *_: True)
        monkeypatch.setattr("streams_node.searching.paged.GIVEN_UP_S", 10.0)
        await post(node, q="level:error")
        assert len(learnt) == 1
        monkeypatch.setattr("streams_node.searching.paged.GIVEN_UP_S", 0.0)
        await post(node, q="level:error")
        assert len(learnt) == 2  # it was given up


@on_loop
async def test_the_first_page_of_a_new_view_is_looked_for_in_a_thread(tmp_path: Path, on_the_loop: list[bool]) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node)
        for _ in range(2):
            await stored(node, [{"level": "error"}])
            for _ in range(3):
                await found(node, q="level:error", sort=["offset"])
    assert on_the_loop == [False, True, True] * 2
