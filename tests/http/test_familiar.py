"""Appends whose header lines are known are answered, byte for byte, as those that the parser takes apart."""

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streams_node.config import Settings
from streams_node.http.connection import Protocol
from streams_node.http.familiar import FamiliarLines
from streams_node.testing.inprocess import InProcess, in_process
from tests.http.test_direct import Client

PATHS = [b"/v1/stream/a", b"/v1/stream/a", b"/v1/stream/shop/b", b"/shop/b", b"/v1/stream/json", b"/v1/stream/closed",
         b"/v1/stream/%61", b"/v1/stream/a?x=y", b"/v1/stream/absent", b"/v1/stream/..", b"/v1/stream/a/_search",
         b"/v1/stream/__ds/x", b"/health", b"//", b"/v1/stream/upgrade",
         b"/v1/stream/" + b"a" * 600]  # fmt: skip
LINES = [b"Content-Type: text/plain", b"content-type: application/json", b"CONTENT-TYPE:text/plain;charset=utf-8",
         b"Origin: http://page.test", b"connection: keep-alive", b"Connection: close", b"Expect: 100-continue",
         b"Upgrade: h2c", b"X-Upgrade: no", b"Stream-Closed: true", b"Stream-Closed: no", b"Stream-Seq: 7",
         b"Producer-Id: p\r\nProducer-Epoch: 0\r\nProducer-Seq: 0", b"Producer-Id: p", b"Stream-Key: k",
         b"Stream-Timestamp: 2026-01-01T00:00:00Z", b"Authorization: Bearer x", b"If-None-Match: a",
         b"Content-Encoding: gzip", b"X-Long: " + b"x" * 1100, b"Host: another.test", b"X: \xff",
         b"x-empty:"]  # fmt: skip
BROKEN = [b"X : y", b"no colon", b"X: a\x00b", b" folded: x", b"transfer-encoding: chunked"]
BODIES = [b"x", b"some text\n", b"[1,2]", b"[", b"", b"y" * 3000, b"POST /v1/stream/a HTTP/1.1\r\n\r\n"]
VERSIONS = [b"HTTP/1.1"] * 12 + [b"HTTP/1.0", b"HTTP/9.9"]
CASES, TIMES = 400, 4


class Draw:
    """Requests out of a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def request(self) -> bytes:
        chance = self.chance
        body = chance.choice(BODIES)
        if chance.random() < 0.1:  # one that will be known
            plain = (chance.choice(PATHS[:4]), LINES[0], len(body), body)
            return b"POST %s HTTP/1.1\r\nhost: a\r\n%s\r\ncontent-length: %d\r\n\r\n%s" % plain
        lines = [
            b"Host: node.test",
            *chance.sample(LINES[:4] if chance.random() < 0.5 else LINES, chance.randint(1, 3)),
        ]
        if chance.random() < 0.03:
            lines[0] = b"X-No: host"
        if chance.random() < 0.03:
            lines.append(chance.choice(BROKEN))
        length = len(body) + (chance.choice([-1, 1, 7]) if chance.random() < 0.03 else 0)
        if chance.random() < 0.95:
            lines.append(b"Content-Length: %d" % max(0, length))
        chance.shuffle(lines)
        method = b"POST" if chance.random() < 0.95 else chance.choice([b"GET", b"PUT", b"HEAD", b"PATCH"])
        target = chance.choice(PATHS[:6] if chance.random() < 0.5 else PATHS)
        return b"%s %s %s\r\n%s\r\n\r\n%s" % (method, target, chance.choice(VERSIONS), b"\r\n".join(lines), body)

    def cut(self, data: bytes) -> list[bytes]:
        """In two where no request begins with its first part: none of it can be known."""
        at = self.chance.randint(1, max(1, min(len(data), data.find(b"\r\n\r\n") + 3) - 1))
        return [data[:at], data[at:]]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What became of each append that might have been known."""
    said: list[bool] = []
    again = Protocol._append_again

    def noted(self: Protocol, *args: Any) -> bool:
        said.append(again(self, *args))
        return said[-1]

    monkeypatch.setattr(Protocol, "_append_again", noted)
    return said


async def prepare(node: InProcess) -> None:
    text = {"content-type": "text/plain"}
    assert (await node.request("PUT", "/shop")).status == 201
    for path in ("/v1/stream/a", "/v1/stream/shop/b", "/v1/stream/upgrade"):
        assert (await node.request("PUT", path, text)).status == 201
    assert (await node.request("PUT", "/v1/stream/json", {"content-type": "application/json"})).status == 201
    assert (await node.request("PUT", "/v1/stream/closed", {**text, "stream-closed": "true"})).status == 201


