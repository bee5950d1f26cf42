"""Parts of a stream: `…/{stream}/_flush` and the like. The same handlers serve both surfaces, and answer JSON.

A part is a row of SUBS: its method and name, its handler, and how large a body it takes. A handler is given the whole
request and returns a `Reply` of its view. HEAD is answered wherever GET is.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

from streams_node.errors import MethodNotAllowed, Missing, NotImplementedYet, RequestTimedOut, ReservedPath
from streams_node.http.aggregate import aggregate
from streams_node.http.aggregate_request import AGGREGATE_BODY_BYTES_MAX
from streams_node.http.asgi import Receive, Scope, Send, answer
from streams_node.http.context import Context
from streams_node.http.details import read_details
from streams_node.http.flush import flush
from streams_node.http.headers import CORS, RawHeaders, collected
from streams_node.http.index_status import REBUILD_BODY_BYTES_MAX, read_index_status, rebuild
from streams_node.http.live import while_there
from streams_node.http.paths import Target
from streams_node.http.producers import read_producers
from streams_node.http.profile import PROFILE_BODY_BYTES_MAX, read_profile, update_profile
from streams_node.http.reply import Reply, SubRequest
from streams_node.http.routes import LATER_SUBS, Route, sub_route
from streams_node.http.routing_keys import read_routing_keys
from streams_node.http.schema_check import SCHEMA_CHECK_BODY_BYTES_MAX, check_schema
from streams_node.http.schemas import SCHEMA_BODY_BYTES_MAX, read_schema, update_schema
from streams_node.http.search import search, search_body
from streams_node.http.search_request import SEARCH_BODY_BYTES_MAX
from streams_node.protocol.etags import matches

SubHandler = Callable[[Context, SubRequest], Coroutine[Any, Any, Reply[Any]]]


class Sub(NamedTuple):
    """How a part is served. Without a bound, a body is not looked at.

    `stops`: it only looks, and for long, so it ends when its client has left.
    """

    handler: SubHandler
    body_bytes_max: int = 0
    stops: bool = False


SUBS: Mapping[tuple[str, str], Sub] = {
    ("POST", "_aggregate"): Sub(aggregate, AGGREGATE_BODY_BYTES_MAX, stops=True),
    ("POST", "_flush"): Sub(flush),
    ("GET", "_details"): Sub(read_details),
    ("GET", "_index_status"): Sub(read_index_status),
    ("POST", "_index/rebuild"): Sub(rebuild, REBUILD_BODY_BYTES_MAX),
    ("GET", "_producers"): Sub(read_producers),
    ("GET", "_profile"): Sub(read_profile),
    ("POST", "_profile"): Sub(update_profile, PROFILE_BODY_BYTES_MAX),
    ("GET", "_routing_keys"): Sub(read_routing_keys, stops=True),
    ("GET", "_schema"): Sub(read_schema),
    ("POST", "_schema/check"): Sub(check_schema, SCHEMA_CHECK_BODY_BYTES_MAX),
    ("POST", "_schema"): Sub(update_schema, SCHEMA_BODY_BYTES_MAX),
    ("GET", "_search"): Sub(search, stops=True),
    ("POST", "_search"): Sub(search_body, SEARCH_BODY_BYTES_MAX, stops=True),
}


def route_of(target: Target, method: str) -> Route:
    """The route of a part of a stream, or why there is none."""
    sub = target.sub or ""
    route = sub_route("GET" if method == "HEAD" else method, target.surface, sub)
    if route is not None:
        return route
    if method == "PUT":
        raise ReservedPath(f"a path that ends in `{sub}` names a part of a stream and cannot be created")
    allowed = ["GET"] if sub == "pk" else sorted(known for known, name in SUBS if name == sub)
    if allowed:
        raise MethodNotAllowed(method, ", ".join([*allowed, *(["HEAD"] if "GET" in allowed else [])]))
    if sub in LATER_SUBS:
        raise not_yet(sub, LATER_SUBS[sub])
    raise Missing(f"there is no `{sub}` here")


def not_yet(what: str, part_of: str) -> NotImplementedYet:
    """The refusal of something that a later version will have."""
    return NotImplementedYet(f"`{what}` is not there yet: it belongs to {part_of}, which this version does not have")


async def serve_sub(context: Context, target: Target, method: str, scope: Scope, receive: Receive, send: Send) -> int:
    """Answer with what the handler made. The time limit is the handler's; a body has its own."""
    sub = SUBS["GET" if method == "HEAD" else method, target.sub or ""]
    found = collected(scope["headers"])
    body = b""
    if sub.body_bytes_max:
        body = await context.bodies.read(scope, receive, found.get(b"content-length"), sub.body_bytes_max)
    request = SubRequest(target.name, target.argument, scope["query_string"], found, body)
    seconds = context.settings.request_ms_max / 1000
    try:
        if sub.stops:
            reply = await while_there(sub.handler(context, request), scope, receive, seconds)
        else:
            async with asyncio.timeout(seconds):
                reply = await sub.handler(context, request)
    except TimeoutError:
        raise RequestTimedOut from None
    return await _answer(reply, found, method, scope, send)


async def _answer(reply: Reply[Any], found: dict[bytes, bytes], method: str, scope: Scope, send: Send) -> int:
    headers: RawHeaders = [*reply.headers, *CORS]
    named = {name for name, _ in reply.headers}
    if b"content-type" not in named:
        headers.insert(0, (b"content-type", b"application/json"))
    if b"cache-control" not in named:
        headers.append((b"cache-control", b"no-store"))
    if reply.tag is not None:
        headers.append((b"etag", reply.tag.encode()))
        seen = found.get(b"if-none-match")
        if method != "POST" and seen is not None and matches(seen.decode("latin-1"), reply.tag):
            await answer(scope, send, HTTPStatus.NOT_MODIFIED, headers)
            return HTTPStatus.NOT_MODIFIED
    body = reply.encoded()
    headers.append((b"content-length", str(len(body)).encode()))
    await answer(scope, send, reply.status, headers, b"" if method == "HEAD" else body)
    return reply.status
