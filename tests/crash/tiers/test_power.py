"""The power goes away at any step that a node made on its disk, and at its bucket: what was acknowledged is there.

A node and its workers run under `syscalls.py`, which writes down every write, sync and name, in a data folder and in
the folder of its bucket. `power.py` says what is modelled and what is not. An image of both is made at random steps; a
node starts on it, shows everything acknowledged by then and nothing that was never sent, and publishes all of it.
Copies of objects in `cache/` are never synced, and the mirror of the catalogue is built without syncs, so they are torn
in many images, and must not be believed.
"""

import asyncio
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, cast

import pytest

from streams_node.testing.inprocess import InProcess, in_process
from streams_node.tiering import Tiering
from tests.crash.tiers.bucket import told
from tests.crash.tiers.points import TIERS
from tests.crash.tiers.power import Disk
from tests.support import syscalls
from tests.support.node_process import NodeProcess
from tests.support.syscalls import Count, Step, steps_of
from tests.support.wire import Lost, Refused, Wire

pytestmark = pytest.mark.skipif(not syscalls.supported(), reason="calls are written down on Linux and x86-64 only")
_LOAD_S_MAX = 60.0
_GENERATIONS = 25
_COPIES = 3
_IMAGES = 14
_PARTS = 2
_ATTEMPTS = 6  # of which one at least loses something
_NAMES = 6
_SHM = Path("/dev/shm")  # noqa: S108 - a second file system, on which no link reaches from the first


class State(NamedTuple):
    """What one request leaves behind; `steps`: how many had been made when its answer was here."""

    steps: float
    entries: list[str] | None  # None: there is no such stream
    closed: bool = False


class Witness:
    """Writes to one name, one request after the other, and remembers each state."""

    def __init__(self, name: str, seed: str, count: Count) -> None:
        self.path = f"/v1/stream/{name}"
        self.states = [State(0, None)]
        self._who = name
        self._random = Random(f"{seed}/{name}")
        self._count = count
        self._number = 0

    async def run(self, port: int) -> None:
        async with Wire(port) as wire:
            try:
                while True:
                    await self._step(wire)
            except (Lost, Refused):
                return

    async def _step(self, wire: Wire) -> None:
        _, entries, closed = self.states[-1]
        chance = self._random.random()
        if entries is None:
            await self._ask(wire, "PUT", [], closed=False)
        elif closed or (chance < 0.02 and len(entries) > 20):
            await self._ask(wire, "DELETE", None, closed=False)
        elif chance < 0.2:
            await wire.request("GET", f"{self.path}?offset=-1&max_bytes={self._random.choice((200, 5000))}")
        elif chance < 0.22:
            await wire.request("POST", f"{self.path}/_flush")
        else:
            self._number += 1
            pad = "x" * self._random.choice((0, 10, 200, 3000))
            added = [f"{self._who}:{self._number}:{at}:{pad}" for at in range(self._random.choice((1, 1, 1, 5)))]
            await self._ask(wire, "POST", entries + added, closed=self._random.random() < 0.01, body=added)

    async def _ask(
        self, wire: Wire, method: str, entries: list[str] | None, *, closed: bool, body: list[str] | None = None
    ) -> None:
        headers = {"content-type": "application/json"} | ({"stream-closed": "true"} if closed else {})
        self.states.append(State(math.inf, entries, closed))
        answer = await wire.request(method, self.path, headers, json.dumps(body).encode() if body else b"")
        assert answer.status in {201, 204}, (method, self.path, answer)
        self.states[-1] = State(self._count(), entries, closed)

    def judge(self, found: State, step: int) -> None:
        """It is as the last answer before the step left it, or as the request then under way would."""
        at = max(number for number, state in enumerate(self.states) if state.steps <= step)
        possible = [state._replace(steps=0) for state in self.states[at : at + 2]]
        assert found in possible, (
            f"{self.path} after step {step}: {_short(found)}, and not one of {[_short(state) for state in possible]}"
        )


def _short(state: State) -> str:
    return "nothing" if state.entries is None else f"{len(state.entries)} entries, closed: {state.closed}"


class Recorded(NamedTuple):
    """One life, and what its clients were told."""

    roots: list[Path]
    steps: list[Step]
    witnesses: list[Witness]


@pytest.fixture(name="recorded", scope="module")
def _recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    folder = tmp_path_factory.mktemp("power")
    other = Path(tempfile.mkdtemp(dir=_SHM)) if _SHM.is_dir() else folder
    try:
        yield asyncio.run(_life(folder, other))
    finally:
        if other != folder:
            shutil.rmtree(other)


