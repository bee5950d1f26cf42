"""`_index_status` says what a count of the covers says, in the protocol's words; whoever waits for news gets them."""

import asyncio
import json
from pathlib import Path
from typing import Any

from streams_node.testing.inprocess import InProcess
from tests.http.wire import Reply, ask
from tests.indexing.world import (
    JSON,
    KEYED,
    SEARCH,
    FakeDriver,
    append,
    covered,
    create,
    declare,
    indexed,
    on_loop,
    sealed,
    told,
)
from tests.tiers.node import until

A = "/v1/stream/a"
RUN = {
    "indexed_segment_count", "lag_segments", "lag_ms", "bytes_at_rest", "object_count", "active_run_count",
    "retired_run_count", "fully_indexed_uploaded_segments", "updated_at",
}  # fmt: skip
FAMILY = {
    "family", "fields", "plan_generation", "covered_segment_count", "contiguous_covered_segment_count", "lag_segments",
    "lag_ms", "bytes_at_rest", "object_count", "stale_segment_count", "fully_indexed_uploaded_segments", "updated_at",
}  # fmt: skip
NOTHING = {
    "configured": False, "indexed_segment_count": 0, "lag_segments": 0, "lag_ms": None, "bytes_at_rest": "0",
    "object_count": 0, "active_run_count": 0, "retired_run_count": 0, "fully_indexed_uploaded_segments": True,
    "updated_at": None,
}  # fmt: skip


async def status(node: InProcess, path: str = A, query: str = "", tag: str | None = None) -> Reply:
    return await ask(node, "GET", f"{path}/_index_status{query}", {} if tag is None else {"if-none-match": tag})


async def seen(node: InProcess, path: str = A) -> Any:
    reply = await status(node, path)
    assert reply.status == 200, reply
    assert reply.headers["cache-control"] == "no-store"
    return told(reply)


@on_loop
async def test_a_stream_without_indexes_says_so(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A, declared=None)
        assert await seen(node) == {
            "stream": "a", "profile": "generic", "desired_index_plan_generation": 0,
            "segments": {"total_count": 0, "uploaded_count": 0},
            "manifest": {
                "generation": 0, "uploaded_generation": 0, "last_uploaded_at": None, "last_uploaded_etag": None,
                "last_uploaded_size_bytes": None,
            },
            "routing_key_index": NOTHING, "routing_key_lexicon": NOTHING, "exact_indexes": [],
            "bundled_companions": {
                "object_count": 0, "bytes_at_rest": "0", "fully_indexed_uploaded_segments": True,
            },
            "search_families": [],
        }  # fmt: skip
        assert (await status(node, "/v1/stream/none")).status == 404


