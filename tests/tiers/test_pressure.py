"""The store is away, or slow: what waits is bounded and visible, reads go on, and everything resumes by itself."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from streams_node.http.gauges import register
from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess
from streams_node.tiering import node as tiering
from streams_node.wal.folder import DATABASE
from tests.http.wire import Reply, ask
from tests.tiers.bucket import Bucket, folder_bucket, memory_bucket
from tests.tiers.node import TEXT, append, create, error_of, evict, publish, rows, tiered, tiers_of, until, walk

S = "/v1/stream/s"
MIB = 1 << 20
CHUNK = b"c" * (64 << 10)


async def fill(node: InProcess, refused: int) -> Reply:
    """Append until this answer comes."""
    for _ in range(200):
        reply = await ask(node, "POST", "/v1/stream/bytes", TEXT, CHUNK)
        if reply.status == refused:
            return reply
        assert reply.status == 204, reply
        await asyncio.sleep(0.01)
    raise AssertionError(f"never {refused}")


async def metric(node: InProcess, name: str) -> float:
    text = (await ask(node, "GET", "/metrics")).body.decode()
    (found,) = re.findall(rf"^{name} (\S+)$", text, re.MULTILINE)
    return float(found)


async def readiness(node: InProcess) -> tuple[int, list[str]]:
    reply = await ask(node, "GET", "/readyz")
    reasons: list[str] = json.loads(reply.body)["reasons"]
    return reply.status, [reason.partition(":")[0] for reason in reasons]


def with_metrics(node: InProcess) -> None:
    register(node.context.metrics, node.context, node.context.connections)


def run(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(work())  # type: ignore[arg-type]


async def upload_failures(node: InProcess) -> float:
    return await metric(node, "streams_upload_failures_total")


def test_a_backlog_beyond_its_bound_refuses_appends_until_it_has_shrunk(tmp_path: Path) -> None:
    bucket = memory_bucket()

    async def work() -> None:
        async with tiered(tmp_path, bucket, backlog_bytes_max=MIB) as node:
            with_metrics(node)
            await create(node, S)
            await create(node, "/v1/stream/bytes", TEXT)
            await append(node, S, 1, 2)
            await publish(node)
            with bucket.away():
                reply = await fill(node, 429)
                assert (error_of(reply)["code"], reply.headers["retry-after"]) == ("overloaded", "1")
                assert str(MIB) in error_of(reply)["message"]
                assert await readiness(node) == (503, ["backlog"])
                backlog = await metric(node, "streams_backlog_bytes")
                assert MIB < backlog < MIB + 2 * len(CHUNK)
                await until(lambda: upload_failures(node), "the uploader has tried")
                # Nothing is stored, nothing that is stored is lost, and reads go on.
                assert (await ask(node, "PUT", "/v1/stream/new", TEXT, b"x")).status == 429
                assert await walk(node, S) == [1, 2]
                assert (await ask(node, "HEAD", "/v1/stream/bytes")).status == 200
            await until(lambda: "backlog" not in node.context.ledger.refusals, "appends are taken again")
            await append(node, S, 3)
            await publish(node)
            assert await readiness(node) == (200, [])
            assert await metric(node, "streams_backlog_bytes") == 0
            assert await walk(node, S) == [1, 2, 3]

    run(work)


def test_a_bucket_too_far_behind_refuses_appends_until_it_has_caught_up(tmp_path: Path) -> None:
    bucket, clock = memory_bucket(), FakeClock()

    async def work() -> None:
        settings = {"upload_lag_ms_max": 60_000, "flush_ms_max": 1000}
        async with tiered(tmp_path, bucket, clock=clock, **settings) as node:
            with_metrics(node)
            await create(node, S)
            with bucket.away():
                await append(node, S, 1)
                clock.advance(59)
                await asyncio.sleep(0.4)
                assert await readiness(node) == (200, [])
                clock.advance(2)
                await until(lambda: "upload_lag" in node.context.ledger.refusals, "appends are refused")
                reply = await ask(node, "POST", S, {"content-type": "application/json"}, b"[2]")
                assert (reply.status, reply.headers["retry-after"]) == (503, "5")
                assert error_of(reply)["code"] == "unavailable"
                assert "61 s old" in error_of(reply)["message"]
                assert await readiness(node) == (503, ["upload_lag"])
                assert await metric(node, "streams_upload_lag_seconds") >= 60
                assert await walk(node, S) == [1]
            await until(lambda: not node.context.ledger.refusals, "appends are taken again")
            await append(node, S, 3)
            await publish(node)
            assert await metric(node, "streams_upload_lag_seconds") == 0
            assert await walk(node, S) == [1, 3]

    run(work)


def test_a_disk_below_its_floor_refuses_writes_while_what_is_there_goes_to_the_bucket(tmp_path: Path) -> None:
    async def work() -> None:
        async with tiered(tmp_path, memory_bucket(), upkeep=True, disk_floor_bytes=1) as node:
            await create(node, S)
            await append(node, S, 1)
            node.upkeep._folder.free_bytes = lambda: 0  # type: ignore[method-assign]
            await until(lambda: "disk_low" in node.context.ledger.refusals, "writes are refused")
            reply = await ask(node, "POST", S, {"content-type": "application/json"}, b"[2]")
            assert (reply.status, error_of(reply)["code"]) == (503, "unavailable")
            assert "disk" in error_of(reply)["message"]
            await publish(node)  # this is what gives room back
            assert await rows(node) == 0
            await evict(node)
            assert await walk(node, S) == [1]
            del node.upkeep._folder.free_bytes
            await until(lambda: not node.context.ledger.refusals, "writes are taken again")
            await append(node, S, 3)

    run(work)


def test_a_start_while_the_store_is_away_serves_and_catches_up(tmp_path: Path) -> None:
    bucket = memory_bucket()

    async def before() -> None:
        async with tiered(tmp_path, bucket) as node:
            await create(node, S)
            await append(node, S, 1)
            await publish(node)
            bucket.plan.away = True
            await append(node, S, 2)

    async def after() -> None:
        async with tiered(tmp_path, bucket) as node:
            await append(node, S, 3)
            assert (await ask(node, "GET", f"{S}?offset=now")).status == 200
            assert not tiers_of(node).uploader.open  # type: ignore[union-attr]
            bucket.plan.away = False
            await publish(node)
            assert await walk(node, S) == [1, 2, 3]
            assert await rows(node) == 0

    run(before)
    run(after)


def test_the_database_stays_small_under_steady_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty flushes go through it, and it never holds more than a few."""
    flush_bytes, written = 256 << 10, 60
    sizes: list[int] = []
    monkeypatch.setattr(tiering, "_WATCH_S", 0.02)  # a quarter of a second of this load would be half of all of it

    async def work() -> None:
        bucket: Bucket = folder_bucket(tmp_path / "bucket")
        settings = {"flush_bytes": flush_bytes, "flush_bytes_max": flush_bytes, "backlog_bytes_max": 2 * MIB}
        async with tiered(tmp_path / "data", bucket, upkeep=True, **settings) as node:
            await create(node, "/v1/stream/bytes", TEXT)
            total = 0
            while total < written * flush_bytes:
                reply = await ask(node, "POST", "/v1/stream/bytes", TEXT, CHUNK)
                if reply.status == 204:
                    total += len(CHUNK)
                    await asyncio.sleep(0.002)
                else:
                    assert reply.status == 429
                    await asyncio.sleep(0.02)
                sizes.append((tmp_path / "data" / DATABASE).stat().st_size)
            await publish(node)
            assert await rows(node) == 0

    run(work)
    # The bound of the backlog, what is being released, and pages in between; all of it would be 15 MiB and more.
    assert max(sizes) <= 6 * MIB, max(sizes)
