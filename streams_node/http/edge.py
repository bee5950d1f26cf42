"""The first thing a request meets: which route, may it, and how failures leave. Raw ASGI, in front of Litestar."""

import asyncio
import hmac
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from streams_node.errors import (
    MethodNotAllowed,
    Missing,
    NotImplementedYet,
    RequestTimedOut,
    StreamsError,
    Unauthorized,
)
from streams_node.http import read, write
from streams_node.http.asgi import CYCLE, App, Message, Receive, Scope, Send, answer
from streams_node.http.bodies import Disconnected
from streams_node.http.context import Context
from streams_node.http.cycle import Cycle, Driver
from streams_node.http.direct import Direct
from streams_node.http.familiar import FamiliarLines
from streams_node.http.headers import CORS, PREFLIGHT
from streams_node.http.paths import RESERVED, RESERVED_BUCKETS, V1, Target, bucket_target, v1_target
from streams_node.http.problems import problem
from streams_node.http.routes import LATER_PATHS, LATER_SUBS, SUB_ROUTES, WAITING, Access, RouteClass, cold_route
from streams_node.http.subs import not_yet, route_of, serve_sub
from streams_node.observe.logs import get_logger, request_id
from streams_node.observe.phases import Phases, current
from streams_node.observe.traces import Answered

log = get_logger(__name__)
Handler = Callable[[Context, Target, Scope, Receive, Send], Awaitable[int]]
_HANDLERS: dict[str, Handler] = {
    "POST": write.post,
    "GET": read.get,
    "PUT": write.put,
    "HEAD": read.head,
    "DELETE": write.delete,
}
_NAMES = {"POST": "stream.append", "GET": "stream.read", "PUT": "stream.create", "HEAD": "stream.head"}
_NAMES["DELETE"] = "stream.delete"
_READS = ("GET", "HEAD")  # of a key: the stream's own handlers answer them
_PLAIN = re.compile(rb"/[0-9A-Za-z._~/-]+")  # no query, nothing encoded
_LISTS = (b"/streams", b"/streams/_search")
_TARGETS_MAX = 20_000  # parsed paths kept: about 10 MB
_COLD = frozenset(
    name.encode() for name in ("v1", "__ursula", *RESERVED_BUCKETS)
)  # first segments that are not buckets


