"""Parts of a stream: `…/{stream}/_flush` and the like. The same handlers serve both surfaces, and answer JSON."""

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from streams_node.errors import MethodNotAllowed, Missing, ReservedPath
from streams_node.http.asgi import Scope, Send, answer
from streams_node.http.context import Context
from streams_node.http.flush import flush
from streams_node.http.headers import CORS, RawHeaders
from streams_node.http.paths import Target
from streams_node.http.routes import Route, sub_route
from streams_node.wal.lookup import Name

SubHandler = Callable[[Context, Name], Awaitable[tuple[int, msgspec.Struct]]]
SUB_HANDLERS: Mapping[tuple[str, str], SubHandler] = {("POST", "_flush"): flush}
_JSON: RawHeaders = [(b"content-type", b"application/json"), (b"cache-control", b"no-store"), *CORS]


def route_of(target: Target, method: str) -> Route:
    """The route of a part of a stream, or why there is none."""
    sub = target.sub or ""
    route = sub_route(method, target.surface, sub)
    if route is not None:
        return route
    if method == "PUT":
        raise ReservedPath(f"a path that ends in `{sub}` names a part of a stream and cannot be created")
    allowed = sorted(known for known, name in SUB_HANDLERS if name == sub)
    if allowed:
        raise MethodNotAllowed(method, ", ".join(allowed))
    raise Missing(f"there is no `{sub}` here")


async def serve_sub(context: Context, target: Target, method: str, scope: Scope, send: Send) -> int:
    """Answer with what the handler made."""
    handler = SUB_HANDLERS[method, target.sub or ""]
    status, view = await handler(context, target.name)
    body = msgspec.json.encode(view)
    await answer(scope, send, status, [*_JSON, (b"content-length", str(len(body)).encode())], body)
    return status
