"""Which streams belong to a subscription, from where on, and that none is forgotten, however little memory there is."""

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from streams_node.ingest import batches
from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import in_process
from streams_node.wal.batch import commit
from tests.subscriptions.receivers import receiving, said
from tests.subscriptions.world import BEGINNING, Client, code, has, run, until

PULL = {"type": "pull-wake", "wake_stream": "wake/pool"}


def test_what_is_there_is_no_news_and_what_comes_is(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        old, empty = await client.put("events/old", 1, 2), await client.put("events/empty")
        await client.put("other/x", 1)
        await client.put("events", 1)
        await client.pull("s")
        assert await client.acked("s") == {"events/empty": BEGINNING, "events/old": old}
        await client.put("events/new", 1)
        await client.put("events/later")
        await client.append("other/x", 1)
        await client.append("events/old", 3)
        await client.append("events/empty", 1)
        assert await client.acked("s") == {"events/empty": BEGINNING, "events/old": old, "events/new": BEGINNING}
        claim = await client.claim("s")
        assert empty == claim["streams"][0]["tail_offset"] or len(claim["streams"]) == 3
        await client.done("s", claim)
        assert code(await client.of("s", "POST", "/claim", {"worker": "w"})) == (409, "NO_PENDING_WORK")

    run(tmp_path, scenario)


@pytest.mark.parametrize("cold", [False, True])
def test_a_glob_begins_at_the_ends_of_streams_of_every_kind(tmp_path: Path, *, cold: bool) -> None:
    """Whether they are in memory or not, as far as they can leave it, and whatever the heads lag behind."""

    async def first(client: Client) -> None:
        if cold:
            client.node.context.ledger.states._bytes_max = 0  # every state that may go, goes
        for number in range(12):
            await client.put(f"events/plain{number}", *range(number))
        for number in range(3, 12, 3):
            await client.append(f"events/plain{number}", 1, 2)
        forked = {"stream-forked-from": "/v1/stream/events/plain7"}
        assert (await client.ask("PUT", "events/fork", None, **forked)).status == 201
        assert (await client.ask("PUT", "events/grown", [1], **forked)).status == 201
        assert (await client.ask("PUT", "events/short", [1], **{"stream-ttl": "5"})).status == 201
        assert (await client.ask("PUT", "events/longer", [1, 2], **{"stream-ttl": "50"})).status == 201
        assert (await client.ask("PUT", "events/long", [1, 2], **{"stream-ttl": "500"})).status == 201
        assert (await client.ask("PUT", "events/closed", [1], **{"stream-closed": "true"})).status == 201
        for path in ("events/plain4", "events/plain7"):  # the second one is kept for its forks
            assert (await client.ask("DELETE", path)).status == 204
        await client.put("events/plain4", 1)
        await agreed(client, "s", after_s=6, count=16)

    async def agreed(client: Client, id_: str, *, after_s: int, count: int) -> None:
        clock.advance(after_s)
        await client.pull(id_, "events/*")
        await client.pull(id_ * 2, "**")
        acked = [await client.acked(id_), await client.acked(id_ * 2)]
        heads = {path: await client.ask("HEAD", path) for path in paths}
        ends = {path: head.headers["stream-next-offset"] for path, head in heads.items() if head.status == 200}
        assert len(ends) == count
        assert acked == [ends | {"events/plain0": BEGINNING}] * 2

    paths = [f"events/plain{number}" for number in range(12)]
    paths += [f"events/{kind}" for kind in ("fork", "grown", "short", "longer", "long", "closed")]
    clock = FakeClock()
    run(tmp_path, first, clock=clock, heads_flush_rows=5)
    run(tmp_path, lambda client: agreed(client, "t", after_s=60, count=15), clock=clock)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*", {"alone"}),
        ("events/*", {"events/a"}),
        ("events/**", {"events/a", "events/deep/b"}),
        ("alone/**", {"alone"}),
        ("**", {"alone", "events/a", "events/deep/b", "more/a"}),
        ("**/a", {"events/a", "more/a"}),
        ("*/a", {"events/a", "more/a"}),
        ("events/deep/b", {"events/deep/b"}),
        ("_default/alone", {"alone"}),
    ],
)
def test_a_glob_finds_what_is_there_and_what_comes(tmp_path: Path, pattern: str, found: set[str]) -> None:
    async def scenario(client: Client) -> None:
        streams = ("alone", "events/a", "events/deep/b", "more/a", "_default/__own")
        await client.pull("later", pattern)
        for path in streams[:-1]:
            await client.put(path, 1)
        await client.pull("then", pattern)
        assert set(await client.acked("then")) == found
        assert set(await client.acked("later")) == found
        assert set((await client.acked("later")).values()) == {BEGINNING}

    run(tmp_path, scenario, stream_metrics_ms=10)


