"""A node killed in the commits of a life of forks: each step is there as a whole, or not at all."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.node_process import NodeProcess
from tests.support.wire import Lost, Refused, Wire

SOURCE, FORK, SECOND = "/v1/stream/source", "/v1/stream/fork", "/v1/stream/second"
TEXT = {"content-type": "text/plain"}
SETTINGS = {"heads_flush_ms": 60_000, "heads_flush_rows": 100_000, "expiry_sweep_ms": 50}


class Step(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    after: tuple[bytes | int, bytes | int, bytes | int]  # what the three streams show: text, or a status


STEPS = (
    Step("PUT", SOURCE, TEXT, b"", (b"", 404, 404)),
    Step("POST", SOURCE, TEXT, b"one ", (b"one ", 404, 404)),
    Step("PUT", FORK, {"stream-forked-from": SOURCE}, b"two ", (b"one ", b"one two ", 404)),
    Step(
        "PUT", SECOND,
        {"stream-forked-from": FORK, "stream-fork-offset": "-1", "stream-fork-sub-offset": "2"},
        b"three", (b"one ", b"one two ", b"onthree"),
    ),
    Step("DELETE", SOURCE, {}, b"", (410, b"one two ", b"onthree")),
    Step("DELETE", FORK, {}, b"", (410, 410, b"onthree")),
    Step("DELETE", SECOND, {}, b"", (404, 404, 404)),
)  # fmt: skip
DEATHS = [("commit.before", 3), ("commit.before", 7), ("commit.after", 3), ("commit.after", 7)]
DEATHS += [("commit.inside", number) for number in range(2, 7)]  # an append is no mixed commit


@pytest.mark.parametrize(("point", "number"), DEATHS)
def test_a_killed_node_keeps_each_step_whole(tmp_path: Path, point: str, number: int) -> None:
    asyncio.run(_killed(tmp_path / "data", f"{point}:{number}"))


async def _killed(data: Path, crash_at: str) -> None:
    with NodeProcess(data, crash_at=crash_at, settings=SETTINGS) as node:
        await node.ready()
        answered = await _walk(node.port, 0)
        assert answered < len(STEPS), "it was not killed"
        await node.ended()
    with NodeProcess(data, settings=SETTINGS) as node:
        await node.ready()
        seen = await _seen(node.port)
        possible = [step.after for step in STEPS[max(0, answered - 1) : answered + 1]]
        assert seen in possible, (answered, seen)
        done = answered + (1 if seen == STEPS[answered].after else 0)
        assert await _walk(node.port, done) == len(STEPS)
        assert await _seen(node.port) == STEPS[-1].after
        node.terminate()
        await node.ended()
    with closing(sqlite3.connect(data / "streams.db")) as db:
        for table in ("streams", "heads"):
            assert db.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)  # noqa: S608 - one of two


async def _walk(port: int, done: int) -> int:
    """Take the steps from one on; how many there are once it ends, by itself or not."""
    try:
        async with Wire(port) as wire:
            for step in STEPS[done:]:
                reply = await wire.request(step.method, step.path, step.headers, step.body)
                assert reply.status in {201, 204}, (step, reply)
                done += 1
    except (Lost, Refused):
        pass
    return done


async def _seen(port: int) -> tuple[bytes | int, ...]:
    found: list[bytes | int] = []
    async with Wire(port) as wire:
        for path in (SOURCE, FORK, SECOND):
            reply = await wire.request("GET", f"{path}?offset=-1")
            found.append(reply.body if reply.status == 200 else reply.status)
    return tuple(found)
