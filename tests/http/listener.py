"""A real node behind a real socket, and a client that sends bytes as they are."""

import json
import os
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from typing_extensions import override

HOST = "127.0.0.1"
HEAD_MS, BODY_MS, STALL_MS, BODY_MAX, HEAD_MAX = 400, 400, 600, 20_000, 8192  # of the node that most tests share
START_S = 30.0
PATIENCE_S = 15.0  # above every limit that a node under test has
_POLL_S = 0.02


class Listener:
    """Where a node listens; `operator` is its second port, if it has one."""

    def __init__(self, port: int, operator: int = 0) -> None:
        self.port = port
        self.operator = operator

    def connect(self, *, operator: bool = False, receive_buffer: int = 0) -> "Raw":
        return Raw(self.operator if operator else self.port, receive_buffer)

    def ask(self, request: bytes, *, operator: bool = False) -> "Answer":
        """One request on a connection of its own."""
        with self.connect(operator=operator) as raw:
            raw.send(request)
            return raw.answer(head_only=request.startswith(b"HEAD"))

    def gauge(self, name: str, headers: bytes = b"") -> float:
        """A number that the node says of itself."""
        text = self.ask(get("/metrics", headers), operator=bool(self.operator)).body.decode()
        found = re.search(rf"^{name}(?:{{[^}}]*}})? ([0-9.e+-]+)$", text, re.MULTILINE)
        assert found, f"no `{name}` in the metrics"
        return float(found[1])

    def until_gauge(self, name: str, value: float) -> None:
        """Wait until the node says so; every question is an answer of the node, not a pause."""
        deadline = time.monotonic() + PATIENCE_S
        while (seen := self.gauge(name)) != value:
            assert time.monotonic() < deadline, f"{name} stays at {seen}"


@contextmanager
def listening(folder: Path, *, operator: bool = False, **settings: object) -> Iterator[Listener]:
    """`streams-node serve` with these settings, until the block ends; it must then end by itself."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STREAMS_")}
    operator_port = free_port() if operator else 0
    chosen = {"log_format": "json", "data": folder / "data", "host": HOST, "port": 0, **settings}
    if operator:
        chosen["operator_port"] = operator_port
    environment |= {f"STREAMS_{name.upper()}": str(value) for name, value in chosen.items()}
    log = folder / "node.log"
    command = [str(Path(sys.executable).with_name("streams-node")), "serve"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield Listener(_port_of(process, log), operator_port)
        process.terminate()
        assert process.wait(START_S) == 0, log.read_text()
        assert "Traceback" not in log.read_text(), log.read_text()
        assert "unexpected failure" not in log.read_text(), log.read_text()
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    """Free now; somebody else may take it before the node does, which then fails at once and visibly."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _port_of(process: subprocess.Popen[bytes], log: Path) -> int:
    deadline = time.monotonic() + START_S
    while True:
        for line in log.read_bytes().splitlines():
            if b'"ready"' in line and line.endswith(b"}"):
                return int(json.loads(line)["url"].rsplit(":", 1)[1])
        assert process.poll() is None, f"the node ended with {process.returncode}: {log.read_text()}"
        assert time.monotonic() < deadline, f"the node is not ready: {log.read_text()}"
        time.sleep(_POLL_S)


class Answer:
    """One answer as it was on the wire; `interim` are the 1xx heads before it."""

    def __init__(self, status: int, lines: list[tuple[str, str]], body: bytes, interim: list[int]) -> None:
        self.status = status
        self.lines = lines
        self.body = body
        self.interim = interim

    @property
    def headers(self) -> dict[str, str]:
        found = dict(self.lines)
        assert len(found) == len(self.lines), f"a header was sent twice: {self.lines}"
        return found

    @property
    def code(self) -> str:
        return str(json.loads(self.body)["error"]["code"])

    @override
    def __repr__(self) -> str:
        return f"<{self.status} {dict(self.lines)} {self.body[:200]!r}>"