def test_streams_that_are_named(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        tail = await client.put("events/a", 1)
        await client.subscribe("s", **PULL, pattern="events/*", streams=["/events/a/", "elsewhere/x"])
        kinds = {each["path"]: each["link_type"] for each in (await client.shown("s"))["streams"]}
        assert kinds == {"elsewhere/x": "explicit", "events/a": "explicit"}
        assert await client.acked("s") == {"elsewhere/x": BEGINNING, "events/a": tail}
        added = {"streams": ["events/a", "some/y", "lonely"]}
        assert (await client.of("s", "POST", "/streams", added)).status == 204
        await client.put("some/y", 1)
        claim = await client.claim("s")
        assert [each["path"] for each in claim["streams"] if each["has_pending"]] == ["some/y"]
        for path in ("events%2Fa", "some/y", "some%2Fy", "never%2Fnamed", "elsewhere%2Fx"):
            assert (await client.of("s", "DELETE", f"/streams/{path}")).status == 204
        kinds = {each["path"]: each["link_type"] for each in (await client.shown("s"))["streams"]}
        assert kinds == {"events/a": "glob", "lonely": "explicit"}
        assert (await client.acked("s"))["events/a"] == tail
        await client.append("some/y", 2)
        await client.append("events/a", 2)
        await client.held("s", "/release", claim)
        claim = await client.claim("s")
        assert [each["path"] for each in claim["streams"] if each["has_pending"]] == ["events/a"]
        assert code(await client.of("s", "DELETE", "/streams/%2F")) == (404, "not_found")
        for part in ("/streams", "/streams/x"):
            method = "DELETE" if part == "/streams/x" else "POST"
            assert code(await client.of("none", method, part, added)) == (404, "SUBSCRIPTION_NOT_FOUND")

    run(tmp_path, scenario)


def test_links_of_streams_that_end_go_with_them(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        await client.pull("s", streams=["events/named"])
        for path in ("events/named", "events/found"):
            await client.put(path, 1)
        await until(lambda: has(client, "s", {"events/named": BEGINNING, "events/found": BEGINNING}))
        for path in ("events/named", "events/found"):
            assert (await client.ask("DELETE", path)).status == 204
        await until(lambda: has(client, "s", {"events/named": BEGINNING}))
        assert code(await client.of("s", "POST", "/claim", {"worker": "w"})) == (409, "NO_PENDING_WORK")

    run(tmp_path, scenario)


def test_a_stream_that_expires_is_no_news(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        await client.pull("s")
        await client.ask("PUT", "events/short", [1], **{"stream-ttl": "5"})
        await client.put("events/long", 1)
        clock.advance(6)
        claim = await client.claim("s")
        assert [each["path"] for each in claim["streams"]] == ["events/long"]

    clock = FakeClock()
    run(tmp_path, scenario, clock=clock)


# --- commits that fail ------------------------------------------------------------------------------------------------


def stored_all_the_same(db: sqlite3.Connection, writes: Any) -> None:
    commit(db, writes)
    raise sqlite3.OperationalError("disk I/O error")


def test_what_a_failed_commit_has_stored_is_told_of_together_with_what_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(client: Client) -> None:
        await client.pull("s")
        with monkeypatch.context() as patched:
            patched.setattr(batches, "commit", stored_all_the_same)
            assert (await client.ask("PUT", "events/b", [1])).status == 503
        await until(lambda: serves(client))
        await client.append("events/b", 2)
        claim = await client.claim("s")
        assert [(each["path"], each["acked_offset"]) for each in claim["streams"]] == [("events/b", BEGINNING)]

    run(tmp_path, scenario)


def test_a_commit_that_is_stored_although_it_failed_is_no_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(client: Client) -> None:
        async with receiving() as receiver:
            await client.webhook("s", receiver.url)
            await client.put("events/a", 1)
            await until(lambda: done_with(client, "events/a"))
            with monkeypatch.context() as patched:
                patched.setattr(batches, "commit", stored_all_the_same)
                assert (await client.ask("POST", "events/a", [2])).status == 503
                assert (await client.ask("PUT", "events/b", [1])).status == 503
            await until(lambda: serves(client))
            assert await client.read("events/a") == [1, 2]
            await until(lambda: done_with(client, "events/a"))

    run(tmp_path, scenario)


async def done_with(client: Client, path: str) -> bool:
    head = await client.ask("HEAD", path)
    return (await client.acked("s")).get(path) == head.headers.get("stream-next-offset")


def test_a_change_that_could_not_be_stored_has_not_happened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    async def scenario(client: Client) -> None:
        await client.pull("s")
        await client.put("events/a", 1)
        claim = await client.claim("s")
        with monkeypatch.context() as patched:
            patched.setattr(batches, "commit", broken)
            acks = [{"stream": "events/a", "offset": claim["streams"][0]["tail_offset"]}]
            assert (await client.held("s", "/ack", claim, acks=acks, done=True)).status == 503
            assert (await client.of("t", "PUT", "", {**PULL, "pattern": "a/*"})).status == 503
        await until(lambda: serves(client))
        assert code(await client.of("t", "GET", "")) == (404, "SUBSCRIPTION_NOT_FOUND")
        assert code(await client.of("s", "POST", "/claim", {"worker": "other"})) == (409, "ALREADY_CLAIMED")
        await client.done("s", claim)
        await client.subscribe("t", **PULL, pattern="a/*")

    run(tmp_path, scenario)


async def serves(client: Client) -> bool:
    return (await client.node.request("GET", "/readyz")).status == 200


# --- lives ------------------------------------------------------------------------------------------------------------


def test_leases_acknowledgements_and_the_time_of_the_next_call_outlive_the_node(tmp_path: Path) -> None:
    clock = FakeClock()

    async def scenario() -> None:
        async with receiving(lambda _: said(500)) as receiver:
            async with in_process(tmp_path, clock=clock) as node:
                client = Client(node)
                await client.webhook("hook", receiver.url, "hooked/*")
                await client.pull("s", lease_ttl_ms=60_000, description="d")
                await client.put("hooked/a", 1)
                await receiver.next()
                await until(lambda: failing(client, "hook"))
                await client.put("events/a", 1)
                claim = await client.claim("s", "first")
                before = await client.shown("s")
            clock.advance(30)
            receiver.open.clear()
            async with in_process(tmp_path, clock=clock) as node:
                client = Client(node)
                assert await client.shown("s") == before
                assert code(await client.of("s", "POST", "/claim", {"worker": "other"})) == (409, "ALREADY_CLAIMED")
                assert (await receiver.next()).body["generation"] == 1
                assert (await client.shown("hook"))["status"] == "failed"
                await client.done("s", claim)
                tail = (await client.acked("s"))["events/a"]
            receiver.open.set()
            async with in_process(tmp_path, clock=clock) as node:
                client = Client(node)
                assert (await client.acked("s"))["events/a"] == tail
                assert code(await client.of("s", "POST", "/claim", {"worker": "w"})) == (409, "NO_PENDING_WORK")

    asyncio.run(scenario())


def test_a_call_that_failed_waits_its_time_after_a_restart(tmp_path: Path) -> None:
    clock = FakeClock()

    async def scenario() -> None:
        async with receiving(lambda _: said(500)) as receiver:
            async with in_process(tmp_path, clock=clock) as node:
                client = Client(node)
                await client.webhook("s", receiver.url)
                await client.put("events/a", 1)
                await receiver.next()
                await until(lambda: failing(client, "s"))
            async with in_process(tmp_path, clock=clock) as node:
                client = Client(node)
                await client.put("other/x", 1)
                due_us = node.context.subscriptions.get("s").wake.attempt_us
                assert due_us > clock()
                assert receiver.calls.empty()
                clock.advance((due_us - clock()) / 1_000_000 + 0.001)
                await receiver.next()

    asyncio.run(scenario())


async def failing(client: Client, id_: str) -> bool:
    return bool((await client.shown(id_))["status"] == "failed")


# --- requests ---------------------------------------------------------------------------------------------------------


def test_the_same_request_again_confirms_and_another_is_a_conflict(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        wanted = {**PULL, "pattern": "/a/*/", "streams": ["b/x", "b/y"], "description": "d"}
        same = {
            **PULL,
            "pattern": "a/*",
            "streams": ["/b/y", "b/x", "b/x/"],
            "lease_ttl_ms": 30_000,
            "description": "d",
        }
        assert (await client.of("s", "PUT", "", wanted)).status == 201
        answer = await client.of("s", "PUT", "", same)
        assert answer.status == 200
        shown = json.loads(answer.body)
        assert (shown["id"], shown["pattern"], shown["wake_stream"]) == ("s", "a/*", "wake/pool")
        assert (shown["lease_ttl_ms"], shown["status"], shown["description"]) == (30_000, "active", "d")
        assert "webhook" not in shown
        for changed in ({"pattern": "a/**"}, {"streams": ["b/x"]}, {"lease_ttl_ms": 5000}, {"description": None},
                        {"wake_stream": "wake/other"}):  # fmt: skip
            answer = await client.of("s", "PUT", "", {**same, **changed})
            assert code(answer) == (409, "SUBSCRIPTION_ALREADY_EXISTS")

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    "body",
    [
        {"pattern": "a/*"},
        {**PULL},
        {**PULL, "pattern": "a*"},
        {**PULL, "pattern": ""},
        {**PULL, "pattern": 7},
        {**PULL, "streams": []},
        {**PULL, "streams": "a/b"},
        {**PULL, "streams": ["a//b"]},
        {**PULL, "streams": ["../b"]},
        {**PULL, "streams": ["a/b/_schema"]},
        {**PULL, "streams": ["__ds/x"]},
        {**PULL, "streams": [f"a/{number}" for number in range(11)]},
        {**PULL, "pattern": "a/*", "lease_ttl_ms": 999},
        {**PULL, "pattern": "a/*", "lease_ttl_ms": 600_001},
        {**PULL, "pattern": "a/*", "lease_ttl_ms": 1000.5},
        {**PULL, "pattern": "a/*", "lease_ttl_ms": True},
        {**PULL, "pattern": "a/*", "webhook": {"url": "https://a.example/"}},
        {**PULL, "pattern": "a/*", "description": "x" * 5000},
        {"type": "webhook", "pattern": "a/*"},
        {"type": "webhook", "pattern": "a/*", "webhook": {}},
        {"type": "webhook", "pattern": "a/*", "webhook": {"url": "https://a.example/"}, "wake_stream": "w"},
        {"type": "pull-wake", "pattern": "a/*"},
        {"type": "other", "pattern": "a/*"},
        [],
        "x",
    ],
)
def test_a_request_that_is_not_as_described_is_refused(tmp_path: Path, body: object) -> None:
    async def scenario(client: Client) -> None:
        assert code(await client.of("s", "PUT", "", body)) == (400, "INVALID_REQUEST")
        assert code(await client.of("s", "GET", "")) == (404, "SUBSCRIPTION_NOT_FOUND")

    run(tmp_path, scenario, subscription_streams_max=10)


def test_everything_has_a_limit(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        for number in range(2):
            await client.subscribe(f"s{number}", **PULL, streams=["a/b"])
        answer = await client.of("s2", "PUT", "", {**PULL, "pattern": "a/*"})
        assert code(answer) == (409, "SUBSCRIPTION_LIMIT")
        answer = await client.of("s0", "POST", "/streams", {"streams": ["a/c", "a/d"]})
        assert code(answer) == (400, "INVALID_REQUEST")
        assert set(await client.acked("s0")) == {"a/b"}
        answer = await client.of("s0", "PUT", "", {**PULL, "pattern": "a/*", "description": "x" * (2 << 20)})
        assert code(answer) == (413, "payload_too_large")
        assert (await client.of("s1", "DELETE", "")).status == 204
        await client.subscribe("s2", **PULL, pattern="a/*")

    run(tmp_path, scenario, subscriptions_max=2, subscription_streams_max=2)


def test_links_of_a_deleted_subscription_are_freed(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        await client.pull("s")
        await client.pull("t")
        for number in range(5):
            await client.put(f"events/{number}", 1)
        await client.claim("s")
        assert (await client.of("s", "DELETE", "")).status == 204
        await until(lambda: links(tmp_path, 5))

    run(tmp_path, scenario)


async def links(folder: Path, count: int) -> bool:
    database = sqlite3.connect(folder / "streams.db")
    try:
        left = database.execute("SELECT count(*) FROM subscription_graves").fetchone()[0]
        return (database.execute("SELECT count(*) FROM subscription_links").fetchone()[0], left) == (count, 0)
    finally:
        database.close()
