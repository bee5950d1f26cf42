"""Flushing on demand: three addresses, each answer, and where they are."""

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import sql
from streams_node.http.cold import application
from streams_node.http.edge import Edge
from streams_node.http.routes import RouteClass
from streams_node.testing.inprocess import InProcess
from tests.http.wire import Reply, ask
from tests.tiers.bucket import memory_bucket
from tests.tiers.node import append, create, error_of, rows, tiered, tiers_of, until

PATHS = {
    "v1": "/v1/stream/shop/s/_flush", "bucket": "/shop/s/_flush", "ursula": "/__ursula/flush-cold/shop/s",
}  # fmt: skip
MISSING = {name: path.replace("shop/s", "shop/missing") for name, path in PATHS.items()}
KEY = "an-invented-key-0123456789"
ADDRESSES = pytest.mark.parametrize("address", PATHS)


def asked(folder: Path, address: str, **settings: Any) -> list[Reply]:
    """What a flush is answered at one address: of a stream, of none, with wrong methods."""

    async def run() -> list[Reply]:
        async with tiered(folder, memory_bucket(), **settings) as node:
            await create(node, "/v1/stream/shop/s")
            await append(node, "/v1/stream/shop/s", 1, 2)
            replies = [await ask(node, "POST", PATHS[address]), await ask(node, "POST", MISSING[address])]
            await until(lambda: _empty(node), "the log is released")
            return replies + [await ask(node, method, PATHS[address]) for method in ("GET", "DELETE", "HEAD")]

    return asyncio.run(run())


async def _empty(node: InProcess) -> bool:
    return await rows(node) == 0


@ADDRESSES
def test_a_flush_answers_once_it_is_in_the_bucket(tmp_path: Path, address: str) -> None:
    done, missing, *wrong = asked(tmp_path, address)
    said = json.loads(done.body)
    assert (done.status, said["stream"], said["flushed"]) == (200, "shop/s", True)
    assert said["generation"] >= 1
    assert len(said["next_offset"]) == 26
    assert done.headers["cache-control"] == "no-store"
    assert (missing.status, error_of(missing)["code"]) == (404, "not_found")
    assert [reply.status for reply in wrong] == [405, 405, 405]
    assert [reply.headers["allow"] for reply in wrong] == ["POST"] * 3


@ADDRESSES
def test_a_flush_that_takes_long_goes_on_after_its_answer(tmp_path: Path, address: str) -> None:
    bucket = memory_bucket()

    async def run() -> None:
        async with tiered(tmp_path, bucket, request_ms_max=1000, append_wait_ms_max=900) as node:
            await create(node, "/v1/stream/shop/s")
            await append(node, "/v1/stream/shop/s", 1)
            with bucket.away():
                reply = await ask(node, "POST", PATHS[address])
                assert (reply.status, json.loads(reply.body)["flushed"]) == (202, False)
            await until(lambda: _empty(node), "it is published and released")
            assert tiers_of(node).generation >= 1

    asyncio.run(run())


@ADDRESSES
def test_a_flush_needs_the_key(tmp_path: Path, address: str) -> None:
    async def run() -> list[Reply]:
        async with tiered(tmp_path, memory_bucket(), no_auth=False, api_key=KEY) as node:
            bearer = {"authorization": f"Bearer {KEY}"}
            await ask(node, "PUT", "/v1/stream/shop/s", bearer)
            plan = [{}, {"authorization": "Bearer wrong"}, bearer]
            return [await ask(node, "POST", PATHS[address], headers) for headers in plan]

    assert [reply.status for reply in asyncio.run(run())] == [401, 401, 200]


@ADDRESSES
def test_a_flush_is_the_operators_where_there_is_a_listener_of_his_own(tmp_path: Path, address: str) -> None:
    async def run() -> list[Reply]:
        async with tiered(tmp_path, memory_bucket(), operator_port=1) as node:
            await create(node, "/v1/stream/shop/s")
            cold: Any = application(node.context)
            public = InProcess(node.context, node.upkeep, Edge(node.context, cold, frozenset({RouteClass.PUBLIC})))
            others = frozenset(RouteClass) - {RouteClass.PUBLIC}
            operator = InProcess(node.context, node.upkeep, Edge(node.context, cold, others))
            return [await ask(each, "POST", PATHS[address]) for each in (public, operator)]

    public, operator = asyncio.run(run())
    assert (public.status, operator.status) == (404, 200)


