"""A search ends with its client, and what comes after it has its place; no engine is loaded before it is needed."""

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from streams_node.testing.inprocess import InProcess
from tests.indexing.world import FakeDriver, indexed, on_loop, sealed
from tests.search.world import JSON, A, append, create, found, post

PATIENCE_S = 30.0
MUCH = 1 << 40


def begin(node: InProcess, **asked: Any) -> Any:
    return node.start("POST", f"{A}/_search", JSON, json.dumps(asked).encode())


async def fill(node: InProcess) -> None:
    """Some entries, indexed."""
    await create(node)
    await append(node, [{"text": "card", "seq": seq} for seq in range(50)])
    await sealed(node)
    await FakeDriver(node).finish()


class Gate:
    """Work in a thread that goes on only when it is let through, and tells how it ended."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.begun = asyncio.Event()
        self.open = threading.Event()
        self.ended: asyncio.Future[bool] = self.loop.create_future()

    def through(self) -> None:
        self.loop.call_soon_threadsafe(self.begun.set)
        assert self.open.wait(PATIENCE_S)

    def tell(self, *, stopped: bool) -> None:
        self.loop.call_soon_threadsafe(self.ended.set_result, stopped)


@on_loop
async def test_a_search_of_the_index_ends_with_its_client(tmp_path: Path) -> None:
    from search.engine import Searcher, TimeOver  # noqa: PLC0415 - loads tantivy
    from search.engine.model import Ask, Page  # noqa: PLC0415

    with pytest.MonkeyPatch.context() as patch:
        async with indexed(tmp_path / "node", search_concurrency=1) as node:
            await fill(node)
            assert len((await found(node, q="card", sort=["offset"]))["hits"]) == 50
            gate, real = Gate(), Searcher.page

            def page(_searcher: Searcher, ask: Ask) -> Page:
                gate.through()
                gate.tell(stopped=ask.over())
                raise TimeOver

            patch.setattr(Searcher, "page", page)
            running = begin(node, q="card", sort=["offset"])
            async with asyncio.timeout(PATIENCE_S):
                await gate.begun.wait()
                await running.hang_up()
                gate.open.set()
                assert await gate.ended  # the thread was told to stop
            assert not running.head  # there was nobody to answer
            patch.setattr(Searcher, "page", real)
            assert len((await found(node, q="card", sort=["offset"]))["hits"]) == 50


@on_loop
async def test_what_takes_long_keeps_nothing_short_waiting(tmp_path: Path) -> None:
    """With one turn for each: the first long search is under way, the second one waits behind it, and leaves."""
    from search.engine import Searcher  # noqa: PLC0415 - loads tantivy
    from search.engine.model import Ask, Page  # noqa: PLC0415

    with pytest.MonkeyPatch.context() as patch:
        async with indexed(tmp_path / "node", search_concurrency=1) as node:
            await fill(node)
            searches = node.context.searches
            gate, real = Gate(), Searcher.page

            def page(searcher: Searcher, ask: Ask) -> Page:
                if searcher.effort(ask) == MUCH and not ask.over():
                    gate.through()
                return real(searcher, ask)

            patch.setattr(Searcher, "page", page)
            patch.setattr(Searcher, "effort", lambda _, ask: MUCH if ask.sort[0].by == "score" else 0)
            async with asyncio.timeout(PATIENCE_S):
                first, second = begin(node, q="card"), begin(node, q="card")
                await gate.begun.wait()
                while not searches.waiting:  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0)
                assert (searches.running, searches.waiting, searches.turns.active) == (1, 1, 0)
                assert len((await found(node, q="card", sort=["offset"]))["hits"]) == 50
                late = await post(node, q="card", timeout_ms=100)  # its turn does not come in time
                assert (late.status, json.loads(late.body)["hits"]) == (408, [])
                await second.hang_up()
                assert (searches.running, searches.waiting) == (1, 0)
                gate.open.set()
                await first.task
                assert len(json.loads(b"".join(first.parts))["hits"]) == 50
                assert (searches.running, searches.waiting) == (0, 0)


@on_loop
async def test_a_search_that_waits_leaves_the_queue_with_its_client(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node", search_concurrency=1) as node:
        await create(node)
        await append(node, [{"text": "card"}])
        turns = node.context.searches.turns
        async with asyncio.timeout(PATIENCE_S):
            async with turns.turn(1):
                running = begin(node, q="card")
                while not turns.waiting:  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0)
                await running.hang_up()
                assert turns.waiting == 0
            assert len((await found(node, q="card"))["hits"]) == 1


def test_a_node_is_put_together_without_the_engines_of_indexes() -> None:
    heavy = ("tantivy", "pyarrow", "boto3")
    said = subprocess.run(
        [sys.executable, "-c", f"import sys, streams_node.app; print([m for m in {heavy} if m in sys.modules])"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout.strip() == "[]"
