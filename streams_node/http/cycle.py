"""One request and its answer on a connection, and running it without a task."""

import asyncio
from collections.abc import Coroutine
from functools import cached_property, lru_cache
from logging import getLogger
from typing import TYPE_CHECKING, Any

from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from streams_node.http.headers import SECURITY, RawHeaders

if TYPE_CHECKING:
    from streams_node.http.connection import Protocol
    from streams_node.http.familiar import Familiar


class Cycle(RequestResponseCycle):
    """One request and its answer. A whole answer leaves in one write; its headers are not looked at again."""

    # As they are for most requests from beginning to end: uvicorn sets each of them for every request.
    logger = access_logger = getLogger("uvicorn.error")
    access_log = False
    disconnected = response_started = response_complete = False
    more_body = True
    chunked_encoding: bool | None = None
    expected_content_length = 0
    open_ended = False  # neither a length nor chunks say where the answer ends
    _event: asyncio.Event | None = None
    familiar: "Familiar | None" = None  # what its lines say, if they were known before it came
    scope: Any

    def __init__(self, protocol: "Protocol", scope: Any, *, keep_alive: bool) -> None:
        self.protocol = protocol
        self.scope = scope
        self.transport = protocol.transport
        self.flow = protocol.flow
        self.default_headers = protocol.server_state.default_headers
        self.waiting_for_100_continue = protocol.expect_100_continue
        self.keep_alive = keep_alive
        self.on_response = protocol.on_response_complete
        self.body = bytearray()

    @property
    @override
    def message_event(self) -> asyncio.Event:  # type: ignore[override]
        """Set when `receive` has something to tell. Most requests never ask it, so most have no event."""
        event = self._event
        if event is None:
            event = self._event = asyncio.Event()
            if self.body or not self.more_body or self.disconnected or self.response_complete:
                event.set()
        return event

    def wake(self) -> None:
        """Tell whoever waits in `receive`."""
        if self._event is not None:
            self._event.set()

    def whole_body(self) -> bytes | None:
        """The body, if all of it came with the head, as a small one does; None when it has to be waited for."""
        if self.more_body:
            return None
        self.waiting_for_100_continue = False
        body = bytes(self.body)
        self.body.clear()
        return body

    async def answer(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """Send a whole answer, once the client takes what was sent before."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        self._write_answer(status, headers, body)

    def answer_soon(self, status: int, headers: RawHeaders) -> None:
        """Send a whole answer now, unless the client has to take what was sent before."""
        if self.flow.write_paused:
            Driver(self.answer(status, headers, b""), asyncio.get_running_loop()).step()
        else:
            self._write_answer(status, headers, b"")

    def _write_answer(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """The headers are this node's own, so they are not checked again."""
        if self.left():
            return
        self.response_started = True
        self.waiting_for_100_continue = False
        if self.more_body:
            self.keep_alive = False  # the rest of the body is not wanted
        lines = [_first_lines(status, *self.default_headers), *[b"%b: %b\r\n" % line for line in headers]]
        lines.append(b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n")
        if body and self.scope["method"] != "HEAD":
            lines.append(body)
        self.transport.write(b"".join(lines))
        self.response_complete = True
        self.wake()
        if self.more_body:
            self.protocol.linger()
        elif not self.keep_alive:
            self.transport.close()
        self.on_response()

    @override
    async def send(self, message: Any) -> None:
        """As uvicorn does, but a client of HTTP/1.0 knows no chunks: the end of the connection ends its answer."""
        if self.left():
            return
        if self.scope["http_version"] == "1.0":
            if message["type"] == "http.response.start":
                self.open_ended = all(name != b"content-length" for name, _ in message["headers"])
                self.chunked_encoding = False if self.open_ended else None
            elif self.open_ended:
                self.expected_content_length = len(message.get("body", b""))
        await super().send(message)

    def left(self) -> bool:
        """Whether the client is gone. Of requests in a row uvicorn tells only the last one."""
        if self.transport.is_closing():
            self.disconnected = True
        return self.disconnected

    def takes_chunks(self) -> bool:
        """Whether a further piece of a streamed answer can be written without waiting."""
        return bool(self.chunked_encoding) and not (self.flow.write_paused or self.left())

    def write_chunk(self, chunk: bytes) -> None:
        """Write a piece that is framed as a chunk already."""
        self.transport.write(chunk)


class FamiliarCycle(Cycle):
    """A whole append whose header lines were known. Its scope is made when somebody asks for it, as few do."""

    more_body = False
    keep_alive = True
    waiting_for_100_continue = False
    body: bytes  # type: ignore[assignment] # nothing is added to it

    def __init__(self, protocol: "Protocol", raw_path: bytes, familiar: "Familiar", body: bytes) -> None:
        self.protocol = protocol
        self.raw_path = raw_path
        self.familiar = familiar
        self.headers = familiar.headers
        self.body = body
        self.transport = protocol.transport
        self.flow = protocol.flow
        self.default_headers = protocol.server_state.default_headers
        self.on_response = protocol.on_response_complete

    @cached_property
    @override
    def scope(self) -> Any:  # type: ignore[override]
        return self.protocol.scope_of("POST", "1.1", self.raw_path, b"", list(self.headers))

    @override
    def whole_body(self) -> bytes:
        return self.body


@lru_cache(maxsize=64)
def _first_lines(status: int, *shared: tuple[bytes, bytes]) -> bytes:
    """What all answers with this status begin with, for the second in which their date is the same."""
    return STATUS_LINE[status] + b"".join(name + b": " + value + b"\r\n" for name, value in (*shared, *SECURITY))


class Driver:
    """Runs a request without a task: at once up to where it waits, and on from there when that is done.

    A whole small append decides within the read that brought it and waits for one future, its batch. A task for it
    costs as much as the decision (12 % fewer appends a second). Handlers that run so may not use what needs a task,
    such as `asyncio.timeout`.
    """

    __slots__ = ("_coroutine", "_loop")

    def __init__(self, coroutine: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> None:
        self._coroutine = coroutine
        self._loop = loop

    def step(self, _: object = None) -> None:
        """Run to the next wait. Failures do not come here: `run_asgi` answers them."""
        try:
            waiting = self._coroutine.send(None)
        except StopIteration:
            return
        if waiting is None:  # it only stepped aside
            self._loop.call_soon(self.step)
        else:
            waiting._asyncio_future_blocking = False  # noqa: SLF001 - what a task does with the future it is handed
            waiting.add_done_callback(self.step)
