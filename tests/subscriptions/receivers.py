"""A webhook's receiver: a real HTTP server in the test's own loop, which answers as it is told."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

HOST = "127.0.0.1"
DONE = b'{"done":true}'
WAIT_S = 20.0


@dataclass(frozen=True)
class Call:
    """What a receiver was sent."""

    path: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.raw)
        return found

    def holding(self, **more: object) -> dict[str, Any]:
        """What a callback for this wake says."""
        return {"wake_id": self.body["wake_id"], "generation": self.body["generation"], **more}

    @property
    def bearer(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.body['callback_token']}", "content-type": "application/json"}

    def tails(self) -> dict[str, str]:
        return {each["path"]: each["tail_offset"] for each in self.body["streams"] if each["has_pending"]}


@dataclass
class Receiver:
    """Calls come in order; `answer` makes the whole answer to each, or None for a connection that is cut."""

    port: int = 0
    answer: Callable[[Call], bytes | None] = field(default=lambda _: said(200, DONE))
    calls: "asyncio.Queue[Call]" = field(default_factory=asyncio.Queue)
    open: asyncio.Event = field(default_factory=asyncio.Event)  # while it is not set, nobody is answered
    waiting: int = 0

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/hook"

    async def next(self, seconds: float = WAIT_S) -> Call:
        async with asyncio.timeout(seconds):
            return await self.calls.get()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            call = await _received(reader)
            self.calls.put_nowait(call)
            self.waiting += 1
            try:
                await self.open.wait()
            finally:
                self.waiting -= 1
            answer = self.answer(call)
            if answer is not None:
                writer.write(answer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort() if writer.transport.is_closing() else writer.close()


@asynccontextmanager
async def receiving(
    answer: Callable[[Call], bytes | None] | None = None, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    """A receiver for as long as the block runs."""
    receiver = Receiver()
    receiver.open.set()
    if answer is not None:
        receiver.answer = answer
    server = await asyncio.start_server(receiver.serve, HOST, 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()


def said(status: int, body: bytes = b"", **headers: str) -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status} Said", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def verified(call: Call, keys: list[dict[str, str]]) -> bool:
    """Whether a call is signed as it says, by one of the keys. Raises when the signature is another's."""
    parts = dict(part.split("=", 1) for part in call.headers["webhook-signature"].split(","))
    key = next(each for each in keys if each["kid"] == parts["kid"])
    public = Ed25519PublicKey.from_public_bytes(_bytes(key["x"]))
    public.verify(_bytes(parts["ed25519"]), f"{parts['t']}.".encode() + call.raw)
    return True


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


async def _received(reader: asyncio.StreamReader) -> Call:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    return Call(head[0].split()[1], headers, await reader.readexactly(int(headers["content-length"])))