async def _life(folder: Path, other: Path) -> Recorded:
    roots = [folder / "data", other / "bucket"]
    for root in roots:
        root.mkdir()
    record = folder / "record"
    tracer = (sys.executable, syscalls.__file__, str(record), *map(str, roots), "--")
    settings = {**TIERS, "object_store_folder": roots[1]}
    with NodeProcess(roots[0], settings=settings, before=tracer) as node:
        await node.ready()
        witnesses = [Witness(f"w{at}", "power", Count(record)) for at in range(_NAMES)]
        running = asyncio.gather(*(witness.run(node.port) for witness in witnesses))
        async with asyncio.timeout(_LOAD_S_MAX):
            while not _enough(roots[0]):  # noqa: ASYNC110 - only the folders say so
                await asyncio.sleep(0.05)
        node.kill()
        await running
    return Recorded(roots, list(steps_of(record)), witnesses)


def _enough(data: Path) -> bool:
    """Whether there were flushes, merges, a snapshot, and reads of what had left the log."""
    about = told(data / "streams.db")
    copies = len(list((data / "cache").glob("*")))
    return about.generation >= _GENERATIONS and bool(about.snapshot and about.merged) and copies >= _COPIES


def test_every_step_is_understood(recorded: Recorded) -> None:
    """And there is something to lose of every kind."""
    kinds = {step.kind for step in recorded.steps}
    assert "unknown" not in kinds, [step for step in recorded.steps if step.kind == "unknown"][:3]
    assert kinds >= {"create", "write", "sync", "link", "unlink", "mkdir"}
    written = {
        Path(step.path).relative_to(root).parts[0]
        for step in recorded.steps
        for root in recorded.roots
        if step.kind == "write" and root in Path(step.path).parents
    }
    assert written >= {"streams.db", "streams.db-wal", "sealing", "making", "cache", "catalogue", ".store"}


@pytest.mark.parametrize("part", range(_PARTS))
def test_nothing_acknowledged_goes_with_the_power(
    part: int, recorded: Recorded, tmp_path: Path, crash_seed: str
) -> None:
    random = Random(f"{crash_seed}/power/{part}")
    anywhere = [random.randrange(len(recorded.steps) + 1) for _ in range(_IMAGES // 2)]
    cuts = sorted(anywhere + random.sample(answered(recorded), _IMAGES // 2))
    disk = Disk(recorded.roots)
    done = 0
    for number, cut in enumerate(cuts):
        for step in recorded.steps[done:cut]:
            disk.apply(step)
        done = cut
        image = tmp_path / str(number)
        disk.image(random, image)
        asyncio.run(_starts(recorded, image, cut))
        shutil.rmtree(image)


def answered(recorded: Recorded) -> list[int]:
    """The steps at which a client was just told that something is stored: there is most to lose."""
    told_at = {state.steps for witness in recorded.witnesses for state in witness.states[1:]}
    return sorted(int(steps) for steps in told_at if steps < math.inf)


async def _starts(recorded: Recorded, image: Path, cut: int) -> None:
    data, bucket = (image / str(root).lstrip("/") for root in recorded.roots)
    settings: dict[str, Any] = {**TIERS, "object_store_folder": bucket}
    async with in_process(data, tiers=True, **settings) as node:
        await _judge(recorded, node, cut)
        ledger, tiers = node.context.ledger, cast("Tiering", node.context.tiers)
        async with asyncio.timeout(20):
            await tiers.flush(ledger.committer.committed_through)
        await _judge(recorded, node, cut)
        assert not tiers.pressure.bytes


async def _judge(recorded: Recorded, node: InProcess, cut: int) -> None:
    for witness in recorded.witnesses:
        witness.judge(await _found(node, witness.path), cut)


async def _found(node: InProcess, path: str) -> State:
    head = await node.request("HEAD", path)
    if head.status == 404:
        return State(0, None)
    entries: list[str] = []
    offset = "-1"
    while True:
        answer = await node.request("GET", f"{path}?offset={offset}")
        assert answer.status == 200, answer
        entries += json.loads(answer.body)
        offset = answer.headers["stream-next-offset"]
        if answer.headers.get("stream-up-to-date") == "true":
            return State(0, entries, head.headers.get("stream-closed") == "true")


def test_a_node_that_did_not_sync_would_be_found_out(recorded: Recorded, tmp_path: Path) -> None:
    """The same steps without the syncs of the log: if no image shows a loss then, the others prove nothing."""
    cuts = sorted(Random(1).sample(answered(recorded), _ATTEMPTS))
    disk, done = Disk(recorded.roots), 0
    lost = 0
    for number, cut in enumerate(cuts):
        for step in recorded.steps[done:cut]:
            of_log = step.kind == "sync" and step.path.endswith("-wal")
            disk.apply(step._replace(number=0) if of_log else step)
        done = cut
        disk.image(Random(number), tmp_path / str(number))
        try:
            asyncio.run(_starts(recorded, tmp_path / str(number), cut))
        except Exception:  # noqa: BLE001 - whatever is wrong, it was found
            lost += 1
    assert lost
