"""SIGTERM: whatever is in flight is answered, live readers end properly, and the next start has nothing to replay."""

import asyncio
import json
import signal
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from tests.crash.folder import CrashedFolder
from tests.crash.model import Outcome
from tests.crash.points import fill_disk
from tests.support.tables import check_tables
from tests.support.wire import HOST, Answer, Lost, Refused, Wire, read_chunks, read_head

TEXT = {"content-type": "text/plain"}
QUIET = "/v1/stream/quiet"
LOAD_S = 0.4
SOON_S = 3.0  # far below the grace of ten seconds
GRACE_MS = 700
Scenario = Callable[[CrashedFolder], Coroutine[None, None, None]]


async def _under_load(folder: CrashedFolder) -> None:
    """All kinds of writers, event streams and long-polls at once."""
    with folder.start() as node:
        await node.ready()
        running = asyncio.ensure_future(folder.load.run(node.port))
        async with Wire(node.port) as wire:
            assert (await wire.request("PUT", QUIET, TEXT)).status == 201
        busy = ["/v1/stream/lines", "/v1/stream/arrays", QUIET]
        await created(node.port, *busy)
        streams = [asyncio.ensure_future(event_stream(node.port, path)) for path in busy * 3]
        polls = [asyncio.ensure_future(long_poll(node.port)) for _ in range(5)]
        await asyncio.sleep(LOAD_S)
        node.terminate()
        await asyncio.wait_for(running, SOON_S)
        for status, body, ended in await asyncio.wait_for(asyncio.gather(*streams), SOON_S):
            assert (status, ended) == (200, True), "an event stream was cut off"
            control = body.rpartition(b"event: control\ndata:")[2]
            assert json.loads(control)["upToDate"] is True
            assert body.endswith(b"\n\n")
        assert {answer.status for answer in await asyncio.wait_for(asyncio.gather(*polls), SOON_S)} == {204}
        assert await node.ended() == 0, node.log_tail()
    refusals = [answer for writer in folder.load.writers for answer in writer.refusals]
    assert {(answer.status, answer.headers["retry-after"]) for answer in refusals} <= {(503, "5")}
    attempts = [attempt for stream in folder.load.streams() for attempt in stream.attempts]
    assert {attempt.outcome for attempt in attempts} == {Outcome.STORED, Outcome.REFUSED}
    facts = check_tables(folder.data / "streams.db", whole=True)
    assert (facts.unreplayed, facts.rows > 0) == (0, True)
    with folder.start() as node:
        await node.ready()
        async with Wire(node.port) as wire:
            assert (await wire.request("DELETE", QUIET)).status == 204
        await folder.judge(node)


async def _in_a_burst(folder: CrashedFolder) -> None:
    """Requests that left before the signal are all answered; what comes later finds a 503 or no connection."""
    with folder.start() as node:
        await node.ready()
        wires = [Wire(node.port) for _ in range(120)]
        assert (await wires[0].request("PUT", "/v1/stream/s", TEXT)).status == 201
        await asyncio.gather(*(wire.request("GET", "/livez") for wire in wires))
        readers = [await wire.send("POST", "/v1/stream/s", TEXT, b"%d\n" % at) for at, wire in enumerate(wires)]
        node.terminate()
        answers = [await read_head(reader) for reader in readers]
        stored = [at for at, (status, _) in enumerate(answers) if status == 204]
        refused = [headers["retry-after"] for status, headers in answers if status == 503]
        assert len(stored) + len(refused) == len(wires)
        assert set(refused) <= {"5"}
        late = await asyncio.gather(*(late_append(node.port, at) for at in range(40)))
        assert [answer.status for answer in late if answer is not None and answer.status != 503] == []
        assert await node.ended() == 0
        for wire in wires:
            wire.close()
    with folder.start() as node:
        await node.ready()
        async with Wire(node.port) as wire:
            body = (await wire.request("GET", "/v1/stream/s?offset=-1")).body
        assert sorted(map(int, body.split())) == stored


