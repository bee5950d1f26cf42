"""Takes in request bodies, bounded in size, in time, and in what all of them together may hold."""

import asyncio

from streams_node.config import Settings
from streams_node.errors import InvalidRequest, Overloaded, RequestTimedOut, TooLarge
from streams_node.http.asgi import CYCLE, Message, Receive, Scope

_DIGITS_MAX = 18  # of a length; Python refuses to read numbers of thousands of digits


class Disconnected(Exception):
    """The client went away in the middle of its request: there is nobody to answer."""


class Bodies:
    """All bodies in flight. A body that comes whole with its headers, as small ones do, takes the short way."""

    def __init__(self, settings: Settings) -> None:
        self._bytes_max = settings.append_body_bytes_max
        self._in_flight_max = settings.bodies_in_flight_bytes_max
        self._idle_s_max = settings.append_body_idle_ms_max / 1000
        self.in_flight = 0

    async def read(self, scope: Scope, receive: Receive, declared: bytes | None, bytes_max: int | None = None) -> bytes:
        """The whole body, or the reason why it is not taken. `bytes_max` is for bodies that are no appends."""
        bytes_max = self._bytes_max if bytes_max is None else min(bytes_max, self._bytes_max)
        cycle = scope.get(CYCLE)
        if cycle is not None:
            whole: bytes | None = cycle.whole_body()
            if whole is not None:
                return _fitting(whole, bytes_max)
        if declared is not None:
            if not declared.isdigit() or len(declared) > _DIGITS_MAX:
                raise InvalidRequest("Content-Length", "a whole number", declared.decode("latin-1"))
            if int(declared) > bytes_max:
                raise TooLarge(f"a body may have {bytes_max} bytes, not {int(declared)}")
        message = await self._next(receive)
        if message["type"] == "http.disconnect":
            raise Disconnected
        body: bytes = message.get("body") or b""
        if not message.get("more_body", False):
            return _fitting(body, bytes_max)
        return await self._rest(receive, body, bytes_max)

    async def _rest(self, receive: Receive, first: bytes, bytes_max: int) -> bytes:
        parts, size = [first], len(first)
        self.in_flight += size
        try:
            while True:
                if size > bytes_max:
                    raise TooLarge(f"a body may have {bytes_max} bytes; this one has more")
                if self.in_flight > self._in_flight_max:
                    raise Overloaded(f"requests hold {self.in_flight} bytes of bodies already; try again")
                message = await self._next(receive)
                if message["type"] == "http.disconnect":
                    raise Disconnected
                part: bytes = message.get("body") or b""
                parts.append(part)
                size += len(part)
                self.in_flight += len(part)
                if not message.get("more_body", False):
                    break
        finally:
            self.in_flight -= size
        return _fitting(b"".join(parts), bytes_max)

    async def _next(self, receive: Receive) -> Message:
        try:
            async with asyncio.timeout(self._idle_s_max):
                return await receive()
        except TimeoutError:
            raise RequestTimedOut from None


def _fitting(body: bytes, bytes_max: int) -> bytes:
    if len(body) > bytes_max:
        raise TooLarge(f"a body may have {bytes_max} bytes, not {len(body)}")
    return body
