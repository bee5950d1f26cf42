"""What index drivers ask for: claim, renew, commit; and what there is to index, for people."""

import asyncio
from typing import Any, TypeVar

import msgspec
from litestar import Request, Response, get, post
from litestar.datastructures import State

from indexers.messages import ClaimRequest, CommitRequest, RenewRequest
from streams_node.errors import InvalidRequest, TooLarge, Unavailable
from streams_node.http.context import Context
from streams_node.indexing.desk import Desk
from streams_node.indexing.leases import Lease
from streams_node.protocol.times import rfc3339

Req = Request[Any, Any, State]
Asked = TypeVar("Asked", bound=msgspec.Struct)
_JSON = "application/json"
_SMALL_BYTES_MAX = 64 << 10
_COMMIT_BYTES_MAX = 64 << 20
_LARGE_BYTES = 64 << 10  # reading or writing more takes the loop a good part of a millisecond
_WAIT_SHARE = 0.6  # of the time that a request may take: the rest is for finding the work
_BYTES_MAX = 4 << 30


class IndexRenewedView(msgspec.Struct):
    claim: str
    lease_ms: int


class IndexCommittedView(msgspec.Struct):
    claim: str
    covers: int
    left_out: int


class IndexClaimView(msgspec.Struct):
    driver: str
    fence: int
    objects: int
    done: int
    bytes: int


class IndexFailureView(msgspec.Struct):
    object: str
    reason: str
    count: int
    since: str


class IndexingView(msgspec.Struct):
    planned_streams: int
    due_streams: int
    due_entries: int
    due_bytes: int
    oldest_ms: int
    asked: bool
    claims: list[IndexClaimView]
    failed: list[IndexFailureView]
    counts: dict[str, int]


@post("/v1/server/_index/claim", status_code=200, request_max_body_size=_SMALL_BYTES_MAX)
async def index_claim(request: Req) -> Response[bytes | None]:
    """Work for an index driver."""
    context = _context(request)
    asked = await _asked(request, ClaimRequest)
    if asked.wait_ms < 0 or not 0 < asked.bytes_max <= _BYTES_MAX or not asked.driver:
        raise InvalidRequest("a claim", "with a driver, `wait_ms` of 0 or more and `bytes_max` up to 4 GiB")
    wait_s = min(asked.wait_ms, context.settings.request_ms_max * _WAIT_SHARE) / 1000
    claim = await _desk(context).claim(asked, wait_s)
    if claim is None:
        return Response(None, status_code=204)
    return Response(await asyncio.to_thread(msgspec.json.encode, claim), media_type=_JSON)


@post("/v1/server/_index/renew", status_code=200, request_max_body_size=_SMALL_BYTES_MAX)
async def index_renew(request: Req) -> Response[IndexRenewedView]:
    """A driver is still at it."""
    context = _context(request)
    asked = await _asked(request, RenewRequest)
    lease = await _desk(context).renew(asked)
    return Response(IndexRenewedView(lease.claim, context.settings.index_lease_ms))


@post("/v1/server/_index/commit", status_code=200, request_max_body_size=_COMMIT_BYTES_MAX)
async def index_commit(request: Req) -> Response[IndexCommittedView]:
    """What came of a claim."""
    context = _context(request)
    asked = await _asked(request, CommitRequest)
    # A driver that gives up waiting must not stop it half-way.
    done = await asyncio.shield(asyncio.ensure_future(_desk(context).commit(asked)))
    return Response(IndexCommittedView(asked.claim, done.covers, done.left_out))


@get("/v1/server/_index")
async def index_overview(request: Req) -> IndexingView:
    """What there is to index, who is at it, and what could not be used."""
    desk = _desk(_context(request))
    outlook = desk.outlook()
    return IndexingView(
        planned_streams=desk.planned,
        due_streams=outlook.streams,
        due_entries=outlook.entries,
        due_bytes=outlook.bytes,
        oldest_ms=int(outlook.oldest_s * 1000),
        asked=outlook.asked,
        claims=[_claim(lease) for lease in desk.leases],
        failed=[IndexFailureView(each.made, each.reason, each.count, rfc3339(each.since_us)) for each in desk.failed()],
        counts=dict(desk.counts),
    )


HANDLERS = (index_claim, index_renew, index_commit, index_overview)


def _claim(lease: Lease) -> IndexClaimView:
    return IndexClaimView(lease.driver, lease.fence, lease.work, lease.done, lease.bytes)


async def _asked(request: Req, kind: type[Asked]) -> Asked:
    body = await request.body()
    if len(body) > (_COMMIT_BYTES_MAX if kind is CommitRequest else _SMALL_BYTES_MAX):
        raise TooLarge("the body is larger than such a request may be")
    try:
        if len(body) > _LARGE_BYTES:
            return await asyncio.to_thread(msgspec.json.decode, body, type=kind)
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise InvalidRequest(
            "the body", f"as the manual's page on the index protocol describes it: {problem}"
        ) from None


def _context(request: Req) -> Context:
    context: Context = request.app.state.context
    return context


def _desk(context: Context) -> Desk:
    desk = context.tiers.desk
    if desk is None:
        raise Unavailable("the indexes of this node are not open yet; try again")
    return desk
