"""The answers of searches."""

import json
from collections.abc import Awaitable, Callable

from streams_node.testing.inprocess import Answer
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
