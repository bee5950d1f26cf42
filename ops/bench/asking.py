"""Asks over one raw socket, as cheaply as Python can: a client slower than the server would measure itself."""

import socket

from ops.bench.errors import BenchError

_HOST = "127.0.0.1"
_SECONDS_MAX = 60.0
_PIECE = 1 << 18
_END = b"\r\n\r\n"


class Connection:
    """One connection that stays open. Bodies come with a `Content-Length`, or in chunks."""

    def __init__(self, port: int, content_type: str) -> None:
        self._port = port
        self._socket = self._connected()
        self._lines = f" HTTP/1.1\r\nhost: {_HOST}:{port}\r\ncontent-type: {content_type}\r\ncontent-length: "
        self._got = b""

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """The status and the body of the answer."""
        head = f"{method} {path}{self._lines}{len(body or b'')}\r\n\r\n".encode()
        self._socket.sendall(head + (body or b""))
        lines = self._until(_END).lower()
        status = int(lines[9:12])
        if b"\r\ntransfer-encoding: chunked" in lines:
            found = b"".join(iter(self._chunk, b""))
        else:
            at = lines.find(b"\r\ncontent-length: ")
            found = self._take(int(lines[at + 18 : lines.index(b"\r\n", at + 18)]) if at >= 0 else 0)
        if b"\r\nconnection: close" in lines:
            self._socket.close()
            self._socket = self._connected()
        return status, found

    def _connected(self) -> socket.socket:
        found = socket.create_connection((_HOST, self._port), timeout=_SECONDS_MAX)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found

    def _chunk(self) -> bytes:
        size = int(self._until(b"\r\n").split(b";")[0], 16)
        piece = self._take(size)
        self._take(2)
        return piece

    def _until(self, mark: bytes) -> bytes:
        """What comes up to a mark, with it."""
        while (at := self._got.find(mark)) < 0:
            self._got += self._read()
        at += len(mark)
        found, self._got = self._got[:at], self._got[at:]
        return found

    def _take(self, size: int) -> bytes:
        if len(self._got) < size:
            pieces, left = [self._got], size - len(self._got)
            while left > 0:
                pieces.append(self._read())
                left -= len(pieces[-1])
            self._got = b"".join(pieces)
        found, self._got = self._got[:size], self._got[size:]
        return found

    def _read(self) -> bytes:
        piece = self._socket.recv(_PIECE)
        if not piece:
            raise BenchError("the server ended a connection")
        return piece
