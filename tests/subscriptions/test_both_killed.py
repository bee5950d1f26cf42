"""Kill -9 of the node and of a webhook's receiver, in any order and at once: every entry is told at least once, and
what a wake stands for is acknowledged exactly once, by whoever holds it.
"""

import asyncio
import json
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.conformance.node_process import free_port
from tests.subscriptions.kills import SETTINGS, ask
from tests.support.node_process import NodeProcess
from tests.support.wire import Lost, Refused, Wire

TURNS = 4
STREAMS = [f"events/{number}" for number in range(4)]
PATIENCE_S = 60.0
SEED = secrets.token_hex(4)


class Shop:
    """One data folder and one receiver, which die and come back, and what clients know for certain."""

    def __init__(self, folder: Path) -> None:
        self.data, self.notes, self.where = folder / "data", folder / "notes", folder / "node-port"
        self.port = free_port()
        self.tails: dict[str, str] = {}
        self.notes.touch()

    def start_node(self) -> NodeProcess:
        return NodeProcess(self.data, settings=SETTINGS)

    async def ready(self, node: NodeProcess) -> None:
        await node.ready()
        self.where.with_suffix(".new").write_text(str(node.port))
        self.where.with_suffix(".new").replace(self.where)

    @contextmanager
    def receiver(self) -> Iterator[None]:
        """Killed at the end of the block."""
        program = str(Path(__file__).with_name("working_receiver.py"))
        command = [sys.executable, program, str(self.port), str(self.notes), str(self.where)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.kill()
            process.wait()

    def noted(self) -> list[dict[str, Any]]:
        """A line that a kill has cut off was never acted on."""
        found = []
        for line in self.notes.read_bytes().splitlines():
            with suppress(ValueError):
                found.append(json.loads(line))
        return found

    async def write(self, node: NodeProcess, random: Random) -> None:
        with suppress(Lost, Refused):
            async with Wire(node.port) as wire:
                while True:
                    await self.append(wire, random.choice(STREAMS))
                    await asyncio.sleep(random.random() * 0.02)

    async def append(self, wire: Wire, path: str) -> None:
        answer = await ask(wire, "POST", path, [1])
        if answer.status == 404:
            answer = await ask(wire, "PUT", path, [1])
        if answer.status < 300:
            self.tails[path] = max(self.tails.get(path, ""), answer.next_offset)

    async def acked(self, wire: Wire) -> dict[str, str]:
        answer = await ask(wire, "GET", "__ds/subscriptions/s")
        return {each["path"]: each["acked_offset"] for each in json.loads(answer.body)["streams"]}


def test_what_was_told_is_acknowledged_once_whoever_dies(tmp_path: Path) -> None:
    print(f"seed {SEED}")  # noqa: T201 - pytest shows it where the test fails
    random, shop = Random(SEED), Shop(tmp_path)

    async def scenario() -> None:
        for turn in range(TURNS):
            with shop.start_node() as node:
                await shop.ready(node)
                if turn == 0:
                    await subscribe(node, shop.port)
                writing = asyncio.create_task(shop.write(node, random))
                with shop.receiver():
                    seen = len(shop.noted())
                    await until(lambda seen=seen: len(shop.noted()) > seen + 1, "the receiver is told of something")
                    await asyncio.sleep(random.random() * 0.2)  # any moment is as good
                    if turn % 2:
                        node.kill()  # the receiver has wakes, and nobody to call back
                with shop.receiver():  # with nothing in its memory
                    await asyncio.sleep(random.random() * 0.2)
                    node.kill()
                await writing
        with shop.start_node() as node, shop.receiver():
            await shop.ready(node)
            async with asyncio.timeout(PATIENCE_S), Wire(node.port) as wire:
                for path in STREAMS:
                    await shop.append(wire, path)
                while behind(shop.tails, await shop.acked(wire)):  # noqa: ASYNC110 - it shows in answers only
                    await asyncio.sleep(0.02)
                await nobody_holds_an_old_wake(wire, shop.noted())

    asyncio.run(scenario())
    check_notes(shop.noted(), shop.tails)


async def subscribe(node: NodeProcess, port: int) -> None:
    hook = {"type": "webhook", "webhook": {"url": f"http://127.0.0.1:{port}/"}, "pattern": "events/*"}
    async with Wire(node.port) as wire:
        assert (await ask(wire, "PUT", "__ds/subscriptions/s", {**hook, "lease_ttl_ms": 1000})).status == 201


async def until(holds: Any, what: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.01)
    except TimeoutError:
        pytest.fail(f"not within {PATIENCE_S} s: {what}")


def behind(tails: dict[str, str], reached: dict[str, str]) -> list[str]:
    return [path for path, tail in tails.items() if reached.get(path, "") < tail]


async def nobody_holds_an_old_wake(wire: Wire, noted: list[dict[str, Any]]) -> None:
    """All of them are over: their tokens acknowledge nothing any more, whoever shows them."""
    wakes = {line["told"]["generation"]: line["told"] for line in noted if "told" in line}
    for generation, wake in wakes.items():
        said = {"wake_id": wake["wake_id"], "generation": generation, "acks": [], "done": True}
        bearer = {"authorization": f"Bearer {wake['callback_token']}"}
        answer = await ask(wire, "POST", "__ds/subscriptions/s/callback", said, bearer)
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (409, "FENCED"), generation


def check_notes(noted: list[dict[str, Any]], tails: dict[str, str]) -> None:
    told: dict[str, str] = {}
    done: dict[str, str] = {}
    accepted: set[int] = set()
    newest = 0
    for line in noted:
        if "told" in line:
            wake = line["told"]
            assert wake["generation"] >= newest, "an earlier wake came after a later one"
            assert any(each["has_pending"] for each in wake["streams"])
            for each in wake["streams"]:
                path, tail, acked = each["path"], each["tail_offset"], each["acked_offset"]
                told[path] = max(told.get(path, ""), tail if each["has_pending"] else acked)
                if wake["generation"] not in accepted:
                    assert acked >= done.get(path, ""), f"{path} was acknowledged up to {done[path]}"
            newest = wake["generation"]
        else:
            assert line["answered"] in {200, 409}, line
            if line["answered"] == 200:
                assert line["generation"] not in accepted, "one wake was done twice"
                accepted.add(line["generation"])
                done |= {path: max(done.get(path, ""), offset) for path, offset in line["acks"].items()}
    assert accepted
    assert behind(tails, told) == []
