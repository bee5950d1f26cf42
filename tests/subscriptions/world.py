"""A node in the test's process, and its clients' words for subscriptions."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from streams_node.testing.inprocess import Answer, InProcess, in_process

JSON = {"content-type": "application/json"}
BEGINNING = "-1"
WAIT_S = 20.0
Scenario = Callable[["Client"], Awaitable[None]]


class Client:
    """What clients ask of a node."""

    def __init__(self, node: InProcess) -> None:
        self.node = node

    async def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        raw = b"" if body is None else json.dumps(body).encode()
        return await self.node.request(method, f"/v1/stream/{path}", {**JSON, **headers}, raw)

    async def put(self, path: str, *entries: object) -> str:
        answer = await self.ask("PUT", path, list(entries))
        assert answer.status in {200, 201}, answer.body
        return answer.headers["stream-next-offset"]

    async def append(self, path: str, *entries: object) -> str:
        answer = await self.ask("POST", path, list(entries))
        assert answer.status == 204, answer.body
        return answer.headers["stream-next-offset"]

    async def read(self, path: str) -> list[Any]:
        found: list[Any] = json.loads((await self.ask("GET", path)).body)
        return found

    async def subscribe(self, id_: str, **wanted: object) -> dict[str, Any]:
        answer = await self.of(id_, "PUT", "", wanted)
        assert answer.status in {200, 201}, answer.body
        return _json(answer)

    async def webhook(self, id_: str, url: str, pattern: str = "events/*", **more: object) -> dict[str, Any]:
        return await self.subscribe(id_, type="webhook", pattern=pattern, webhook={"url": url}, **more)

    async def pull(self, id_: str, pattern: str = "events/*", **more: object) -> dict[str, Any]:
        await self.put("wake/pool")
        return await self.subscribe(id_, type="pull-wake", pattern=pattern, wake_stream="wake/pool", **more)

    async def of(self, id_: str, method: str, part: str, body: object = None, **headers: str) -> Answer:
        return await self.ask(method, f"__ds/subscriptions/{id_}{part}", body, **headers)

    async def shown(self, id_: str) -> dict[str, Any]:
        return _json(await self.of(id_, "GET", ""))

    async def acked(self, id_: str) -> dict[str, str]:
        return {each["path"]: each["acked_offset"] for each in (await self.shown(id_))["streams"]}

    async def claim(self, id_: str, worker: str = "w") -> dict[str, Any]:
        answer = await self.of(id_, "POST", "/claim", {"worker": worker})
        assert answer.status == 200, answer.body
        return _json(answer)

    async def held(
        self, id_: str, part: str, claim: dict[str, Any], token: str | None = None, **body: object
    ) -> Answer:  # fmt: skip
        """A request of who holds a claim."""
        said = {"wake_id": claim["wake_id"], "generation": claim["generation"], **body}
        return await self.of(id_, "POST", part, said, authorization=f"Bearer {token or claim['token']}")

    async def done(self, id_: str, claim: dict[str, Any]) -> dict[str, Any]:
        """Acknowledge everything of a claim."""
        acks = [{"stream": each["path"], "offset": each["tail_offset"]} for each in claim["streams"]]
        answer = await self.held(id_, "/ack", claim, acks=acks, done=True)
        assert answer.status == 200, answer.body
        return _json(answer)

    async def events(self) -> list[dict[str, Any]]:
        return await self.read("wake/pool")


async def until(holds: Callable[[], Awaitable[object]], seconds: float = WAIT_S) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(seconds):
        while not await holds():  # noqa: ASYNC110 - it shows in answers of the node only
            await asyncio.sleep(0.005)


async def has(client: Client, id_: str, wanted: dict[str, str]) -> bool:
    """Whether a subscription has just these links."""
    return await client.acked(id_) == wanted


def run(folder: Path, scenario: Scenario, **settings: Any) -> None:
    async def inside() -> None:
        async with in_process(folder, **settings) as node:
            await scenario(Client(node))

    asyncio.run(inside())


def code(answer: Answer) -> tuple[int, str]:
    return answer.status, _json(answer)["error"]["code"]


def _json(answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.body)
    return found
