"""A page of entries as an HTTP answer: its headers, its tag, its body."""

import asyncio

from streams_node.errors import RequestTimedOut
from streams_node.http.context import Context
from streams_node.http.headers import RawHeaders
from streams_node.http.query import ReadQuery
from streams_node.http.selection import selected_page
from streams_node.ingest.state import StreamState
from streams_node.meaning import Meaning, Promoted, promoted
from streams_node.protocol.etags import etag
from streams_node.read.pages import Page, read_page

_LARGE_BYTES = 16 << 10  # promoting that much takes about a millisecond,
_HEAVY = 100_000  # and so does promoting so many entries through so much of lenses
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
    if query.selects:
        try:
            async with asyncio.timeout(settings.request_ms_max / 1000):
                return await selected_page(context, state, start, query, bytes_max, framed=framed)
        except TimeoutError:
            raise RequestTimedOut from None
    meaning = state.tail_meaning if state.is_json and query.raw is not True else None
    reading = read_page(
        context.database, state, start, bytes_max, raw=query.raw is True, cold=context.tiers.reader, framed=framed
    )
    if start >= state.tail.seq and meaning is None:
        return await reading
    try:
        async with asyncio.timeout(settings.request_ms_max / 1000):
            return await _shown(context, state, meaning, await reading)
    except TimeoutError:
        raise RequestTimedOut from None


async def _shown(context: Context, state: StreamState, meaning: Meaning | None, page: Page) -> Page:
    """The page as the current version of the schema has it: its bytes, unless some of its entries are older."""
    if meaning is None:
        return page
    if page.end == page.start or not meaning.promotes(page.start):
        return page._replace(version=meaning.version)
    seconds = context.settings.request_ms_max / 1000 / 2

    def promote() -> Promoted:
        return promoted(meaning, page.start, page.payload, state.token, framed=page.framed, seconds=seconds)

    if len(page.payload) < _LARGE_BYTES and _entries_max(page) * _weight(meaning, page) < _HEAVY:
        payload, end = promote()
    else:
        payload, end = await context.ledger.workshop.promote(promote)
    closed = page.closed and end == page.end
    return page._replace(payload=payload, end=end, closed=closed, framed=False, version=meaning.version)


def _entries_max(page: Page) -> int:
    return min(page.end - page.start, page.payload.count(b",") + 1)


def _weight(meaning: Meaning, page: Page) -> float:
    return meaning.promoter.weight(meaning.registry.version_of(page.start))


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
    if page.limit is not None:
        limit, examined = page.limit
        headers += [
            (b"stream-filter-scan-limit-reached", b"true"),
            (b"stream-filter-scan-limit-bytes", str(limit).encode()),
            (b"stream-filter-scanned-bytes", str(examined).encode()),
        ]
    return headers


def page_body(state: StreamState, page: Page, query: ReadQuery) -> bytes:
    if state.is_json and query.raw is not True and not page.framed:
        return b"[%b]" % page.payload
    return page.payload


def page_tag(state: StreamState, page: Page, query: ReadQuery) -> str:
    form = ":".join(filter(None, (form_of(state, page.version, query.raw), page.selection)))
    return etag(state.id, page.start, page.end, closed=page.closed, form=form)


def form_of(state: StreamState, version: int, raw: bool | None) -> str:  # noqa: FBT001 - as it was asked for
    """What of the form of an answer its tag names."""
    if raw and state.is_json:
        return "raw"
    return f"v{version}" if version else ""


def cache_control(context: Context) -> tuple[bytes, bytes]:
    """A shared cache may keep a page for a minute; behind a key only the client's own may."""
    who = b"public" if context.settings.no_auth else b"private"
    return (b"cache-control", who + b", max-age=60, stale-while-revalidate=300")
