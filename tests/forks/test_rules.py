"""What a fork inherits, what it does not, and what is refused without a trace."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from streams_node.ingest.remove import end_streams
from streams_node.protocol import offsets
from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess, in_process
from tests.http.wire import Reply, ask

JSON = {"content-type": "application/json"}
TEXT = {"content-type": "text/plain"}
SOURCE, FORK = "/v1/stream/source", "/v1/stream/fork"
FROM = {"stream-forked-from": SOURCE}
START = {"stream-fork-offset": "-1"}
Test = Callable[[InProcess, FakeClock], Awaitable[None]]


@pytest.fixture
def with_node(tmp_path: Path) -> Callable[[Test], None]:
    def run(test: Test) -> None:
        async def main() -> None:
            clock = FakeClock()
            async with in_process(tmp_path / "data", clock=clock) as node:
                await test(node, clock)

        anyio.run(main)

    return run


async def status(node: InProcess, method: str, path: str, headers: dict[str, str] | None = None) -> int:
    return (await ask(node, method, path, headers)).status


async def read(node: InProcess, path: str, query: str = "?offset=-1") -> Any:
    reply = await ask(node, "GET", path + query)
    assert reply.status == 200, reply
    return json.loads(reply.body) if reply.headers["content-type"] == "application/json" else reply.body


def sub(number: object) -> dict[str, str]:
    return {**FROM, **START, "stream-fork-sub-offset": str(number)}


BAD: list[tuple[dict[str, str], int]] = [
    (START, 400),
    ({"stream-fork-sub-offset": "0"}, 400),
    ({**FROM, "stream-fork-offset": "now"}, 400),
    ({**FROM, "stream-fork-offset": "9999999999999999_9999999999999999"}, 400),
    ({**FROM, "stream-fork-offset": offsets.encode(0, 4)}, 400),
    ({**FROM, "stream-fork-offset": offsets.encode(7, 1)}, 400),
    ({**FROM, "stream-fork-offset": ""}, 400),
    (sub(3), 400),  # the append has two messages
    ({**FROM, "stream-fork-sub-offset": "1"}, 400),  # at the end
    *((sub(wrong), 400) for wrong in ("-1", "+1", "01", "1.5", "", "x", "9" * 30)),
    ({"stream-forked-from": "/v1/stream/nobody"}, 404),
    ({"stream-forked-from": "/agents/nobody"}, 404),
    ({"stream-forked-from": "source"}, 400),
    ({"stream-forked-from": "http://node.test/v1/stream/source"}, 400),
    ({"stream-forked-from": ""}, 400),
    ({"stream-forked-from": "/v1/stream/source/_schema"}, 400),
    ({"stream-forked-from": "/v1/stream/a%zz"}, 400),
    ({"stream-forked-from": FORK}, 404),  # itself
    ({**FROM, **TEXT}, 409),
    ({**FROM, "stream-ttl": "x"}, 400),
    ({**FROM, "producer-id": "p", "producer-epoch": "0", "producer-seq": "5"}, 409),
]


@pytest.mark.parametrize(("headers", "wanted"), BAD)
def test_a_refused_fork_leaves_nothing(with_node: Callable[[Test], None], headers: dict[str, str], wanted: int) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", SOURCE, JSON, b"[1,2]")
        await ask(node, "POST", SOURCE, JSON, b"3")
        assert await status(node, "PUT", FORK, headers) == wanted
        assert await status(node, "GET", FORK) == 404
        assert await status(node, "DELETE", SOURCE) == 204
        assert await status(node, "GET", SOURCE) == 404, "the source is not kept for anybody"

    with_node(test)


def test_a_body_that_is_refused_makes_no_fork(with_node: Callable[[Test], None]) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", SOURCE, JSON, b"[1,2]")
        assert (await ask(node, "PUT", FORK, FROM, b"{")).status == 400
        assert await status(node, "DELETE", SOURCE) == 204
        assert await status(node, "GET", SOURCE) == 404

    with_node(test)


def test_producers_and_orders_stay_with_the_source(with_node: Callable[[Test], None]) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        first = {**JSON, "producer-id": "p", "producer-epoch": "3", "producer-seq": "0", "stream-seq": "m"}
        await ask(node, "PUT", SOURCE, JSON)
        assert (await ask(node, "POST", SOURCE, first, b"1")).status == 200
        assert await status(node, "PUT", FORK, FROM) == 201
        fenced = {**first, "producer-epoch": "0", "stream-seq": "a"}
        assert (await ask(node, "POST", FORK, fenced, b"2")).status == 200
        assert await read(node, FORK) == [1, 2]
        assert await read(node, SOURCE) == [1]

    with_node(test)


def test_an_order_that_comes_without_content_is_not_kept(with_node: Callable[[Test], None]) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", SOURCE, TEXT, b"abc")
        order = {"stream-seq": "m"}
        assert await status(node, "PUT", FORK, {**sub(2), **order}) == 201
        assert (await ask(node, "POST", FORK, {**TEXT, **order}, b"d")).status == 204
        assert await read(node, FORK) == b"abd"
        other = "/v1/stream/other"
        assert (await ask(node, "PUT", other, {**sub(2), **TEXT, **order}, b"d")).status == 201
        assert (await ask(node, "POST", other, {**TEXT, **order}, b"e")).status == 409

    with_node(test)


def test_a_fork_of_a_closed_stream_is_open_and_does_not_close_its_source(with_node: Callable[[Test], None]) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", SOURCE, {**JSON, "stream-closed": "true"}, b"1")
        made = await ask(node, "PUT", FORK, FROM)
        assert (made.status, "stream-closed" in made.headers) == (201, False)
        assert (await ask(node, "POST", FORK, JSON, b"2")).status == 204
        closed = await ask(node, "PUT", "/v1/stream/shut", {**FROM, "stream-closed": "true"})
        assert closed.headers["stream-closed"] == "true"
        tail = await ask(node, "GET", "/v1/stream/shut?offset=-1")
        assert (tail.body, tail.headers["stream-closed"]) == (b"[1]", "true")
        assert await read(node, FORK) == [1, 2]

    with_node(test)


def test_lifetimes_are_inherited_and_run_apart(with_node: Callable[[Test], None]) -> None:
    async def test(node: InProcess, clock: FakeClock) -> None:
        await ask(node, "PUT", SOURCE, {**JSON, "stream-ttl": "100"}, b"1")
        assert await status(node, "PUT", FORK, FROM) == 201
        assert await status(node, "PUT", FORK, FROM) == 200, "said again, word for word"
        assert await status(node, "PUT", FORK, {**FROM, "stream-ttl": "100"}) == 200
        assert await status(node, "PUT", FORK, {**FROM, "stream-ttl": "99"}) == 409
        assert await status(node, "PUT", FORK, JSON) == 409, "a stream that is no fork"
        assert await status(node, "PUT", "/v1/stream/longer", {**FROM, "stream-ttl": "1000"}) == 201
        assert (await ask(node, "HEAD", FORK)).headers["stream-ttl"] == "100"
        clock.advance(60)
        await read(node, FORK)
        assert (await ask(node, "GET", "/v1/stream/longer")).status == 200
        clock.advance(60)  # the source is over, the fork is not
        assert await status(node, "GET", SOURCE) == 410
        assert await status(node, "PUT", SOURCE, JSON) == 409
        assert await status(node, "PUT", "/v1/stream/late", FROM) == 409
        assert await read(node, FORK) == [1]
        assert await status(node, "PUT", FORK, FROM) == 200
        clock.advance(101)
        await end_streams(node.context.ledger, 10)
        assert await status(node, "GET", FORK) == 404
        assert await status(node, "GET", SOURCE) == 410
        assert await read(node, "/v1/stream/longer") == [1]
        clock.advance(1200)  # what is stored of a window may be a tenth longer
        await end_streams(node.context.ledger, 10)
        assert await status(node, "GET", SOURCE) == 404
        assert await status(node, "PUT", SOURCE, JSON) == 201

    with_node(test)


def test_a_new_life_as_a_fork_uses_no_offset_again(with_node: Callable[[Test], None]) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", SOURCE, JSON, b"[1,2]")
        await ask(node, "PUT", FORK, JSON, b"[7,8,9]")
        old = (await ask(node, "HEAD", FORK)).headers["stream-next-offset"]
        await ask(node, "DELETE", FORK)
        made = await ask(node, "PUT", FORK, FROM)
        assert made.headers["stream-next-offset"] == (await ask(node, "HEAD", SOURCE)).headers["stream-next-offset"]
        after = (await ask(node, "POST", FORK, JSON, b"[3]")).headers["stream-next-offset"]
        assert after == offsets.encode(1, 3)
        assert await status(node, "GET", f"{FORK}?offset={old}") == 410
        assert await read(node, FORK, f"?offset={made.headers['stream-next-offset']}") == [3]

    with_node(test)


def test_a_fork_has_the_schema_of_its_source(with_node: Callable[[Test], None]) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", SOURCE, JSON)
        schema = {"type": "object", "properties": {"n": {"type": "integer"}, "k": {"type": "string"}}}
        update = {"schema": schema, "routingKey": {"jsonPointer": "/k", "required": True}}
        reply = await ask(node, "POST", f"{SOURCE}/_schema", JSON, json.dumps(update).encode())
        assert reply.status == 200, reply
        await ask(node, "POST", SOURCE, JSON, b'[{"n":1,"k":"a"},{"n":2,"k":"b"}]')
        assert (await ask(node, "PUT", FORK, FROM, b'{"n":"no","k":"a"}')).status == 400
        assert (await ask(node, "PUT", FORK, FROM, b'{"n":3,"k":"a"}')).status == 201
        assert (await ask(node, "POST", FORK, JSON, b'{"n":"no","k":"a"}')).status == 400
        assert await read(node, FORK, "?offset=-1&key=a") == [{"n": 1, "k": "a"}, {"n": 3, "k": "a"}]
        registry = json.loads((await ask(node, "GET", f"{FORK}/_schema")).body)
        assert (registry["schema"], registry["currentVersion"]) == ("fork", 1)

    with_node(test)


def test_entries_are_found_by_their_time_on_both_sides_of_the_fork_point(with_node: Callable[[Test], None]) -> None:
    async def test(node: InProcess, clock: FakeClock) -> None:
        times: list[int] = []
        await ask(node, "PUT", SOURCE, JSON)
        for number in range(4):
            clock.advance(10)
            times.append(clock())
            await ask(node, "POST", SOURCE, JSON, str(number).encode())
        reply = await ask(node, "PUT", FORK, {**FROM, "stream-fork-offset": offsets.encode(0, 3)})
        assert reply.status == 201
        for number in range(10, 12):
            clock.advance(10)
            times.append(clock())
            await ask(node, "POST", FORK, JSON, str(number).encode())
        entries = [0, 1, 2, 10, 11]
        at = [*times[:3], *times[4:]]
        for start, moment in enumerate(at):
            assert await read(node, FORK, f"?since={moment * 1000}") == entries[start:]
            assert await read(node, FORK, f"?since={moment * 1000 + 1000}") == entries[start + 1 :]

    with_node(test)


def test_live_readers_get_what_is_shared_and_are_woken_by_the_fork_alone(with_node: Callable[[Test], None]) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", SOURCE, JSON, b"[1,2]")
        made = await ask(node, "PUT", FORK, FROM)
        tail = made.headers["stream-next-offset"]
        assert await read(node, FORK, "?offset=-1&live=long-poll") == [1, 2]
        waiting = node.start("GET", f"{FORK}?offset={tail}&live=long-poll&timeout_ms=3000")
        await ask(node, "POST", SOURCE, JSON, b"[3]")
        assert not waiting.task.done()
        await ask(node, "POST", FORK, JSON, b"[4]")
        await waiting.task
        assert waiting.body == b"[4]"
        events = (await ask(node, "GET", f"{FORK}?offset=-1&live=sse")).body
        assert b"[1,2" in events

    with_node(test)


def test_live_readers_of_a_deleted_source_are_let_go(with_node: Callable[[Test], None]) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        made = await ask(node, "PUT", SOURCE, JSON, b"[1,2]")
        await ask(node, "PUT", FORK, FROM)
        waiting = node.start("GET", f"{SOURCE}?offset={made.headers['stream-next-offset']}&live=long-poll")
        with anyio.fail_after(10):
            while node.context.ledger.states.peek(node_name()).hub is None:  # type: ignore[union-attr]  # noqa: ASYNC110
                await anyio.sleep(0.001)
        assert await status(node, "DELETE", SOURCE) == 204
        await waiting.task
        assert waiting.head["status"] == 410

    with_node(test)


def test_forks_may_be_forked_a_hundred_times(with_node: Callable[[Test], None]) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/f0", JSON, b"[0]")
        replies: list[Reply] = []
        for number in range(1, 103):
            source = {"stream-forked-from": f"/v1/stream/f{number - 1}"}
            replies.append(await ask(node, "PUT", f"/v1/stream/f{number}", source, str(number).encode()))
            if replies[-1].status != 201:
                break
        assert (len(replies), replies[-1].status) == (101, 400)
        assert await read(node, "/v1/stream/f100", "?offset=-1&max_bytes=100000") == list(range(101))
        for number in range(101):
            assert await status(node, "DELETE", f"/v1/stream/f{number}") == 204
        assert await status(node, "GET", "/v1/stream/f0") == 404
        assert await status(node, "GET", "/v1/stream/f99") == 404

    with_node(test)


def test_the_sweep_ends_what_a_crash_left_behind(tmp_path: Path) -> None:
    async def main() -> None:
        async with in_process(tmp_path / "data") as node:
            await ask(node, "PUT", SOURCE, JSON, b"[1]")
            await node.context.database.writer.run(
                lambda db: db.execute("UPDATE streams SET soft_deleted = 1").fetchall()
            )
        async with in_process(tmp_path / "data") as node:
            assert await status(node, "GET", SOURCE) == 410
            await end_streams(node.context.ledger, 10)
            assert await status(node, "GET", SOURCE) == 404
            assert await status(node, "PUT", SOURCE, JSON) == 201

    anyio.run(main)


def node_name() -> Any:
    from streams_node.wal.lookup import Name  # noqa: PLC0415 - for one test

    return Name("_default", "source")
