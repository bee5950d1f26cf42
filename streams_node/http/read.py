"""GET and HEAD of a stream: catch-up, and the choice of a live mode."""

import asyncio

from streams_node.errors import InvalidRequest, RequestTimedOut
from streams_node.http.asgi import Receive, Scope, Send, answer, cors
from streams_node.http.context import Context
from streams_node.http.events import event_stream
from streams_node.http.headers import CORS, RawHeaders, collected
from streams_node.http.live import long_poll
from streams_node.http.pages import (
    CLOSED,
    NO_STORE,
    cache_control,
    form_of,
    page_body,
    page_headers,
    page_tag,
    timed_page,
)
from streams_node.http.paths import Target
from streams_node.http.query import Mode, Now, ReadQuery, read_query
from streams_node.http.selection import check_selection, start_of
from streams_node.ingest.state import StreamState
from streams_node.protocol.etags import etag, matches
from streams_node.protocol.times import rfc3339


async def get(context: Context, target: Target, scope: Scope, receive: Receive, send: Send) -> int:
    """A page, a wait for one, or an event stream."""
    query = read_query(scope["query_string"])
    if target.sub == "pk":
        query = query._replace(key=target.argument)
    found = collected(scope["headers"])
    try:
        async with asyncio.timeout(context.settings.request_ms_max / 1000):
            state, start = await _begun(context, target, query)
    except TimeoutError:
        raise RequestTimedOut from None
    now = isinstance(query.offset, Now)
    match query.mode:
        case Mode.SSE:
            return await event_stream(context, state, start, query, scope, receive, send)
        case Mode.LONG_POLL:
            return await long_poll(context, state, start, query, scope, receive, send)
        case _:
            return await _catch_up(context, state, start, query, found, scope, send, now=now)


async def _begun(context: Context, target: Target, query: ReadQuery) -> tuple[StreamState, int]:
    """The stream, and where the read begins in it; its window has begun anew."""
    state = await context.ledger.readable(target.name)
    if query.raw is False and not state.is_json:
        raise InvalidRequest("format=json", f"used on an application/json stream; this one is `{state.content_type}`")
    check_selection(state, query)
    start = state.tail.seq if query.offset is None or isinstance(query.offset, Now) else state.resolve(query.offset)
    if query.offset is None:
        start = await start_of(context, state, query.since_us)
    context.ledger.touch(state)
    await context.ledger.kept(state)
    context.busy_reads.add(state.id)
    return state, start


async def _catch_up(
    context: Context,
    state: StreamState,
    start: int,
    query: ReadQuery,
    found: dict[bytes, bytes],
    scope: Scope,
    send: Send,
    *,
    now: bool,
) -> int:
    context.metrics.count_read("catchup")
    page = await timed_page(context, state, start, query, framed=True)
    headers = page_headers(state, page)
    if now:
        headers.append(NO_STORE)
    else:
        tag = page_tag(state, page, query)
        headers += [(b"etag", tag.encode()), cache_control(context)]
        if (seen := found.get(b"if-none-match")) is not None and matches(seen.decode("latin-1"), tag):
            await answer(scope, send, 304, headers + CORS)
            return 304
    body = page_body(state, page, query)
    context.metrics.read_bytes += len(body)
    headers.append((b"content-length", str(len(body)).encode()))
    await answer(scope, send, 200, headers + CORS, body)
    return 200


async def head(context: Context, target: Target, scope: Scope, receive: Receive, send: Send) -> int:  # noqa: ARG001 - every handler takes the same arguments
    """What is known of a stream; it does not restart a sliding window."""
    try:
        async with asyncio.timeout(context.settings.request_ms_max / 1000):
            state = await context.ledger.readable(target.name)
    except TimeoutError:
        raise RequestTimedOut from None
    context.metrics.count_read("head")
    found = collected(scope["headers"])
    tail = state.tail_token().encode()
    version = state.tail_meaning.version if state.tail_meaning is not None and state.is_json else 0
    form = form_of(state, version, raw=None)
    tag = etag(state.id, state.earliest_seq, state.tail.seq, closed=state.tail_closed, form=form)
    headers: RawHeaders = [
        (b"content-type", state.content_type.encode("latin-1")),
        (b"stream-next-offset", tail),
        (b"stream-end-offset", tail),
        (b"etag", tag.encode()),
        NO_STORE,
    ]
    if state.tail_closed:
        headers.append(CLOSED)
    if state.ttl_s is not None:
        headers.append((b"stream-ttl", str(state.ttl_s).encode()))
    if state.expires_us is not None:
        digits = 6 if state.expires_us % 1000 else 3  # as it was asked for, so that a repeated PUT is the same
        headers.append((b"stream-expires-at", rfc3339(state.expires_us, digits=digits).encode()))
    seen = found.get(b"if-none-match")
    status = 304 if seen is not None and matches(seen.decode("latin-1"), tag) else 200
    await answer(scope, send, status, headers + cors(found))
    return status
