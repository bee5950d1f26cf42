"""A small HTTP/1.1 client that says exactly how far an exchange came, which crash tests must know.

Owns     one connection at a time to one address; it is opened on the first request and again after a loss.
Hands on whole answers; event streams part by part, with the fact whether the chunked body was ended properly.
Keeps    `Refused`: not a byte left, so nothing can have been stored. `Lost`: the request left and no whole answer came
         back, so everything is possible.
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple, Self

HOST = "127.0.0.1"
_LIMIT = 1 << 20  # a head line, or a chunk's size line


class Refused(Exception):
    """There is no connection: nothing was sent."""


class Lost(Exception):
    """The connection ended after the request and before its whole answer."""


class Answer(NamedTuple):
    """A whole answer; header names are lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def next_offset(self) -> str:
        return self.headers["stream-next-offset"]


class Wire:
    """One client: its requests go one after the other."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
            self._reader = self._writer = None

    async def request(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Answer:
        """One exchange from the first byte to the last."""
        reader = await self.send(method, target, headers, body)
        try:
            status, found = await read_head(reader)
            content = b"" if method == "HEAD" else await _whole_body(reader, status, found)
        except (OSError, asyncio.IncompleteReadError, ValueError) as problem:
            self.close()
            raise Lost(f"{method} {target}: {problem!r}") from problem
        if found.get("connection", "").lower() == "close":
            self.close()
        return Answer(status, found, content)

    async def send(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> asyncio.StreamReader:
        """Send a request and leave the reading of its answer to the caller."""
        reader, writer = await self._connected()
        lines = [f"{method} {target} HTTP/1.1", f"host: {HOST}:{self._port}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        if body or method in {"POST", "PUT"}:
            lines.append(f"content-length: {len(body)}")
        try:
            writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
            await writer.drain()
        except OSError as problem:
            self.close()
            raise Lost(f"{method} {target}: {problem!r}") from problem
        return reader

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._reader is None or self._writer is None:
            try:
                self._reader, self._writer = await asyncio.open_connection(HOST, self._port, limit=_LIMIT)
            except OSError as problem:
                raise Refused(str(problem)) from problem
        return self._reader, self._writer


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """The status and the headers of an answer."""
    raw = await reader.readuntil(b"\r\n\r\n")
    first, *lines = raw[:-4].decode("latin-1").split("\r\n")
    pairs = (line.split(":", 1) for line in lines)
    return int(first.split(" ")[1]), {name.lower(): value.strip() for name, value in pairs}


async def read_chunk(reader: asyncio.StreamReader) -> bytes:
    """The next chunk of a chunked body; empty is its proper end."""
    size = int(await reader.readuntil(b"\r\n"), 16)
    data = await reader.readexactly(size + 2)
    return data[:-2]


async def read_chunks(reader: asyncio.StreamReader) -> tuple[bytes, bool]:
    """All that comes of a chunked body, and whether it was ended properly."""
    parts: list[bytes] = []
    try:
        while part := await read_chunk(reader):
            parts.append(part)
    except (OSError, asyncio.IncompleteReadError, ValueError):
        return b"".join(parts), False
    return b"".join(parts), True


async def _whole_body(reader: asyncio.StreamReader, status: int, found: Mapping[str, str]) -> bytes:
    if status in {204, 304}:
        return b""
    if found.get("transfer-encoding") == "chunked":
        body, ended = await read_chunks(reader)
        if not ended:
            raise ValueError("the chunked body was cut off")
        return body
    return await reader.readexactly(int(found.get("content-length", "0")))
