"""What a stream lets go of is known to readers once it is stored, whoever has stopped waiting for that."""

import asyncio
from pathlib import Path

import anyio
import pytest

from streams_node.errors import StreamsError
from streams_node.ingest.retain import retain
from streams_node.protocol.offsets import encode
from streams_node.testing.inprocess import in_process
from streams_node.wal.lookup import Name
from tests.http.wire import ask

PATH, NAME = "/v1/stream/s", Name("_default", "s")


def test_a_trim_whose_answer_was_given_up_is_known_when_it_is_stored(tmp_path: Path) -> None:
    async def main() -> None:
        async with in_process(tmp_path) as node:
            ledger = node.context.ledger
            assert (await ask(node, "PUT", PATH, body=b"one")).status == 201
            state = await ledger.readable(NAME)
            start = f"{PATH}?offset={encode(state.epoch, 0)}"
            assert (await ask(node, "GET", start)).status == 200
            trimming = asyncio.ensure_future(retain(ledger, state, 1))
            await asyncio.sleep(0)
            assert ledger.committer.open.retained
            ledger.committer._wait_s_max = -1.0
            ledger.committer._give_up()
            with pytest.raises(StreamsError):
                await trimming
            await asyncio.sleep(0)
            await ledger.committer.settled()
            assert (await ask(node, "GET", start)).status == 410
            assert state.earliest_seq == 1

    anyio.run(main)


def test_a_state_that_left_memory_meanwhile_is_not_the_one_that_is_trimmed(tmp_path: Path) -> None:
    async def main() -> None:
        async with in_process(tmp_path) as node:
            ledger = node.context.ledger
            for body in (b"one", b"two"):
                await ask(node, "PUT", PATH)
                assert (await ask(node, "POST", PATH, {"content-type": "application/octet-stream"}, body)).status == 204
            old = await ledger.readable(NAME)
            ledger.committer.flush_heads()
            await ledger.committer.settled()
            ledger.states.drop(old)
            await retain(ledger, old, 1)
            assert (await ledger.readable(NAME)).earliest_seq == 1
            await ask(node, "DELETE", PATH)
            await ask(node, "PUT", PATH, body=b"another life")
            await retain(ledger, old, 2)
            assert (await ledger.readable(NAME)).earliest_seq == 0

    anyio.run(main)
