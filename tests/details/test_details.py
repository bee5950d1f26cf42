"""`_details` says what a count of the log, the objects and the covers says; whoever waits for a change gets it."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from streams_node.ingest.retain import retain
from streams_node.protocol.times import rfc3339
from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess, in_process
from streams_node.wal.lookup import Name
from tests.http.wire import Reply, ask
from tests.indexing.world import KEYED, SEARCH, FakeDriver, append, create, declare, indexed, on_loop, rows, sealed
from tests.tiers.node import until

A = "/v1/stream/a"
REQUESTS = {"puts": "0", "reads": "0", "gets": "0", "heads": "0", "lists": "0", "deletes": "0"}
ARTIFACTS = [
    "bundled_companion", "exact_index", "manifest", "meta", "routing_index", "routing_key_lexicon", "schema_registry",
    "segment",
]  # fmt: skip


async def details(node: InProcess, path: str = A, query: str = "", tag: str | None = None) -> Reply:
    return await ask(node, "GET", f"{path}/_details{query}", {} if tag is None else {"if-none-match": tag})


async def seen(node: InProcess, path: str = A) -> Any:
    reply = await details(node, path)
    assert reply.status == 200, reply
    assert reply.headers["cache-control"] == "no-store"
    return json.loads(reply.body)


async def told(node: InProcess, path: str) -> Any:
    return json.loads((await ask(node, "GET", path)).body)


@on_loop
async def test_the_whole_body_of_a_new_stream(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A, declared=None)
        body = await seen(node)
        made = body["stream"]["created_at"]
        database = int(body["storage"]["local_storage"].pop("sqlite_shared_total_bytes"))
        assert database > 0
        assert body == {
            "stream": {
                "name": "a", "content_type": "application/json", "profile": "generic", "created_at": made,
                "updated_at": made, "expires_at": None, "ttl_seconds": None, "stream_seq": None, "closed": False,
                "epoch": 0, "epochs": [{"epoch": 0, "first_offset": "0"}], "earliest_offset": "0", "next_offset": "0",
                "sealed_through": "-1", "uploaded_through": "-1", "segment_count": 0,
                "uploaded_segment_count": 0, "pending_rows": "0", "pending_bytes": "0", "total_size_bytes": "0",
                "wal_rows": "0", "wal_bytes": "0", "last_append_at": made, "last_segment_cut_at": None,
                "forked_from": None,
            },
            "profile": {"apiVersion": "durable.streams/profile/v1", "profile": {"kind": "generic"}},
            "schema": await told(node, f"{A}/_schema"),
            "index_status": await told(node, f"{A}/_index_status"),
            "storage": {
                "object_storage": {
                    "total_bytes": "0", "segments_bytes": "0", "indexes_bytes": "0", "manifest_and_meta_bytes": "0",
                    "manifest_bytes": None, "schema_registry_bytes": "0", "segment_object_count": 0,
                    "routing_index_object_count": 0, "routing_lexicon_object_count": 0,
                    "exact_index_object_count": 0, "bundled_companion_object_count": 0,
                },
                "local_storage": {
                    "total_bytes": "0", "wal_retained_bytes": "0", "pending_tail_bytes": "0",
                    "pending_sealed_segment_bytes": "0", "segment_cache_bytes": "0",
                    "routing_index_cache_bytes": "0", "exact_index_cache_bytes": "0",
                    "lexicon_index_cache_bytes": "0", "companion_cache_bytes": "0",
                },
                "companion_families": {
                    "exact_bytes": "0", "col_bytes": "0", "fts_bytes": "0", "agg_bytes": "0", "mblk_bytes": "0",
                },
            },
            "object_store_requests": {
                **REQUESTS, "by_artifact": [{"artifact": each, **REQUESTS} for each in ARTIFACTS],
            },
            "subscriptions": {"count": 0, "named": 0, "first": []},
        }  # fmt: skip
        assert (await details(node, "/v1/stream/none")).status == 404
        assert (await ask(node, "HEAD", f"{A}/_details")).body == b""


@on_loop
async def test_what_it_counts_is_there(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        await create(node, A, KEYED | {"search": SEARCH})
        entries = [{"k": f"k{at}", "text": "some words", "at": "2026-01-01T00:00:00Z"} for at in range(5)]
        bytes_each = [len(json.dumps(each)) for each in entries]
        for _ in range(2):
            await append(node, A, entries)
            await sealed(node)
        await append(node, A, entries[:3])
        await node.context.ledger.committer.settled()
        before = (await seen(node))["stream"]
        assert (before["next_offset"], before["uploaded_through"], before["sealed_through"]) == ("13", "9", "9")
        assert (before["wal_rows"], before["pending_rows"], before["segment_count"]) == ("3", "3", 2)
        stored = [row[0] for row in await rows(node, "SELECT sum(length(payload)) FROM log")]
        assert int(before["wal_bytes"]) == int(before["pending_bytes"]) == stored[0] - 2  # commas between them
        per_append = int(before["wal_bytes"]) * sum(bytes_each) // sum(bytes_each[:3])
        assert int(before["total_size_bytes"]) == int(before["wal_bytes"]) + 2 * per_append
        await driver.finish()
        body = await seen(node)
        assert body["index_status"] == await told(node, f"{A}/_index_status")
        assert body["schema"] == await told(node, f"{A}/_schema")
        stored_objects = await rows(node, "SELECT sum(bytes), count(*) FROM objects WHERE dead_us IS NULL")
        indexes = await rows(node, "SELECT sum(bytes + filter_bytes) FROM index_objects WHERE dead_us IS NULL")
        remote, local = body["storage"]["object_storage"], body["storage"]["local_storage"]
        assert (int(remote["segments_bytes"]), remote["segment_object_count"]) == stored_objects[0]
        assert int(remote["indexes_bytes"]) == indexes[0][0]
        assert remote["schema_registry_bytes"] == remote["manifest_and_meta_bytes"] != "0"
        sums = ("segments_bytes", "indexes_bytes", "manifest_and_meta_bytes")
        assert int(remote["total_bytes"]) == sum(int(remote[each]) for each in sums)
        caches = [name for name in local if name.endswith("_cache_bytes")]
        assert len(caches) == 5
        parts = ["wal_retained_bytes", "pending_sealed_segment_bytes", *caches]
        assert int(local["total_bytes"]) == sum(int(local[each]) for each in parts)
        families = {each["family"]: each["bytes_at_rest"] for each in body["index_status"]["search_families"]}
        shown = body["storage"]["companion_families"]
        assert {f"{name}_bytes": size for name, size in families.items()}.items() <= shown.items()


@on_loop
async def test_the_tag_changes_with_every_visible_change_and_with_no_read(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        driver = FakeDriver(node)
        await create(node, A, KEYED)
        await create(node, "/v1/stream/other")
        state = await node.context.ledger.living(Name("_default", "a"))
        tags = [(await details(node)).headers["etag"]]

        async def reads() -> None:
            live = f"{A}?offset=now&live=long-poll&timeout_ms=1"
            for target in (f"{A}?offset=now", live, f"{A}/_schema", f"{A}/_index_status", f"{A}/_details"):
                assert (await ask(node, "GET", target)).status in {200, 204}
            await append(node, "/v1/stream/other", [{"k": "y"}])
            await node.context.ledger.committer.settled()

        async def moved() -> None:
            tag = (await details(node)).headers["etag"]
            assert tag.startswith('W/"details:')
            assert tag not in tags
            tags.append(tag)
            await reads()
            same = await details(node, tag=tag)
            assert (same.status, same.headers["etag"], same.body) == (304, tag, b"")

        await append(node, A, [{"k": "x"}] * 3)
        await node.context.ledger.committer.settled()
        await moved()
        await sealed(node)
        await moved()
        await driver.finish()
        await moved()
        await declare(node, A, {"search": SEARCH})
        await moved()
        assert (await ask(node, "POST", f"{A}/_profile", {}, b'{"profile":{"kind":"generic"}}')).status == 200
        await retain(node.context.ledger, state, 2)
        await moved()
        assert (await ask(node, "POST", A, {"stream-closed": "true"})).status in {200, 204}
        await node.context.ledger.committer.settled()
        await moved()
        assert (await seen(node))["stream"]["closed"]


@on_loop
async def test_waiters_hear_of_each_kind_of_change_with_one_computation(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node", long_poll_ms_max=30_000, request_ms_max=60_000) as node:
        driver = FakeDriver(node)
        await create(node, A, declared=None)
        state = await node.context.ledger.living(Name("_default", "a"))
        watches = node.context.details

        changes: dict[str, Callable[[], Awaitable[object]]] = {
            "declare": lambda: declare(node, A, {"schema": {"type": "object"}}),
            "append": lambda: append(node, A, [{"k": "x"}] * 3),
            "publish": lambda: sealed(node),
            "key": lambda: declare(node, A, {"routingKey": {"jsonPointer": "/k", "required": False}}),
            "trim": lambda: retain(node.context.ledger, state, 2),
            "more": lambda: append(node, A, [{"k": "x"}] * 3),
            "publish more": lambda: sealed(node),
            "index": driver.finish,
            "delete": lambda: ask(node, "DELETE", A),
        }
        for what, change in changes.items():
            tag = (await details(node)).headers["etag"]
            query = "?live=long-poll&timeout_ms=30000"
            waiting = [asyncio.ensure_future(details(node, query=query, tag=tag)) for _ in range(20)]
            await until(lambda: watches.waiting == 20, "all wait")
            made = watches.made
            await change()
            replies = await asyncio.gather(*waiting)
            assert {reply.status for reply in replies} == {404 if what == "delete" else 200}, what
            if what != "delete":
                assert tag not in {reply.headers["etag"] for reply in replies}
                assert len({reply.body for reply in replies}) == 1
                assert watches.made - made < 10  # and not one for each; generations of the catalogue are looks, too
        assert watches.waiting == 0


@on_loop
async def test_who_knows_nothing_does_not_wait_and_who_hears_nothing_is_told_so(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A)
        tag = (await details(node)).headers["etag"]
        assert (await details(node, query="?live=long-poll")).status == 200
        assert (await details(node, query="?live=long-poll", tag='W/"details:0"')).status == 200
        reply = await details(node, query="?live=long-poll&timeout_ms=50", tag=tag)
        assert (reply.status, reply.headers["etag"]) == (304, tag)
        waiting = asyncio.ensure_future(details(node, query="?live=long-poll&timeout_ms=400", tag=tag))
        await until(lambda: node.context.details.waiting == 1, "it waits")
        await create(node, "/v1/stream/other")
        await append(node, "/v1/stream/other", [{"k": "x"}])
        await sealed(node)
        assert (await waiting).status == 304
        for query in ("?live=sse", "?live=maybe", "?live=long-poll&timeout=x"):
            assert (await details(node, query=query)).status == 400, query


@on_loop
async def test_a_window_that_slides_is_told_exactly_and_reads_move_it_without_a_tag(tmp_path: Path) -> None:
    clock = FakeClock()
    async with in_process(tmp_path / "node", clock=clock) as node:
        watches = node.context.details
        watches._news = watches._news._replace(now_s=lambda: clock.now_us / 1e6)  # else it is the last second's
        reply = await ask(node, "PUT", A, {"content-type": "application/json", "stream-ttl": "3600"})
        assert reply.status == 201
        made = clock.now_us

        async def told_end(tag: str | None) -> tuple[str, str]:
            """As `_details` and as the list of streams have it."""
            reply = await details(node)
            assert tag in {None, reply.headers["etag"]}
            (listed,) = [each for each in await told(node, "/v1/streams") if each["name"] == "a"]
            assert listed["expires_at"] == json.loads(reply.body)["stream"]["expires_at"]
            return reply.headers["etag"], listed["expires_at"]

        tag, end = await told_end(None)
        assert end == rfc3339(made + 3600 * 1_000_000)
        for seconds in (1, 200, 3000):
            clock.advance(seconds)
            assert (await ask(node, "GET", A)).status == 200
            assert await told_end(tag) == (tag, rfc3339(clock.now_us + 3600 * 1_000_000))
        clock.advance(3599)
        assert (await ask(node, "HEAD", A)).status == 200
        clock.advance(1)
        assert (await details(node)).status == 404


@on_loop
async def test_a_fork_says_whose_beginning_it_shares(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A, declared=None)
        await append(node, A, [1, 2, 3])
        forked = {"content-type": "application/json", "stream-forked-from": A}
        assert (await ask(node, "PUT", "/v1/stream/b", forked)).status == 201
        await append(node, "/v1/stream/b", [4])
        await node.context.ledger.committer.settled()
        for path, fork, entries in ((A, None, "3"), ("/v1/stream/b", {"stream": "a", "first_own_offset": "3"}, "4")):
            stream = (await seen(node, path))["stream"]
            assert (stream["forked_from"], stream["next_offset"]) == (fork, entries)


@on_loop
async def test_both_surfaces_answer(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        assert (await ask(node, "PUT", "/shop")).status == 201
        await create(node, "/shop/orders")
        one, other = await seen(node, "/shop/orders"), await seen(node, "/v1/stream/shop/orders")
        assert one == other
        assert one["stream"]["name"] == "shop/orders"
