"""Where the time of a request goes: in its answer, in the log when it was slow, and in the metrics."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
import structlog

from streams_node.http.routes import ROUTES
from streams_node.observe.metrics import LABEL_VALUES_MAX, HistogramFamily
from streams_node.observe.phases import Phases, current, note, phase
from streams_node.testing.inprocess import InProcess, in_process
from tests.http.wire import Reply, ask
from tests.indexing.world import KEYED, SEARCH, FakeDriver, append, create, indexed, on_loop, sealed
from tests.tiers.node import evict

A = "/v1/stream/a"
ONE = re.compile(r"[a-z]+;dur=\d+\.\d{3}")


def timing(reply: Reply) -> dict[str, float]:
    assert reply.timing is not None
    parts = reply.timing.split(", ")
    assert all(ONE.fullmatch(part) for part in parts), parts
    return {name: float(rest.removeprefix("dur=")) for name, _, rest in (part.partition(";") for part in parts)}


def count(node: InProcess, route: str) -> int:
    return node.context.metrics.request_seconds.count(route)


@on_loop
async def test_reads_and_searches_say_where_their_time_went(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A, KEYED | {"search": SEARCH})
        await append(node, A, [{"k": "x", "text": "some words", "at": "2026-01-01T00:00:00Z"}] * 5)
        await node.context.ledger.committer.settled()
        assert {"total", "db"} <= timing(await ask(node, "GET", A)).keys()
        await sealed(node)
        await FakeDriver(node).finish()
        await evict(node)
        shown = timing(await ask(node, "GET", A))
        assert "sealed" in shown
        assert max(shown.values()) == shown["total"]
        shown = timing(await ask(node, "GET", f"{A}/_search?q=words"))
        assert {"wait", "work", "open", "index", "scan", "records"} <= shown.keys()
        assert shown["work"] <= shown["total"]
        for path in ("/v1/streams", "/health", f"{A}/_details", f"{A}/_schema", "/v1/server/_details"):
            assert "total" in timing(await ask(node, "GET", path)), path
        assert "total" in timing(await ask(node, "GET", "/v1/stream/none"))  # a refusal took time, too
        assert count(node, "stream.read") == 3
        assert count(node, "sub.search.get") == 1
        assert node.context.metrics.search_seconds.count("index") == 1
        seen = {
            stage: node.context.metrics.stage_seconds.count(stage) for stage in ("seal", "upload", "publish", "index")
        }
        assert all(seen.values()), seen


@on_loop
async def test_writes_and_live_reads_are_not_followed(tmp_path: Path) -> None:
    async with in_process(tmp_path) as node:
        json = {"content-type": "application/json"}
        for method, body in (("PUT", b""), ("POST", b"[1]")):
            assert (await ask(node, method, A, json, body)).timing is None
        assert (await ask(node, "OPTIONS", A)).timing is None
        assert (await ask(node, "GET", f"{A}?offset=now&live=long-poll&timeout_ms=1")).status == 204
        text = (await ask(node, "GET", "/metrics")).body.decode()
        assert "streams_request_seconds_bucket" not in text
        assert (await ask(node, "DELETE", A)).status == 204
        assert current.get() is None


@on_loop
async def test_labels_of_routes_are_names_of_the_table(tmp_path: Path) -> None:
    async with in_process(tmp_path) as node:
        await create(node, "/v1/stream/shop/s", declared=None)
        for path in (
            "/v1/stream/shop/s",
            "/shop/s",
            "/v1/stream/shop/s/_details",
            "/shop/s/_details",
            "/shop/s/pk/x",
            "/nothing/at/all",
        ):
            await ask(node, "GET", path)
        names = set(node.context.metrics.request_seconds._of)
        assert names == {"stream.read", "sub.details", "pk.read"}
        assert names <= {route.name for route in ROUTES}


@on_loop
async def test_a_slow_request_is_told_with_its_stream_its_phases_and_its_id(tmp_path: Path) -> None:
    async with in_process(tmp_path, slow_request_ms=1) as node:
        await create(node, A, declared=None)
        await append(node, A, [1])
        lines = await slow(node, A, {"x-request-id": "mine-1"})
        (line,) = lines
        assert (line["route"], line["stream"], line["request_id"]) == ("stream.read", "_default/a", "mine-1")
        assert (line["status"], line["log_level"]) == (200, "warning")
        assert line["seconds"] >= 0.001
        assert line["db_ms"] >= 1
        assert await slow(node, f"{A}?offset=now&live=long-poll&timeout_ms=20", {}) == []
        with structlog.testing.capture_logs() as lines:
            writer = asyncio.ensure_future(node.context.database.writer.run(_sleep))
            await append(node, A, [2])
            await writer
        told = {line["event"]: line for line in lines}
        assert told["slow request"]["route"] == "stream.append"
        assert told["slow request"]["stream"] == told["slow commit"]["streams"][0] == "_default/a"
        assert told["slow commit"]["appends"] == 1
        (line,) = await slow(node, "/v1/streams", {})
        assert line["route"] == "streams"
        assert "stream" not in line


async def slow(node: InProcess, path: str, headers: dict[str, str]) -> list[Any]:
    """What the log says of a request during which the readers of the database have something else to do first."""
    readers = node.context.database.readers
    asleep = [asyncio.ensure_future(connection.run(_sleep)) for connection in readers._connections]
    with structlog.testing.capture_logs() as lines:
        await ask(node, "GET", path, headers)
    await asyncio.gather(*asleep)
    return [line for line in lines if line["event"] == "slow request"]


def _sleep(db: Any) -> None:
    """Long for SQLite, and nothing to wait for."""
    db.execute(
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 200000) SELECT max(n) FROM c"
    ).fetchone()


def test_parts_of_nobodys_request_are_dropped() -> None:
    note("db", 1.0)
    with phase("db"):
        pass
    phases = Phases()
    token = current.set(phases)
    try:
        note("db", 0.25)
        note("db", 0.25)
        with pytest.raises(KeyError), phase("sealed"):
            raise KeyError
    finally:
        current.reset(token)
    assert phases.seconds["db"] == 0.5
    assert phases.seconds.keys() == {"db", "sealed"}


def test_labels_are_capped() -> None:
    family = HistogramFamily("some_seconds", "route", "of a test")
    for at in range(LABEL_VALUES_MAX + 10):
        family.observe(f"r{at}", 0.1)
    assert len(family._of) == LABEL_VALUES_MAX + 1
    assert family.count("other") == 10
