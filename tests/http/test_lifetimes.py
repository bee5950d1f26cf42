"""Lifetimes against a clock that moves by itself, is set forward, and is set back."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from streams_node.ingest.remove import end_streams
from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess, in_process
from tests.http.wire import ask

WithNode = Callable[..., None]
TEXT = {"content-type": "text/plain"}
PATH = "/v1/stream/a"
# What restarts a sliding window, and what must not.
TOUCHES: list[tuple[str, str, dict[str, str], bytes]] = [
    ("GET", "", {}, b""),
    ("GET", "?offset=now", {}, b""),
    ("GET", "?offset=-1&live=long-poll", {}, b""),
    ("GET", "?offset=now&live=long-poll&timeout=0", {}, b""),
    ("GET", "?offset=-1&live=sse", {}, b""),
    ("GET", "", {"if-none-match": "*"}, b""),
    ("POST", "", TEXT, b"more"),
    ("POST", "", {"stream-closed": "true"}, b""),
    ("POST", "", {"stream-closed": "true", "producer-id": "p", "producer-epoch": "0", "producer-seq": "0"}, b""),
    ("PUT", "", TEXT | {"stream-ttl": "100"}, b""),
]


async def status(node: InProcess) -> int:
    """Without touching: HEAD does not restart a window."""
    return (await ask(node, "HEAD", PATH)).status


@pytest.mark.parametrize(("method", "query", "headers", "body"), TOUCHES)
def test_a_read_or_write_restarts_the_window(
    with_node: WithNode, method: str, query: str, headers: dict[str, str], body: bytes
) -> None:
    async def test(node: InProcess, clock: FakeClock) -> None:
        await ask(node, "PUT", PATH, TEXT | {"stream-ttl": "100"}, b"x")
        clock.advance(99)
        assert (await ask(node, method, PATH + query, headers, body)).status < 400
        clock.advance(99.999)
        assert await status(node) == 200
        clock.advance(0.001)
        assert await status(node) == 404

    with_node(test)


@pytest.mark.parametrize(("method", "headers"), [("HEAD", {}), ("GET", {"offset": "bad"}), ("OPTIONS", {})])
def test_what_does_not_restart_the_window(with_node: WithNode, method: str, headers: dict[str, str]) -> None:
    async def test(node: InProcess, clock: FakeClock) -> None:
        await ask(node, "PUT", PATH, TEXT | {"stream-ttl": "100"}, b"x")
        clock.advance(99)
        await ask(node, method, PATH + ("?offset=bad" if headers else ""))
        clock.advance(1)
        assert await status(node) == 404

    with_node(test)


def test_an_absolute_end_is_never_moved(with_node: WithNode) -> None:
    async def test(node: InProcess, clock: FakeClock) -> None:
        end_ns = (clock() + 100_000_000) * 1000
        await ask(node, "PUT", PATH, TEXT | {"stream-expires-at": str(end_ns)}, b"x")
        for _step in range(9):
            clock.advance(11)
            assert (await ask(node, "GET", PATH)).status == 200
        clock.advance(1)
        assert (await ask(node, "GET", PATH)).status == 404

    with_node(test)


def test_a_clock_that_is_set_back_does_not_shorten_a_window(with_node: WithNode) -> None:
    async def test(node: InProcess, clock: FakeClock) -> None:
        await ask(node, "PUT", PATH, TEXT | {"stream-ttl": "100"}, b"x")
        clock.advance(1000)
        await ask(node, "PUT", PATH, TEXT | {"stream-ttl": "100"}, b"x")
        clock.advance(-500)
        assert (await ask(node, "GET", PATH)).status == 200
        clock.advance(599)
        assert await status(node) == 200
        clock.advance(1)
        assert await status(node) == 404

    with_node(test)


def test_a_life_after_the_end_is_a_new_one(with_node: WithNode) -> None:
    async def test(node: InProcess, clock: FakeClock) -> None:
        first = await ask(node, "PUT", PATH, TEXT | {"stream-ttl": "10"}, b"x")
        clock.advance(10)
        again = await ask(node, "PUT", PATH, {"content-type": "text/html"}, b"y")
        assert again.status == 201
        assert again.headers["stream-next-offset"] > first.headers["stream-next-offset"]
        assert (await ask(node, "GET", PATH)).body == b"y"
        old = await ask(node, "GET", f"{PATH}?offset={first.headers['stream-next-offset']}")
        assert old.status == 410

    with_node(test)


def test_a_time_stamp_never_runs_back_in_a_stream(with_node: WithNode) -> None:
    async def test(node: InProcess, clock: FakeClock) -> None:
        await ask(node, "PUT", "/shop")
        await ask(node, "PUT", "/shop/a", TEXT, b"x")
        clock.advance(-3600)
        await ask(node, "POST", "/shop/a", TEXT, b"y")
        clock.advance(3600)
        assert await written_ms(node) == clock() // 1000
        await ask(node, "POST", "/shop/a", TEXT | {"stream-timestamp": "2001-01-01T00:00:00Z"}, b"y")
        assert await written_ms(node) == clock() // 1000
        await ask(node, "POST", "/shop/a", TEXT | {"stream-timestamp": "2999-01-01T00:00:00Z"}, b"y")
        assert await written_ms(node) == clock() // 1000 + 300_000  # the documented bound

    with_node(test)


async def written_ms(node: InProcess) -> int:
    listing = json.loads((await ask(node, "GET", "/shop/streams")).body)
    return int(listing["streams"][0]["last_write_at_ms"])


def test_a_reader_that_is_attached_holds_a_window_open_and_no_absolute_end(with_node: WithNode) -> None:
    async def test(node: InProcess, clock: FakeClock) -> None:
        await ask(node, "PUT", PATH, TEXT | {"stream-ttl": "100"}, b"x")
        end_ns = (clock() + 100_000_000) * 1000
        await ask(node, "PUT", "/v1/stream/b", TEXT | {"stream-expires-at": str(end_ns)}, b"x")
        held = [node.start("GET", f"/v1/stream/{name}?offset=now&live=sse") for name in "ab"]
        for reader in held:
            await reader.until(b"upToDate")
        clock.advance(1000)
        assert await end_streams(node.context.ledger, 100) > 0
        assert await status(node) == 200
        assert (await ask(node, "HEAD", "/v1/stream/b")).status == 404
        for reader in held:
            await reader.hang_up()
        clock.advance(99)
        assert await status(node) == 200
        clock.advance(1)
        assert await status(node) == 404

    with_node(test)


@pytest.mark.parametrize("live", ["sse", "long-poll"])
def test_a_stream_that_is_held_stays_on_lists_and_lives_on_after_a_kill(with_node: WithNode, live: str) -> None:
    async def test(node: InProcess, clock: FakeClock) -> None:
        await ask(node, "PUT", "/shop")
        await ask(node, "PUT", "/shop/a", TEXT | {"stream-ttl": "100"}, b"x")
        reader = node.start("GET", f"/shop/a?offset=now&live={live}&timeout=60s")
        while not node.context.live.held():  # noqa: ASYNC110 - no bell says that a reader is there
            await asyncio.sleep(0)
        for _again in range(40):
            clock.advance(9)
            await node.upkeep._end_streams()
            await node.context.ledger.committer.settled()
            listed = [json.loads((await ask(node, "GET", path)).body) for path in ("/v1/streams", "/shop/streams")]
            assert [len(listed[0]), listed[1]["stream_count"]] == [1, 1]
            stored = await node.context.database.ended_streams(clock() + 99_000_000, 1)
            assert stored == [], "a restart would end it within its window"
        await reader.hang_up()

    with_node(test, long_poll_ms_max=60_000)


def test_ended_streams_are_collected_and_their_bucket_can_go(with_node: WithNode) -> None:
    async def test(node: InProcess, clock: FakeClock) -> None:
        await ask(node, "PUT", "/shop")
        for at in range(5):
            await ask(node, "PUT", f"/shop/{at}", TEXT | {"stream-ttl": str(10 + at)}, b"x")
        clock.advance(30)
        assert (await ask(node, "DELETE", "/shop")).status == 204
        assert (await ask(node, "GET", "/shop")).status == 404
        assert (await ask(node, "GET", "/shop/1")).status == 404

    with_node(test)


@pytest.mark.parametrize("read_at", [0, 5, 50, 95, 99])
def test_a_restart_may_lengthen_a_window_and_never_shortens_it(tmp_path: Path, read_at: int) -> None:
    folder = tmp_path / "data"

    async def main() -> None:
        clock = FakeClock()
        async with in_process(folder, clock=clock) as node:
            await ask(node, "PUT", PATH, TEXT | {"stream-ttl": "100"}, b"x")
            clock.advance(read_at)
            await ask(node, "GET", PATH)
        clock.advance(99.999)
        async with in_process(folder, clock=clock) as node:
            assert await status(node) == 200
        clock.advance(10.001)  # the slack: a tenth of the window
        async with in_process(folder, clock=clock) as node:
            assert await end_streams(node.context.ledger, 100) == 1
            assert await status(node) == 404

    anyio.run(main)
