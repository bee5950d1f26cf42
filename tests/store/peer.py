"""The other end of a connection: reads requests as slowly, and answers as oddly, as a test tells it."""

import contextlib
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_IDLE_S = 10.0


@dataclass
class Heard:
    """One request as it came; `complete` once the whole body did."""

    method: str
    path: str
    headers: dict[str, str]
    received: int = 0
    complete: bool = False


Reply = Callable[[socket.socket], None]


@dataclass
class Peer:
    """`replies` answer the requests in their order, the last one all further ones; `read_pause_s` slows its reading."""

    port: int
    replies: deque[Reply] = field(default_factory=deque)
    heard: list[Heard] = field(default_factory=list)
    read_pause_s: float = 0.0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def will(self, *replies: Reply) -> None:
        self.replies = deque(replies)

    def serve(self, connection: socket.socket) -> None:
        connection.settimeout(_IDLE_S)
        with connection, contextlib.suppress(OSError):
            while heard := self._read_head(connection):
                self.heard.append(heard)
                self._read_body(connection, heard)
                reply = self.replies[0] if len(self.replies) == 1 else self.replies.popleft()
                reply(connection)

    def _read_head(self, connection: socket.socket) -> Heard | None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = connection.recv(1)
            if not byte:
                return None
            head += byte
        first, *lines = head.decode().strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        method, path, _ = first.split(" ")
        return Heard(method, path, headers)

    def _read_body(self, connection: socket.socket, heard: Heard) -> None:
        size = int(heard.headers.get("content-length", "0"))
        if "expect" in heard.headers:
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        while heard.received < size:
            if self.read_pause_s:
                time.sleep(self.read_pause_s)
            part = connection.recv(min(64 * 1024, size - heard.received))
            if not part:
                raise ConnectionResetError
            heard.received += len(part)
        heard.complete = True


@contextlib.contextmanager
def running_peer() -> Iterator[Peer]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # Small buffers, so that what was not read was not sent either.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        peer = Peer(listener.getsockname()[1])
        peer.will(answer(200))
        threading.Thread(target=_accept, args=(listener, peer), daemon=True).start()
        yield peer


def _accept(listener: socket.socket, peer: Peer) -> None:
    with contextlib.suppress(OSError):  # closed at the end of the test
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=peer.serve, args=(connection,), daemon=True).start()


def answer(status: int, body: bytes = b"", *, size: int | None = None, **headers: str) -> Reply:
    """A whole answer; with another `size` than the body's, one that ends too early."""
    lines = [f"HTTP/1.1 {status} Told", f"Content-Length: {len(body) if size is None else size}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    text = "\r\n".join([*lines, "", ""]).encode() + body

    def reply(connection: socket.socket) -> None:
        connection.sendall(text)
        if size is not None and size != len(body):
            connection.shutdown(socket.SHUT_RDWR)

    return reply


def refusal(status: int, code: str, retry_after: str = "0") -> Reply:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>told</Message></Error>".encode()
    return answer(status, body, Content_Type="application/xml", Retry_After=retry_after)


def dripping(size: int, pause_s: float) -> Reply:
    """An answer whose body comes byte by byte."""

    def reply(connection: socket.socket) -> None:
        connection.sendall(f'HTTP/1.1 200 OK\r\nETag: "1"\r\nContent-Length: {size}\r\n\r\n'.encode())
        for _ in range(size):
            connection.sendall(b".")
            time.sleep(pause_s)

    return reply


def silence(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.recv(1)  # until the other side gives up


def hang_up(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_RDWR)