async def calm(node: InProcess) -> None:
    """Nothing is on its way: not a commit, and no request that runs as a task."""
    for _ in range(3):
        while tasks := [task for task in asyncio.all_tasks() if _serves(task)]:
            await asyncio.wait(tasks)
        await node.context.ledger.committer.settled()
        await asyncio.sleep(0)


def _serves(task: "asyncio.Task[Any]") -> bool:
    return "run_asgi" in repr(task.get_coro()) or task.get_name() == "load-states"


async def told(node: InProcess, client: Client, pieces: list[bytes]) -> bytes:
    for piece in pieces:
        client.protocol.data_received(piece)
        await asyncio.sleep(0)
    cycle = client.protocol.cycle
    waits = cycle is not None and cycle.more_body  # type: ignore[redundant-expr]
    if waits and not cycle.response_complete:  # for more than there is
        client.pipe.closed = True
        client.protocol.connection_lost(None)
    await calm(node)
    said, client.pipe.sent = client.pipe.sent, b""
    return re.sub(rb"x-request-id: [^\r]*\r\n|server-timing: [^\r]*\r\n", b"", said) + b"<end>" * client.pipe.closed


async def content(node: InProcess) -> list[bytes]:
    names = ("a", "shop/b", "upgrade", "json", "closed")
    return [(await node.request("GET", f"/v1/stream/{name}?offset=-1")).body for name in names]


def run(folder: Path, scenario: Callable[[InProcess, InProcess], Awaitable[None]], **settings: Any) -> None:
    """On two nodes that begin alike."""

    async def whole() -> None:
        async with (
            in_process(folder / "one", **settings) as one, in_process(folder / "two", **settings) as two,
        ):  # fmt: skip
            await prepare(one)
            await prepare(two)
            await scenario(one, two)

    asyncio.run(whole())


def clients(one: InProcess, two: InProcess) -> Iterator[tuple[Client, Client]]:
    """A connection to each node, and others when one of them has ended."""
    while True:
        pair = Client(one), Client(two)
        while not (pair[0].pipe.closed or pair[1].pipe.closed or pair[0].protocol._deaf or pair[1].protocol._deaf):
            yield pair
        for client in pair:
            client.protocol.connection_lost(None)


def test_what_is_known_is_answered_as_what_is_parsed(tmp_path: Path, known: list[bool]) -> None:
    seed = random.getrandbits(32)
    draw = Draw(seed)

    async def scenario(one: InProcess, two: InProcess) -> None:
        pairs = clients(one, two)
        for at in range(CASES):
            data = draw.request()
            for time in range(TIMES):
                whole, cut = next(pairs)
                assert await told(one, whole, [data]) == await told(two, cut, draw.cut(data)), (seed, at, time, data)
        assert await content(one) == await content(two)

    run(tmp_path, scenario, append_body_idle_ms_max=60_000)
    assert known.count(True) > 10, "hardly any was known"


