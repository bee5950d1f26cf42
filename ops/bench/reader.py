"""Reads a stream from its start over one raw socket, as cheaply as Python can, so that the server is what is measured.

Understands `Content-Length` and chunked answers; hands every piece of a body to a sink, or drops it.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass

from ops.bench.errors import BenchError
from ops.bench.wire import HOST, PREFIX

BUFFER_SIZE = 1 << 20
SOCKET_SECONDS_MAX = 60.0
OK_STATUS = 200
START = "-1"

Sink = Callable[[bytes], None]


class EnoughError(Exception):
    """Raised by a sink that has all it wants."""


@dataclass(frozen=True, slots=True)
class Walk:
    """What following a stream to its tail gave."""

    body_size: int
    pages: int


class PageReader:
    """One keep-alive connection with one buffer; what was read and not yet used is `buffer[low:high]`."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), timeout=SOCKET_SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(BUFFER_SIZE)
        self._view = memoryview(self._buffer)
        self._low = self._high = 0

    def follow(self, stream: str, *, sink: Sink | None = None, page_end: Callable[[], None] | None = None) -> Walk:
        """Read page after page until the server says that the reader is up to date."""
        offset, size, pages = START, 0, 0
        while True:
            headers, page_size = self._page(f"{PREFIX}{stream}?offset={offset}", sink)
            size, pages = size + page_size, pages + 1
            if page_end is not None:
                page_end()
            if headers.get("stream-up-to-date", "").lower() == "true":
                return Walk(size, pages)
            if headers["stream-next-offset"] == offset:
                raise BenchError(f"a read at {offset} moved nowhere and was not up to date")
            offset = headers["stream-next-offset"]

    def close(self) -> None:
        self._socket.close()

    def _page(self, target: str, sink: Sink | None) -> tuple[dict[str, str], int]:
        self._socket.sendall(f"GET {target} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        status = int(self._line().split()[1])
        headers = self._headers()
        if headers.get("transfer-encoding", "").lower() == "chunked":
            size = self._chunks(sink)
        else:
            size = self._take(int(headers.get("content-length", "0")), sink)
        if status != OK_STATUS:
            raise BenchError(f"a catch-up read answered {status}")
        return headers, size

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        while line := self._line():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return headers

    def _chunks(self, sink: Sink | None) -> int:
        total = 0
        while size := int(self._line().partition(";")[0], 16):
            total += self._take(size, sink)
            self._line()
        self._headers()  # trailers, and the empty line
        return total

    def _line(self) -> str:
        while (end := self._buffer.find(b"\r\n", self._low, self._high)) < 0:
            self._fill()
        line = self._buffer[self._low : end].decode("latin-1")
        self._low = end + 2
        return line

    def _take(self, size: int, sink: Sink | None) -> int:
        left = size
        while left:
            if self._low == self._high:
                self._fill()
            piece = min(left, self._high - self._low)
            if sink is not None:
                sink(bytes(self._view[self._low : self._low + piece]))
            self._low += piece
            left -= piece
        return size

    def _fill(self) -> None:
        """Read more; only half a line can be left over when the buffer is at its end, so moving it costs nothing."""
        if self._low == self._high:
            self._low = self._high = 0
        elif self._high == BUFFER_SIZE:
            rest = bytes(self._view[self._low : self._high])
            self._view[: len(rest)] = rest
            self._low, self._high = 0, len(rest)
        count = self._socket.recv_into(self._view[self._high :])
        if count == 0:
            raise BenchError("the server closed the connection in the middle of an answer")
        self._high += count