async def _twice(folder: CrashedFolder) -> None:
    """A second signal, at any moment of the end, neither hangs nor harms."""
    for pause_s in (0.0, 0.1, 0.25):
        with folder.start() as node:
            await node.ready()
            running = asyncio.ensure_future(folder.load.run(node.port))
            await asyncio.sleep(0.1)
            node.terminate()
            await asyncio.sleep(pause_s)
            node.terminate()
            status = await node.ended(SOON_S)
            await running
            assert status in {0, -signal.SIGTERM}, node.log_tail()
        with folder.start() as node:
            await node.ready()
            await folder.judge(node)


async def _with_clients_that_do_not_move(folder: CrashedFolder) -> None:
    """Half a head, half a body, a reader that does not read: they get their grace, then the node ends."""
    folder.settings = {"shutdown_grace_ms": GRACE_MS}
    with folder.start() as node:
        await node.ready()
        async with Wire(node.port) as wire:
            assert (await wire.request("PUT", "/v1/stream/s", TEXT, b"x" * 9_000_000)).status == 201
        stalled = [
            await stall(node.port, head)
            for head in (
                b"POST /v1/stream/s HT",
                b"POST /v1/stream/s HTTP/1.1\r\nhost: x\r\ncontent-type: text/plain\r\ncontent-length: 9\r\n\r\nfour",
                b"GET /v1/stream/s?offset=-1&max_bytes=8000000 HTTP/1.1\r\nhost: x\r\n\r\n" * 8,
                b"GET /v1/stream/s?offset=-1&live=sse HTTP/1.1\r\nhost: x\r\n\r\n",
            )
        ]
        await asyncio.sleep(0.2)
        began = time.monotonic()
        node.terminate()
        assert await node.ended() == 0, node.log_tail()
        assert time.monotonic() - began < GRACE_MS / 1000 + SOON_S
        for transport in stalled:
            transport.abort()
    assert check_tables(folder.data / "streams.db").unreplayed == 0


async def _on_a_full_disk(folder: CrashedFolder) -> None:
    """Commits fail and the last checkpoint does: the node ends, and the next start shows what was acknowledged."""
    with folder.start() as node:
        await node.ready()
        running = asyncio.ensure_future(folder.load.run(node.port))
        await fill_disk(node)
        await asyncio.wait({running}, timeout=LOAD_S)
        node.terminate()
        await running
        assert await node.ended(SOON_S) == 0, node.log_tail()
    with folder.start() as node:
        await node.ready()
        await folder.judge(node)


async def created(port: int, *paths: str) -> None:
    """Wait until the load has made these streams."""
    async with Wire(port) as wire, asyncio.timeout(SOON_S):
        for path in paths:
            while (await wire.request("HEAD", path)).status != 200:  # noqa: ASYNC110 - a client can only ask
                await asyncio.sleep(0.01)


async def event_stream(port: int, path: str) -> tuple[int, bytes, bool]:
    """Follow a stream to the end of the answer: its status, its body, and whether the body was ended properly."""
    async with Wire(port) as wire:
        reader = await wire.send("GET", f"{path}?offset=now&live=sse")
        status, _ = await read_head(reader)
        return status, *await read_chunks(reader)


async def long_poll(port: int) -> Answer:
    """Wait for an entry that never comes."""
    async with Wire(port) as wire:
        return await wire.request("GET", f"{QUIET}?offset=now&live=long-poll")


async def late_append(port: int, number: int) -> Answer | None:
    """An append that begins while the node stops; None when there was no connection any more."""
    await asyncio.sleep(number * 0.01)
    async with Wire(port) as wire:
        try:
            return await wire.request("POST", "/v1/stream/s", TEXT, b"late\n")
        except (Lost, Refused):
            return None


async def stall(port: int, sent: bytes) -> asyncio.Transport:
    """A client that sends this, and then neither sends nor reads."""
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, HOST, port)
    transport.write(sent)
    transport.pause_reading()
    return transport


@pytest.mark.parametrize(
    "scenario", [_under_load, _in_a_burst, _twice, _with_clients_that_do_not_move, _on_a_full_disk]
)
def test_sigterm(scenario: Scenario, tmp_path: Path, crash_seed: str) -> None:
    asyncio.run(scenario(CrashedFolder(tmp_path / "data", crash_seed)))
