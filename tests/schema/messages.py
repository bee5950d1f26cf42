"""Bodies that the tests send, and short ways to send them."""

import json
from typing import Any

from streams_node.testing.inprocess import Answer, InProcess

JSON = {"content-type": "application/json"}
EMPTY: dict[str, Any] = {
    "apiVersion": "durable.streams/schema-registry/v1", "schema": "s", "currentVersion": 0, "boundaries": [],
    "schemas": {}, "lenses": {},
}  # fmt: skip
OBJECT = {"type": "object"}
V1: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string", "format": "email"}, "b": {"type": "string", "format": "date-time"}},
    "required": ["a"],
}
V2: dict[str, Any] = {
    "properties": {"c": {"type": "string"}, "n": {"type": "integer", "default": 7}},
    "required": ["c", "n"],
}
OPS: list[dict[str, Any]] = [
    {"op": "rename", "from": "/a", "to": "/c"},
    {"op": "add", "path": "/n", "schema": {"type": "integer"}},
]


def lens(*ops: Any, at: int = 1, **others: Any) -> dict[str, Any]:
    return {"apiVersion": "durable.lens/v1", "schema": "s", "from": at, "to": at + 1, "ops": [*ops], **others}


async def create(node: InProcess, path: str = "/v1/stream/s", content_type: str = "application/json") -> None:
    answer = await node.request("PUT", path, {"content-type": content_type})
    assert answer.status == 201, answer


async def update(node: InProcess, body: Any, path: str = "/v1/stream/s") -> Answer:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await node.request("POST", f"{path}/_schema", JSON, raw)


async def append(node: InProcess, entries: Any, path: str = "/v1/stream/s", **headers: str) -> Answer:
    return await node.request("POST", path, JSON | headers, json.dumps(entries).encode())


async def read(node: InProcess, query: str = "", path: str = "/v1/stream/s") -> Answer:
    return await node.request("GET", f"{path}{query}")


def refusal(message: str, code: str = "bad_request") -> bytes:
    return json.dumps({"error": {"code": code, "message": message}}, separators=(",", ":"), ensure_ascii=False).encode()
