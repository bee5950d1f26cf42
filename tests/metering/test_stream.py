import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from streams_node.errors import Overloaded, StreamsError, Unavailable
from streams_node.metering import NAME, Metering
from streams_node.objects import RequestCounts
from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess, in_process
from streams_node.tiering import Tiering
from tests.support.node_process import NodeProcess
from tests.support.wire import Wire
from tests.tiers.bucket import memory_bucket
from tests.tiers.driver import TINY

PATH = f"/v1/stream/{NAME.stream}"
JSON = {"content-type": "application/json"}


@asynccontextmanager
async def metered(folder: Path, **settings: Any) -> AsyncIterator[tuple[InProcess, Metering, FakeClock]]:
    """A node whose interval ends when the test says so."""
    clock = FakeClock()
    async with in_process(folder, clock=clock, **settings) as node:
        metering = Metering(node.context.ledger, node.context.metrics, RequestCounts(), instance="7-abcdef")
        metering.begin()
        yield node, metering, clock


def run(folder: Path, test: Callable[[InProcess, Metering, FakeClock], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        async with metered(folder, **settings) as (node, metering, clock):
            await test(node, metering, clock)

    asyncio.run(main())


async def told(node: InProcess) -> list[dict[str, Any]]:
    answer = await node.request("GET", f"{PATH}?offset=-1")
    assert answer.status == 200
    found: list[dict[str, Any]] = json.loads(answer.body)
    return found


def test_the_stream_has_the_schema_of_intervals_and_nothing_else(tmp_path: Path) -> None:
    async def test(node: InProcess, metering: Metering, _: FakeClock) -> None:
        assert (await node.request("HEAD", PATH)).status == 404
        await metering.tell()
        schema = json.loads((await node.request("GET", f"{PATH}/_schema")).body)
        assert (schema["schema"], schema["currentVersion"]) == (NAME.stream, 1)
        assert "routingKey" not in schema
        assert "search" not in schema
        state = await node.context.ledger.living(NAME)
        assert (state.profile, state.content_type) == ("metrics", "application/json")

    run(tmp_path, test)


def test_an_interval_is_told_once_and_not_of_itself(tmp_path: Path) -> None:
    async def test(node: InProcess, metering: Metering, clock: FakeClock) -> None:
        await node.request("PUT", "/v1/stream/s", JSON)
        await node.request("POST", "/v1/stream/s", JSON, b"[1,22,333]")
        clock.advance(10.0)
        await metering.tell()
        first = await told(node)
        by_name = {each["metric"]: each for each in first}
        assert (by_name["tieredstore.append.bytes"]["sum"], by_name["tieredstore.append.entries"]["sum"]) == (10, 3)
        assert {each["instance"] for each in first} == {"7-abcdef"}
        assert {each["windowEnd"] - each["windowStart"] for each in first} == {10_000}
        assert "process.rss.bytes" in by_name
        clock.advance(10.0)
        await metering.tell()
        second = (await told(node))[len(first) :]
        assert {each["windowStart"] for each in second} == {first[0]["windowEnd"]}
        assert not {each["metric"] for each in second} & {"tieredstore.append.bytes", "tieredstore.append.entries"}

    run(tmp_path, test)


def test_an_overloaded_node_still_tells_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(node: InProcess, metering: Metering, _: FakeClock) -> None:
        await metering.tell()
        told_before = len(await told(node))

        def full(_: int) -> None:
            raise Overloaded("the append queue is full")

        monkeypatch.setattr(node.context.ledger.committer, "admit", full)
        await node.request("PUT", "/v1/stream/s", JSON)
        await metering.tell()
        refused = [each for each in (await told(node))[told_before:] if each["metric"].endswith(".over_limit")]
        assert [(each["sum"], each["tags"]) for each in refused] == [(1, {})]

    run(tmp_path, test)


@pytest.mark.parametrize("reason", ["shutting_down", "disk_low"])
def test_nothing_is_written_while_writes_are_refused(tmp_path: Path, reason: str) -> None:
    async def test(node: InProcess, metering: Metering, clock: FakeClock) -> None:
        await metering.tell()
        before = await told(node)
        node.context.ledger.refusals[reason] = Unavailable("no")
        await metering.tell()
        assert await told(node) == before
        del node.context.ledger.refusals[reason]
        clock.advance(20.0)
        await metering.tell()
        assert (await told(node))[-1]["windowStart"] == before[-1]["windowEnd"]

    run(tmp_path, test)


def test_a_stream_that_was_deleted_is_made_again(tmp_path: Path) -> None:
    async def test(node: InProcess, metering: Metering, _: FakeClock) -> None:
        await metering.tell()
        assert (await node.request("DELETE", PATH)).status == 204
        await metering.tell()
        assert await told(node)
        assert json.loads((await node.request("GET", f"{PATH}/_schema")).body)["currentVersion"] == 1

    run(tmp_path, test)


def test_a_stream_that_was_closed_stays_closed(tmp_path: Path) -> None:
    async def test(node: InProcess, metering: Metering, _: FakeClock) -> None:
        await metering.tell()
        assert (await node.request("POST", PATH, {"stream-closed": "true"})).status == 204
        with pytest.raises(StreamsError):
            await metering.tell()

    run(tmp_path, test)


def test_clients_cannot_make_it_and_append_to_it_as_to_any_metrics(tmp_path: Path) -> None:
    async def test(node: InProcess, metering: Metering, _: FakeClock) -> None:
        assert (await node.request("PUT", PATH, JSON)).status == 400
        await metering.tell()
        refused = await node.request("POST", PATH, JSON, b'{"metric":"m"}')
        assert (refused.status, json.loads(refused.body)["error"]["message"]) == (
            400, "metrics record.unit must be a non-empty string",
        )  # fmt: skip
        record = {"metric": "m", "unit": "ns", "windowStart": 1, "windowEnd": 2, "count": 1, "sum": 1}
        assert (await node.request("POST", PATH, JSON, json.dumps(record).encode())).status == 204

    run(tmp_path, test)


def test_it_goes_on_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with metered(tmp_path) as (node, metering, _):
            await metering.tell()
            before = await told(node)
        async with metered(tmp_path) as (node, metering, _):
            await metering.tell()
            assert (await told(node))[: len(before)] == before
            assert len(await told(node)) > len(before)

    asyncio.run(main())


def test_records_are_kept_for_a_while_and_no_longer(tmp_path: Path) -> None:
    async def test(node: InProcess, metering: Metering, clock: FakeClock) -> None:
        for _ in range(10):
            clock.advance(60.0)
            await metering.tell()
            await metering.trim()
        answer = await node.request("GET", PATH)
        kept = json.loads(answer.body)
        now_ms = clock() // 1000
        assert {(now_ms - each["windowEnd"]) // 60_000 for each in kept} == {0, 1, 2, 3}
        assert (await node.request("GET", f"{PATH}?offset=-1")).status == 410
        shown = await node.request("HEAD", PATH)
        metering._trim_at_us = 0
        await metering.trim()
        after = await node.request("HEAD", PATH)
        assert after.headers | {"server-timing": ""} == shown.headers | {"server-timing": ""}

    run(tmp_path, test, stream_metrics_kept_ms=180_000)

    async def test_again(node: InProcess, metering: Metering, clock: FakeClock) -> None:
        assert len(json.loads((await node.request("GET", PATH)).body)) > 0
        assert (await node.request("GET", f"{PATH}?offset=-1")).status == 410
        clock.advance(10_000.0)
        await metering.trim()
        assert json.loads((await node.request("GET", PATH)).body) == []

    run(tmp_path, test_again, stream_metrics_kept_ms=180_000)

    async def test_for_ever(node: InProcess, metering: Metering, clock: FakeClock) -> None:
        await metering.tell()
        clock.advance(10_000_000.0)
        await metering.trim()
        assert await told(node)

    run(tmp_path / "other", test_for_ever, stream_metrics_kept_ms=0)


def test_the_task_tells_by_itself_unless_it_is_switched_off(tmp_path: Path) -> None:
    async def test(node: InProcess, metering: Metering, _: FakeClock) -> None:
        metering.start()
        async with asyncio.timeout(10):
            while (await node.request("HEAD", PATH)).status != 200:  # noqa: ASYNC110 - the clock of the task is real
                await asyncio.sleep(0.01)
        await metering.stop()

    run(tmp_path / "on", test, stream_metrics_ms=20)

    async def off(_: InProcess, metering: Metering, __: FakeClock) -> None:
        metering.start()
        assert metering._task is None

    run(tmp_path / "off", off, stream_metrics_ms=0)


def test_a_node_writes_its_numbers_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    async def one_life(more_than: int) -> list[dict[str, Any]]:
        with NodeProcess(tmp_path / "data", settings={"stream_metrics_ms": 50}) as process:
            await process.ready()
            async with Wire(process.port) as wire, asyncio.timeout(20):
                found: list[dict[str, Any]] = []
                while len(found) <= more_than:
                    answer = await wire.request("GET", f"{PATH}?offset=-1")
                    found = json.loads(answer.body) if answer.status == 200 else []
                return found

    async def main() -> None:
        before = await one_life(0)
        after = await one_life(len(before))
        assert after[: len(before)] == before
        assert len({each["instance"] for each in after}) == 2

    asyncio.run(main())


def test_a_node_without_work_writes_nothing_for_a_quarter_of_an_hour(tmp_path: Path) -> None:
    async def test(node: InProcess, metering: Metering, clock: FakeClock) -> None:
        await metering.tick()
        committer = node.context.ledger.committer
        row = committer.committed_through
        for _ in range(89):
            clock.advance(10.0)
            await node.request("GET", "/health")
            await node.request("GET", "/v1/stream/nobody")
            await metering.tick()
        assert committer.committed_through == row
        clock.advance(10.0)
        await metering.tick()
        assert committer.committed_through == row + 1
        found = [each for each in await told(node) if each["metric"] == "node.responses"]
        assert found[-1]["windowEnd"] - found[-1]["windowStart"] == 900_000

    run(tmp_path, test)


def test_quiet_intervals_are_told_as_one_before_the_next_that_is_not(tmp_path: Path) -> None:
    async def test(node: InProcess, metering: Metering, clock: FakeClock) -> None:
        await node.request("PUT", "/v1/stream/s", JSON)
        await metering.tick()
        began = clock() // 1000
        for _ in range(5):
            clock.advance(10.0)
            await node.request("GET", "/health")
            await metering.tick()
        clock.advance(10.0)
        await node.request("POST", "/v1/stream/s", JSON, b"[1,22,333]")
        await metering.tick()
        found = await windows(node, began)
        quiet, busy = (began, began + 50_000), (began + 50_000, began + 60_000)
        assert set(found) == {quiet, busy}
        assert found[busy]["tieredstore.append.entries"] == 3
        assert "tieredstore.append.entries" not in found[quiet]
        assert (found[quiet]["node.responses"], found[busy]["node.responses"]) == (5, 1)

    run(tmp_path, test)


async def windows(node: InProcess, since_ms: int) -> dict[tuple[int, int], dict[str, int]]:
    """What was told of each stretch of time from a moment on."""
    found: dict[tuple[int, int], dict[str, int]] = {}
    for each in await told(node):
        if each["windowStart"] >= since_ms and each["windowEnd"] > each["windowStart"]:
            found.setdefault((each["windowStart"], each["windowEnd"]), {})[each["metric"]] = each["sum"]
    return found


@pytest.mark.parametrize("turned_back", [True, False])
def test_a_clock_that_is_set_back_does_not_keep_a_node_silent(tmp_path: Path, *, turned_back: bool) -> None:
    async def test(node: InProcess, metering: Metering, clock: FakeClock) -> None:
        await metering.tick()
        row = node.context.ledger.committer.committed_through
        clock.advance(-3600.0 if turned_back else 1.0)
        await metering.tick()
        assert node.context.ledger.committer.committed_through == row + turned_back

    run(tmp_path, test)


def test_a_node_without_work_publishes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        bucket = memory_bucket(clock)
        settings = TINY | bucket.settings | {"flush_ms_max": 60_000, "publish_metadata_ms": 50}
        async with in_process(tmp_path / "n", clock=clock, tiers=True, store=bucket.connect, **settings) as node:
            tiers = cast("Tiering", node.context.tiers)
            metering = Metering(node.context.ledger, node.context.metrics, tiers.counts, instance="7-abcdef")
            metering.begin()
            await node.request("PUT", "/v1/stream/s", JSON)
            await node.request("POST", "/v1/stream/s", JSON, b"[1]")
            await metering.tick()
            await tiers.flush(node.context.ledger.committer.committed_through)
            generation, pressure = tiers.generation, tiers.pressure
            for _ in range(80):
                clock.advance(10.0)
                await metering.tick()
                assert pressure.unsealed_s() == 0
            assert tiers.generation == generation
            clock.advance(110.0)
            await metering.tick()
            assert pressure.committed_row() > tiers.published_through

    asyncio.run(main())
