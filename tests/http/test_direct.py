"""Appends that take the short way: the answers are those of the long way, whatever becomes of their batch."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from typing_extensions import override
from uvicorn.server import ServerState

from streams_node.http import direct
from streams_node.http.connection import Protocol, protocol_of
from streams_node.testing.inprocess import InProcess, in_process

PATH = "/v1/stream/hot"
TYPE = "content-type: text/plain\r\n"


class Pipe(asyncio.Transport):
    """The client's end of a connection: what it was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.told = asyncio.Event()
        self.closed = False
        self.reads = True

    @override
    def write(self, data: Any) -> None:
        self.sent += data
        self.told.set()  # an answer is one write, or its head is the first

    @override
    def is_closing(self) -> bool:
        return self.closed

    @override
    def close(self) -> None:
        self.closed = True

    @override
    def pause_reading(self) -> None:
        self.reads = False

    @override
    def resume_reading(self) -> None:
        self.reads = True

    @override
    def get_write_buffer_size(self) -> int:
        return len(self.sent)


class Client:
    """One connection to a node in this process."""

    def __init__(self, node: InProcess) -> None:
        config = uvicorn.Config(
            node.edge, http=protocol_of(node.context.connections), ws="none", lifespan="off", loop="none",
            log_config=None, access_log=False, proxy_headers=False,
        )  # fmt: skip
        config.load()
        self.protocol: Protocol = config.http_protocol_class(config, ServerState(), {}, asyncio.get_running_loop())  # type: ignore[assignment, call-arg]
        self.pipe = Pipe()
        self.protocol.connection_made(self.pipe)

    def send(self, body: bytes, headers: str = TYPE) -> None:
        head = f"POST {PATH} HTTP/1.1\r\nhost: node.test\r\n{headers}content-length: {len(body)}\r\n\r\n"
        self.protocol.data_received(head.encode() + body)

    async def answer(self) -> tuple[int, bytes]:
        async with asyncio.timeout(5):
            await self.pipe.told.wait()
        self.pipe.told.clear()
        said, self.pipe.sent = self.pipe.sent, b""
        return int(said.split()[1]), said


