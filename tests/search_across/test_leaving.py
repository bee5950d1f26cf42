"""A search of many streams ends with its client."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.indexing.world import indexed, on_loop
from tests.search.world import JSON
from tests.search_across.world import BUCKET, bucket, put, seen

NAMES = [f"s{number}" for number in range(20)]
PATIENCE_S = 30.0


@on_loop
async def test_a_search_of_many_streams_ends_with_its_client(tmp_path: Path) -> None:
    """The stream that is being looked through is left in the middle, those behind it are not looked at, and turns are
    free again.
    """
    async with indexed(tmp_path / "node", search_concurrency=1) as node:
        await bucket(node, NAMES)
        for number, name in enumerate(NAMES):
            await put(node, name, [{"text": "card", "seq": number}])
        loop, begun, gate = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
        ended: asyncio.Future[bool] = loop.create_future()
        looked: list[int] = []

        def look(_pieces: Any, _spans: Any, _wanted: Any, over: Any) -> Any:
            looked.append(1)
            loop.call_soon_threadsafe(begun.set)
            assert gate.wait(PATIENCE_S)
            loop.call_soon_threadsafe(ended.set_result, over())
            raise AssertionError("nobody waits for this")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("streams_node.searching.answer.look", look)
            asked = json.dumps({"q": "card"}).encode()
            running = node.start("POST", f"/{BUCKET}/streams/_search", JSON, asked)
            async with asyncio.timeout(PATIENCE_S):
                await begun.wait()
                await running.hang_up()
                gate.set()
                assert await ended, "the thread was told to stop"
            assert not running.head, "there was nobody to answer"
        turns = node.context.searches.turns
        assert (turns.active, turns.waiting) == (0, 0)
        assert len(looked) == 1
        assert len((await seen(node, q="card", size=100))["hits"]) == len(NAMES)
