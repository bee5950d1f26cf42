"""Pull-wake: one holder at a time, whoever asks; and what holders of earlier wakes are told."""

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams_node.errors import TokenExpired, TokenInvalid, WakeFenced
from streams_node.subscriptions import wakes
from streams_node.subscriptions.tokens import LIFE_US, Claims, check, mint
from streams_node.subscriptions.wakes import Kind, Phase, Wake
from streams_node.testing.clock import FakeClock
from tests.subscriptions.world import Client, code, run, until

ACK = "/ack"


async def announced(client: Client, count: int) -> bool:
    return len(await client.events()) >= count


def test_a_wake_is_announced_claimed_and_done(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        await client.pull("s")
        await client.put("events/a", 1)
        await until(lambda: announced(client, 1))
        (event,) = await client.events()
        assert event.pop("ts") > 1_600_000_000_000
        assert event == {"type": "wake", "subscription_id": "s", "stream": "events/a", "generation": 1}
        claim = await client.claim("s")
        assert claim["generation"] == 1
        assert claim["lease_ttl_ms"] == 30_000
        assert [each["path"] for each in claim["streams"]] == ["events/a"]
        busy = await client.of("s", "POST", "/claim", {"worker": "other"})
        assert code(busy) == (409, "ALREADY_CLAIMED")
        error = json.loads(busy.body)["error"]
        assert (error["current_holder"], error["generation"]) == ("w", 1)
        assert await client.done("s", claim) == {"ok": True, "next_wake": False}
        assert code(await client.of("s", "POST", "/claim", {"worker": "w"})) == (409, "NO_PENDING_WORK")
        assert len(await client.events()) == 1

    run(tmp_path, scenario)


def test_what_comes_while_a_wake_is_held_is_the_next_wake(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        await client.pull("s")
        await client.put("events/a", 1)
        claim = await client.claim("s")
        await client.append("events/a", 2)
        await client.put("events/b", 1)
        assert await client.done("s", claim) == {"ok": True, "next_wake": True}
        await until(lambda: announced(client, 1))
        again = await client.claim("s")
        assert again["generation"] == 2
        assert {each["path"] for each in again["streams"] if each["has_pending"]} == {"events/a", "events/b"}

    run(tmp_path, scenario)


def test_of_many_workers_one_gets_the_wake(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        await client.pull("s")
        for turn in range(5):
            await client.append("events/a", turn) if turn else await client.put("events/a", turn)
            answers = await asyncio.gather(
                *(client.of("s", "POST", "/claim", {"worker": f"w{number}"}) for number in range(20))
            )
            (won,) = [answer for answer in answers if answer.status == 200]
            lost = [code(answer) for answer in answers if answer.status != 200]
            assert lost == [(409, "ALREADY_CLAIMED")] * 19
            claim = json.loads(won.body)
            assert claim["generation"] == turn + 1
            await client.done("s", claim)

    run(tmp_path, scenario)


def test_a_lease_that_is_over_frees_the_wake_and_fences_its_holder(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        await client.pull("s", lease_ttl_ms=5000)
        await client.put("events/a", 1)
        first = await client.claim("s", "slow")
        clock.advance(4)
        assert (await client.held("s", ACK, first)).status == 200  # a sign of life
        clock.advance(4)
        assert code(await client.of("s", "POST", "/claim", {"worker": "other"})) == (409, "ALREADY_CLAIMED")
        clock.advance(2)
        second = await client.claim("s", "other")
        assert second["generation"] == 2
        acks = [{"stream": "events/a", "offset": second["streams"][0]["tail_offset"]}]
        for part in (ACK, "/release"):
            assert code(await client.held("s", part, first, acks=acks, done=True)) == (409, "FENCED")
        # Of another wake by its numbers, by its token, by its id.
        assert code(await client.held("s", ACK, {**second, "generation": 1})) == (409, "FENCED")
        assert code(await client.held("s", ACK, second, token=first["token"])) == (409, "FENCED")
        assert code(await client.held("s", ACK, {**second, "wake_id": first["wake_id"]})) == (409, "FENCED")
        assert (await client.acked("s"))["events/a"] == "-1"
        await client.done("s", second)
        assert (await client.acked("s"))["events/a"] == acks[0]["offset"]

    clock = FakeClock()
    run(tmp_path, scenario, clock=clock)


def test_a_lease_that_is_over_is_announced_anew_without_anybody_asking(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        await client.pull("s", lease_ttl_ms=1000)
        await client.put("events/a", 1)
        await until(lambda: announced(client, 1))
        await client.claim("s")
        await until(lambda: announced(client, 2))
        assert [event["generation"] for event in await client.events()] == [1, 2]

    run(tmp_path, scenario)


def test_what_is_released_is_announced_anew(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        await client.pull("s")
        await client.put("events/a", 1)
        await until(lambda: announced(client, 1))
        claim = await client.claim("s")
        assert (await client.held("s", "/release", claim)).status == 204
        assert code(await client.held("s", "/release", claim)) == (409, "FENCED")
        await until(lambda: announced(client, 2))
        assert (await client.claim("s"))["generation"] == 2

    run(tmp_path, scenario)


def test_what_is_too_much_for_a_wake_is_the_next_ones(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        await client.pull("s")
        tails = {f"events/x{number}": await client.put(f"events/x{number}", number) for number in range(300)}
        first = await client.claim("s")
        assert len(first["streams"]) == 256
        assert await client.done("s", first) == {"ok": True, "next_wake": True}
        second = await client.claim("s")
        assert sum(each["has_pending"] for each in second["streams"]) == 44
        assert await client.done("s", second) == {"ok": True, "next_wake": False}
        assert await client.acked("s") == tails

    run(tmp_path, scenario)


def test_acknowledgements_are_all_or_none(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        await client.pull("s")
        first = await client.put("events/a", 1)
        second = await client.append("events/a", 2)
        other = await client.put("events/b", 1)
        await client.put("elsewhere/c", 1)
        claim = await client.claim("s")

        async def ack(*pairs: tuple[str, str]) -> tuple[int, str] | int:
            acks = [{"stream": stream, "offset": offset} for stream, offset in pairs]
            answer = await client.held("s", ACK, claim, acks=acks)
            return 200 if answer.status == 200 else code(answer)

        refused = (409, "INVALID_OFFSET")
        beyond = other.replace(other[:16], "0000000000000009")
        bad_offsets = [("events/b", offset) for offset in ("-1", "now", beyond, "x")]
        for bad in (*bad_offsets, ("elsewhere/c", other), ("events/none", other)):
            assert await ack(("events/a", first), bad) == refused
        assert await client.acked("s") == {"events/a": "-1", "events/b": "-1"}
        assert await ack(("events/a", second), ("/events/b/", other)) == 200
        assert await ack(("events/a", first)) == refused  # back
        assert await ack(("events/a", second)) == 200  # again
        assert await client.acked("s") == {"events/a": second, "events/b": other}

    run(tmp_path, scenario)


def test_a_wake_of_what_is_deleted_by_now_is_nobodys(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        await client.pull("s")
        await client.put("events/a", 1)
        await until(lambda: announced(client, 1))
        assert (await client.ask("DELETE", "events/a")).status == 204
        assert code(await client.of("s", "POST", "/claim", {"worker": "w"})) == (409, "NO_PENDING_WORK")
        await client.put("events/a", "another life")
        await until(lambda: announced(client, 2))
        claim = await client.claim("s")
        assert claim["streams"][0]["acked_offset"] == "-1"
        await client.done("s", claim)

    run(tmp_path, scenario)


def test_a_new_life_of_a_stream_is_all_news(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        await client.pull("s", streams=["events/a"])
        await client.put("events/a", 1, 2, 3)
        await client.done("s", await client.claim("s"))
        assert (await client.ask("DELETE", "events/a")).status == 204
        tail = await client.put("events/a", "one entry")
        claim = await client.claim("s")
        (stream,) = claim["streams"]
        assert (stream["acked_offset"], stream["tail_offset"], stream["link_type"]) == ("-1", tail, "explicit")
        assert await client.done("s", claim) == {"ok": True, "next_wake": False}
        assert await client.acked("s") == {"events/a": tail}

    run(tmp_path, scenario)


def test_wakes_do_not_need_the_wake_stream(tmp_path: Path) -> None:
    """It was not made, or takes nothing any more: workers can still claim."""

    async def scenario(client: Client) -> None:
        await client.subscribe("s", type="pull-wake", pattern="events/*", wake_stream="wake/none")
        await client.pull("t")
        await client.ask("POST", "wake/pool", None, **{"stream-closed": "true"})
        await client.put("events/a", 1)
        for id_ in ("s", "t"):
            await client.done(id_, await client.claim(id_))
        assert await client.events() == []

    run(tmp_path, scenario)


def test_wake_streams_wake_nobody_but_who_names_them(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        await client.pull("s", "**")
        await client.subscribe("t", type="pull-wake", streams=["wake/pool"], wake_stream="wake/other")
        await client.put("events/a", 1)
        await until(lambda: announced(client, 1))
        claim = await client.claim("t")
        assert [each["path"] for each in claim["streams"]] == ["wake/pool"]
        claim = await client.claim("s")
        assert {each["path"] for each in claim["streams"]} == {"events/a"}

    run(tmp_path, scenario)


def test_no_subscription_wakes_itself(tmp_path: Path) -> None:
    """Every wake would be news for the next one."""

    async def scenario(client: Client) -> None:
        itself = {"type": "pull-wake", "wake_stream": "wake/pool", "streams": ["events/a", "/wake/pool/"]}
        assert code(await client.of("s", "PUT", "", itself)) == (400, "INVALID_REQUEST")
        assert code(await client.of("s", "GET", "")) == (404, "SUBSCRIPTION_NOT_FOUND")
        await client.pull("s")
        answer = await client.of("s", "POST", "/streams", {"streams": ["events/a", "wake/pool"]})
        assert code(answer) == (400, "INVALID_REQUEST")
        assert await client.acked("s") == {}

    run(tmp_path, scenario)


def test_tokens_of_a_deleted_subscription_are_worth_nothing_in_its_next_life(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        await client.pull("s")
        await client.put("events/a", 1)
        claim = await client.claim("s")
        assert (await client.of("s", "DELETE", "")).status == 204
        assert (await client.of("s", "DELETE", "")).status == 204
        assert code(await client.held("s", ACK, claim)) == (404, "SUBSCRIPTION_NOT_FOUND")
        await client.pull("s")
        await client.append("events/a", 2)
        assert (await client.claim("s"))["generation"] == 1
        assert code(await client.held("s", ACK, claim)) == (401, "TOKEN_INVALID")

    run(tmp_path, scenario)


def test_who_shows_no_good_token_is_refused_before_anything_else(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        await client.pull("s")
        await client.put("events/a", 1)
        claim = await client.claim("s")
        payload, _, mac = claim["token"].partition(".")
        for token in ("x", "x.y", f"{payload}.", f"{payload}.{mac[:-2]}AA", f"{payload[:-2]}AA.{mac}", "é.é"):
            assert code(await client.held("s", ACK, claim, token=token)) == (401, "TOKEN_INVALID")
        said = {"wake_id": claim["wake_id"], "generation": claim["generation"]}
        assert code(await client.of("s", "POST", ACK, said)) == (401, "TOKEN_INVALID")
        clock.advance(3601)
        assert code(await client.held("s", ACK, claim)) == (401, "TOKEN_EXPIRED")

    clock = FakeClock()
    run(tmp_path, scenario, clock=clock)


def test_a_holder_needs_no_key_and_everybody_else_does(tmp_path: Path) -> None:
    key = "an-invented-key-0123456789"
    bearer = {"authorization": f"Bearer {key}"}

    async def scenario(client: Client) -> None:
        wanted = {"type": "pull-wake", "pattern": "events/*", "wake_stream": "wake/pool"}
        assert (await client.of("s", "PUT", "", wanted, **bearer)).status == 201
        assert (await client.ask("PUT", "events/a", [1], **bearer)).status == 201
        for method, part in (("POST", "/claim"), ("GET", ""), ("DELETE", ""), ("POST", "/streams")):
            assert code(await client.of("s", method, part, {"worker": "w"})) == (401, "unauthorized")
        claim = json.loads((await client.of("s", "POST", "/claim", {"worker": "w"}, **bearer)).body)
        assert code(await client.held("s", ACK, claim, token=key)) == (401, "TOKEN_INVALID")
        await client.done("s", claim)

    run(tmp_path, scenario, no_auth=False, api_key=key)


# --- the machine itself -----------------------------------------------------------------------------------------------


STEPS = st.lists(st.sampled_from(["begin", "claim", "extend", "clear", "fail", "wait"]), max_size=30)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(kind=st.sampled_from(Kind), steps=STEPS)
def test_of_all_wakes_that_ever_were_only_the_current_one_is_held(kind: Kind, steps: list[str]) -> None:
    wake, now_us, issued = Wake(), 0, list[tuple[int, str]]()
    for number, step in enumerate(steps):
        if step == "begin" and wake.phase is Phase.IDLE:
            wake = wakes.begun(wake, kind, f"w{number}", ())
            issued.append((wake.generation, f"w{number}"))
        elif step == "claim" and wake.phase is Phase.ANNOUNCED:
            wake = wakes.claimed(wake, "h", now_us + 10)
        elif step == "extend" and wake.phase in {Phase.CLAIMED, Phase.CALLING}:
            wake = wakes.extended(wake, now_us + 10)
        elif step == "fail" and wake.phase is Phase.CALLING and not wake.delivered:
            wake = wakes.failed(wake, now_us, 0.5)
        elif step == "clear" or (step == "wait" and wake.over(now_us + 20)):
            wake = wakes.cleared(wake)
        now_us += 20 if step == "wait" else 1
        assert [generation for generation, _ in issued] == list(range(1, len(issued) + 1))
        holders = [each for each in issued if holds(wake, *each)]
        assert holders == (issued[-1:] if wake.phase in {Phase.CLAIMED, Phase.CALLING} else [])


def holds(wake: Wake, generation: int, wake_id: str) -> bool:
    try:
        wakes.guard(wake, token_generation=generation, generation=generation, wake_id=wake_id)
    except WakeFenced:
        return False
    return True


def test_waits_double_up_to_a_minute_and_never_agree() -> None:
    wake = wakes.begun(Wake(), Kind.WEBHOOK, "w", ())
    for least in (1, 2, 4, 8, 16, 32, 60, 60, 60, 60):
        early, late = wakes.failed(wake, 0, 0.0), wakes.failed(wake, 0, 1.0)
        assert (early.attempt_us, late.attempt_us) == (int(least * 800_000), int(least * 1_200_000))
        wake = wakes.failed(wake, 0, 0.5)
    assert wake.attempts == 10


@given(
    secret=st.binary(min_size=32, max_size=32), number=st.integers(0, 2**62), generation=st.integers(0, 2**40),
    now_us=st.integers(0, 2**50), at=st.integers(0, 400), to=st.sampled_from("Aa0_.="),
)  # fmt: skip
def test_a_token_says_what_was_minted_and_any_other_text_says_nothing(
    secret: bytes, number: int, generation: int, now_us: int, at: int, to: str
) -> None:
    token = mint(secret, Claims(number, generation, now_us + LIFE_US))
    assert check(secret, token, number, now_us).generation == generation
    with pytest.raises(TokenExpired):
        check(secret, token, number, now_us + LIFE_US)
    with pytest.raises(TokenInvalid):
        check(secret, token, number + 1, now_us)
    changed = token[: at % len(token)] + to + token[at % len(token) + 1 :]
    if changed != token:
        with pytest.raises(TokenInvalid):
            check(secret, changed, number, now_us)
