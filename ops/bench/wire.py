"""The few requests that are not measured: create, append, look up a tail; and what an offset token counts."""

import http.client
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from ops.bench.errors import BenchError

HOST = "127.0.0.1"
PREFIX = "/v1/stream/"
REQUEST_SECONDS_MAX = 60.0
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
CROCKFORD_LENGTH = 26
CROCKFORD_PADDING_BITS = 2  # on the right: 26 digits hold 130 bits, a token is 128
IN_BLOCK_BITS = 32
RAW_MASK = (1 << 64) - 1
REFERENCE_LENGTH = 33  # two numbers of 16 digits and an underscore
TAIL_POLL_SECONDS = 0.05
TAIL_SECONDS_MAX = 20.0
OK_STATUSES = range(200, 300)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]  # lower-case names
    body: bytes


class Client:
    """One keep-alive connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection(HOST, port, timeout=REQUEST_SECONDS_MAX)

    def request(
        self, method: str, stream: str, *, body: bytes | None = None, content_type: str | None = None
    ) -> Answer:
        headers = {} if content_type is None else {"Content-Type": content_type}
        self._connection.request(method, PREFIX + stream, body=body, headers=headers)
        response = self._connection.getresponse()
        content = response.read()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, content)

    def create(self, stream: str, content_type: str) -> None:
        self._expect_ok(self.request("PUT", stream, content_type=content_type), f"create {stream}")

    def declare(self, stream: str, body: bytes) -> None:
        self._expect_ok(
            self.request("POST", f"{stream}/_schema", body=body, content_type="application/json"), f"declare {stream}"
        )

    def append(self, stream: str, body: bytes, content_type: str) -> int:
        """Append and return the count that the new tail token stands for."""
        answer = self.request("POST", stream, body=body, content_type=content_type)
        self._expect_ok(answer, f"append to {stream}")
        return decode_offset(answer.headers["stream-next-offset"])

    def tail(self, stream: str) -> int:
        answer = self.request("HEAD", stream)
        self._expect_ok(answer, f"look up {stream}")
        return decode_offset(answer.headers["stream-next-offset"])

    def close(self) -> None:
        self._connection.close()

    @staticmethod
    def _expect_ok(answer: Answer, what: str) -> None:
        if answer.status not in OK_STATUSES:
            raise BenchError(f"could not {what}: status {answer.status}")


@contextmanager
def client(port: int) -> Iterator[Client]:
    opened = Client(port)
    try:
        yield opened
    finally:
        opened.close()


def decode_offset(token: str) -> int:
    """Count what lies before a token: entries in 26 base32 characters, framed bytes in the reference's two numbers."""
    if len(token) == CROCKFORD_LENGTH:
        number = 0
        for character in token.upper():
            number = number * len(CROCKFORD) + CROCKFORD.index(character)
        return (number >> (CROCKFORD_PADDING_BITS + IN_BLOCK_BITS)) & RAW_MASK
    if len(token) == REFERENCE_LENGTH:
        return int(token.partition("_")[2])
    raise BenchError(f"an offset of unknown form: {token!r}")


def settled_tails(port: int, streams: Iterable[str]) -> dict[str, int]:
    """Look the tails up until two looks agree: requests in flight when the load stopped may still be stored."""
    names = tuple(streams)
    deadline = time.monotonic() + TAIL_SECONDS_MAX
    with client(port) as connection:
        before = {name: connection.tail(name) for name in names}
        while time.monotonic() < deadline:
            time.sleep(TAIL_POLL_SECONDS)
            after = {name: connection.tail(name) for name in names}
            if after == before:
                return after
            before = after
    raise BenchError(f"the tails still moved {TAIL_SECONDS_MAX:.0f} s after the load had stopped")
