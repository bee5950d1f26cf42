"""The routes that are not hot: buckets, listings, health, metrics. Ordinary Litestar handlers."""

from typing import Any, NamedTuple

import msgspec
from litestar import Request, Response, delete, get, post, put
from litestar.datastructures import State
from litestar.params import FromPath

from streams_node.errors import Missing
from streams_node.http import bucket_search, docs_page, indexing, server, server_subscriptions, subscriptions, ui
from streams_node.http.context import Context
from streams_node.http.flush import FlushView, flush_if_due
from streams_node.http.paths import bucket_target, check_bucket
from streams_node.http.query import number, parameters
from streams_node.ingest.remove import create_bucket, delete_bucket
from streams_node.observe.metrics import CONTENT_TYPE
from streams_node.protocol.times import rfc3339
from streams_node.wal.listing import DEFAULT_BUCKET, BucketEntry, StreamEntry
from streams_node.wal.lookup import Name

Req = Request[Any, Any, State]
_LISTING = frozenset(("prefix", "after", "limit"))
_STREAMS = frozenset(("limit", "offset"))
_BUCKET_PAGE_MAX = 1000
_STREAMS_PAGE = 100
_STREAMS_PAGE_MAX = 1000
_SKIP_MAX = 10**12


class BucketView(msgspec.Struct):
    bucket_id: str
    streams: int
    created_at_ms: int


class BucketStream(msgspec.Struct):
    stream_id: str
    status: str
    content_type: str
    tail_offset: int
    created_at_ms: int
    last_write_at_ms: int


class BucketPage(msgspec.Struct):
    bucket_id: str
    prefix: str
    stream_count: int
    streams: list[BucketStream]
    next_cursor: str | None
    has_more: bool


class StreamView(msgspec.Struct):
    name: str
    created_at: str
    expires_at: str | None
    epoch: int
    next_offset: str
    sealed_through: str
    uploaded_through: str
    profile: str


class Readiness(msgspec.Struct):
    ready: bool
    reasons: list[str]


def context_of(request: Req) -> Context:
    context: Context = request.app.state.context
    return context


@put("/{bucket:str}", status_code=201)
async def bucket_create(request: Req, bucket: FromPath[str]) -> Response[BucketView]:
    """Create a bucket."""
    context = context_of(request)
    check_bucket(bucket)
    batch = await create_bucket(context.ledger, bucket)
    await batch.settling
    return Response(await _bucket_view(context, bucket), status_code=201)


@get("/{bucket:str}")
async def bucket_get(request: Req, bucket: FromPath[str]) -> BucketView:
    """What is known of a bucket."""
    check_bucket(bucket)
    return await _bucket_view(context_of(request), bucket)


@delete("/{bucket:str}", status_code=204)
async def bucket_delete(request: Req, bucket: FromPath[str]) -> None:
    """Delete an empty bucket."""
    context = context_of(request)
    check_bucket(bucket)
    batch = await delete_bucket(context.ledger, bucket)
    await batch.settling


@get("/{bucket:str}/streams")
async def bucket_streams(request: Req, bucket: FromPath[str]) -> BucketPage:
    """A page of a bucket's streams in byte order of their ids."""
    context = context_of(request)
    check_bucket(bucket)
    asked = parameters(request.scope["query_string"], _LISTING)
    limit = number(asked, "limit", _BUCKET_PAGE_MAX, least=1, most=_BUCKET_PAGE_MAX)
    found = await context.ledger.buckets.stored(bucket)
    if found is None or not found.alive:
        raise Missing(f"bucket `{bucket}` does not exist")
    prefix = asked.get("prefix", "")
    entries = await context.database.list_bucket(
        found.id, prefix, asked.get("after", ""), limit + 1, context.ledger.now_us()
    )
    page = [_bucket_stream(context, bucket, entry) for entry in entries[:limit]]
    more = len(entries) > limit
    return BucketPage(bucket, prefix, len(page), page, page[-1].stream_id if more else None, more)


@get("/v1/streams")
async def streams(request: Req) -> list[StreamView]:
    """A page of all streams, bucket by bucket."""
    context = context_of(request)
    asked = parameters(request.scope["query_string"], _STREAMS)
    limit = number(asked, "limit", _STREAMS_PAGE, least=0, most=_STREAMS_PAGE_MAX)
    offset = number(asked, "offset", 0, least=0, most=_SKIP_MAX)
    entries = await context.database.list_streams(limit, offset, context.ledger.now_us())
    return await _stream_views(context, entries)