class Raw:
    """One connection."""

    def __init__(self, port: int, receive_buffer: int = 0) -> None:
        self._socket = socket.socket()
        if receive_buffer:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(PATIENCE_S)
        self._socket.connect((HOST, port))
        self._seen = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send_what_goes(self, data: bytes) -> None:
        """Send, although the node may have closed the connection already."""
        try:
            self._socket.sendall(data)
        except OSError:
            return

    def half_close(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def readable(self, seconds: float) -> bool:
        """Whether something comes within that time: a wait that an answer ends."""
        return bool(self._seen) or bool(select.select([self._socket], [], [], seconds)[0])

    def hung_up(self, seconds: float = PATIENCE_S) -> bool:
        """Whether the node ends the connection within that time, seen without reading what it sent before."""
        watch = select.poll()
        watch.register(self._socket, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
        return bool(watch.poll(seconds * 1000))

    def answer(self, *, head_only: bool = False) -> Answer:
        """The next answer, or a failure when the node hangs up before it is whole."""
        interim: list[int] = []
        while True:
            status, lines = self._head()
            if status >= 200:
                break
            interim.append(status)
        headers = dict(lines)
        if head_only or status in {204, 304}:
            body = b""
        elif headers.get("transfer-encoding") == "chunked":
            assert "content-length" not in headers
            body = self._chunks()
        elif "content-length" in headers:
            body = self._exactly(int(headers["content-length"]))
        else:
            body = self.rest()
        return Answer(status, lines, body, interim)

    def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        while self._more():
            pass
        rest, self._seen = self._seen, b""
        return rest

    def until(self, what: bytes) -> bytes:
        """Everything up to and with these bytes."""
        while what not in self._seen:
            assert self._more(), f"the connection ended before {what!r}: {self._seen!r}"
        at = self._seen.index(what) + len(what)
        found, self._seen = self._seen[:at], self._seen[at:]
        return found

    def _head(self) -> tuple[int, list[tuple[str, str]]]:
        head = self.until(b"\r\n\r\n")
        first, *lines = head[:-4].split(b"\r\n")
        found = re.fullmatch(rb"HTTP/1\.1 (\d{3}) [\x20-\x7e]*", first)
        assert found, f"no status line: {first!r}"
        pairs = [line.split(b": ", 1) for line in lines]
        assert all(len(pair) == 2 and re.fullmatch(rb"[a-z0-9-]+", pair[0]) for pair in pairs), head
        return int(found[1]), [(name.decode(), value.decode("latin-1")) for name, value in pairs]

    def _chunks(self) -> bytes:
        parts = []
        while size := int(self.until(b"\r\n"), 16):
            parts.append(self._exactly(size))
            assert self._exactly(2) == b"\r\n"
        assert self._exactly(2) == b"\r\n"
        return b"".join(parts)

    def _exactly(self, size: int) -> bytes:
        while len(self._seen) < size:
            assert self._more(), f"the connection ended within a body: {len(self._seen)} of {size} bytes"
        found, self._seen = self._seen[:size], self._seen[size:]
        return found

    def _more(self) -> bool:
        try:
            data = self._socket.recv(1 << 16)
        except ConnectionError:
            return False
        self._seen += data
        return bool(data)


def get(path: str, headers: bytes = b"", method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nhost: node.test\r\n".encode() + headers + b"\r\n"


def put(path: str, body: bytes = b"", kind: str = "text/plain", method: str = "PUT", headers: bytes = b"") -> bytes:
    lines = f"content-type: {kind}\r\ncontent-length: {len(body)}\r\n".encode() + headers
    return get(path, lines, method) + body


def post(path: str, body: bytes, kind: str = "text/plain", headers: bytes = b"") -> bytes:
    return put(path, body, kind, "POST", headers)


def chunked(path: str, *chunks: bytes, method: str = "POST", end: bytes = b"0\r\n\r\n") -> bytes:
    lines = b"content-type: text/plain\r\ntransfer-encoding: chunked\r\n"
    return get(path, lines, method) + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + end


def content(node: Listener, path: str) -> bytes:
    """All of a stream, as a client reads it."""
    return node.ask(get(path)).body
