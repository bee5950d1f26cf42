"""One call of a webhook: resolve, check, connect to the checked address, send, read a little. No redirects, no reuse.

The name is resolved once and the connection goes to the address that was checked, so a name that changes in between
changes nothing; the certificate is still held against the name.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httptools

from streams_node import __version__
from streams_node.errors import WebhookRejected
from streams_node.subscriptions.addresses import Address, Policy, Target, check_addresses

ANSWER_BYTES_MAX = 64 << 10  # an answer says at most `{"done": true}`
_READ_BYTES = 16 << 10
_ADDRESSES_TRIED = 3
Resolve = Callable[[str, int], Awaitable[list[Address]]]


class CallFailed(Exception):
    """A call that came to nothing; the text says why, for people."""


class Answered:
    """What came back, as far as it was read."""

    def __init__(self) -> None:
        self.status = 0
        self.body = b""
        self.complete = False
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as problem:
            raise CallFailed("the answer is no HTTP") from problem
        except httptools.HttpParserUpgrade as problem:  # 101: what follows is another protocol
            raise CallFailed("the answer asks for another protocol") from problem

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        if self.status >= 200:  # noqa: PLR2004 - what comes before is only `100 Continue` and the like
            self.complete = True


class Caller:
    """Calls webhooks. What resolves names has threads of its own: a name server that is dead stops nobody else."""

    def __init__(self, policy: Policy, resolve: Resolve | None = None, *, threads: int = 4) -> None:
        self._policy = policy
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="resolve-webhook")
        self._resolve = resolve or self._resolved
        self._tls: ssl.SSLContext | None = None

    async def call(self, target: Target, headers: Iterable[tuple[str, str]], body: bytes, timeout_s: float) -> Answered:
        """The answer of the receiver, whatever it says. Raises CallFailed."""
        try:
            async with asyncio.timeout(timeout_s):
                addresses = check_addresses(await self._resolve(target.host, target.port), target, self._policy)
                reader, writer = await self._connected(target, addresses)
                try:
                    writer.write(_head(target, headers, len(body)) + body)
                    await writer.drain()
                    return await _answer(reader)
                finally:
                    writer.transport.abort()
        except WebhookRejected as refusal:
            raise CallFailed(refusal.message) from refusal
        except TimeoutError as problem:
            raise CallFailed(f"no answer within {timeout_s:.1f} s") from problem
        except (OSError, ssl.SSLError) as problem:
            raise CallFailed(str(problem) or type(problem).__name__) from problem

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _connected(
        self, target: Target, addresses: list[Address]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        options: dict[str, Any] = {}
        if target.scheme == "https":
            self._tls = self._tls or ssl.create_default_context()
            options = {"ssl": self._tls, "server_hostname": target.host}
        failure: OSError = OSError("the name stands for no address")
        for address in addresses[:_ADDRESSES_TRIED]:
            try:
                return await asyncio.open_connection(str(address), target.port, limit=ANSWER_BYTES_MAX, **options)
            except TimeoutError:
                raise
            except OSError as problem:
                failure = problem
        raise failure

    async def _resolved(self, host: str, port: int) -> list[Address]:
        try:
            return [ipaddress.ip_address(host)]
        except ValueError:
            pass
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, _getaddrinfo, host, port)
        return [ipaddress.ip_address(text.partition("%")[0]) for text in found]


def _getaddrinfo(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _head(target: Target, headers: Iterable[tuple[str, str]], size: int) -> bytes:
    lines = [
        f"POST {target.path} HTTP/1.1",
        f"Host: {target.authority}",
        f"User-Agent: streams-node/{__version__}",
        "Connection: close",
        f"Content-Length: {size}",
        *(f"{name}: {value}" for name, value in headers),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


async def _answer(reader: asyncio.StreamReader) -> Answered:
    answered, size = Answered(), 0
    while not answered.complete:
        data = await reader.read(_READ_BYTES)
        size += len(data)
        if size > ANSWER_BYTES_MAX:
            raise CallFailed(f"the answer has more than {ANSWER_BYTES_MAX} bytes")
        if not data:
            if not answered.status:
                raise CallFailed("the connection was closed without an answer")
            break  # the end of the connection may be the end of the body
        answered.feed(data)
    return answered
