"""The child of the node: started when there is something to do, ended when there is not, gone when the node is."""

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import SecretStr

from streams_node.config import Settings
from streams_node.indexing import driver as driver_module
from streams_node.indexing.desk import Desk, Outlook
from streams_node.indexing.driver import TOKEN, Driver
from streams_node.tiering.indexing import secrets_of
from tests.indexing.world import append, create, indexed, on_loop, sealed
from tests.support.node_process import NodeProcess
from tests.support.wire import Wire
from tests.tiers.node import tiers_of, until

STUB = Path(__file__).with_name("stub_driver.py")
URL = "http://127.0.0.1:1"


class FakeDesk:
    """What a driver asks of a desk."""

    def __init__(self) -> None:
        self.wanted = True
        self.counts: Counter[str] = Counter()
        self.leases: list[object] = []
        self.tended = 0
        self.dead: list[int] = []

    def died(self, pid: int) -> None:
        self.dead.append(pid)

    async def tend(self) -> None:
        self.tended += 1

    def outlook(self) -> Outlook:
        return Outlook(1, 1, 1, 0.0, asked=False)


def driver_of(desk: FakeDesk, record: Path, mode: str, **other: Any) -> Driver:
    command = (sys.executable, str(STUB), str(record), mode)
    given: dict[str, Any] = {"look_s": 0.02, "backoff_s": 0.05, "secrets": {TOKEN: "a-secret-key-1234567"}} | other
    return Driver(cast("Desk", desk), URL, command=command, **given)