def run(folder: Path, scenario: Callable[[InProcess, Client], Awaitable[None]]) -> None:
    """On a node with a stream whose path and state it knows."""

    async def whole() -> None:
        async with in_process(folder) as node:
            assert (await node.request("PUT", PATH, {"content-type": "text/plain"})).status == 201
            assert (await node.request("POST", PATH, {"content-type": "text/plain"}, b"0")).status == 204
            await scenario(node, Client(node))

    asyncio.run(whole())


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What became of each append that was offered to the short way."""
    said: list[bool] = []
    take = direct.Direct.take

    def noted(self: direct.Direct, *args: Any) -> bool:
        said.append(take(self, *args))
        return said[-1]

    monkeypatch.setattr(direct.Direct, "take", noted)
    return said


def test_a_plain_append_takes_the_short_way_and_is_answered_after_its_commit(tmp_path: Path, taken: list[bool]) -> None:
    async def scenario(node: InProcess, client: Client) -> None:
        client.send(b"1")
        assert taken == [True]
        assert not client.pipe.sent
        status, said = await client.answer()
        assert status == 204
        page = await node.request("GET", PATH)
        assert page.body == b"01"
        assert page.headers["stream-next-offset"].encode() in said

    run(tmp_path, scenario)


def test_with_a_producer_the_short_way_says_what_the_long_one_says(tmp_path: Path, taken: list[bool]) -> None:
    async def scenario(_: InProcess, client: Client) -> None:
        producer = TYPE + "producer-id: p\r\nproducer-epoch: 1\r\nproducer-seq: 0\r\n"
        client.send(b"1", producer)
        status, said = await client.answer()
        assert status == 200
        assert b"producer-seq: 0\r\n" in said
        client.send(b"1", producer)  # again: nothing is stored, and the long way says so
        assert (await client.answer())[0] == 204
        assert taken == [True, False]

    run(tmp_path, scenario)


def test_what_is_refused_is_refused_by_the_long_way(tmp_path: Path, taken: list[bool]) -> None:
    async def scenario(node: InProcess, client: Client) -> None:
        client.send(b"1", "content-type: application/json\r\n")
        assert (await client.answer())[0] == 409
        assert taken == []  # it was raised
        assert (await node.request("GET", PATH)).body == b"0"

    run(tmp_path, scenario)


def test_a_path_that_was_forgotten_meanwhile_is_found_again(tmp_path: Path) -> None:
    async def scenario(node: InProcess, client: Client) -> None:
        head = f"POST {PATH} HTTP/1.1\r\nhost: node.test\r\n{TYPE}content-length: 1\r\n\r\n"
        client.protocol.data_received(head.encode()[:-2])
        node.edge._targets.clear()
        client.protocol.data_received(b"\r\n1")
        assert (await client.answer())[0] == 204

    run(tmp_path, scenario)


def test_a_stream_that_nobody_asked_for_yet_needs_no_task_either(tmp_path: Path) -> None:
    async def scenario(node: InProcess, client: Client) -> None:
        node.edge._targets.clear()
        states = node.context.ledger.states
        node.context.ledger.committer.flush_heads()
        await node.context.ledger.committer.settled()
        for state in list(states):
            states.drop(state)
        client.send(b"1")
        assert not client.protocol.tasks
        assert (await client.answer())[0] == 204
        assert (await node.request("GET", PATH)).body == b"01"

    run(tmp_path, scenario)


async def forget_states(node: InProcess) -> None:
    """As if all of them had been evicted."""
    node.context.ledger.committer.flush_heads()
    await node.context.ledger.committer.settled()
    for state in list(node.context.ledger.states):
        node.context.ledger.states.drop(state)


def test_appends_that_wait_for_one_load_are_decided_as_they_came(tmp_path: Path) -> None:
    async def scenario(node: InProcess, first: Client) -> None:
        await forget_states(node)
        clients = [first, *(Client(node) for _ in range(5))]
        misses = node.context.ledger.states.misses
        for at, client in enumerate(clients):
            client.send(b"%d" % (at + 1))
        for client in clients:
            assert (await client.answer())[0] == 204
        assert node.context.ledger.states.misses == misses + 1
        assert (await node.request("GET", PATH)).body == b"0123456"

    run(tmp_path, scenario)


def test_what_has_to_wait_for_a_stream_that_is_not_there_is_told_so(tmp_path: Path) -> None:
    async def scenario(node: InProcess, client: Client) -> None:
        assert (await node.request("DELETE", PATH)).status == 204
        client.send(b"1")
        assert (await client.answer())[0] == 404
        assert (await node.request("PUT", PATH, {"content-type": "text/plain"})).status == 201
        client.send(b"1")
        assert (await client.answer())[0] == 204

    run(tmp_path, scenario)


def test_a_load_that_fails_is_tried_again_by_the_long_way(tmp_path: Path) -> None:
    async def scenario(node: InProcess, client: Client) -> None:
        await forget_states(node)
        states = node.context.ledger.states
        load, failures = states._load, [sqlite3.OperationalError("disk I/O error")]

        async def failing(names: list[Any]) -> list[Any]:
            if failures:
                raise failures.pop()
            return await load(names)

        states._load = failing
        client.send(b"1")
        assert (await client.answer())[0] == 204
        await forget_states(node)
        failures += [sqlite3.OperationalError("disk I/O error") for _ in range(2)]
        client.send(b"2")
        assert (await client.answer())[0] >= 500
        assert (await node.request("GET", PATH)).body == b"01"

    run(tmp_path, scenario)


def test_a_client_that_left_while_its_stream_was_loaded_harms_nobody(tmp_path: Path) -> None:
    async def scenario(node: InProcess, client: Client) -> None:
        await forget_states(node)
        other = Client(node)
        client.send(b"1")
        other.send(b"2")
        client.protocol.connection_lost(None)
        assert (await other.answer())[0] == 204
        assert not client.pipe.sent
        assert (await node.request("GET", PATH)).body == b"012"

    run(tmp_path, scenario)


def test_an_append_whose_commit_failed_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(node: InProcess, client: Client) -> None:

        async def full(*_: Any) -> None:
            raise sqlite3.OperationalError("disk is full")

        with monkeypatch.context() as broken:
            broken.setattr(node.context.database.writer, "run", full)
            client.send(b"1")
            status, said = await client.answer()
        assert status == 503
        assert b"outcome_unknown" in said
        assert node.context.metrics.appends == 1

    run(tmp_path, scenario)


def test_who_joins_a_batch_that_has_waited_too_long_is_told_so_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def whole() -> None:
        async with in_process(tmp_path, append_wait_ms_max=100) as node:
            await node.request("PUT", PATH, {"content-type": "text/plain"})
            gate, run_now = asyncio.Event(), node.context.database.writer.run

            async def held(*args: Any) -> Any:
                await gate.wait()
                return await run_now(*args)

            monkeypatch.setattr(node.context.database.writer, "run", held)
            clients = [Client(node) for _ in range(4)]
            clients[0].send(b"0")
            while not node.context.ledger.committer.oldest_s:  # noqa: ASYNC110 - its batch is taken to the writer
                await asyncio.sleep(0)
            for client in clients[1:3]:
                client.send(b"1")
            told = [(await client.answer())[0] for client in clients[:3]]
            clients[3].send(b"2")
            told.append((await clients[3].answer())[0])
            gate.set()
            await node.context.ledger.committer.settled()
            assert told == [408] * 4
            assert (await node.request("GET", PATH)).body == b"0112"  # late, but stored

    asyncio.run(whole())


def test_what_nobody_expected_is_500_and_the_connection_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(_: InProcess, client: Client) -> None:
        with monkeypatch.context() as broken:
            broken.setattr(direct, "decide", lambda *_: 1 // 0)
            client.send(b"1")
            assert (await client.answer())[0] == 500
        client.send(b"1")
        assert (await client.answer())[0] == 204

    run(tmp_path, scenario)


def test_a_client_that_does_not_read_is_answered_once_it_does(tmp_path: Path) -> None:
    async def scenario(node: InProcess, client: Client) -> None:
        client.protocol.pause_writing()
        client.send(b"1")
        await node.context.ledger.committer.settled()
        await asyncio.sleep(0)
        assert not client.pipe.sent
        client.protocol.resume_writing()
        assert (await client.answer())[0] == 204

    run(tmp_path, scenario)


def test_a_client_that_left_is_not_answered(tmp_path: Path) -> None:
    async def scenario(node: InProcess, client: Client) -> None:
        client.send(b"1")
        client.pipe.close()
        client.protocol.connection_lost(None)
        await node.context.ledger.committer.settled()
        await asyncio.sleep(0)
        assert not client.pipe.sent
        assert (await node.request("GET", PATH)).body == b"01"

    run(tmp_path, scenario)