def test_a_flush_of_an_empty_stream_has_nothing_to_wait_for(tmp_path: Path) -> None:
    async def run() -> Reply:
        async with tiered(tmp_path, memory_bucket()) as node:
            await create(node, "/v1/stream/shop/s")
            return await ask(node, "POST", PATHS["v1"])

    reply = asyncio.run(run())
    assert (reply.status, json.loads(reply.body)["flushed"]) == (200, True)


def test_a_flush_brings_the_streams_of_others_too(tmp_path: Path) -> None:
    async def run() -> None:
        async with tiered(tmp_path, memory_bucket()) as node:
            for name in ("s", "t"):
                await create(node, f"/v1/stream/shop/{name}")
                await append(node, f"/v1/stream/shop/{name}", name)
            assert (await ask(node, "POST", PATHS["v1"])).status == 200
            await until(lambda: _empty(node), "all of the log is in the bucket")

    asyncio.run(run())


@ADDRESSES
def test_a_flush_of_a_stream_without_entries_publishes_the_stream(tmp_path: Path, address: str) -> None:
    async def run() -> tuple[Reply, int]:
        settings = {"publish_metadata_ms": 3_600_000}
        async with tiered(tmp_path, memory_bucket(), **settings) as node:
            await create(node, "/v1/stream/shop/s")
            reply = await ask(node, "POST", PATHS[address])
            return reply, await node.context.database.readers.run(_untold)

    reply, untold = asyncio.run(run())
    assert (reply.status, json.loads(reply.body)["flushed"], untold) == (200, True, 0)


def _untold(db: sqlite3.Connection) -> int:
    found: int = db.execute(sql.queries("placement").any_unpublished).fetchone()[0]
    return found


URSULA = PATHS["ursula"]


def test_a_flush_that_finds_nothing_to_do_says_so_where_that_is_expected(tmp_path: Path) -> None:
    """As whoever asks every now and then for a stream wants it; no timer takes part."""

    async def run() -> None:
        settings = {"flush_ms_max": 3_600_000, "publish_metadata_ms": 3_600_000}
        async with tiered(tmp_path, memory_bucket(), **settings) as node:
            await create(node, "/v1/stream/shop/s")
            await append(node, "/v1/stream/shop/s", 1, 2)
            first = await ask(node, "POST", URSULA)
            await until(lambda: _empty(node), "the log is released")
            again = await ask(node, "POST", URSULA)
            assert (first.status, again.status, again.body) == (200, 204, b"")
            end = await append(node, "/v1/stream/shop/s", 3)
            third = await ask(node, "POST", URSULA)
            assert (third.status, json.loads(third.body)["next_offset"]) == (200, end)
            assert json.loads(third.body)["generation"] > json.loads(first.body)["generation"]

    asyncio.run(run())


def test_a_flush_of_less_than_was_asked_for_is_left_to_a_later_one(tmp_path: Path) -> None:
    """Bytes are of this stream, and of what is only in the log."""

    async def run() -> None:
        async with tiered(tmp_path, memory_bucket(), flush_ms_max=3_600_000) as node:
            for path in ("/v1/stream/shop/s", "/v1/stream/shop/other"):
                await create(node, path)
            await append(node, "/v1/stream/shop/other", "x" * 1000)
            await append(node, "/v1/stream/shop/s", 12345)
            statuses = [(await ask(node, "POST", f"{URSULA}?min_hot_bytes={least}")).status for least in (6, 6, 5)]
            assert statuses == [204, 204, 200]
            await append(node, "/v1/stream/shop/s", 12)
            assert (await ask(node, "POST", f"{URSULA}?min_hot_bytes=3&max_bytes=1")).status == 204
            assert (await ask(node, "POST", f"{URSULA}?min_hot_bytes=2&max_bytes=1")).status == 200

    asyncio.run(run())


@pytest.mark.parametrize(
    "query", ["min_hot_bytes=-1", "min_hot_bytes=", "max_bytes=0", "max_bytes=x", "max_bytes=1&max_bytes=1"]
)
def test_a_flush_with_numbers_that_are_none_is_refused(tmp_path: Path, query: str) -> None:
    async def run() -> Reply:
        async with tiered(tmp_path, memory_bucket()) as node:
            await create(node, "/v1/stream/shop/s")
            return await ask(node, "POST", f"{URSULA}?{query}")

    reply = asyncio.run(run())
    assert (reply.status, error_of(reply)["code"]) == (400, "bad_request")
    assert query.split("=", maxsplit=1)[0] in error_of(reply)["message"]
