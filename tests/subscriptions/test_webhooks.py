"""Webhooks: what a receiver is sent, what it may answer, and what becomes of receivers that do not answer."""

import asyncio
import json
import stat
import time
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature

from streams_node.subscriptions.deliveries import origin_of
from streams_node.subscriptions.keys import FILE, Keys
from streams_node.subscriptions.lanes import stretch_of
from streams_node.testing.clock import FakeClock
from tests.subscriptions.receivers import DONE, Call, receiving, said, verified
from tests.subscriptions.world import Client, code, run, until

OK = said(200)


async def keys(client: Client) -> list[dict[str, str]]:
    answer = await client.ask("GET", "__ds/jwks.json")
    assert answer.headers["content-type"] == "application/jwk-set+json"
    assert answer.headers["cache-control"] == "public, max-age=300"
    found: list[dict[str, str]] = json.loads(answer.body)["keys"]
    return found


def test_a_webhook_is_signed_and_says_what_is_new(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        before = await client.put("events/old", {"n": 0})
        async with receiving(lambda _: OK) as receiver:
            shown = await client.webhook("s", receiver.url)
            assert shown["streams"] == [{"path": "events/old", "link_type": "glob", "acked_offset": before}]
            tail = await client.put("events/new", {"n": 1}, {"n": 2})
            call = await receiver.next()
            assert verified(call, await keys(client))
            body = call.body
            assert body["callback_url"] == "http://node.test/v1/stream/__ds/subscriptions/s/callback"
            assert (body["subscription_id"], body["generation"]) == ("s", 1)
            new, old = body["streams"]
            told = {"acked_offset": "-1", "tail_offset": tail, "has_pending": True}
            assert new == {"path": "events/new", "link_type": "glob", **told}
            assert old["path"] == "events/old"
            assert (old["acked_offset"], old["tail_offset"], old["has_pending"]) == (before, before, False)
            forged = Call(call.path, call.headers, call.raw.replace(b"events/new", b"events/odd"))
            with pytest.raises(InvalidSignature):
                verified(forged, await keys(client))

    run(tmp_path, scenario)


def test_done_at_once_acknowledges_exactly_what_was_told(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        async with receiving() as receiver:
            await client.webhook("s", receiver.url)
            receiver.open.clear()
            first = await client.put("events/a", 1)
            call = await receiver.next()
            second = await client.append("events/a", 2)  # while the receiver is at work
            assert call.tails() == {"events/a": first}
            receiver.open.set()
            again = await receiver.next()
            assert again.body["generation"] == 2
            assert again.body["streams"][0]["acked_offset"] == first
            assert again.tails() == {"events/a": second}
            await until(lambda: acked(client, "events/a", second))

    run(tmp_path, scenario)


async def acked(client: Client, path: str, offset: str) -> bool:
    return (await client.acked("s")).get(path) == offset


def test_a_callback_acknowledges_and_an_old_one_is_fenced(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        async with receiving(lambda _: OK) as receiver:
            await client.webhook("s", receiver.url)
            tail = await client.put("events/a", 1)
            call = await receiver.next()
            acks = [{"path": "events/a", "offset": tail}]
            answer = await client.of("s", "POST", "/callback", call.holding(acks=acks), **call.bearer)
            assert json.loads(answer.body) == {"ok": True, "next_wake": False}  # no done: the lease goes on
            await client.append("events/a", 2)
            answer = await client.of("s", "POST", "/callback", call.holding(done=True), **call.bearer)
            assert json.loads(answer.body) == {"ok": True, "next_wake": True}
            later = await receiver.next()
            assert later.body["generation"] == 2
            stale = await client.of("s", "POST", "/callback", call.holding(done=True), **call.bearer)
            assert code(stale) == (409, "FENCED")
            assert json.loads(stale.body)["error"]["generation"] == 2
            mixed = await client.of("s", "POST", "/callback", later.holding(done=True), **call.bearer)
            assert code(mixed) == (409, "FENCED")

    run(tmp_path, scenario)


def test_a_callback_leads_to_its_subscription_whatever_its_id(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        async with receiving(lambda _: OK) as receiver:
            await client.webhook("a%20b%3Fc%23d%2541", receiver.url)
            await client.put("events/a", 1)
            call = await receiver.next()
            assert call.body["subscription_id"] == "a b?c#d%41"
            target = call.body["callback_url"].removeprefix("http://node.test/v1/stream/")
            done = await client.ask("POST", target, call.holding(done=True), **call.bearer)
            assert (done.status, done.body) == (200, b'{"ok":true,"next_wake":true}')

    run(tmp_path, scenario)


def test_a_receiver_that_took_a_wake_and_never_came_back_is_woken_anew(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        async with receiving(lambda _: OK) as receiver:
            await client.webhook("s", receiver.url, lease_ttl_ms=1000)
            await client.put("events/a", 1)
            first, second = await receiver.next(), await receiver.next()
            assert (first.body["generation"], second.body["generation"]) == (1, 2)
            assert first.tails() == second.tails()
            late = await client.of("s", "POST", "/callback", first.holding(done=True), **first.bearer)
            assert code(late) == (409, "FENCED")

    run(tmp_path, scenario)


UPGRADE = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: other\r\n\r\nhello"


@pytest.mark.parametrize("answer", [said(500), said(302, location="http://127.0.0.1:1/"), said(404), UPGRADE, None])
def test_a_failed_call_is_repeated_later_and_later(tmp_path: Path, answer: bytes | None) -> None:
    async def scenario(client: Client) -> None:
        async with receiving(lambda _: answer) as receiver:
            await client.webhook("s", receiver.url)
            await client.put("events/a", 1)
            first, began = await receiver.next(), time.monotonic()
            await until(lambda: failed(client))
            second = await receiver.next()
            assert time.monotonic() - began > 0.7  # a second, less a fifth
            assert (second.raw == first.raw) is False  # another token
            assert second.body["wake_id"] == first.body["wake_id"]
            assert second.body["generation"] == first.body["generation"]
            receiver.answer = lambda _: said(200, DONE)
            await receiver.next()
            await until(lambda: active(client))
            assert (await client.acked("s"))["events/a"] == first.tails()["events/a"]

    run(tmp_path, scenario)


async def failed(client: Client) -> bool:
    return bool((await client.shown("s"))["status"] == "failed")


async def active(client: Client) -> bool:
    return bool((await client.shown("s"))["status"] == "active")


def test_a_receiver_that_failed_may_call_back_all_the_same(tmp_path: Path) -> None:
    """Its answer was lost on the way; it does not know that, and works."""

    async def scenario(client: Client) -> None:
        async with receiving(lambda _: None) as receiver:
            await client.webhook("s", receiver.url)
            tail = await client.put("events/a", 1)
            call = await receiver.next()
            acks = [{"stream": "events/a", "offset": tail}]
            answer = await client.of("s", "POST", "/callback", call.holding(acks=acks, done=True), **call.bearer)
            assert answer.status == 200
            assert await active(client)

    run(tmp_path, scenario)


def test_dead_receivers_hold_up_neither_appends_nor_other_receivers(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        async with receiving() as dead, receiving() as alive:
            dead.open.clear()
            for number in range(40):
                await client.webhook(f"dead-{number}", dead.url, f"t{number % 7}xx/**")
            await client.webhook("alive", alive.url, "**")
            for number in range(7):
                await client.put(f"t{number}xx/a", 1)
            await dead.next()
            slowest, waited = 0.0, 0.0
            for number in range(30):
                began = time.perf_counter()
                tail = await client.append(f"t{number % 7}xx/a", number)
                slowest = max(slowest, time.perf_counter() - began)
                while tail not in (call := await alive.next()).tails().values():
                    assert call.body["subscription_id"] == "alive"
                waited = max(waited, time.perf_counter() - began)
            assert dead.waiting <= 2  # of eight places one receiver has two
            assert slowest < 12 > waited  # the dead ones take fifteen seconds each
            dead.open.set()

    run(tmp_path, scenario, webhooks_parallel_max=8)


def test_one_receiver_has_one_share_however_its_address_is_written() -> None:
    written = ("https://a.example/x", "https://A.example:443/y", "HTTPS://a.example./", "https://a.example.:443/?z")
    assert {origin_of(url) for url in written} == {"a.example:443"}
    assert len({origin_of(url) for url in ("http://a/", "https://a/", "http://a:81/", "http://b/")}) == 4


def test_calls_are_rarer_the_more_appends_there_are_and_the_less_processor() -> None:
    assert {stretch_of(0, lag_s) for lag_s in (0, 0.01, 10)} == {1}
    assert [stretch_of(rate, 0.001) for rate in (500, 1000, 3000, 10**6)] == [1.5, 2, 4, 4]
    assert [stretch_of(1000, lag_s) for lag_s in (0.005, 0.01, 0.02, 10)] == [2, 3, 5, 5]
    assert stretch_of(10**6, 10) == 13


def test_calls_are_paced(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        async with receiving() as receiver:
            await client.webhook("s", receiver.url)
            await client.put("events/a", 1)
            await receiver.next()
            began = time.monotonic()
            tails = [await client.append("events/a", number) for number in range(6)]
            while tails[-1] not in (await receiver.next()).tails().values():
                pass
            assert time.monotonic() - began > 0.4
            assert receiver.calls.empty()

    run(tmp_path, scenario, webhooks_per_second_max=2)


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1/hook", "https://169.254.169.254/", "ftp://a.example/", "https://u:p@a.example/"]
)
def test_addresses_that_are_not_called_are_refused_with_their_code(tmp_path: Path, url: str) -> None:
    async def scenario(client: Client) -> None:
        answer = await client.of("s", "PUT", "", {"type": "webhook", "pattern": "a/*", "webhook": {"url": url}})
        assert code(answer) == (400, "WEBHOOK_URL_REJECTED")
        assert code(await client.of("s", "GET", "")) == (404, "SUBSCRIPTION_NOT_FOUND")

    run(tmp_path, scenario)


def test_a_node_with_a_key_calls_nobody_on_loopback_unless_told_so(tmp_path: Path) -> None:
    key = "an-invented-key-0123456789"
    wanted = {"type": "webhook", "pattern": "a/*", "webhook": {"url": "http://localhost:9/"}}
    bearer = {"authorization": f"Bearer {key}"}

    async def refused(client: Client) -> None:
        assert code(await client.of("s", "PUT", "", wanted)) == (401, "unauthorized")
        assert code(await client.of("s", "PUT", "", wanted, **bearer)) == (400, "WEBHOOK_URL_REJECTED")
        assert (await client.ask("GET", "__ds/jwks.json")).status == 200  # receivers have no key

    async def taken(client: Client) -> None:
        assert (await client.of("s", "PUT", "", wanted, **bearer)).status == 201

    run(tmp_path, refused, no_auth=False, api_key=key)
    run(tmp_path, taken, no_auth=False, api_key=key, webhook_loopback=True)


# --- keys -------------------------------------------------------------------------------------------------------------


def test_keys_are_made_once_and_only_the_nodes_user_reads_them(tmp_path: Path) -> None:
    clock = FakeClock()
    first = Keys(tmp_path, age_us_max=0, now_us=clock)
    assert not (tmp_path / FILE).exists()
    kid = first.kid
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    again = Keys(tmp_path, age_us_max=0, now_us=clock)
    assert (again.kid, again.token_secret) == (kid, first.token_secret)
    assert kid.startswith("ds_")


def test_a_key_of_age_is_replaced_and_still_published_for_a_day(tmp_path: Path) -> None:
    clock = FakeClock()
    hour_us = 3600 * 1_000_000
    keys = Keys(tmp_path, age_us_max=100 * hour_us, now_us=clock)
    first = keys.kid
    clock.advance(101 * 3600)
    second = keys.kid
    assert second != first
    assert [key.kid for key in keys.jwks()] == [first, second]
    assert Keys(tmp_path, age_us_max=100 * hour_us, now_us=clock).kid == second
    clock.advance(25 * 3600)
    assert [key.kid for key in keys.jwks()] == [second]


def test_the_jwks_knows_get_only(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        for method in ("PUT", "POST", "DELETE"):
            answer = await client.ask(method, "__ds/jwks.json")
            assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
        assert (await client.ask("HEAD", "__ds/jwks.json")).status == 200
        for path in ("__ds", "__ds/", "__ds/other", "__ds/subscriptions", "__ds/subscriptions/s/other"):
            assert (await client.ask("GET", path)).status == 404

    run(tmp_path, scenario)


def test_receivers_that_hang_do_not_keep_the_node_from_stopping(tmp_path: Path) -> None:
    async def scenario() -> None:
        from streams_node.testing.inprocess import in_process  # noqa: PLC0415 - the block ends inside of the other one

        async with receiving() as receiver:
            receiver.open.clear()
            async with in_process(tmp_path) as node:
                client = Client(node)
                await client.webhook("s", receiver.url)
                await client.put("events/a", 1)
                first = await receiver.next()
            receiver.open.set()
            async with in_process(tmp_path):  # nobody was told what became of the call: it is made again
                again = await receiver.next()
            assert again.body["wake_id"] == first.body["wake_id"]
            assert again.body["generation"] == first.body["generation"]

    asyncio.run(scenario())
