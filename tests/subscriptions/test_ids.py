"""Ids of subscriptions as they stand in paths: each text is one id, and what is no text is none."""

from pathlib import Path

import pytest

from tests.subscriptions.world import Client, code, run

PARTS = [
    ("PUT", ""), ("GET", ""), ("DELETE", ""), ("POST", "/streams"), ("DELETE", "/streams/events%2Fa"),
    ("POST", "/claim"), ("POST", "/ack"), ("POST", "/callback"), ("POST", "/release"),
]  # fmt: skip


@pytest.mark.parametrize("raw", ["%ff", "a%c3", "%ed%a0%80", "%c0%af", "ok%20%fe"])
def test_an_id_that_is_not_utf8_is_refused(tmp_path: Path, raw: str) -> None:
    async def scenario(client: Client) -> None:
        # What a careless decoder makes of such an id is somebody else's.
        await client.pull("%EF%BF%BD")
        await client.pull("a%EF%BF%BD")
        wanted = {"type": "pull-wake", "pattern": "events/*", "wake_stream": "wake/pool", "streams": ["events/a"]}
        for method, part in PARTS:
            assert code(await client.of(raw, method, part, wanted)) == (400, "bad_request"), (method, part)
        assert (await client.shown("%EF%BF%BD"))["id"] == "\ufffd"
        assert (await client.shown("a%EF%BF%BD"))["id"] == "a\ufffd"
        unnamed = await client.of("%EF%BF%BD", "DELETE", f"/streams/events%2F{raw}")
        assert code(unnamed) == (400, "bad_request")

    run(tmp_path, scenario)


def test_ids_are_kept_as_they_were_written(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        ids = {"%C3%A9": "é", "e%CC%81": "e\u0301", "a%25b": "a%b", "%F0%9F%92%A7": "💧", "a%20b": "a b"}
        for raw in ids:
            await client.pull(raw)
        assert {raw: (await client.shown(raw))["id"] for raw in ids} == ids

    run(tmp_path, scenario)
