"""The event stream of one reader, and the short way for the many readers that stand at a stream's end.

A follower that has caught up does not run for every append. The hub hands it the new entries, which are written to its
connection as they are, encoded once for all followers at that place. Its task wakes only to beat, to end, or when it is
behind: because its client is slower than the stream, or the hot tail does not reach back to it.
"""

import asyncio
from contextlib import suppress

from streams_node.errors import StreamsError
from streams_node.http.asgi import CYCLE, Receive, Scope, Send
from streams_node.http.context import Context
from streams_node.http.cycle import Cycle
from streams_node.http.headers import CORS, SECURITY, RawHeaders
from streams_node.http.live import wait, watched
from streams_node.http.pages import timed_page
from streams_node.http.query import ReadQuery
from streams_node.http.sse import HEARTBEAT, control_event, data_event
from streams_node.ingest.state import StreamState
from streams_node.live.hub import Hub
from streams_node.protocol.content_types import is_text
from streams_node.protocol.cursors import cursor
from streams_node.read.pages import Page


async def event_stream(
    context: Context, state: StreamState, start: int, query: ReadQuery, scope: Scope, receive: Receive, send: Send
) -> int:
    """Entries as they come, until the stream is closed, the client leaves, or the connection is due for a new one."""
    context.metrics.count_read("sse")
    with context.live.attached(state, "sse") as hub, watched(scope, receive) as left:
        follower = Follower(context, hub, start, query, scope.get(CYCLE))
        await follower.begin()
        await send({"type": "http.response.start", "status": 200, "headers": _headers(state, start)})
        with suppress(StreamsError):  # the stream ended under its reader: the client comes back and is told so
            await follower.run(send, left)
    context.ledger.touch(state)
    await send({"type": "http.response.body", "body": b""})
    return 200


class Follower:
    """One reader at its position."""

    __slots__ = ("_context", "_cycle", "_first", "_hub", "_query", "_untold", "_wrote", "position")

    def __init__(self, context: Context, hub: Hub, position: int, query: ReadQuery, cycle: Cycle | None) -> None:
        self._context = context
        self._hub = hub
        self._query = query
        self._cycle = cycle
        self._wrote = 0.0
        self._first: Page | None = None
        self._untold: Page | None = None  # it brought nothing: where the reader is by now is said with the next beat
        self.position = position

    async def begin(self) -> None:
        """Read the first page of what is there before anything is answered: a failure then has a status."""
        if self.position < self._hub.state.tail.seq:
            self._first = await timed_page(self._context, self._hub.state, self.position, self._query)

    async def run(self, send: Send, left: "asyncio.Future[None]") -> None:
        """Send what is there, then what comes."""
        settings, hub, state = self._context.settings, self._hub, self._hub.state
        loop = asyncio.get_running_loop()
        beat_s, ends = settings.sse_heartbeat_ms / 1000, loop.time() + settings.sse_recycle_ms / 1000
        told = False
        while not left.done():
            while self.position < state.tail.seq or not told or state.tail_closed:
                page = await self._send_page(send, told=told)
                told = True
                if page.closed or left.done():
                    return
            now = loop.time()
            if hub.ended or now >= ends:
                return
            if now >= self._wrote + beat_s:
                beat = HEARTBEAT if self._untold is None else self._event(self._untold)
                self._untold = None
                await send({"type": "http.response.body", "body": beat, "more_body": True})
                self._wrote = now
            await self._wait(min(ends, self._wrote + beat_s), left)

    def feed(self) -> bool:
        """Write what is new straight to the connection; False when that cannot be done and the task must run."""
        cycle, hub, state = self._cycle, self._hub, self._hub.state
        tail = state.tail.seq
        if cycle is None or self._query.selects or state.tail_closed or hub.ended or not cycle.takes_chunks():
            return False
        if self.position >= tail:
            return True
        version, meaning = 0, state.tail_meaning
        if meaning is not None and self._query.raw is not True:
            if meaning.promotes(self.position):
                return False
            version = meaning.version
        payload = hub.recent(self.position, tail, self._context.settings.read_page_bytes)
        if payload is None:
            return False
        page = Page(self.position, tail, payload, tail, closed=False, version=version)
        cycle.write_chunk(self._event(page, chunked=True))
        self._context.metrics.read_bytes += len(payload)
        self.position = tail
        self._wrote = cycle.protocol.loop.time()
        return True

    async def _send_page(self, send: Send, *, told: bool) -> Page:
        page, self._first = self._first, None
        if page is None:
            page = await timed_page(self._context, self._hub.state, self.position, self._query)
        if told and self._query.selects and not page.payload and not page.closed:
            self._untold, self.position = page, page.end
            return page
        self._untold = None
        self._context.metrics.read_bytes += len(page.payload)
        await send({"type": "http.response.body", "body": self._event(page), "more_body": True})
        self.position = page.end
        self._wrote = asyncio.get_running_loop().time()
        return page

    async def _wait(self, deadline: float, left: "asyncio.Future[None]") -> None:
        if self.position < self._hub.state.tail.seq:
            return
        if self._cycle is None:
            await wait(self._hub, deadline, left)
            return
        with self._hub.following(self) as fallen:
            await wait(self._hub, deadline, left, fallen)

    def _event(self, page: Page, *, chunked: bool = False) -> bytes:
        """The data and its control event. Readers at the same place are sent the same bytes, encoded once."""
        state, hub, query, context = self._hub.state, self._hub, self._query, self._context
        where = None if page.closed else cursor(context.now_s(), query.cursor, context.jitter())
        key = (page.start, page.end, page.closed, page.up_to_date, where, query.raw, query.key, page.version, chunked)
        known = hub.memo(key)
        if known is not None:
            return known
        event = control_event(state.token(page.end), cursor=where, up_to_date=page.up_to_date, closed=page.closed)
        if page.payload:
            text = is_text(state.content_type)
            event = data_event(page.payload, is_json=state.is_json and query.raw is not True, is_text=text) + event
        return hub.remember(key, b"%x\r\n%b\r\n" % (len(event), event) if chunked else event)


def _headers(state: StreamState, start: int) -> RawHeaders:
    headers = [
        *SECURITY,
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-cache, no-store"),
        (b"stream-next-offset", state.token(start).encode()),
        (b"stream-end-offset", state.tail_token().encode()),
        (b"x-accel-buffering", b"no"),
        *CORS,
    ]
    if not is_text(state.content_type):
        headers.append((b"stream-sse-data-encoding", b"base64"))
    return headers
