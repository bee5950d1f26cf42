"""Forks that several requests end at once."""

import asyncio
from pathlib import Path

from streams_node.ingest.state import StreamState
from streams_node.testing.inprocess import in_process
from tests.http.wire import ask

SOURCE, FORK = "/v1/stream/source", "/v1/stream/fork"


def test_of_two_who_delete_a_fork_at_once_one_is_told_that_it_is_gone(tmp_path: Path) -> None:
    """Its source is looked up in between, on disk when it is not in memory."""

    async def statuses() -> list[int]:
        async with in_process(tmp_path) as node:
            ledger = node.context.ledger
            find = ledger.source

            async def from_disk(state: StreamState) -> StreamState | None:
                await asyncio.sleep(0)
                return await find(state)

            ledger.source = from_disk  # type: ignore[method-assign]
            await ask(node, "PUT", SOURCE, {"content-type": "application/json"}, b"[1]")
            assert (await ask(node, "PUT", FORK, {"stream-forked-from": SOURCE})).status == 201
            replies = await asyncio.gather(*(ask(node, "DELETE", FORK) for _ in range(3)))
            assert (await ask(node, "HEAD", FORK)).status == 404
            return sorted(reply.status for reply in replies)

    assert asyncio.run(statuses()) == [204, 404, 404]
