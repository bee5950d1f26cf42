"""The live side of one stream: who waits for it, and its newest entries."""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice, takewhile
from typing import NamedTuple, Protocol

from streams_node.ingest.state import StreamState

_CHUNK_BYTES = 160  # what keeping a chunk costs beside its payload
_FED_AT_ONCE = 100  # followers; a write takes some 5 µs each


class Chunk(NamedTuple):
    """The entries [start, end) of one append, as a page would show them."""

    start: int
    end: int
    payload: bytes


class Follower(Protocol):
    """Somebody at the stream's end who can take news without waiting."""

    def feed(self) -> bool: ...


class Hub:
    """Made when a stream gets its first live reader, kept for a while after the last one left."""

    __slots__ = (
        "_chunks",
        "_due",
        "_followers",
        "_memo",
        "_memo_key",
        "_waiters",
        "bytes",
        "ended",
        "idle_since",
        "readers",
        "state",
    )

    def __init__(self, state: StreamState) -> None:
        self.state = state
        self.readers = 0
        self.idle_since = 0.0
        self.bytes = 0
        self.ended = False  # the stream is gone, or the node stops: readers finish
        self._chunks: deque[Chunk] = deque()
        self._followers: dict[Follower, asyncio.Future[bool]] = {}
        self._due: dict[Follower, None] = {}
        self._waiters: set[asyncio.Future[bool]] = set()
        self._memo_key: object = None
        self._memo: bytes = b""

    def push(self, chunk: Chunk, bytes_max: int) -> None:
        """Remember a committed append. A gap, as right after the hub was made, starts the tail anew."""
        if self._chunks and self._chunks[-1].end != chunk.start:
            self.forget()
        self._chunks.append(chunk)
        self.bytes += len(chunk.payload) + _CHUNK_BYTES
        while self.bytes > bytes_max:
            self.bytes -= len(self._chunks.popleft().payload) + _CHUNK_BYTES

    def forget(self) -> None:
        """Drop the hot tail; readers ask the database."""
        self._chunks.clear()
        self.bytes = 0

    def recent(self, start: int, end: int, bytes_max: int) -> bytes | None:
        """The entries [start, end) if the hot tail holds exactly them, within the bound."""
        chunks = self._chunks
        if not chunks or chunks[0].start > start or chunks[-1].end < end:
            return None
        if chunks[-1].start == start and chunks[-1].end == end:
            payload = chunks[-1].payload
            return payload if len(payload) <= bytes_max else None
        covered = [
            chunk for chunk in takewhile(lambda chunk: chunk.start >= start, reversed(chunks)) if chunk.end <= end
        ]
        covered.reverse()
        if not covered or covered[0].start != start or covered[-1].end != end:
            return None
        joined = (b"," if self.state.is_json else b"").join(chunk.payload for chunk in covered if chunk.payload)
        return joined if len(joined) <= bytes_max else None

    def memo(self, key: object) -> bytes | None:
        """The encoded event that another reader at the same place was sent last."""
        return self._memo if self._memo_key == key else None

    def remember(self, key: object, event: bytes) -> bytes:
        self._memo_key, self._memo = key, event
        return event

    def wake(self) -> None:
        """Something readers see has changed."""
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(True)
        if self._followers and not self._due:
            asyncio.get_running_loop().call_soon(self._feed)
        for follower in self._followers:  # whoever waits for earlier news keeps its place
            self._due.setdefault(follower)

    def _feed(self) -> None:
        """Hand the news to some followers, then let the loop do other things: thousands at once would hold it up."""
        for follower in list(islice(self._due, _FED_AT_ONCE)):
            del self._due[follower]
            fallen = self._followers.get(follower)
            if fallen is not None and not fallen.done() and not follower.feed():
                fallen.set_result(True)
        if self._due:
            asyncio.get_running_loop().call_soon(self._feed)

    @contextmanager
    def following(self, follower: Follower) -> Iterator["asyncio.Future[bool]"]:
        """Feed a follower while the block runs; the future is done when it has to read for itself."""
        fallen: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._followers[follower] = fallen
        try:
            yield fallen
        finally:
            del self._followers[follower]

    def end(self) -> None:
        self.ended = True
        self.wake()

    def waiter(self) -> "asyncio.Future[bool]":
        """A future that the next change resolves with True. Whoever times it resolves it with False."""
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        return waiter

    def leave(self, waiter: "asyncio.Future[bool]") -> None:
        """Forget a waiter that does not wait any more."""
        self._waiters.discard(waiter)
