"""POST of `/{bucket}/streams/_search`: a page of hits of many streams. An ordinary Litestar handler."""

import time
from dataclasses import replace
from typing import Any

from litestar import Request, Response, post
from litestar.datastructures import State
from litestar.params import FromPath

from search.engine import SortError, SortKey, after_of, sort_of
from search.language import Plan, has_text
from streams_node.errors import BadSearch
from streams_node.http.bucket_search_request import BucketSearchRequest, bucket_request
from streams_node.http.bucket_search_view import BucketSearchView, bucket_view, fields_of
from streams_node.http.bucket_streams import Listed, streams_of
from streams_node.http.context import Context
from streams_node.http.headers import collected
from streams_node.http.live import while_there
from streams_node.http.paths import check_bucket
from streams_node.http.search import meaning_of, plan_of, seq_of
from streams_node.http.search_forms import TYPES, csv_headers, formatted
from streams_node.http.search_request import SEARCH_BODY_BYTES_MAX, SearchRequest
from streams_node.http.search_view import headers_of
from streams_node.schema.search_config import SearchConfig
from streams_node.searching import Asked
from streams_node.searching.across import Across, Page, Part, Place
from streams_node.wal.lookup import Name

Req = Request[Any, Any, State]
_MS = 1000
_HEADS = ("stream_id", "offset", "score")


@post("/{bucket:str}/streams/_search", status_code=200)
async def bucket_search(request: Req, bucket: FromPath[str]) -> Response[BucketSearchView]:
    """Search streams of a bucket."""
    began = time.monotonic()
    context: Context = request.app.state.context
    check_bucket(bucket)
    length = collected(list(request.scope["headers"])).get(b"content-length")
    body = await context.bodies.read(request.scope, request.receive, length, SEARCH_BODY_BYTES_MAX)  # type: ignore[arg-type]
    asked = bucket_request(body, request.scope["query_string"])
    time_ms = min(asked.search.timeout_ms, context.settings.request_ms_max * 3 // 5)
    asked = asked._replace(search=asked.search._replace(timeout_ms=time_ms))
    answering = _answer(context, bucket, asked, began)
    return await while_there(answering, request.scope, request.receive, context.settings.request_ms_max / _MS)  # type: ignore[arg-type]


HANDLERS = (bucket_search,)


async def _answer(
    context: Context, bucket: str, asked: BucketSearchRequest, began: float
) -> Response[BucketSearchView]:
    parts = _Parts(context, bucket, asked.search, began + asked.search.timeout_ms / _MS)
    listed = await streams_of(context, bucket, asked.streams, parts.late)
    across = Across(parts.search, parts.open, asked.search.size, context.settings.search_scan_bytes_max)
    page = await across.page(listed.names, late=parts.late)
    if page.refused and not page.searched and not page.failed and not page.timed_out:
        raise page.refused[min(page.refused)]
    return await context.searches.run(_response, bucket, asked, listed, page, began)


class _Parts:
    """What is asked of each of the streams. What is alike in streams is understood once."""

    def __init__(self, context: Context, bucket: str, request: SearchRequest, until: float) -> None:
        self._context, self._bucket = context, bucket
        self._request, self._until = request, until
        self._plans: dict[int, tuple[SearchConfig, Plan]] = {}

    def late(self) -> bool:
        return time.monotonic() >= self._until

    async def open(self, name: str) -> Part:
        request = self._request
        state = await self._context.ledger.readable(Name(self._bucket, name))
        meaning, config = meaning_of(state)
        plan = await self._plan(config)
        try:
            keys = _keys(request.sort, plan, config)
            after = None if request.after is None else _place(request.after, keys).within(name, keys)
        except SortError as problem:
            raise BadSearch(str(problem)) from None
        return Part(name, state, Asked(plan, meaning, config, keys, after, request.size, self._until))

    async def search(self, state: Any, asked: Asked) -> Any:
        tiers = self._context.tiers
        return await self._context.searches.search(tiers.reader, tiers.indexes, state, asked)

    async def _plan(self, config: SearchConfig) -> Plan:
        known = self._plans.get(id(config))
        if known is None:
            known = self._plans[id(config)] = config, await plan_of(self._context, self._request.q, config)
        return known[1]


def _keys(sort: tuple[str, ...], plan: Plan, config: SearchConfig) -> tuple[SortKey, ...]:
    """As for one stream; but without a `sort` the time comes before the offset, which says little across streams."""
    if sort or has_text(plan):
        return sort_of(sort, plan, config)
    return sort_of([config.primary_timestamp_field], plan, config)


def _place(raw: tuple[Any, ...], keys: tuple[SortKey, ...]) -> Place:
    """Of another stream's values: they stay as they are, whatever this stream's normalizer would make of them."""
    plain = [key if key.field is None else replace(key, field=replace(key.field, lowercase=False)) for key in keys]
    stream = raw[len(keys)] if len(raw) > len(keys) else None
    if len(raw) > len(keys) + 1 or not isinstance(stream, str | None):
        raise SortError(f"search_after must have {len(keys)} elements of the sort, and the id of a stream")
    return Place(after_of(raw[: len(keys)], plain, seq_of), stream)


def _response(
    bucket: str, request: BucketSearchRequest, listed: Listed, page: Page, began: float
) -> Response[BucketSearchView]:
    """In a thread."""
    view = bucket_view(bucket, request, listed, page, time.monotonic() - began)
    form = request.search.format
    said = headers_of(view)
    if form == "csv":
        said += csv_headers(view.next_search_after)
    headers = {name.decode(): value.decode() for name, value in said}
    headers["content-type"] = TYPES[form].decode()
    body: Any = formatted(form, view, _HEADS, fields_of(page))
    return Response(body, status_code=408 if page.timed_out else 200, headers=headers)