def recorded(record: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" if Path("/proc").exists() else True


def command_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


@on_loop
async def test_it_starts_when_wanted_and_ends_when_idle(tmp_path: Path) -> None:
    desk, record = FakeDesk(), tmp_path / "record"
    desk.wanted = False
    driver = driver_of(desk, record, "wait", idle_s=2)
    running = asyncio.ensure_future(driver.run())
    await until(lambda: desk.tended > 3, "it looks")
    assert recorded(record) == []
    desk.wanted = True
    await until(lambda: recorded(record), "it is started")
    desk.wanted = False
    (seen,) = recorded(record)
    assert seen["url"] == URL
    assert seen["token"] == "a-secret-key-1234567"
    assert b"secret" not in command_of(seen["pid"])
    await until(lambda: os.getpriority(os.PRIO_PROCESS, seen["pid"]) >= 10, "it takes what the node leaves")
    assert os.getsid(seen["pid"]) == os.getsid(0), "else its session may count as much as the node's"
    await until(lambda: driver.pid is None and not lives(seen["pid"]), "it has nothing to do, and is ended")
    assert driver.failures == 0
    await until(lambda: desk.dead == [seen["pid"]], "its leases are ended")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@on_loop
async def test_it_gets_the_keys_of_the_store_by_its_environment(tmp_path: Path) -> None:
    settings = Settings(
        api_key=SecretStr("a-node-key-1234567"), object_store="s3", s3_bucket="b",
        s3_access_key_id=SecretStr("a-store-key"), s3_secret_access_key=SecretStr("a-store-secret"),
    )  # fmt: skip
    secrets = secrets_of(settings)
    assert secrets == {
        "STREAMS_TOKEN": "a-node-key-1234567", "AWS_ACCESS_KEY_ID": "a-store-key",
        "AWS_SECRET_ACCESS_KEY": "a-store-secret", "AWS_SESSION_TOKEN": "",
    }  # fmt: skip
    assert secrets_of(Settings(no_auth=True)) == {}
    desk, record = FakeDesk(), tmp_path / "record"
    driver = driver_of(desk, record, "wait", secrets=secrets)
    running = asyncio.ensure_future(driver.run())
    await until(lambda: recorded(record), "it is started")
    (seen,) = recorded(record)
    assert (seen["token"], seen["store_key"]) == ("a-node-key-1234567", "a-store-key")
    assert b"a-store" not in command_of(seen["pid"])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@on_loop
async def test_work_keeps_it(tmp_path: Path) -> None:
    desk, record = FakeDesk(), tmp_path / "record"
    desk.leases = [SimpleNamespace()]
    driver = driver_of(desk, record, "wait", idle_s=0.1)
    running = asyncio.ensure_future(driver.run())
    await until(lambda: recorded(record), "it is started")
    tended = desk.tended
    await until(lambda: desk.tended > tended + 20, "it is looked at")
    assert driver.pid is not None
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert not lives(recorded(record)[0]["pid"])


@on_loop
async def test_one_that_fails_is_started_again_later_each_time(tmp_path: Path) -> None:
    desk, record = FakeDesk(), tmp_path / "record"
    driver = driver_of(desk, record, "fail")
    running = asyncio.ensure_future(driver.run())
    await until(lambda: len(recorded(record)) >= 3, "it is started again")
    assert driver.failures >= 2
    assert driver.problem == "the index driver ended with status 3"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@on_loop
async def test_a_program_that_is_not_there_is_said_and_tried_again(tmp_path: Path) -> None:
    desk = FakeDesk()
    driver = Driver(cast("Desk", desk), URL, {}, command=(str(tmp_path / "none"),), look_s=0.01, backoff_s=0.01)
    running = asyncio.ensure_future(driver.run())
    await until(lambda: driver.starts >= 2, "it is tried again")
    assert "none" in (driver.problem or "")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@on_loop
async def test_a_node_starts_one_only_for_a_store_that_it_reaches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "record"
    monkeypatch.setattr(driver_module, "COMMAND", (sys.executable, str(STUB), str(record), "wait"))
    monkeypatch.setattr(Driver.__init__, "__kwdefaults__", {
        **(Driver.__init__.__kwdefaults__ or {}), "command": driver_module.COMMAND, "look_s": 0.02,
    })  # fmt: skip
    async with indexed(tmp_path / "node", index_driver="auto", index_due_bytes=0) as node:
        await create(node, "/v1/stream/a")
        await append(node, "/v1/stream/a", [{"k": "x"}] * 5)
        await sealed(node)
        assert recorded(record) == []  # nobody has said yet where the node listens
        tiers_of(node).listening(URL)
        await until(lambda: recorded(record), "it is started")
        (seen,) = recorded(record)
        assert seen["url"] == URL
    assert not lives(seen["pid"])


def test_it_does_not_outlive_a_node_that_is_killed(tmp_path: Path) -> None:
    """`kill -9` of the node: the child's standard input ends, and so does the child."""
    record = tmp_path / "record"
    folder = tmp_path / "site"
    (folder / "spark_index").mkdir(parents=True)
    (folder / "spark_index" / "__init__.py").write_text("")
    (folder / "spark_index" / "__main__.py").write_text(
        f"import sys, runpy\nsys.argv[1:1] = [{str(record)!r}, 'wait']\n"
        f"runpy.run_path({str(STUB)!r}, run_name='__main__')\n"
    )

    async def main() -> int:
        settings = {
            "index_due_bytes": 0, "index_stream_entries": 1, "flush_ms_max": 50, "publish_ms_min": 0,
        }  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(folder))
            node = NodeProcess(tmp_path / "data", settings=settings)
        with node:
            await node.ready()
            async with Wire(node.port) as wire:
                json_type = {"content-type": "application/json"}
                await wire.request("PUT", "/v1/stream/a", json_type)
                declared = {"schema": {"type": "object"}, "routingKey": {"jsonPointer": "/k", "required": False}}
                await wire.request("POST", "/v1/stream/a/_schema", json_type, json.dumps(declared).encode())
                await wire.request("POST", "/v1/stream/a", json_type, b'[{"k":"x"}]')
            await until(lambda: recorded(record), "a driver is started")
            (seen,) = recorded(record)
            assert lives(seen["pid"])
            assert seen["url"] == f"http://127.0.0.1:{node.port}"
            os.kill(node.pid, signal.SIGKILL)
            await node.ended()
        await until(lambda: not lives(seen["pid"]), "the driver has ended")
        return int(seen["pid"])

    assert asyncio.run(main()) > 0


@on_loop
async def test_while_memory_is_tight_none_is_started_and_when_it_is_nearly_used_up_the_one_that_runs_ends(
    tmp_path: Path,
) -> None:
    desk, record = FakeDesk(), tmp_path / "record"
    driver = driver_of(desk, record, "wait")
    driver.hold(hold=True, end=False)
    running = asyncio.ensure_future(driver.run())
    try:
        tended = desk.tended
        await until(lambda: desk.tended > tended + 3, "it has looked a few times")
        assert driver.starts == 0
        driver.hold(hold=False, end=False)
        await until(lambda: recorded(record), "one runs")
        driver.hold(hold=True, end=False)
        tended = desk.tended
        await until(lambda: desk.tended > tended + 3, "it has looked a few times")
        assert driver.pid == recorded(record)[0]["pid"]  # tight: what runs goes on
        driver.hold(hold=True, end=True)
        await until(lambda: driver.pid is None, "it has ended")
        tended = desk.tended
        await until(lambda: desk.tended > tended + 3, "it has looked a few times")
        assert (driver.starts, driver.failures) == (1, 0)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
