"""Asks over raw sockets, as cheaply as Python can: a client slower than the server would measure itself.

`Connection` asks and waits. `Clients` are many who ask at once, in one thread: threads of Python take turns at its
lock, and with eight of them that may take longer than what they wait for.
"""

import select
import socket
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from ops.bench.errors import BenchError

_HOST = "127.0.0.1"
_SECONDS_MAX = 60.0
_PIECE = 1 << 20
_END = b"\r\n\r\n"
_LAST_CHUNK = b"\r\n0\r\n\r\n"


class Request(NamedTuple):
    method: str
    path: str
    body: bytes | None = None


Answer = tuple[int, bytes]  # the status and the body
_T = TypeVar("_T")
Talk = Generator[Request, Answer, _T]  # asks one thing after another, each with what came before


class Connection:
    """One connection that stays open. Bodies come with a `Content-Length`, or in chunks."""

    def __init__(self, port: int, content_type: str) -> None:
        self._port = port
        self._socket = self._connected()
        self._lines = f" HTTP/1.1\r\nhost: {_HOST}:{port}\r\ncontent-type: {content_type}\r\ncontent-length: "
        self._room = memoryview(bytearray(_PIECE))
        self._pieces = list[bytes]()
        self._head: bytes | None = None
        self._left: int | None = None  # bytes of the body that have not come; None: it comes in chunks

    def ask(self, method: str, path: str, body: bytes | None = None) -> Answer:
        self.send(Request(method, path, body))
        while (found := self.read()) is None:
            pass
        return found

    def talk(self, talk: Talk[_T]) -> _T:
        try:
            request = next(talk)
            while True:
                request = talk.send(self.ask(*request))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(self, request: Request) -> None:
        method, path, body = request
        self._socket.sendall(f"{method} {path}{self._lines}{len(body or b'')}\r\n\r\n".encode() + (body or b""))

    def read(self) -> Answer | None:
        """Take what has come, or wait for it: the answer once that was the last of it."""
        size = self._socket.recv_into(self._room)
        if not size:
            raise BenchError("the server ended a connection")
        piece = bytes(self._room[:size])
        if self._head is None:
            piece = b"".join((*self._pieces, piece))
            at = piece.find(_END)
            if at < 0:
                self._pieces = [piece]
                return None
            self._head, piece, self._pieces = piece[:at].lower() + b"\r\n", piece[at + len(_END) :], []
            self._left = _length(self._head)
        self._pieces.append(piece)
        if self._left is not None:
            self._left -= len(piece)
            return self._whole(b"".join(self._pieces)) if self._left <= 0 else None
        self._pieces = [b"".join(self._pieces)]
        if not (b"\r\n" + self._pieces[0]).endswith(_LAST_CHUNK):
            return None
        return self._whole(b"".join(_chunks(self._pieces[0])))

    def _whole(self, body: bytes) -> Answer:
        assert self._head is not None  # noqa: S101 - it came before
        status, closes = int(self._head[9:12]), b"\r\nconnection: close\r\n" in self._head
        self._head, self._pieces = None, []
        if closes:  # the new one first: it has another number then
            last, self._socket = self._socket, self._connected()
            last.close()
        return status, body

    def _connected(self) -> socket.socket:
        found = socket.create_connection((_HOST, self._port), timeout=_SECONDS_MAX)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found


def _length(head: bytes) -> int | None:
    if b"\r\ntransfer-encoding: chunked\r\n" in head:
        return None
    at = head.find(b"\r\ncontent-length: ")
    return int(head[at + 18 : head.index(b"\r\n", at + 18)]) if at >= 0 else 0


def _chunks(body: bytes) -> Iterator[bytes]:
    at = 0
    while True:
        end = body.index(b"\r\n", at)
        size = int(body[at:end].split(b";")[0], 16)
        if not size:
            return
        yield body[end + 2 : end + 2 + size]
        at = end + size + 4


class Clients:
    """Several who ask at once. Each has a connection, and talks until it has nothing more to say."""

    def __init__(self, port: int, content_type: str, count: int) -> None:
        self._clients = [Connection(port, content_type) for _ in range(count)]

    def close(self) -> None:
        for each in self._clients:
            each.close()

    def talk(self, begin: Callable[[int], Talk[None]]) -> None:
        """`begin` says what the client of a number asks."""
        with _polled() as poll:
            talks = dict[int, tuple[Connection, Talk[None]]]()
            for number, client in enumerate(self._clients):
                talk = begin(number)
                client.send(next(talk))
                poll.register(client.fileno(), select.EPOLLIN)
                talks[client.fileno()] = client, talk
            while talks:
                ready = poll.poll(_SECONDS_MAX)
                if not ready:
                    raise BenchError(f"no answer within {_SECONDS_MAX:.0f} s")
                for at, _ in ready:
                    client, talk = talks[at]
                    answer = client.read()
                    if answer is None:
                        continue
                    try:
                        client.send(talk.send(answer))
                    except StopIteration:
                        del talks[at]
                    if client.fileno() != at and at in talks:
                        poll.register(client.fileno(), select.EPOLLIN)
                        talks[client.fileno()] = talks.pop(at)


@contextmanager
def _polled() -> Iterator[select.epoll]:
    poll = select.epoll()
    try:
        yield poll
    finally:
        poll.close()