@post("/__ursula/flush-cold/{bucket:str}/{stream:str}")
async def flush_cold(request: Req) -> Response[FlushView | None]:
    """Bring a stream into the bucket now, if there is something to bring."""
    target = bucket_target(request.scope["raw_path"].removeprefix(b"/__ursula/flush-cold"))
    status, view = await flush_if_due(context_of(request), target.name, request.scope["query_string"])
    return Response(view, status_code=status)


@get(["/health", "/healthz"])
async def health() -> dict[str, bool]:
    """The process answers."""
    return {"ok": True}


@get("/livez")
async def livez() -> dict[str, bool]:
    """The event loop moves: it has just sent this."""
    return {"ok": True}


@get("/readyz")
async def readyz(request: Req) -> Response[Readiness]:
    """Whether reads and writes are taken; the reasons when they are not."""
    context = context_of(request)
    reasons = [f"{code}: {failure.message}" for code, failure in context.ledger.refusals.items()]
    waited_s = context.ledger.committer.oldest_s
    if waited_s * 1000 > context.settings.append_wait_ms_max:
        reasons.append(f"writer_stuck: the disk has not answered a commit for {waited_s:.1f} s")
    return Response(Readiness(not reasons, reasons), status_code=503 if reasons else 200)


@get("/metrics")
async def metrics(request: Req) -> Response[bytes]:
    """Prometheus text."""
    # As a header: of a media type Litestar would make `…; charset=utf-8; charset=utf-8`.
    return Response(context_of(request).metrics.render(), headers={"content-type": CONTENT_TYPE})


async def _bucket_view(context: Context, name: str) -> BucketView:
    bucket = await context.ledger.buckets.stored(name)
    if bucket is None or not bucket.alive:
        raise Missing(f"bucket `{name}` does not exist")
    return BucketView(name, bucket.streams, bucket.created_us // 1000)


def _bucket_stream(context: Context, bucket: str, entry: BucketEntry) -> BucketStream:
    """The stored entry, or what memory knows better: a head is written behind its log."""
    state = context.ledger.states.peek(Name(bucket, entry.name))
    tail, ts, closed = entry.next_seq, entry.ts, bool(entry.closed)
    if state is not None and state.id == entry.stream:
        tail, closed = state.tail.seq, state.tail_closed
        ts = state.ts if state.settled else ts
    status = "Closed" if closed else "Open"
    return BucketStream(entry.name, status, entry.content_type, tail, entry.created_us // 1000, ts // 1000)


class _End(NamedTuple):
    """The end of a stream in the log: its newest row, and the sequence after it; and the end of its life, if any."""

    row: int
    seq: int
    life_us: int | None


async def _stream_views(context: Context, entries: list[StreamEntry]) -> list[StreamView]:
    through = context.tiers.published_through
    ends = [_end_of(context, entry) for entry in entries]
    late = [end.row for end in ends if end.row > through]
    first_open = iter(await context.database.sealed_ends(late, through) if late else ())
    return [
        _stream_view(entry, end, end.seq if end.row <= through else next(first_open))
        for entry, end in zip(entries, ends, strict=True)
    ]


def _end_of(context: Context, entry: StreamEntry) -> _End:
    """What memory knows, or the stored head: it is written behind its log."""
    state = context.ledger.states.peek(Name(entry.bucket, entry.name))
    if state is not None and state.id == entry.stream:
        return _End(state.tail.row, state.tail.seq, state.ends_us)
    stored = entry.expires_us if entry.expires_us is not None else entry.dies_us
    return _End(entry.last_row, entry.next_seq, stored)


def _stream_view(entry: StreamEntry, end: _End, published: int | None) -> StreamView:
    name = entry.name if entry.bucket == DEFAULT_BUCKET else f"{entry.bucket}/{entry.name}"
    through = str((0 if published is None else published) - 1)
    return StreamView(
        name,
        rfc3339(entry.created_us),
        None if end.life_us is None else rfc3339(end.life_us),
        entry.epoch,
        str(end.seq),
        through,
        through,
        entry.profile,
    )


HANDLERS = (
    bucket_create, bucket_get, bucket_delete, bucket_streams, streams, flush_cold, health, livez, readyz, metrics,
    *bucket_search.HANDLERS, *docs_page.HANDLERS, *ui.HANDLERS, *subscriptions.HANDLERS, *indexing.HANDLERS,
    *server.HANDLERS, *server_subscriptions.HANDLERS,
)  # fmt: skip
