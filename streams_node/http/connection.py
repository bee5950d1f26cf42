"""uvicorn's HTTP/1.1 protocol with the bounds it lacks: head size, head time, connections, clients that do not read.

This file and `cycle.py` touch uvicorn's classes; its version is pinned to the minor release. HTTP/2 and HTTP/3 are a
proxy's business.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

import httptools
from typing_extensions import override
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from streams_node.errors import HeadTooLarge, InvalidRequest, RequestTimedOut, StreamsError, Unavailable
from streams_node.http.asgi import CYCLE
from streams_node.http.connections import Connections
from streams_node.http.cycle import Cycle, FamiliarCycle
from streams_node.http.familiar import FamiliarLines, Parts, parts
from streams_node.http.headers import SECURITY
from streams_node.http.problems import problem

_REASONS = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}

_ASGI = {"version": "3.0", "spec_version": "2.3"}
_UPGRADE = re.compile(rb"\r\nupgrade[ \t]*:", re.IGNORECASE)
_SLASH = ord("/")
_VERSIONS = frozenset(("1.1", "1.0", "0.9"))  # the last one is a line without a head: it has one answer, and the end
_APPEND = b"POST /"
_LINGER_S = 0.5
_LINE_EXTRA = 4  # colon, space, CR, LF


class Trailers(list[tuple[bytes, bytes]]):
    """Where the parser puts what comes behind a body: nowhere. They are not headers, which were judged before it."""

    @override
    def append(self, _: tuple[bytes, bytes]) -> None:
        return


_TRAILERS = Trailers()


class Protocol(HttpToolsProtocol):
    """One connection."""

    all: Connections
    transport: Any
    cycle: Cycle  # type: ignore[mutable-override]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_done = False
        self._head_bytes = 0
        self._fed = 0
        self._moved = False  # a head or a message ended, or a body went on, within the bytes that came last
        self._refusal: StreamsError | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._left: asyncio.Future[None] | None = None
        self._waiting_bytes = 0  # in the write buffer, when it was looked at last
        self._deaf = False  # the connection ends: whatever comes now is not a request any more
        self._last_word: StreamsError | None = None  # why it ends, said behind the answers that are still due
        self._known: Callable[[bytes], bool] | None = getattr(self.app, "known", None)
        self._undriven: Cycle | None = None
        self._familiar: FamiliarLines | None = getattr(self.app, "familiar", None)
        self._between = True  # the parser has begun no message that has not ended,
        self._aligned = True  # and what it has seen last was the last byte of one
        self._begun = 0  # messages that began within the bytes that came last
        self.idle_since: float | None = None

    @override
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        everyone = self.all
        everyone.protocols.add(self)
        if len(everyone.protocols) > everyone.connections_max:
            self._refuse(Unavailable(f"{everyone.connections_max} connections are open already; try again later"))
            transport.close()  # at once: what lingers is open
            return
        self._await_head()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.all.protocols.discard(self)
        self.all.stalled.discard(self)
        for timer in (self._head_timer, self._stall_timer):
            if timer is not None:
                timer.cancel()
        if self._left is not None and not self._left.done():
            self._left.set_result(None)
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        if self._deaf or self.transport.is_closing():
            return
        self.idle_since = None
        cut = None
        if self._between and self._familiar is not None and data.startswith(_APPEND):
            cut = parts(data)
            if cut is not None and self._aligned and self._append_again(cut, data):
                return
        self._feed(data)
        self._aligned = cut is not None and self._learn(cut, len(data))

    def _append_again(self, cut: Parts, data: bytes) -> bool:
        """Take an append whose header lines are known, if nothing is before it; False, and nothing has changed, if it
        has to be parsed.
        """
        edge: Any = self.app
        familiar = edge.familiar.known.get(cut.lines)
        if familiar is None or len(data) - cut.body_at != familiar.length or self._busy():
            return False
        if cut.body_at > self.all.head_bytes_max or not edge.known(cut.path):
            return False
        cycle = FamiliarCycle(self, cut.path, familiar, data[cut.body_at :])
        if not edge.append_now(cycle, cut.path):
            return False
        self.cycle = cycle
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        return True

    def _learn(self, cut: Parts, size: int) -> bool:
        """Whether these bytes were one whole request, cut as the parser has cut it; its header lines are known then."""
        if not self._between or self._begun != 1 or self._deaf or self._familiar is None:
            return False
        cycle = self.cycle
        headers = cycle.scope["headers"]
        declared = next((value for name, value in headers if name == b"content-length"), b"")
        if cut.path != self.url or not declared or int(declared) != size - cut.body_at:
            return False  # of another protocol's first line, the cut may be behind some of the header lines
        if cycle.keep_alive and not self.expect_100_continue and b"pgrade" not in cut.lines:
            self._familiar.learn(cut.lines, headers, int(declared))
        return True

    def _feed(self, data: bytes) -> None:
        """Parse what came, and begin what is in it."""
        self._moved = False
        self._begun = 0
        # Only the head is looked through: a body is much longer.
        if not self._head_done and data.find(b"pgrade", 0, data.find(b"\r\n\r\n")) >= 0:
            data = _without_upgrade(data)
        self._head_bytes = len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(InvalidRequest("the request", "sent without an offer to upgrade"))
        except httptools.HttpParserError as failure:
            self._refuse(self._refusal or InvalidRequest("the request", "well-formed HTTP/1.1", failure))
        if self._undriven is not None:
            cycle, self._undriven = self._undriven, None
            self._start(cycle)
        if not self.transport.is_closing():
            self._fed = 0 if self._moved else self._fed + len(data)
            if self._fed > self.all.head_bytes_max:
                what = "trailers or an extension" if self._head_done else "the head"
                self._refuse(HeadTooLarge(f"{what} of a request may have {self.all.head_bytes_max} bytes"))
            elif self._fed and self._head_timer is None and self.idle_since is None and not self._busy():
                self._await_head()

    @override
    def on_message_begin(self) -> None:
        self._between = False
        self._begun += 1
        self.url = b""
        self.expect_100_continue = False
        self.headers = []

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        """The same as uvicorn does; and a body in a coding that the node would not undo is not stored as it came."""
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        elif name == b"transfer-encoding" and value.strip().lower() != b"chunked" and self.headers is not _TRAILERS:
            self._refusal = InvalidRequest("Transfer-Encoding", "chunked", value.decode("latin-1"))
            raise self._refusal
        self.headers.append((name, value))

    @override
    def on_headers_complete(self) -> None:
        """Start the request. The same as uvicorn does, without what this node has no use for."""
        self._head_done = self._moved = True
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        if self._fed + self._head_bytes > self.all.head_bytes_max:
            self._check_head()
        if self.parser.should_upgrade():
            self._refusal = InvalidRequest("the request", "sent without an offer to upgrade")
            raise self._refusal
        method = self.parser.get_method().decode("ascii")
        plain = method == "POST" and self._known is not None and self._known(self.url)
        raw_path, query = (self.url, b"") if plain else self._target()
        version = self.parser.get_http_version()
        if version not in _VERSIONS:
            self._refusal = InvalidRequest("the version of HTTP", "1.1 or 1.0", version)
            raise self._refusal
        headers, self.headers = self.headers, _TRAILERS
        first = headers[0][0] if headers else b""  # most clients begin with it, and a generator is dear
        if version == "1.1" and first != b"host" and all(name != b"host" for name, _ in headers):
            self._refusal = InvalidRequest("the request", "sent with a header `host`")
            raise self._refusal
        scope = self.scope_of(method, version, raw_path, query, headers)
        self.scope = scope
        waiting = self.cycle
        self.cycle = cycle = Cycle(self, scope, keep_alive=version == "1.1" and self.parser.should_keep_alive())
        if waiting is None or waiting.response_complete:  # type: ignore[redundant-expr]
            if plain:
                self._undriven = cycle  # driven as soon as its body is whole, or by a task when this feed ends
            else:
                self._start(cycle)
        else:  # pipelined: it waits for the answers before it
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))

    def scope_of(
        self, method: str, version: str, raw_path: bytes, query: bytes, headers: list[tuple[bytes, bytes]]
    ) -> Any:
        """A request of this connection as ASGI has it."""
        path = raw_path.decode("ascii")
        return {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "method": method,
            "root_path": "",
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": headers,
            "state": {},
        }

    def _target(self) -> tuple[bytes, bytes]:
        """Path and query of the request."""
        try:
            parsed = httptools.parse_url(self.url)
        except httptools.HttpParserInvalidURLError:
            parsed = None
        if parsed is None or not parsed.path or parsed.path[0] != _SLASH:
            self._refusal = InvalidRequest("the request target", "a path that begins with a slash")
            raise self._refusal
        return parsed.path, parsed.query or b""

    @override
    def on_body(self, body: bytes) -> None:
        self._moved = True
        cycle = self.cycle
        if cycle.response_complete:
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.wake()

    @override
    def on_message_complete(self) -> None:
        self._head_done, self._moved, self._between = False, True, True
        cycle = self.cycle
        if not cycle.response_complete:
            cycle.more_body = False
            cycle.wake()
        if self._undriven is not None:
            cycle, self._undriven = self._undriven, None
            edge: Any = self.app
            if not edge.append_now(cycle, cycle.scope["raw_path"]):
                edge.run(cycle)

    def _start(self, cycle: Cycle) -> None:
        cycle.scope[CYCLE] = cycle
        self._start_asgi_task(cycle, self.app)

    @override
    def on_response_complete(self) -> None:
        """Go on with what is pipelined; otherwise the connection is idle, and a sweep ends it in time."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if len(self.pipeline) <= 1:  # else more would come in for each answer, without end
            self.flow.resume_reading()
        if self.pipeline:  # also if the connection ends: these came whole before what was wrong with it
            waiting: Any = self.pipeline.pop()[0]
            self._start(waiting)
        elif self._last_word is not None:
            self._end(self._last_word)
        elif not self._deaf:
            self.idle_since = self.loop.time()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self.all.stalled.add(self)
        self._waiting_bytes = self.transport.get_write_buffer_size()
        self._stall_timer = self.loop.call_later(self.all.stall_s_max, self._stalled)

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        self.all.stalled.discard(self)
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _stalled(self) -> None:
        """Cut off a client that has taken nothing since the last look; a slow one is given another."""
        size = self.transport.get_write_buffer_size()
        if size >= self._waiting_bytes:
            self.transport.abort()
            return
        self._waiting_bytes = size
        self._stall_timer = self.loop.call_later(self.all.stall_s_max, self._stalled)

    @override
    def _should_upgrade(self) -> bool:
        return False

    @override
    def eof_received(self) -> bool:  # type: ignore[override]
        """A client that only stopped sending still gets its answer; one that reads live has left."""
        open_cycle = self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]
        if not open_cycle or self._left is not None or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        return True

    @contextmanager
    def watch(self, left: "asyncio.Future[None]") -> Iterator[None]:
        """Resolve the future if the client leaves while the block runs."""
        self._left = left
        if self.transport.is_closing() and not left.done():
            left.set_result(None)
        try:
            yield
        finally:
            self._left = None

    def linger(self) -> None:
        """Close soon: closing at once, with a body still coming, could take the answer away from its client."""
        self._deaf = True
        self.loop.call_later(_LINGER_S, self.transport.close)

    def _busy(self) -> bool:
        """Whether a request is being answered; the head behind it has time until then."""
        return self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]

    def _check_head(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) + _LINE_EXTRA for name, value in self.headers)
        if size > self.all.head_bytes_max:
            self._refusal = HeadTooLarge(f"the head of a request may have {self.all.head_bytes_max} bytes, not {size}")
            raise self._refusal

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self.all.head_wait_s_max, self._head_late)

    def _head_late(self) -> None:
        self._head_timer = None
        if self._fed or self._head_bytes:
            self._refuse(RequestTimedOut())
        else:
            self.transport.close()

    def _refuse(self, failure: StreamsError) -> None:
        """Answer without a request, and close."""
        if self._deaf or self.transport.is_closing():
            return
        self._deaf = True
        cycle, self._undriven = self.cycle, None
        if cycle is not None and not cycle.response_complete:  # type: ignore[redundant-expr]
            if cycle.response_started:
                cycle.keep_alive = False
                return
            if self.pipeline or not cycle.more_body:  # whole requests are answered first
                if cycle.more_body:
                    del self.pipeline[0]  # the broken one, the newest of those that wait
                    cycle.more_body = False  # a client that stops sending now still gets the other answers
                self._last_word = failure
                return
            cycle.disconnected = cycle.response_started = True  # this is the answer to the broken one
            cycle.message_event.set()
        self._end(failure)

    def _end(self, failure: StreamsError) -> None:
        """Say why the connection ends, and end it."""
        said = problem(failure)
        lines = [b"HTTP/1.1 %d %s" % (said.status, _REASONS.get(said.status, b"Error"))]
        lines += [name + b": " + value for name, value in (*SECURITY, *said.headers, (b"connection", b"close"))]
        self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + said.body)
        self.linger()


def _without_upgrade(data: bytes) -> bytes:
    """The bytes of a request without its offer to upgrade: the parser would take the body for another protocol's."""
    head, end, rest = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(b"\r\nx-upgrade-not-offered:", head) + end + rest


def protocol_of(connections: Connections) -> type[Protocol]:
    """The protocol class of these connections, as uvicorn wants it."""
    return type("NodeProtocol", (Protocol,), {"all": connections})