@on_loop
async def test_every_family_is_named_as_the_protocol_does(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        rollups = {"perMinute": {"intervals": ["1m"], "measures": {"n": {"kind": "count"}}}}
        await create(node, A, KEYED | {"search": SEARCH | {"rollups": rollups}})
        for _ in range(3):
            await append(node, A, [{"k": "x", "text": "words", "at": "2026-01-01T00:00:00Z"}] * 4)
            await sealed(node)
        before = await seen(node)
        assert before["desired_index_plan_generation"] == 1
        assert before["segments"] == {"total_count": 3, "uploaded_count": 3}
        assert before["routing_key_index"]["lag_segments"] == 3
        assert before["routing_key_index"]["lag_ms"] is None
        assert [(each["family"], each["fields"]) for each in before["search_families"]] == [
            ("exact", ["k"]), ("col", ["at"]), ("fts", ["k", "text"]), ("agg", ["perMinute"]),
        ]  # fmt: skip
        assert [(each["name"], each["kind"], each["stale_configuration"]) for each in before["exact_indexes"]] == [
            ("k", "keyword", True)
        ]
        await driver.finish()
        after = await seen(node)
        assert after["routing_key_index"] == after["routing_key_lexicon"]
        assert set(after["routing_key_index"]) == RUN | {"configured"}
        assert set(after["exact_indexes"][0]) == RUN | {"name", "kind", "stale_configuration"}
        assert not after["exact_indexes"][0]["stale_configuration"]
        for each in after["search_families"]:
            assert set(each) == FAMILY
            assert each["covered_segment_count"] == each["contiguous_covered_segment_count"] == 3
            assert (each["lag_segments"], each["lag_ms"], each["stale_segment_count"]) == (0, "0", 0)
            assert each["fully_indexed_uploaded_segments"]
            assert int(each["bytes_at_rest"]) > 0
            assert each["object_count"] > 0
        covers = await covered(node, A)
        sizes = {each.made: each.bytes for each in covers if each.family == "lexicon"}
        assert after["routing_key_index"]["bytes_at_rest"] == str(sum(sizes.values()))  # all of them are this stream's
        assert after["routing_key_index"]["object_count"] == len(sizes)
        companions = {each.made: each.bytes for each in covers if each.family == "companion"}
        assert after["bundled_companions"]["bytes_at_rest"] == str(sum(companions.values()))


@on_loop
async def test_a_gap_and_a_former_configuration_are_counted(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        await create(node, A, KEYED | {"search": SEARCH})
        for _ in range(4):
            await append(node, A, [{"k": "x", "text": "words"}] * 2)
            await sealed(node)
        claims = []
        for _ in range(4):
            claim = await driver.claim(bytes_max=1)
            assert claim is not None
            claims.append(claim)
        for at in (0, 2, 3):
            assert (await driver.commit(driver.built(claims[at]))).status == 200
        found = (await seen(node))["search_families"][0]
        assert (found["covered_segment_count"], found["contiguous_covered_segment_count"], found["lag_segments"]) == (
            3, 1, 3,
        )  # fmt: skip
        assert (await driver.commit(driver.built(claims[1]))).status == 200
        fields = {name: field for name, field in SEARCH["fields"].items() if name != "text"}
        await declare(node, A, {"search": SEARCH | {"fields": fields}})
        view = await seen(node)
        families = {each["family"]: each for each in view["search_families"]}
        assert view["desired_index_plan_generation"] == 2
        assert families["col"]["stale_segment_count"] == 4
        assert families["col"]["covered_segment_count"] == 0
        assert families["exact"]["stale_segment_count"] == 0
        assert view["routing_key_index"]["retired_run_count"] == 0
        await driver.finish()
        families = {each["family"]: each for each in (await seen(node))["search_families"]}
        assert (families["col"]["stale_segment_count"], families["col"]["covered_segment_count"]) == (0, 4)


@on_loop
async def test_the_tag_changes_with_the_status_and_only_then(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        await create(node, A)
        await create(node, "/v1/stream/other")
        await append(node, A, [{"k": "x"}] * 3)
        tags = [(await status(node)).headers["etag"]]

        async def moved() -> None:
            tags.append((await status(node)).headers["etag"])
            assert tags[-1] not in tags[:-1]
            same = await status(node, tag=tags[-1])
            assert (same.status, same.headers["etag"], same.body) == (304, tags[-1], b"")

        await sealed(node)
        await moved()
        await driver.finish()
        await moved()
        await declare(node, A, {"routingKey": {"jsonPointer": "/k2", "required": False}})
        await moved()
        await append(node, A, [{"k": "x"}])
        await node.context.ledger.committer.settled()
        await moved()
        await append(node, "/v1/stream/other", [{"k": "x"}] * 3)
        await sealed(node)
        await moved()  # its last entry was sealed, too
        await driver.finish()
        await moved()
        await append(node, "/v1/stream/other", [{"k": "x"}] * 3)
        await sealed(node)
        await driver.finish()
        assert (await status(node)).headers["etag"] == tags[-1]


@on_loop
async def test_a_waiter_hears_of_commits_and_of_the_end_of_the_stream(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node", long_poll_ms_max=30_000) as node:
        driver = FakeDriver(node)
        await create(node, A)
        await append(node, A, [{"k": "x"}] * 3)
        await sealed(node)
        tag = (await status(node)).headers["etag"]
        query = "?live=long-poll&timeout_ms=30000"
        assert (await status(node, query=query)).status == 200  # no tag: nothing to wait for
        assert (await status(node, query=query, tag='"other"')).status == 200
        assert (await status(node, query="?live=long-poll&timeout_ms=50", tag=tag)).status == 304
        waiting = asyncio.ensure_future(status(node, query=query, tag=tag))
        await _attached(node)
        await driver.finish()
        reply = await waiting
        assert (reply.status, told(reply)["routing_key_index"]["lag_segments"]) == (200, 0)
        waiting = asyncio.ensure_future(status(node, query=query, tag=reply.headers["etag"]))
        await _attached(node)
        await declare(node, A, {"search": SEARCH})
        reply = await waiting
        assert [each["family"] for each in told(reply)["search_families"]] == ["exact", "col", "fts"]
        waiting = asyncio.ensure_future(status(node, query=query, tag=(await status(node)).headers["etag"]))
        await _attached(node)
        assert (await ask(node, "DELETE", A)).status == 204
        assert (await waiting).status == 404


async def _attached(node: InProcess) -> None:
    async with asyncio.timeout(10):
        while not node.context.live.readers["long_poll"]:  # noqa: ASYNC110 - nobody rings for that
            await asyncio.sleep(0.005)


@on_loop
async def test_many_waiters_hear_of_a_flush_with_one_computation(tmp_path: Path) -> None:
    """Of a stream that has no index: nobody but the catalogue tells of it."""
    async with indexed(tmp_path / "node", long_poll_ms_max=30_000, request_ms_max=60_000) as node:
        await create(node, A, declared=None)
        await append(node, A, [{"k": "x"}] * 3)
        await node.context.ledger.committer.settled()
        tag, watches = (await status(node)).headers["etag"], node.context.details
        query = "?live=long-poll&timeout_ms=30000"
        waiting = [asyncio.ensure_future(status(node, query=query, tag=tag)) for _ in range(20)]
        await until(lambda: watches.waiting == 20, "all wait")
        made = watches.made
        await sealed(node)
        replies = await asyncio.gather(*waiting)
        assert {reply.status for reply in replies} == {200}
        assert len({reply.body for reply in replies}) == 1
        assert told(replies[0])["segments"] == {"total_count": 1, "uploaded_count": 1}
        assert watches.made - made < 10
        assert watches.waiting == 0


@on_loop
async def test_whoever_waits_hears_that_sealed_parts_were_merged(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        await create(node, A)
        for _ in range(8):
            await append(node, A, [{"k": "x"}] * 5)
            await sealed(node)
        await driver.finish()
        reply = await status(node)
        assert told(reply)["segments"]["total_count"] == 8
    async with indexed(tmp_path / "node", compaction_packs=2, long_poll_ms_max=30_000) as node:
        parts = 8
        while parts == 8:  # whatever else it hears of
            tag = reply.headers["etag"]
            reply = await status(node, query="?live=long-poll&timeout_ms=30000", tag=tag)
            assert (reply.status, reply.headers["etag"] != tag) == (200, True)
            parts = told(reply)["segments"]["total_count"]
        assert 0 < parts < 8
        assert told(reply)["routing_key_index"]["indexed_segment_count"] == parts


@on_loop
async def test_of_a_fork_its_own_parts_are_counted_as_in_its_details(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        await create(node, A)
        await append(node, A, [{"k": "x"}] * 3)
        await sealed(node)
        assert (await ask(node, "PUT", "/v1/stream/f", {**JSON, "stream-forked-from": A})).status == 201
        await append(node, "/v1/stream/f", [{"k": "y"}] * 2)
        await sealed(node)
        view = await seen(node, "/v1/stream/f")
        assert (view["segments"]["total_count"], view["routing_key_index"]["lag_segments"]) == (1, 1)
        reply = await ask(node, "POST", "/v1/stream/f/_index/rebuild")
        assert set(told(reply)["entries"].values()) == {2}
        await driver.finish()
        view = await seen(node, "/v1/stream/f")
        assert view == told(await ask(node, "GET", "/v1/stream/f/_details"))["index_status"]
        assert (view["routing_key_index"]["lag_segments"], view["routing_key_index"]["object_count"]) == (0, 1)


@on_loop
async def test_bad_queries_are_refused(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A)
        for query in ("?live=sse", "?live=maybe", "?live=long-poll&timeout=x", "?live=long-poll&live=true"):
            reply = await status(node, query=query)
            assert (reply.status, told(reply)["error"]["code"]) == (400, "bad_request"), query
        assert (await ask(node, "POST", f"{A}/_index_status", JSON, b"{}")).status == 405
        head = await ask(node, "HEAD", f"{A}/_index_status")
        assert (head.status, head.body) == (200, b"")


@on_loop
async def test_both_surfaces_answer(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        assert (await ask(node, "PUT", "/shop")).status == 201
        await create(node, "/shop/orders")
        one, other = await status(node, "/shop/orders"), await status(node, "/v1/stream/shop/orders")
        assert json.loads(one.body) == json.loads(other.body)
        assert told(one)["stream"] == "shop/orders"
