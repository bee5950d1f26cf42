"""The few ASGI types the hot handlers use, and the sending of whole answers."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from streams_node.http.headers import CORS, SECURITY, RawHeaders
from streams_node.observe.phases import current

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


CYCLE = "streams_node.cycle"  # our own protocol's way to send a whole answer in one write


async def answer(scope: Scope, send: Send, status: int, headers: RawHeaders, body: bytes = b"") -> None:
    """Send a whole answer. `headers` are complete but for the security lines, and for where its time went."""
    phases = current.get()
    if phases is not None:
        headers = [*headers, (b"server-timing", phases.header())]
    cycle = scope.get(CYCLE)
    if cycle is not None:
        await cycle.answer(status, headers, body)
        return
    await send({"type": "http.response.start", "status": status, "headers": [*SECURITY, *headers]})
    await send({"type": "http.response.body", "body": body})


def cors(found: dict[bytes, bytes]) -> RawHeaders:
    """CORS lines of an answer that no cache keeps: only a browser's request, which names its origin, needs them."""
    return CORS if b"origin" in found else []
