"""Requests to a node in this process as raw header lines and raw bytes, and everything that comes back."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from streams_node.testing.inprocess import InProcess

Lines = Sequence[tuple[bytes, bytes]]
HOST = (b"host", b"node.test")
SECURITY = {"x-content-type-options": "nosniff", "cross-origin-resource-policy": "cross-origin"}
PATIENCE_S = 10.0  # far above every limit of a node under test: whoever waits longer, hangs


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with its header lines as they were sent, but how long it took: no two answers share that."""

    status: int
    lines: tuple[tuple[bytes, bytes], ...]
    body: bytes
    chunks: int = 1
    timing: str | None = field(default=None, compare=False)

    @property
    def headers(self) -> dict[str, str]:
        """By name. A name that was sent twice is a mistake of the server."""
        found = {name.decode("latin-1"): value.decode("latin-1") for name, value in self.lines}
        assert len(found) == len(self.lines), f"a header was sent twice: {self.lines}"
        assert all(name == name.lower() for name in found)
        return found

    def without(self, *groups: Iterable[str]) -> dict[str, str]:
        """The headers but those of these groups."""
        left_out = {name for group in groups for name in group}
        return {name: value for name, value in self.headers.items() if name not in left_out}


def lines_of(headers: Mapping[str, str] | Lines | None) -> list[tuple[bytes, bytes]]:
    if headers is None:
        return []
    if isinstance(headers, Mapping):
        return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    return list(headers)


async def ask(
    node: InProcess,
    method: str,
    target: str | bytes,
    headers: Mapping[str, str] | Lines | None = None,
    body: bytes | Sequence[bytes] = b"",
    *,
    host: bool = True,
) -> Reply:
    """One request. A body in parts comes without a length; an event stream is left after its first part."""
    lines = lines_of(headers)
    parts = [body] if isinstance(body, bytes) else list(body)
    if isinstance(body, bytes) and body and not any(name == b"content-length" for name, _ in lines):
        lines.append((b"content-length", str(len(body)).encode()))
    answer = _Answer(parts)
    async with asyncio.timeout(PATIENCE_S):
        await node.edge(scope_of(method, target, [HOST, *lines] if host else lines), answer.receive, answer.send)
    assert answer.head is not None, "no answer"
    assert answer.ended or answer.left, "half an answer"
    times = [value.decode() for name, value in answer.head["headers"] if name == b"server-timing"]
    assert len(times) <= 1, "a header was sent twice"
    rest = tuple(line for line in answer.head["headers"] if line[0] != b"server-timing")
    timing = times[0] if times else None
    return Reply(answer.head["status"], rest, b"".join(answer.chunks), len(answer.chunks), timing)


def scope_of(method: str, target: str | bytes, lines: Lines) -> dict[str, Any]:
    raw = target if isinstance(target, bytes) else target.encode("ascii")
    path, _, query = raw.partition(b"?")
    return {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1",
        "server": ("127.0.0.1", 4437), "client": ("127.0.0.1", 50000), "scheme": "http", "method": method,
        "root_path": "", "path": unquote(path.decode("latin-1")), "raw_path": path, "query_string": query,
        "headers": list(lines), "state": {},
    }  # fmt: skip


class _Answer:
    """The two ends of an ASGI call."""

    def __init__(self, parts: Sequence[bytes]) -> None:
        self._parts = list(parts) or [b""]
        self._gone = asyncio.Event()
        self.head: dict[str, Any] | None = None
        self.chunks: list[bytes] = []
        self.ended = False
        self.left = False

    async def receive(self) -> dict[str, Any]:
        if self._parts:
            part = self._parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(self._parts)}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        assert not self.ended, "something was sent after the end"
        if message["type"] == "http.response.start":
            assert self.head is None, "two answers to one request"
            self.head = dict(message)
            return
        assert self.head is not None, "a body before its head"
        if message.get("body"):
            self.chunks.append(message["body"])
            if (b"content-type", b"text/event-stream") in self.head["headers"]:
                self.left = True
                self._gone.set()
        if not message.get("more_body", False):
            self.ended = True
            self._gone.set()
