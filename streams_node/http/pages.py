"""A page of entries as an HTTP answer: its headers, its tag, its body."""

import asyncio

from streams_node.errors import RequestTimedOut
from streams_node.http.context import Context
from streams_node.http.headers import RawHeaders
from streams_node.http.query import ReadQuery
from streams_node.ingest.state import StreamState
from streams_node.protocol.etags import etag
from streams_node.read.pages import Page, read_page

NO_STORE = (b"cache-control", b"no-store")
UP_TO_DATE = (b"stream-up-to-date", b"true")
CLOSED = (b"stream-closed", b"true")


async def timed_page(
    context: Context, state: StreamState, start: int, query: ReadQuery, *, framed: bool = False
) -> Page:
    """A page within the time a request may take to its first byte."""
    settings = context.settings
    context.connections.admit_answer()
    bytes_max = min(query.bytes_max or settings.read_page_bytes, settings.read_page_bytes_max)
    reading = read_page(
        context.database, state, start, bytes_max, raw=query.raw is True, cold=context.tiers.reader, framed=framed
    )
    if start >= state.tail.seq:
        return await reading
    try:
        async with asyncio.timeout(settings.request_ms_max / 1000):
            return await reading
    except TimeoutError:
        raise RequestTimedOut from None


def page_headers(state: StreamState, page: Page) -> RawHeaders:
    headers: RawHeaders = [
        (b"content-type", state.content_type.encode("latin-1")),
        (b"stream-next-offset", state.token(page.end).encode()),
        (b"stream-end-offset", state.token(page.tail).encode()),
    ]
    if page.up_to_date:
        headers.append(UP_TO_DATE)
    if page.closed:
        headers.append(CLOSED)
    return headers


def page_body(state: StreamState, page: Page, query: ReadQuery) -> bytes:
    if state.is_json and query.raw is not True and not page.framed:
        return b"[%b]" % page.payload
    return page.payload


def page_tag(state: StreamState, page: Page, query: ReadQuery) -> str:
    return etag(state.id, page.start, page.end, closed=page.closed, form="raw" if query.raw and state.is_json else "")


def cache_control(context: Context) -> tuple[bytes, bytes]:
    """A shared cache may keep a page for a minute; behind a key only the client's own may."""
    who = b"public" if context.settings.no_auth else b"private"
    return (b"cache-control", who + b", max-age=60, stale-while-revalidate=300")
