"""The answers of searches and aggregations."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from streams_node.testing.inprocess import Answer
from tests.aggregate.world import DECLARED as DECLARED_ROLLUPS
from tests.aggregate.world import T0
from tests.search.world import DECLARED, JSON

Request = Callable[..., Awaitable[Answer]]


async def walk_searches(request: Request, path: str) -> None:
    await request("PUT", path, JSON)
    await request("POST", f"{path}/_schema", JSON, json.dumps(DECLARED).encode())
    await request("POST", path, JSON, b'[{"text":"card declined"}]')
    for asked in (b'{"q":"card"}', b'{"q":"card","timeout_ms":0}', b"{"):
        await request("POST", f"{path}/_search", JSON, asked)
    for query in ("q=card", "q=card&timeout_ms=0", "q="):
        await request("GET", f"{path}/_search?{query}")
    await request("GET", f"{path}-missing/_search?q=card")


async def walk_bucket_searches(request: Request) -> None:
    for asked in (b'{"q":"card"}', b'{"q":"card","timeout_ms":0}', b"{"):
        await request("POST", "/agents/streams/_search", JSON, asked)
    await request("POST", "/missing-bucket/streams/_search", JSON, b'{"q":"card"}')


async def walk_aggregations(request: Request, path: str) -> None:
    await request("PUT", path, JSON)
    await request("POST", f"{path}/_schema", JSON, json.dumps(DECLARED_ROLLUPS).encode())
    await request("POST", path, JSON, json.dumps({"at": T0, "level": "info", "status": 200, "ms": 1.5}).encode())
    asked = {"rollup": "req", "from": T0, "to": T0 + 60_000, "interval": "1m"}
    aggs = {"levels": {"terms": {"field": "ms"}, "aggs": {"took": {"stats": {"field": "ms"}}}}}
    bodies: list[dict[str, Any]] = [asked, asked | {"rollup": "none"}, asked | {"timeout_ms": 0}, {"aggs": aggs}]
    for body in [*bodies, {"aggs": {}}]:
        await request("POST", f"{path}/_aggregate", JSON, json.dumps(body).encode())
    await request("POST", f"{path}-missing/_aggregate", JSON, json.dumps(asked).encode())
