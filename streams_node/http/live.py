"""Live reads: the long-poll and the event stream."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from streams_node.errors import StreamsError
from streams_node.http.asgi import CYCLE, Receive, Scope, Send, answer
from streams_node.http.context import Context
from streams_node.http.headers import CORS, SECURITY, RawHeaders
from streams_node.http.pages import NO_STORE, cache_control, page_body, page_headers, page_tag, timed_page
from streams_node.http.query import ReadQuery
from streams_node.http.sse import HEARTBEAT, control_event, data_event
from streams_node.ingest.state import StreamState
from streams_node.live.hub import Hub
from streams_node.protocol.content_types import is_text
from streams_node.protocol.cursors import cursor
from streams_node.read.pages import Page


async def long_poll(
    context: Context, state: StreamState, start: int, query: ReadQuery, scope: Scope, receive: Receive, send: Send
) -> int:
    """Entries from `start` as soon as there are any; 204 when there are none in time, or never will be."""
    loop = asyncio.get_running_loop()
    context.metrics.count_read("long_poll")
    ms_max = context.settings.long_poll_ms_max
    deadline = loop.time() + min(ms_max if query.timeout_ms is None else query.timeout_ms, ms_max) / 1000
    with context.live.attached(state, "long_poll") as hub, watched(scope, receive) as left:
        while start >= state.tail.seq and not state.tail_closed and not hub.ended and not left.done():
            if not await wait(hub, deadline, left):
                break
    if left.done():
        return 499
    page = await timed_page(context, state, start, query)
    headers = page_headers(state, page)
    if not page.closed:
        headers.append((b"stream-cursor", cursor(context.now_s(), query.cursor, context.jitter()).encode()))
    context.ledger.touch(state)
    if page.end == page.start:
        headers = [line for line in headers if line[0] != b"content-type"]
        await answer(scope, send, 204, [*headers, NO_STORE, *CORS])
        return 204
    body = page_body(state, page, query)
    context.metrics.read_bytes += len(body)
    headers += [
        (b"etag", page_tag(state, page, query).encode()),
        cache_control(context),
        (b"content-length", str(len(body)).encode()),
    ]
    await answer(scope, send, 200, headers + CORS, body)
    return 200


async def event_stream(
    context: Context, state: StreamState, start: int, query: ReadQuery, scope: Scope, receive: Receive, send: Send
) -> int:
    """Entries as they come, until the stream is closed, the client leaves, or the connection is due for a new one."""
    context.metrics.count_read("sse")
    with context.live.attached(state, "sse") as hub, watched(scope, receive) as left:
        await send({"type": "http.response.start", "status": 200, "headers": _event_headers(state, start)})
        with suppress(StreamsError):  # the stream ended under its reader: the client comes back and is told so
            await _follow(context, hub, start, query, send, left)
    context.ledger.touch(state)
    await send({"type": "http.response.body", "body": b""})
    return 200


async def _follow(
    context: Context, hub: Hub, position: int, query: ReadQuery, send: Send, left: "asyncio.Future[None]"
) -> None:
    settings, state = context.settings, hub.state
    loop = asyncio.get_running_loop()
    heartbeat_s = settings.sse_heartbeat_ms / 1000
    ends = loop.time() + settings.sse_recycle_ms / 1000
    told = False
    while not left.done():
        if position < state.tail.seq or not told or state.tail_closed:
            page = await timed_page(context, state, position, query)
            event = _event(context, hub, page, query)
            context.metrics.read_bytes += len(page.payload)
            await send({"type": "http.response.body", "body": event, "more_body": True})
            position, told = page.end, True
            if page.closed:
                return
            if not page.up_to_date:
                continue
        if hub.ended or loop.time() >= ends:
            return
        woken = position < state.tail.seq or await wait(hub, min(ends, loop.time() + heartbeat_s), left)
        if not woken and not left.done() and loop.time() < ends:
            await send({"type": "http.response.body", "body": HEARTBEAT, "more_body": True})


def _event(context: Context, hub: Hub, page: Page, query: ReadQuery) -> bytes:
    """The data and its control event. Readers at the same place are sent the same bytes, encoded once."""
    state = hub.state
    where = None if page.closed else cursor(context.now_s(), query.cursor, context.jitter())
    key = (page.start, page.end, page.closed, page.up_to_date, where, query.raw)
    known = hub.memo(key)
    if known is not None:
        return known
    event = control_event(state.token(page.end), cursor=where, up_to_date=page.up_to_date, closed=page.closed)
    if page.end > page.start:
        text = is_text(state.content_type)
        event = data_event(page.payload, is_json=state.is_json and query.raw is not True, is_text=text) + event
    return hub.remember(key, event)


def _event_headers(state: StreamState, start: int) -> RawHeaders:
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


async def wait(hub: Hub, deadline: float, left: "asyncio.Future[None]") -> bool:
    """Wait for the next change of the stream; False when the time is over or the client is gone."""
    loop = asyncio.get_running_loop()
    waiter = hub.waiter()

    def give_up(_: object = None) -> None:
        if not waiter.done():
            waiter.set_result(False)

    timer = loop.call_at(deadline, give_up)
    left.add_done_callback(give_up)
    try:
        return await waiter
    finally:
        timer.cancel()
        left.remove_done_callback(give_up)
        hub.leave(waiter)


@contextmanager
def watched(scope: Scope, receive: Receive) -> Iterator["asyncio.Future[None]"]:
    """A future that is done once the client has left. Our own protocol tells; another server is asked by a task."""
    loop = asyncio.get_running_loop()
    left: asyncio.Future[None] = loop.create_future()
    cycle = scope.get(CYCLE)
    if cycle is not None:
        with cycle.protocol.watch(left):
            yield left
        return
    task = loop.create_task(_until_disconnect(receive, left), name="watch-disconnect")
    try:
        yield left
    finally:
        task.cancel()


async def _until_disconnect(receive: Receive, left: "asyncio.Future[None]") -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    if not left.done():
        left.set_result(None)
