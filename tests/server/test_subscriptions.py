"""`/v1/server/_subscriptions`: all there are, page by page, with what makes them again."""

import json
from pathlib import Path
from typing import Any

import pytest

from streams_node.http import server_subscriptions
from streams_node.testing.clock import FakeClock
from tests.subscriptions.receivers import receiving, said
from tests.subscriptions.world import Client, run, until

IDS = [f"s{number}" for number in range(7)]


async def page(client: Client, query: str = "") -> dict[str, Any]:
    answer = await client.node.request("GET", f"/v1/server/_subscriptions{query}")
    assert answer.status == 200, answer.body
    found: dict[str, Any] = json.loads(answer.body)
    return found


async def all_of_them(client: Client, limit: int) -> list[dict[str, Any]]:
    found, after = [], ""
    while True:
        shown = await page(client, f"?limit={limit}{after}")
        assert len(shown["subscriptions"]) <= limit
        found += shown["subscriptions"]
        assert shown["has_more"] == (shown["next_cursor"] is not None)
        if not shown["has_more"]:
            return found
        after = f"&after={shown['next_cursor']}"


def wanted(number: int) -> dict[str, Any]:
    wake: dict[str, Any] = {"type": "pull-wake", "wake_stream": "wake/pool"}
    hook: dict[str, Any] = {"type": "webhook", "webhook": {"url": f"https://hooks.example.com/{number}?secret=x"}}
    named: dict[str, Any] = {"streams": ["b", "a/b"], "description": "two"}
    more: dict[str, Any] = named if number % 2 else {"pattern": "a/**"}
    return {**(hook if number % 3 else wake), **more, "lease_ttl_ms": 1000 + number}


def test_what_it_shows_makes_the_same_subscriptions_on_another_node(tmp_path: Path) -> None:
    async def first(client: Client) -> None:
        assert await page(client) == {"subscriptions": [], "next_cursor": None, "has_more": False}
        for number, id_ in reversed(list(enumerate(IDS))):
            await client.subscribe(id_, **wanted(number))
        answer = await client.of("s1", "POST", "/streams", {"streams": ["later/on"]})
        assert answer.status == 204
        kept.extend(await all_of_them(client, 100))
        assert [each["id"] for each in kept] == IDS
        for limit in (1, 2, 7):
            assert await all_of_them(client, limit) == kept
        shown.update({id_: await client.shown(id_) for id_ in IDS})

    async def second(client: Client) -> None:
        for each in kept:
            await client.subscribe(each["id"], **each["request"])
        assert await all_of_them(client, 3) == kept
        assert {id_: (await client.shown(id_))["streams"] for id_ in IDS} == {
            id_: each["streams"] for id_, each in shown.items()
        }

    kept: list[dict[str, Any]] = []
    shown: dict[str, dict[str, Any]] = {}
    clock = FakeClock()
    run(tmp_path / "one", first, clock=clock)
    assert kept[1]["request"]["streams"] == ["a/b", "b", "later/on"]
    assert kept[2]["request"] == wanted(2)
    run(tmp_path / "another", second, clock=clock)


def test_it_says_who_holds_a_wake_and_who_does_not_answer(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        async with receiving(lambda _: said(500)) as receiver:
            await client.webhook("hook", receiver.url)
            await client.pull("pull")
            await client.put("events/a", 1)
            await receiver.next()
            await client.claim("pull", "worker-7")

            async def failing() -> bool:
                return bool((await page(client))["subscriptions"][0]["wake"]["attempts"])

            await until(failing)
            hook, pull = (await page(client))["subscriptions"]
            assert (hook["status"], hook["wake"]["phase"], hook["news"]) == ("failed", "calling", 1)
            assert hook["wake"]["next_attempt_at"] is not None
            assert (pull["status"], pull["wake"]["phase"]) == ("active", "claimed")
            assert pull["wake"]["holder"] == "worker-7"
            assert pull["wake"]["lease_ends_at"] is not None

    run(tmp_path, scenario)


def test_a_page_ends_before_it_names_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(client: Client) -> None:
        for number in range(5):
            names = [f"a/{number}-{at}" for at in range(number)]
            await client.subscribe(f"s{number}", type="pull-wake", wake_stream="w", pattern="a/*", streams=names)
        assert [each["id"] for each in (await page(client))["subscriptions"]] == ["s0", "s1", "s2"]
        assert [len(each["request"].get("streams", ())) for each in await all_of_them(client, 9)] == [0, 1, 2, 3, 4]

    monkeypatch.setattr(server_subscriptions, "_NAMES_MAX", 3)
    run(tmp_path, scenario)


@pytest.mark.parametrize("query", ["?limit=0", "?limit=101", "?limit=x", "?limit=1&limit=2"])
def test_odd_questions_are_refused(tmp_path: Path, query: str) -> None:
    async def scenario(client: Client) -> None:
        answer = await client.node.request("GET", f"/v1/server/_subscriptions{query}")
        assert answer.status == 400

    run(tmp_path, scenario)