class Edge:
    """One listener: the whole node, or the routes of some classes."""

    def __init__(self, context: Context, cold: App, classes: frozenset[RouteClass]) -> None:
        self._context = context
        self._cold = cold
        self._classes = classes
        self._public = RouteClass.PUBLIC in classes
        self._targets: dict[bytes, Target] = {}
        self._direct = Direct(context, self._fail_now, self.run)
        self.familiar = FamiliarLines(context.settings)
        settings = context.settings
        key = settings.api_key
        self._key = None if settings.no_auth or key is None else key.get_secret_value().encode()
        self._slow_s = settings.slow_request_ms / 1000

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._cold(scope, receive, send)
            return
        began, followed, token = time.perf_counter(), None, None
        try:
            target = self._targets.get(scope["raw_path"]) or self._target(scope["raw_path"])
            if _is_followed(target, scope["method"]):
                followed = Phases()
                token = current.set(followed)
            if target is not None and scope["method"] != "OPTIONS":
                kind = "stream"
                status = await self._stream(target, scope["method"], scope, receive, send)
            else:
                kind = "cold"
                status = await self._other(scope["method"], scope, receive, send)
        except Disconnected:
            status, kind = 499, "stream"
        except Exception as failure:  # noqa: BLE001 - the edge is where failures are handled
            kind = "stream"
            status = await self._fail(failure, scope, send)
        finally:
            scope.pop(CYCLE, None)  # the two refer to each other; left alone they would be the garbage collector's work
            if token is not None:
                current.reset(token)
        self._context.metrics.count_response(kind, status)
        if followed is not None and followed.route:
            self._ended(followed, scope, status)
        elif followed is None and time.perf_counter() - began > self._slow_s:
            target = self._targets.get(scope["raw_path"])
            stream = None if target is None else _shown(target)
            self._tell_slow(scope, _NAMES.get(scope["method"], ""), status, time.perf_counter() - began, stream, {})

    def _ended(self, phases: Phases, scope: Scope, status: int) -> None:
        """Count how long an answer took. One that was to wait for something says nothing by its time."""
        if self._context.spans is not None:
            found = dict(scope["headers"])
            ids = [found.get(name) for name in (b"x-request-id", b"traceparent")]
            texts = [None if value is None else value.decode("latin-1") for value in ids]
            self._context.spans.tell(phases, Answered(scope["method"], status, *texts))
        if phases.route in WAITING or b"live=" in scope["query_string"]:
            return
        seconds = phases.total
        self._context.metrics.request_seconds.observe(phases.route, seconds)
        if seconds > self._slow_s:
            self._tell_slow(scope, phases.route, status, seconds, phases.stream, phases.shown())

    def _tell_slow(
        self, scope: Scope, route: str, status: int, seconds: float, stream: str | None, parts: dict[str, float]
    ) -> None:
        sent_id = next((value for name, value in scope["headers"] if name == b"x-request-id"), None)
        named = {} if stream is None else {"stream": stream}
        said = {"route": route, "status": status, "seconds": round(seconds, 3), "request_id": request_id(sent_id)}
        log.warning("slow request", **said, **named, **parts)

    def known(self, raw_path: bytes) -> bool:
        """Whether an append to this address may run without a task: it is a path, as it stands, and a stream's."""
        target = self._targets.get(raw_path)
        if target is None and _PLAIN.fullmatch(raw_path):
            try:
                target = self._target(raw_path)
            except StreamsError:  # it is raised again where it can be answered
                return False
        return target is not None and target.sub is None

    def append_now(self, cycle: Cycle, raw_path: bytes) -> bool:
        """Take a whole append to a known path the short way; False if it has to take the long one."""
        target = self._targets.get(raw_path)
        if target is None or not self._public:  # what is known is forgotten when it is too much
            return False
        try:
            if self._key is not None:
                self._authorize(cycle.scope)
            return self._direct.take(target, cycle)
        except StreamsError:
            return False
        except Exception as failure:  # noqa: BLE001 - the edge is where failures are handled
            self._fail_now(cycle, failure)
            return True

    def run(self, cycle: Cycle) -> None:
        """Take a request the long way, at once up to where it waits."""
        cycle.scope[CYCLE] = cycle
        edge: Any = self
        Driver(cycle.run_asgi(edge), asyncio.get_running_loop()).step()

    def _fail_now(self, cycle: Cycle, failure: BaseException) -> None:
        """Answer what took the short way and failed there."""
        Driver(self._failed(cycle, failure), asyncio.get_running_loop()).step()

    async def _failed(self, cycle: Cycle, failure: BaseException) -> None:
        status = await self._fail(failure, cycle.scope, cycle.send)
        self._context.metrics.count_response("stream", status)

    def _target(self, raw_path: bytes) -> Target | None:
        """The stream a path names; None when the path is not a stream's."""
        if raw_path.startswith(RESERVED):
            return None
        if raw_path.startswith(V1):
            target = v1_target(raw_path, path_bytes_max=self._context.settings.stream_path_bytes_max)
        elif raw_path.rfind(b"/") == 0 or _first(raw_path) in _COLD or raw_path.endswith(_LISTS):
            return None
        else:
            target = bucket_target(raw_path)
        if target.argument is not None:  # there may be as many keys as entries
            return target
        if len(self._targets) >= _TARGETS_MAX:
            self._targets.clear()
        self._targets[raw_path] = target
        return target

    async def _stream(self, target: Target, method: str, scope: Scope, receive: Receive, send: Send) -> int:
        if target.sub is not None and not (target.sub == "pk" and method in _READS):
            return await self._sub(target, method, scope, receive, send)
        if not self._public:
            raise Missing("streams are on the public listener")
        if self._key is not None:
            self._authorize(scope)
        handler = _HANDLERS.get(method)
        if handler is None:
            raise write.not_allowed(method)
        self._follow("pk.read" if target.sub else _NAMES[method], target)
        return await handler(self._context, target, scope, receive, send)

    async def _sub(self, target: Target, method: str, scope: Scope, receive: Receive, send: Send) -> int:
        if self._key is not None:
            self._authorize(scope)
        try:
            route = route_of(target, method)
        except (MethodNotAllowed, NotImplementedYet):
            if not self._knows(target):
                raise Missing("there is nothing at this address") from None
            raise
        if route.kind not in self._classes:
            raise Missing("there is nothing at this address")
        self._follow(route.name.removeprefix("bucket."), target)
        return await serve_sub(self._context, target, method, scope, receive, send)

    def _follow(self, route: str, target: Target) -> None:
        """The request that is being answered is one of this route."""
        phases = current.get()
        if phases is not None:
            phases.route, phases.stream = route, _shown(target)

    def _knows(self, target: Target) -> bool:
        """Whether this listener has the part of a stream, with whatever method."""
        if target.sub == "pk" or target.sub in LATER_SUBS:
            return self._public
        return any(
            route.kind in self._classes
            for (_, surface, sub), route in SUB_ROUTES.items()
            if (surface, sub) == (target.surface, target.sub)
        )

    async def _other(self, method: str, scope: Scope, receive: Receive, send: Send) -> int:
        if method == "OPTIONS":
            await answer(scope, send, 204, PREFLIGHT)
            return 204
        path = scope["path"]
        if path in LATER_PATHS and self._public:
            if self._key is not None:
                self._authorize(scope)
            raise not_yet(path, LATER_PATHS[path])
        route = cold_route(method, path)
        if route is None or route.kind not in self._classes:
            raise Missing("there is nothing at this address")
        if self._key is not None and route.access is Access.KEY:
            self._authorize(scope)
        if method == "HEAD" and "GET" in route.methods:
            scope, send = {**scope, "method": "GET"}, _without_body(send)
        phases = current.get()
        if phases is not None:
            phases.route = route.name
        sent = Sent(send)
        try:
            async with asyncio.timeout(self._context.settings.request_ms_max / 1000):
                await self._cold(scope, receive, sent)
        except TimeoutError:
            raise RequestTimedOut from None
        return sent.status

    def _authorize(self, scope: Scope) -> None:
        """One bearer key for everything. Compared in constant time; two headers are no header."""
        said = [value for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, key = said[0].partition(b" ") if len(said) == 1 else (b"", b"", b"")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(key.strip(), self._key or b""):
            raise Unauthorized("this node wants `Authorization: Bearer <key>` with the key it was started with")

    async def _fail(self, failure: BaseException, scope: Scope, send: Send) -> int:
        said = problem(failure)
        sent_id = next((value for name, value in scope["headers"] if name == b"x-request-id"), None)
        request = request_id(sent_id)
        if not isinstance(failure, StreamsError):
            log.error("unexpected failure", request_id=request, method=scope["method"], exc_info=failure)
        if said.status >= _REFUSED:
            self._context.metrics.count_refusal(said.code)
        if _answered(scope):
            return said.status
        if _begun(scope):
            raise failure  # the answer has begun: cutting the connection is the only way to say that it is not whole
        headers = [*CORS, *said.headers, (b"x-request-id", request.encode())]
        await answer(scope, send, said.status, headers, said.body)
        return said.status


_REFUSED = 429


def _is_followed(target: Target | None, method: str) -> bool:
    """Whether it is worth to know where a request's time goes: that of a write to a stream is the commit's."""
    return method != "OPTIONS" and (target is None or target.sub is not None or method in _READS)


def _shown(target: Target) -> str:
    return f"{target.name.bucket}/{target.name.stream}"


def _without_body(send: Send) -> Send:
    """What answers a HEAD: the head that a GET would have."""

    async def send_head(message: Message) -> None:
        await send(message if message["type"] == "http.response.start" else {**message, "body": b""})

    return send_head


class Sent:
    """`send`, remembering whether an answer has begun."""

    __slots__ = ("_send", "status")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    def __call__(self, message: Message) -> Awaitable[None]:
        if not self.status:
            self.status = message.get("status", 0)
            phases = current.get()
            if phases is not None:
                message = {**message, "headers": [*message["headers"], (b"server-timing", phases.header())]}
        return self._send(message)


def _first(raw_path: bytes) -> bytes:
    return raw_path[1 : raw_path.find(b"/", 1)]


def _answered(scope: Scope) -> bool:
    """Whether the connection has ended the request itself: its client left, or what came after it was broken."""
    cycle = scope.get(CYCLE)
    return cycle is not None and cycle.disconnected


def _begun(scope: Scope) -> bool:
    cycle = scope.get(CYCLE)
    return cycle is not None and cycle.response_started
