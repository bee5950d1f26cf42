"""uvicorn's HTTP/1.1 protocol with the bounds it lacks: head size, head time, connections, and clients that do not read.

The one file that touches uvicorn's protocol class; its version is pinned to the minor release. HTTP/2 and HTTP/3 are a
proxy's business.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from streams_node.config import Settings
from streams_node.errors import HeadTooLarge, InvalidRequest, RequestTimedOut, StreamsError, Unavailable
from streams_node.http.headers import SECURITY
from streams_node.http.live import DISCONNECT
from streams_node.http.problems import problem

_REASONS = {400: b"Bad Request", 408: b"Request Timeout", 431: b"Request Header Fields Too Large", 503: b"Service Unavailable"}


class Connections:
    """All connections of the node: how many, and how many bytes wait for clients that do not read."""

    def __init__(self, settings: Settings) -> None:
        self.head_bytes_max = settings.header_bytes_max
        self.head_wait_s_max = settings.header_wait_ms_max / 1000
        self.stall_s_max = settings.send_stall_ms_max / 1000
        self.connections_max = settings.connections_max
        self.open = 0
        self.stalled: set[Protocol] = set()

    def waiting_bytes(self) -> int:
        """What has been written for clients that are slower than it."""
        return sum(protocol.transport.get_write_buffer_size() for protocol in self.stalled)

    def protocol(self) -> type["Protocol"]:
        """The protocol class of these connections, as uvicorn wants it."""
        return type("NodeProtocol", (Protocol,), {"all": self})


class Protocol(HttpToolsProtocol):
    """One connection."""

    all: Connections

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_done = False
        self._head_bytes = 0
        self._fed = 0
        self._moved = False  # a head or a message ended within the bytes that came last
        self._refusal: StreamsError | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._left: asyncio.Future[None] | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.all.open += 1
        if self.all.open > self.all.connections_max:
            self._refuse(Unavailable(f"{self.all.connections_max} connections are open already; try again later"))
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.all.open -= 1
        self.all.stalled.discard(self)
        for timer in (self._head_timer, self._stall_timer):
            if timer is not None:
                timer.cancel()
        if self._left is not None and not self._left.done():
            self._left.set_result(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._moved = False
        super().data_received(data)
        if not self._head_done and self.parser is not None:
            self._fed = 0 if self._moved else self._fed + len(data)
            if self._fed > self.all.head_bytes_max:
                self._refuse(HeadTooLarge(f"the head of a request may have {self.all.head_bytes_max} bytes"))
            elif self._fed and self._head_timer is None:
                self._await_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_done = self._moved = True
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        if not self.url.startswith((b"/", b"http://", b"https://")) and self.url != b"*":
            self._refusal = InvalidRequest("the request target", "a path that begins with a slash")
            raise self._refusal
        self.scope["state"][DISCONNECT] = self.watch
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._head_done, self._moved = False, True
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.all.stalled.add(self)
        self._stall_timer = self.loop.call_later(self.all.stall_s_max, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self.all.stalled.discard(self)
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._refusal or InvalidRequest("the request", "HTTP/1.1", msg))

    def _should_upgrade(self) -> bool:
        return False

    def _unsupported_upgrade_warning(self) -> None:
        """An upgrade is not offered; the request is answered as if it had not asked."""

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

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self.all.head_bytes_max:
            self._refusal = HeadTooLarge(f"the head of a request may have {self.all.head_bytes_max} bytes")
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
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            said = problem(failure)
            lines = [b"HTTP/1.1 %d %s" % (said.status, _REASONS.get(said.status, b"Error"))]
            lines += [name + b": " + value for name, value in (*SECURITY, *said.headers, (b"connection", b"close"))]
            self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + said.body)
        self.transport.close()


ParserError: type[Exception] = httptools.HttpParserError
ProtocolFactory = Callable[..., asyncio.Protocol]
