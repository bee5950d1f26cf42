"""A walk through the reserved `__ds` space: every success, and the refusals that a client meets in a day."""

import json
from collections.abc import Awaitable, Callable, Mapping

from streams_node.testing.inprocess import Answer
from tests.subscriptions.receivers import receiving, said

Ask = Callable[[str, str, Mapping[str, str] | None, bytes], Awaitable[Answer]]
JSON = {"content-type": "application/json"}
DS = "/v1/stream/__ds/"


async def walk_subscriptions(ask: Ask) -> None:
    async def of(method: str, path: str, body: object = None, token: str | None = None) -> Answer:
        headers = JSON if token is None else {**JSON, "authorization": f"Bearer {token}"}
        return await ask(method, f"{DS}{path}", headers, b"" if body is None else json.dumps(body).encode())

    await of("GET", "jwks.json")
    await ask("PUT", "/v1/stream/wake/pool", JSON, b"[]")
    pull = {"type": "pull-wake", "pattern": "told/*", "wake_stream": "wake/pool"}
    for body in (pull, pull, {**pull, "description": "another"}, {}):
        await of("PUT", "subscriptions/s", body)
    await of("GET", "subscriptions/s")
    for query in ("", "?limit=0"):
        await ask("GET", f"/v1/server/_subscriptions{query}", None, b"")
    await of("POST", "subscriptions/s/streams", {"streams": ["told/named"]})
    await of("POST", "subscriptions/s/streams", {})
    await of("DELETE", "subscriptions/s/streams/told%2Fnamed")
    await of("POST", "subscriptions/s/claim", {"worker": "w"})
    await ask("PUT", "/v1/stream/told/a", JSON, b"[1]")
    said_so: tuple[tuple[str, dict[str, object]], ...] = (("ack", {"done": True}), ("release", {}))
    for part, more in said_so:
        claim = json.loads((await of("POST", "subscriptions/s/claim", {"worker": "w"})).body)
        await of("POST", "subscriptions/s/claim", {"worker": "w"})
        held = {"wake_id": claim["wake_id"], "generation": claim["generation"]}
        await of("POST", f"subscriptions/s/{part}", {**held, **more})
        await of(
            "POST", f"subscriptions/s/{part}", {**held, "acks": [{"stream": "none", "offset": "x"}]}, claim["token"]
        )
        await of("POST", f"subscriptions/s/{part}", {**held, **more}, claim["token"])
        await of("POST", f"subscriptions/s/{part}", {**held, **more}, claim["token"])
        await of("POST", f"subscriptions/s/{part}", [], claim["token"])
        await ask("POST", "/v1/stream/told/a", JSON, b"[2]")
    await walk_webhook(of, ask)
    for method, part in (
        ("GET", ""),
        ("POST", "/streams"),
        ("DELETE", "/streams/x"),
        ("POST", "/claim"),
        ("POST", "/ack"),
    ):
        await of(method, f"subscriptions/none{part}", {})
    for _ in range(2):
        await of("DELETE", "subscriptions/s")


async def walk_webhook(of: Callable[..., Awaitable[Answer]], ask: Ask) -> None:
    async with receiving(lambda _: said(200)) as receiver:
        hook = {"type": "webhook", "pattern": "called/*", "webhook": {"url": receiver.url}}
        await of("PUT", "subscriptions/h", {**hook, "webhook": {"url": "http://10.0.0.1/"}})
        await of("PUT", "subscriptions/h", hook)
        await ask("PUT", "/v1/stream/called/a", JSON, b"[1]")
        call = await receiver.next()
        token = call.body["callback_token"]
        for _ in range(2):
            await of("POST", "subscriptions/h/callback", call.holding(done=True), token)
        await of("DELETE", "subscriptions/h")
