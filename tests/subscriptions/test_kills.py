"""Kill -9 of the node and of receivers: every append reaches every subscription, and a wake never has two holders."""

import asyncio
import json
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.conformance.node_process import free_port
from tests.subscriptions.kills import POINTS, SETTINGS, Killed, ask
from tests.subscriptions.receivers import Receiver, receiving
from tests.support.node_process import NodeProcess
from tests.support.wire import Wire

LIVES = 3
SEED = secrets.token_hex(4)


@pytest.mark.parametrize("point", [*POINTS, None])
def test_nothing_is_lost_and_no_wake_has_two_holders(point: str | None, tmp_path: Path) -> None:
    print(f"seed {SEED}")  # noqa: T201 - pytest shows it where a test fails

    async def scenario() -> None:
        async with receiving() as receiver:
            killed = Killed(tmp_path, f"{SEED}/{point}", receiver.url)
            random = Random(SEED)
            for life in range(LIVES):
                at = None if point is None else f"{point}:{random.randint(1, POINTS[point]) + (5 if life == 0 else 0)}"
                assert await killed.live(at), f"the node did not die at {at}"
            await killed.settle()
            assert killed.truth.deaths == LIVES
            assert killed.truth.claims
            check_told(receiver, killed)

    asyncio.run(scenario())


def check_told(receiver: Receiver, killed: Killed) -> None:
    """The receiver was told of everything that was written, and its generations never went back."""
    told: dict[str, str] = {}
    newest = 0
    while not receiver.calls.empty():
        call = receiver.calls.get_nowait()
        assert call.body["generation"] >= newest, "an earlier wake came after a later one"
        newest = call.body["generation"]
        told |= {path: max(told.get(path, ""), offset) for path, offset in call.tails().items()}
    assert {path: told.get(path, "") >= tail for path, tail in killed.truth.tails.items()} == dict.fromkeys(
        killed.truth.tails, True
    )


@contextmanager
def receiver_process(port: int, notes: Path) -> Iterator[None]:
    """A receiver that is killed at the end."""
    command = [sys.executable, str(Path(__file__).with_name("receiver_process.py")), str(port), str(notes)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_a_receiver_that_is_killed_hears_of_everything_all_the_same(tmp_path: Path) -> None:
    port, notes = free_port(), tmp_path / "notes"
    notes.touch()

    def told() -> dict[str, str]:
        found: dict[str, str] = {}
        for line in notes.read_bytes().splitlines():
            for each in json.loads(line)["streams"]:
                found[each["path"]] = max(found.get(each["path"], ""), each["tail_offset"])
        return found

    async def scenario() -> None:
        tails: dict[str, str] = {}
        with NodeProcess(tmp_path / "data", settings=SETTINGS) as node:
            await node.ready()
            async with Wire(node.port) as wire:
                hook = {"type": "webhook", "webhook": {"url": f"http://127.0.0.1:{port}/"}, "pattern": "events/*"}
                assert (await ask(wire, "PUT", "__ds/subscriptions/s", hook)).status == 201
                for turn in range(3):
                    with receiver_process(port, notes):
                        seen = len(notes.read_bytes())
                        tails |= {f"events/{turn}-{number}": await put(wire, turn, number) for number in range(5)}
                        async with asyncio.timeout(60):
                            while len(notes.read_bytes()) == seen:  # noqa: ASYNC110 - another process writes it
                                await asyncio.sleep(0.01)
                    tails[f"events/dark-{turn}"] = await put(wire, "dark", turn)  # nobody is there
                with receiver_process(port, notes):
                    async with asyncio.timeout(60):
                        while told() != tails:  # noqa: ASYNC110
                            await asyncio.sleep(0.02)

    async def put(wire: Wire, turn: object, number: int) -> str:
        answer = await ask(wire, "PUT", f"events/{turn}-{number}", [number])
        assert answer.status == 201
        return answer.next_offset

    asyncio.run(scenario())