def test_in_a_row_they_are_answered_as_if_each_came_alone(tmp_path: Path, known: list[bool]) -> None:
    """Also known ones and others in one piece, cut anywhere."""
    draw = Draw(random.getrandbits(32))
    plain = [b"POST /v1/stream/a HTTP/1.1\r\nhost: a\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\n%02d" % at
             for at in range(40)]  # fmt: skip

    async def scenario(one: InProcess, two: InProcess) -> None:
        row = b"".join(plain)
        first, second = Client(one), Client(two)
        for data in plain[:3]:
            assert await told(one, first, [data]) == await told(two, second, [data])
        for at in range(0, len(row), len(row) // 7):
            first.protocol.data_received(row[at : at + len(row) // 7])
            if draw.chance.random() < 0.5:
                await asyncio.sleep(0)
        said = await told(one, first, [])
        assert said == b"".join([await told(two, second, [data]) for data in plain])
        assert await content(one) == await content(two)

    run(tmp_path, scenario)
    assert known.count(True) >= 1 + len(plain), "the ones that came alone"


def test_what_goes_on_with_a_head_is_no_request(tmp_path: Path, known: list[bool]) -> None:
    """A proxy that shares a connection counts on both sides seeing the same requests in it."""
    data = b"POST /v1/stream/a HTTP/1.1\r\nhost: a\r\ncontent-type: text/plain\r\ncontent-length: 1\r\n\r\nx"

    async def scenario(one: InProcess, _: InProcess) -> None:
        client = Client(one)
        for _again in range(3):
            await told(one, client, [data])
        assert known[-1]
        for before, stored in ((b"GET /health HTTP/1.1\r\nhost: a\r\nx: ", 1), (b"\r\n", 2)):
            client, sofar = Client(one), (await one.request("GET", "/v1/stream/a")).body
            known.clear()
            await told(one, client, [data + before])
            await told(one, client, [data])
            assert known == [False], "it was looked at where it was cut off, too"
            assert (await one.request("GET", "/v1/stream/a")).body == sofar + b"x" * stored

    run(tmp_path, scenario)


@pytest.mark.parametrize("version", [b"RTSP/1.1", b"HTTP/0.9", b"HTTP/1.0"])
def test_lines_are_not_cut_out_of_the_middle_of_others(tmp_path: Path, known: list[bool], version: bytes) -> None:
    """Else what one client says above its line `X` would hold for everybody who sends what is below it."""
    below = b"connection: keep-alive\r\ncontent-length: 1\r\n\r\nx"
    above = b"host: a\r\nauthorization: Bearer x\r\ncontent-type: text/plain\r\nX: HTTP/1.1\r\n"

    async def scenario(one: InProcess, _: InProcess) -> None:
        for _again in range(3):
            await told(one, Client(one), [b"POST /v1/stream/a %s\r\n%s%s" % (version, above, below)])
            answer = await told(one, Client(one), [b"POST /v1/stream/a HTTP/1.1\r\n" + below])
            assert answer.startswith(b"HTTP/1.1 400 "), answer
        assert not any(known)

    run(tmp_path, scenario)


def test_no_more_requests_are_taken_while_several_wait(tmp_path: Path) -> None:
    """Each answer would let in another piece of what the client sends, however many wait already."""

    async def scenario(one: InProcess, _: InProcess) -> None:
        client = Client(one)
        waiting = client.protocol.pipeline
        client.protocol.data_received(b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n" * 20)
        seen = []
        while waiting:
            seen.append((len(waiting), client.pipe.reads))
            await asyncio.sleep(0)
        assert {count for count, _ in seen} >= set(range(2, 20))
        assert not any(reads for _, reads in seen)
        await calm(one)
        assert client.pipe.reads
        assert client.pipe.sent.count(b"HTTP/1.1 200 OK") == 20

    run(tmp_path, scenario)


def test_what_is_known_is_bounded() -> None:
    lines = FamiliarLines(Settings(no_auth=True))
    headers = [(b"host", b"a"), (b"content-type", b"text/plain")]
    for at in range(10_000):  # an id of its own in each: they never come again
        lines.learn(b"x-id: %d" % at, headers, 1)
    assert not lines.known
    for at in range(3_000):
        for _again in range(2):
            lines.learn(b"content-length: %d" % at, headers, at)
        assert lines.known[b"content-length: %d" % at].length == at
        assert len(lines.known) <= 512
    for _again in range(3):
        lines.learn(b"x" * 1025, headers, 1)
        lines.learn(b"a:\r\n" * 33, [(b"a", b"")] * 33, 1)
        lines.learn(b"content-type: a, twice", [*headers, *headers], 1)
        lines.learn(b"stream-seq: 1", [*headers, (b"stream-seq", b"1")], 1)
        lines.learn(b"content-type: none", [(b"content-type", b"none")], 1)
    assert not {b"x" * 1025, b"a:\r\n" * 33, b"content-type: a, twice", b"stream-seq: 1", b"content-type: none"} & set(
        lines.known
    )


def test_a_key_is_asked_for_each_time(tmp_path: Path, known: list[bool]) -> None:
    def data(key: bytes) -> bytes:
        lines = b"host: a\r\nauthorization: Bearer %s\r\ncontent-type: text/plain\r\ncontent-length: 1" % key
        return b"POST /v1/stream/a HTTP/1.1\r\n%s\r\n\r\nx" % lines

    async def whole() -> None:
        async with in_process(tmp_path, no_auth=False, api_key="0123456789abcdef") as node:
            headers = {"authorization": "Bearer 0123456789abcdef", "content-type": "text/plain"}
            assert (await node.request("PUT", "/v1/stream/a", headers)).status == 201
            client = Client(node)
            for _ in range(4):
                assert b"204 No Content" in await told(node, client, [data(b"0123456789abcdef")])
                assert b"401 Unauthorized" in await told(node, client, [data(b"0123456789abcdeF")])
            assert known.count(True) == 2
            assert (await node.request("GET", "/v1/stream/a", headers)).body == b"xxxx"

    asyncio.run(whole())
