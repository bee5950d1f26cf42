"""Many SSE readers and one writer, in one thread over epoll: the loader must cost less than what it measures.

Keeps    a reader has an event when the mark that ends the event's text has arrived, however the bytes were cut.
"""

import select
import socket
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from ops.bench.errors import BenchError
from ops.bench.wire import HOST, PREFIX

CONNECT_BLOCK = 50  # well below every server's listen backlog
CONNECT_SECONDS_MAX = 60.0
RECEIVE_SIZE = 1 << 16
EVENTS_PER_POLL = 1_024
HEAD_END = b"\r\n\r\n"
STATUS_OK = b"HTTP/1.1 200"
ACKNOWLEDGED = b"HTTP/1.1 2"
ANSWER_POLL_SECONDS = 0.002
MAX_FAILURE_SHOWN = 80


class Subscribers:
    """A crowd of live readers of one stream, closed at the end of the `with` block."""

    def __init__(self, port: int, stream: str, content_type: str, count: int) -> None:
        self._address = (HOST, port)
        self._request = f"GET {PREFIX}{stream}?offset=now&live=sse HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
        self._post_head = f"POST {PREFIX}{stream} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: {content_type}\r\n".encode()
        self._count = count
        self._poll = select.epoll()
        self._writer = socket.create_connection(self._address, timeout=CONNECT_SECONDS_MAX)
        self._poll.register(self._writer.fileno(), select.EPOLLIN)
        self._acknowledged = True
        self._sockets: dict[int, socket.socket] = {}
        self._rest: dict[int, bytes] = {}  # the end of what each reader got: a mark may be cut in two

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in (self._writer, *self._sockets.values()):
            connection.close()
        self._poll.close()

    def connect(self) -> None:
        """Open the readers block by block, each block until all its answers have begun."""
        while len(self._sockets) < self._count:
            block = [self._open() for _ in range(min(CONNECT_BLOCK, self._count - len(self._sockets)))]
            self._await_heads(set(block))

    def send(self, body: bytes, mark: bytes, seconds_max: float) -> float:
        """Append the body and return the seconds until every reader has the mark; the answer may come before or after.

        The writer does not wait for its answer first: readers are read while the server still writes.
        """
        self._acknowledged = False
        began = time.perf_counter()
        self._writer.sendall(self._post_head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        delay = self._wait_for(mark, seconds_max) - began
        while not self._acknowledged:
            if time.perf_counter() - began > seconds_max:
                raise BenchError(f"an append was not answered in {seconds_max:.0f} s")
            self.drain(ANSWER_POLL_SECONDS)
        return delay

    def drain(self, seconds: float) -> None:
        """Throw away what arrives (heartbeats, second halves of events) until the time is over."""
        deadline = time.perf_counter() + seconds

        def got(number: int, data: bytes) -> None:
            self._rest[number] = data[-RECEIVE_SIZE:]

        while (left := deadline - time.perf_counter()) > 0:
            self._receive(got, timeout=left)

    def _wait_for(self, mark: bytes, seconds_max: float) -> float:
        """Wait until every reader has the mark; return the moment at which the last one got it."""
        missing = set(self._sockets)

        def got(number: int, data: bytes) -> None:
            if mark in self._rest[number] + data:
                missing.discard(number)
            self._rest[number] = data[-len(mark) :]

        deadline = time.perf_counter() + seconds_max
        while missing:
            self._receive(got)
            now = time.perf_counter()
            if missing and now > deadline:
                raise BenchError(f"{len(missing)} of {self._count} readers did not get an event in {seconds_max:.0f} s")
        return time.perf_counter()

    def _open(self) -> int:
        connection = socket.create_connection(self._address, timeout=CONNECT_SECONDS_MAX)
        connection.sendall(self._request)
        connection.settimeout(0)  # not blocking: epoll says when there is something to read
        number = connection.fileno()
        self._sockets[number] = connection
        self._rest[number] = b""
        self._poll.register(number, select.EPOLLIN)
        return number

    def _await_heads(self, waiting: set[int]) -> None:
        def got(number: int, data: bytes) -> None:
            self._rest[number] += data
            if number in waiting and HEAD_END in self._rest[number]:
                if not self._rest[number].startswith(STATUS_OK):
                    raise BenchError(f"a reader was refused: {self._rest[number][:MAX_FAILURE_SHOWN]!r}")
                waiting.discard(number)

        deadline = time.perf_counter() + CONNECT_SECONDS_MAX
        while waiting:
            self._receive(got)
            if time.perf_counter() > deadline:
                raise BenchError(f"{len(waiting)} readers got no answer in {CONNECT_SECONDS_MAX:.0f} s")

    def _receive(self, got: Callable[[int, bytes], None], timeout: float = 0.1) -> None:
        for number, _ in self._poll.poll(timeout, EVENTS_PER_POLL):
            if number == self._writer.fileno():
                self._read_answer()
                continue
            data = self._sockets[number].recv(RECEIVE_SIZE)
            if not data:
                raise BenchError("the server closed the connection of a live reader")
            got(number, data)

    def _read_answer(self) -> None:
        answer = self._writer.recv(RECEIVE_SIZE)
        if not self._acknowledged and not answer.startswith(ACKNOWLEDGED):
            raise BenchError(f"an append was refused: {answer[:MAX_FAILURE_SHOWN]!r}")
        self._acknowledged = True
