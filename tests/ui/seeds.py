"""Streams for the page to show, over HTTP."""

import json
import math
import random
import time
import urllib.request
from collections.abc import Mapping
from typing import Any

JSON = {"Content-Type": "application/json"}
TYPED = ("service", "level")
SEARCH: Mapping[str, Any] = {
    "primaryTimestampField": "at",
    "defaultFields": [{"field": "message"}],
    "fields": {
        "at": {"kind": "date", "bindings": [{"version": 1, "jsonPointer": "/at"}], "exact": True, "column": True},
        **{
            name: {
                "kind": "keyword",
                "bindings": [{"version": 1, "jsonPointer": f"/{name}"}],
                "exact": True,
                "prefix": True,
            }
            for name in TYPED
        },
        "status": {
            "kind": "integer",
            "bindings": [{"version": 1, "jsonPointer": "/status"}],
            "exact": True,
            "column": True,
        },
        "ms": {
            "kind": "float",
            "bindings": [{"version": 1, "jsonPointer": "/ms"}],
            "column": True,
            "aggregatable": True,
        },
        "message": {
            "kind": "text",
            "analyzer": "unicode_word_v1",
            "bindings": [{"version": 1, "jsonPointer": "/message"}],
        },
    },
    "rollups": {
        "by_service": {
            "dimensions": ["service"],
            "intervals": ["1m", "1h"],
            "measures": {"requests": {"kind": "count"}, "time": {"kind": "summary", "field": "ms"}},
        }
    },
}
MESSAGES = (
    "card declined by the bank", "order placed", "cache miss, asked the origin", "session renewed",
    "timeout while asking the warehouse", "item added to the cart",
)  # fmt: skip


class Api:
    """The node's interface, for what happens beside the page."""

    def __init__(self, base: str) -> None:
        self.base = base

    def call(self, method: str, path: str, body: object = None, headers: Mapping[str, str] = JSON) -> bytes:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body, separators=(",", ":")).encode()
        url = f"{self.base}{path}"
        request = urllib.request.Request(url, data, dict(headers), method=method)  # noqa: S310 - the node of the test
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
            content: bytes = answer.read()
            return content

    def create(self, name: str, content_type: str = "application/json") -> None:
        self.call("PUT", f"/v1/stream/{name}", None, {"Content-Type": content_type})

    def append(self, name: str, body: object, content_type: str = "application/json") -> None:
        self.call("POST", f"/v1/stream/{name}", body, {"Content-Type": content_type})

    def details(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.call("GET", f"/v1/stream/{name}/_details"))
        return found


def requests(count: int, now: float | None = None) -> list[dict[str, object]]:
    """Log lines of a shop over the last hour and a half."""
    drawn = random.Random(4)
    end = time.time() if now is None else now
    rows: list[dict[str, object]] = []
    for number in range(count):
        wave = math.sin(number / count * 9) * 240
        at = end - 5400 + 5400 * number / count + wave
        status = drawn.choice((200, 200, 200, 201, 404, 500, 503))
        rows.append(
            {
                "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at * 1000 % 1000):03d}Z",
                "level": "error" if status >= 500 else "warn" if status == 404 else "info",
                "service": drawn.choice(("checkout", "search", "cart", "login")),
                "status": status,
                "ms": round(drawn.lognormvariate(3.2, 0.8), 1),
                "message": drawn.choice(MESSAGES),
                "user": {"id": drawn.randrange(10**6), "country": drawn.choice(("DE", "NO", "FR"))},
                "tags": drawn.sample(("web", "app", "beta", "retry"), 2),
            }
        )
    return rows


def shop(api: Api, count: int = 1500) -> None:
    """A small shop: logs that can be searched, orders, and streams of other types."""
    for number, name in enumerate(
        ("clicks", "audit-log", "payments/settled", "payments/refunds", "sensors/berlin", "inventory")
    ):
        api.create(name)
        if number:
            api.append(name, [{"n": each} for each in range(37 * number * number)])
    api.create("notes", "text/plain")
    api.append("notes", b"the first line\n", "text/plain")
    api.append("notes", b"another line\n", "text/plain")
    api.create("blobs", "application/octet-stream")
    api.append("blobs", bytes(range(200)), "application/octet-stream")
    api.create("requests")
    api.call("POST", "/v1/stream/requests/_schema", {"schema": {"type": "object"}, "search": SEARCH})
    rows = requests(count)
    for first in range(0, count, 500):
        api.append("requests", rows[first : first + 500])
    api.create("orders")
    api.append(
        "orders", [{"id": number, "total": number * 3.5, "items": [{"sku": f"A-{number}"}]} for number in range(350)]
    )
