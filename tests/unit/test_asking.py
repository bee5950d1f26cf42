"""The benchmarks' own client reads every shape of answer, however it is cut."""

import socket
import threading
from contextlib import closing

import pytest

from ops.bench.asking import Answer, Clients, Connection, Request, Talk
from ops.bench.errors import BenchError

SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"
IN_CHUNKS = b"HTTP/1.1 206 Partial\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n"
IN_NO_CHUNK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
LAST = b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno"
SHOWN = {SIZED: (200, b"hello"), EMPTY: (204, b""), IN_CHUNKS: (206, b"hello"), IN_NO_CHUNK: (200, b""),
         LAST: (404, b"no")}  # fmt: skip


class Told:
    """A server that gives the same answers in the same order on each connection, in pieces of a size."""

    def __init__(self, answers: list[bytes], size: int) -> None:
        self._answers, self._size = answers, size
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                found, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(found,), daemon=True).start()

    def _serve(self, found: socket.socket) -> None:
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with found:
            for answer in self._answers:
                head = b""
                while not head.endswith(b"\r\n\r\n"):  # what is asked here has no body
                    piece = found.recv(4096)
                    if not piece:
                        return
                    head += piece
                for at in range(0, len(answer), self._size):
                    found.sendall(answer[at : at + self._size])
                if answer == LAST:
                    return


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_answers_are_whole_however_they_are_cut(size: int) -> None:
    answers = [SIZED, EMPTY, IN_CHUNKS, IN_NO_CHUNK, SIZED]
    with closing(Told(answers, size)) as told, closing(Connection(told.port, "text/plain")) as connection:
        assert [connection.ask("GET", "/") for _ in answers] == [SHOWN[each] for each in answers]


def test_a_connection_that_the_server_ends_is_made_again() -> None:
    with closing(Told([SIZED, LAST], 9)) as told, closing(Connection(told.port, "text/plain")) as connection:
        found = [connection.ask("GET", "/") for _ in range(4)]
    assert found == [SHOWN[SIZED], SHOWN[LAST]] * 2


@pytest.mark.parametrize("size", [3, 1000])
def test_several_clients_talk_at_once_and_each_hears_its_own(size: int) -> None:
    heard: dict[int, list[Answer]] = {}

    def talk(number: int) -> Talk[None]:
        for _ in range(number + 1):  # they end one after another
            answer = yield Request("GET", "/")
            heard.setdefault(number, []).append(answer)

    with closing(Told([SIZED, IN_CHUNKS, LAST], size)) as told, closing(Clients(told.port, "text/plain", 5)) as several:
        several.talk(talk)
    in_turn = [SHOWN[each] for each in (SIZED, IN_CHUNKS, LAST)]
    assert heard == {number: (in_turn * 2)[: number + 1] for number in range(5)}


@pytest.mark.parametrize("answer", [SIZED[:-1], IN_CHUNKS[:-1], b"HTTP/1.1 200 OK\r\n"])
def test_an_end_in_the_middle_is_no_answer(answer: bytes) -> None:
    with (
        closing(Told([answer], 1000)) as told,
        closing(Connection(told.port, "text/plain")) as connection,
        pytest.raises(BenchError, match="ended"),
    ):
        connection.ask("GET", "/")
