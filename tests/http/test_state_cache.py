"""One state a stream, however small the cache: requests that come together decide one after the other."""

import asyncio
import gc
import sys
import time
from collections.abc import Callable

import pytest

from streams_node.protocol.offsets import encode
from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess
from streams_node.wal.lookup import Found, Name
from tests.http.wire import ask

WithNode = Callable[..., None]
TEXT = {"content-type": "text/plain"}


async def fill_with_pinned_states(node: InProcess) -> None:
    """Five streams with so many producers that they are above the smallest cache, and changed, so that they stay."""
    for at in range(5):
        await ask(node, "PUT", f"/v1/stream/full-{at}", TEXT)
        for start in range(0, 1024, 128):
            await asyncio.gather(*(
                ask(node, "POST", f"/v1/stream/full-{at}",
                    TEXT | {"producer-id": f"p{number}", "producer-epoch": "0", "producer-seq": "0"}, b"x")
                for number in range(start, start + 128)
            ))  # fmt: skip
    assert node.context.ledger.states.bytes > 1 << 20
    assert all(state.pinned() for state in node.context.ledger.states)


def test_appends_that_wait_for_one_load_share_one_state(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/a", TEXT)
        states = node.context.ledger.states
        await node.context.ledger.committer.settled()
        await fill_with_pinned_states(node)
        for state in [state for state in states if state.name.stream == "a"]:
            states.drop(state)
        replies = await asyncio.gather(*(ask(node, "POST", "/v1/stream/a", TEXT, b"%d," % at) for at in range(8)))
        assert sorted(reply.headers["stream-next-offset"] for reply in replies) == [encode(0, at) for at in range(1, 9)]
        assert sorted((await ask(node, "GET", "/v1/stream/a")).body) == sorted(b"0,1,2,3,4,5,6,7,")

    with_node(test, state_cache_bytes_max=1 << 20, heads_flush_rows=10**6)


def test_names_that_come_during_a_load_share_the_next_one(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        states = node.context.ledger.states
        load, sizes, gate = states._load, [], asyncio.Event()

        async def counted(names: list[Name]) -> list[Found]:
            sizes.append(len(names))
            await gate.wait()
            return await load(names)

        states._load = counted
        async with asyncio.TaskGroup() as gets:
            for at in range(8):
                gets.create_task(states.get(Name("_default", f"nobody-{at % 5}")))
                if at == 0:
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                    assert sizes == [1]
            await asyncio.sleep(0)
            gate.set()
        assert sizes == [1, 4]

    with_node(test)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_lookup_that_hangs_is_given_up_in_time(with_node: WithNode, method: str) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        states = node.context.ledger.states
        load, gate = states._load, asyncio.Event()

        async def hanging(names: list[Name]) -> list[Found]:
            await gate.wait()
            return await load(names)

        states._load = hanging
        try:
            async with asyncio.timeout(30):
                assert (await ask(node, method, "/v1/stream/nobody")).status == 408
        finally:
            gate.set()
        assert (await ask(node, method, "/v1/stream/nobody")).status == 404

    with_node(test, request_ms_max=100, append_wait_ms_max=50)


@pytest.mark.parametrize("live", ["sse", "long-poll"])
def test_a_reader_that_comes_with_a_writer_is_woken_by_it(with_node: WithNode, live: str) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/a", TEXT)
        states = node.context.ledger.states
        states._bytes_max = 0
        for state in list(states):
            states.drop(state)
        reader = node.start("GET", f"/v1/stream/a?offset=now&live={live}")
        others = [ask(node, "GET", f"/v1/stream/a?x={at}") for at in range(3)]
        await asyncio.gather(*others, ask(node, "POST", "/v1/stream/a", TEXT, b"first"))
        await ask(node, "POST", "/v1/stream/a", TEXT, b"second")
        await reader.until(b"second" if live == "sse" else b"first")
        await reader.hang_up()

    with_node(test)


def test_a_node_that_keeps_no_state_says_the_same(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        node.context.ledger.states._bytes_max = 0
        for at in range(20):
            await ask(node, "PUT", f"/v1/stream/{at % 4}", TEXT)
            reply = await ask(node, "POST", f"/v1/stream/{at % 4}", TEXT, b"x")
            assert reply.headers["stream-next-offset"] == encode(0, at // 4 + 1)
        assert len(node.context.ledger.states) <= 4

    with_node(test, heads_flush_rows=1)


@pytest.mark.parametrize("live", [False, True])
def test_nothing_holds_a_state_that_has_left(with_node: WithNode, *, live: bool) -> None:
    """The collector of cycles does not look for it, so there must be none."""

    async def test(node: InProcess, _: FakeClock) -> None:
        ledger = node.context.ledger
        await ask(node, "PUT", "/v1/stream/a", TEXT | {"stream-ttl": "1000"})
        if live:
            reader = node.start("GET", "/v1/stream/a?offset=-1&live=sse")
            await ask(node, "POST", "/v1/stream/a", TEXT, b"x")
            await reader.until(b"x")
            await reader.hang_up()
            node.context.live.sweep(time.monotonic() + 1000)
        await ask(node, "POST", "/v1/stream/a", TEXT, b"x")
        ledger.committer.flush_heads()
        await ledger.committer.settled()
        state = ledger.states.peek(Name("_default", "a"))
        assert state is not None
        assert not gc.is_tracked(state)
        ledger.states.drop(state)
        gc.collect()  # exceptions and tasks of the requests
        assert sys.getrefcount(state) == len(["state", "the argument"])

    with_node(test)
