"""A load that was under way while something ended or a commit failed: what it brings is older than what is known."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from streams_node.ingest.append import AppendRequest
from streams_node.ingest.create import CreateRequest, _decide
from streams_node.ingest.ledger import Ledger
from streams_node.ingest.remove import delete_stream
from streams_node.testing.inprocess import Answer, InProcess, in_process
from streams_node.wal.lookup import Found, Name
from tests.crash.faults import Fault, Faults, healthy
from tests.crash.model import place
from tests.support.tables import check_tables

TEXT = {"content-type": "text/plain"}
PATH = "/v1/stream/s"


class LateLoads:
    """Lets the next load of streams read the database now, and hand over what it read later."""

    def __init__(self, node: InProcess) -> None:
        states = node.context.ledger.states
        self._load = states._load
        self._release: asyncio.Event | None = None
        self.read = asyncio.Event()
        states._load = self._late

    def hold(self) -> None:
        self._release = asyncio.Event()

    def release(self) -> None:
        assert self._release is not None
        self._release.set()

    async def _late(self, names: list[Name]) -> list[Found]:
        release, self._release = self._release, None
        found = await self._load(names)
        if release is not None:
            self._release = release
            self.read.set()
            await release.wait()
            self._release = None
        return found


def run(folder: Path, scenario: Callable[[InProcess, LateLoads], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with in_process(folder) as node:
            await node.request("PUT", "/v1/stream/other", TEXT)
            await scenario(node, LateLoads(node))
            check_tables(folder / "streams.db")

    asyncio.run(whole())


async def append(node: InProcess, body: bytes) -> Answer:
    return await node.request("POST", PATH, TEXT, body)


def test_a_load_from_before_a_recovery_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the stream without its first entry: deciding on it would give the same place to a second one."""
    faults = Faults(monkeypatch)

    async def scenario(node: InProcess, late: LateLoads) -> None:
        faults.recovers, faults.plan = False, [Fault.ANSWER_LOST]
        assert (await node.request("PUT", PATH, TEXT, b"first")).status == 503
        late.hold()
        reading = asyncio.ensure_future(node.request("GET", f"{PATH}?offset=-1"))
        await late.read.wait()
        faults.recovers = True
        await healthy(node)
        late.release()
        assert (await reading).body == b"first"
        assert place((await append(node, b"second")).headers["stream-next-offset"]).seq == 2

    run(tmp_path, scenario)


def test_a_load_from_before_a_life_is_made_again_after_its_end(tmp_path: Path) -> None:
    """It says that the name never lived: a create that believed it would use an epoch twice."""

    async def scenario(node: InProcess, late: LateLoads) -> None:
        late.hold()
        creating = asyncio.ensure_future(node.request("PUT", PATH, TEXT, b"second life"))
        await late.read.wait()
        await _live_and_die(node.context.ledger)
        late.release()
        created = await creating
        assert (created.status, place(created.headers["stream-next-offset"])) == (201, (1, 1))

    run(tmp_path, scenario)


async def _live_and_die(ledger: Ledger) -> None:
    """A create that had looked the name up before, and a delete."""
    name = Name("_default", "s")
    request = CreateRequest("text/plain", None, None, AppendRequest(b"first life", "text/plain"), implicit_bucket=True)
    created = _decide(ledger, name, await ledger.buckets.get(name.bucket), None, request)
    assert created.batch is not None
    await created.batch.settling
    await (await delete_stream(ledger, name)).settling
