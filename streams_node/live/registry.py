"""All hubs of the node: attaches readers, publishes batches, and keeps the caps."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from streams_node.errors import Missing, Unavailable
from streams_node.ingest.batches import Batch
from streams_node.ingest.state import StreamState
from streams_node.live.hub import Chunk, Hub

IDLE_S = 20.0  # a hub outlives its last reader by this: long-poll clients come back within it


class Live:
    """Knows every hub. Only the event loop touches it."""

    def __init__(self, *, readers_max: int, tail_bytes_max: int, stream_tail_bytes_max: int) -> None:
        self._hubs: dict[int, Hub] = {}
        self._readers_max = readers_max
        self._tail_bytes_max = tail_bytes_max
        self._stream_tail_bytes_max = stream_tail_bytes_max
        self.readers = {"long_poll": 0, "sse": 0}
        self.bytes = 0
        self.ending = False

    @contextmanager
    def attached(self, state: StreamState, mode: str) -> Iterator[Hub]:
        """A live reader of a stream, for as long as the block runs. It holds a sliding window open."""
        if sum(self.readers.values()) >= self._readers_max:
            raise Unavailable(f"{self._readers_max} live readers are connected already; try again later")
        if self.ending:
            raise Unavailable("the node is shutting down")
        if state.gone:
            raise Missing(f"stream `{state.name.stream}` does not exist")
        hub = state.hub
        if hub is None:
            old = self._hubs.get(state.id)  # of the same stream, before a failed commit
            if old is not None:
                self._forget(old)
                old.state.hub = None  # the two refer to each other, and the collector sees no states
            hub = state.hub = self._hubs[state.id] = Hub(state)
        hub.readers += 1
        self.readers[mode] += 1
        try:
            yield hub
        finally:
            hub.readers -= 1
            self.readers[mode] -= 1
            if not hub.readers:
                hub.idle_since = time.monotonic()

    def published(self, batch: Batch) -> None:
        """A batch is on disk: remember what live streams got, then wake their readers once each."""
        woken: dict[int, Hub] = {}
        for state, end, _, fresh in batch.touched:
            hub = state.hub
            if hub is None:
                continue
            woken[state.id] = hub
            if fresh is None:
                self._forget(hub)  # decided before the hub was there
            else:
                self._push(hub, fresh, end.seq)
        for state, _, _ in batch.meant:
            if state.hub is not None:
                woken[state.id] = state.hub
        for hub in woken.values():
            hub.wake()

    def hubs(self) -> Iterable[Hub]:
        """Of all streams that are read live, or were a moment ago."""
        return self._hubs.values()

    def held(self) -> list[StreamState]:
        """Streams whose sliding window a live reader holds open."""
        return [hub.state for hub in self._hubs.values() if hub.readers and hub.state.ttl_s is not None]

    def sweep(self, now: float) -> None:
        """Forget hubs that nobody has read for a while."""
        for key, hub in list(self._hubs.items()):
            if not hub.readers and now - hub.idle_since > IDLE_S:
                del self._hubs[key]
                self.bytes -= hub.bytes
                hub.state.hub = None

    def end_all(self) -> None:
        """The node stops: every live read finishes at once."""
        self.ending = True
        for hub in self._hubs.values():
            hub.end()

    def _push(self, hub: Hub, fresh: "tuple[int, bytes]", end: int) -> None:
        start, payload = fresh
        before = hub.bytes
        hub.push(Chunk(start, end, payload), self._stream_tail_bytes_max)
        self.bytes += hub.bytes - before
        if self.bytes > self._tail_bytes_max:
            for other in self._hubs.values():
                if other is not hub:
                    self._forget(other)

    def _forget(self, hub: Hub) -> None:
        self.bytes -= hub.bytes
        hub.forget()
