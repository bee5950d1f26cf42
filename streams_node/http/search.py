"""GET and POST of `…/_search`: a page of a stream's entries that match a query."""

import asyncio
import time
from functools import lru_cache, partial

from search.engine import SortError, after_of, sort_of
from search.language import Plan, QueryError, query
from streams_node.errors import BadSearch, Gone, InvalidOffset
from streams_node.http.context import Context
from streams_node.http.headers import RawHeaders
from streams_node.http.reply import Reply, SubRequest
from streams_node.http.search_forms import TYPES, csv_headers, formatted
from streams_node.http.search_request import SearchRequest, of_body, of_members, of_query
from streams_node.http.search_view import SearchView, headers_of, view_of
from streams_node.ingest.state import StreamState
from streams_node.meaning import Meaning
from streams_node.observe.phases import current
from streams_node.protocol import offsets
from streams_node.schema.search_config import SearchConfig
from streams_node.searching import Asked, Found, Work

_LONG_CHARS = 1000  # to understand such a query takes about a millisecond
_SHORT_HITS, _SHORT_BYTES = 32, 16 << 10  # such an answer takes the loop little longer than a hop to a thread
_MS = 1000
_understood = lru_cache(256)(query)  # clients ask the same again and again; plans and configurations never change


async def search(context: Context, request: SubRequest) -> Reply[SearchView]:
    """Asked in the query."""
    return await _answer(context, request, of_query(request.query_string))


async def search_body(context: Context, request: SubRequest) -> Reply[SearchView]:
    """Asked in a JSON body."""
    return await _answer(context, request, of_members(of_body(request.body), request.query_string))


async def _answer(context: Context, sub: SubRequest, request: SearchRequest) -> Reply[SearchView]:
    began = time.monotonic()
    request = request._replace(timeout_ms=min(request.timeout_ms, context.settings.request_ms_max * 3 // 5))
    state = await context.ledger.readable(sub.name)
    asked = await _asked(context, state, request, began)
    tiers = context.tiers
    found = await context.searches.search(tiers.reader, tiers.indexes, state, asked)
    context.ledger.touch(state)
    _note(context, found.work)
    if _is_short(asked, found) and not request.highlight:
        return _reply(state, request, asked, found, began)
    return await context.searches.run(_reply, state, request, asked, found, began)


def _is_short(asked: Asked, found: Found) -> bool:
    """Few and small records, none of which has to be promoted: a lens may take long."""
    size, current_from = 0, asked.meaning.registry.current_from
    if len(found.hits) > _SHORT_HITS or asked.meaning.problem is not None:
        return False
    for hit in found.hits:
        size += len(hit.text or b"")
        if hit.seq < current_from:
            return False
    return size <= _SHORT_BYTES


def _note(context: Context, work: Work) -> None:
    """Where the time of its turn went."""
    phases, observe = current.get(), context.metrics.search_seconds.observe
    spent = ("open", work.open_s), ("index", work.indexed_s), ("scan", work.scan_s), ("records", work.records_s)
    for phase, seconds in spent:
        observe(phase, seconds)
        if phases is not None:
            phases.add(phase, seconds)


async def _asked(context: Context, state: StreamState, request: SearchRequest, began: float) -> Asked:
    """The request as this stream understands it."""
    meaning, config = meaning_of(state)
    plan = await plan_of(context, request.q, config)
    try:
        keys = sort_of(request.sort, plan, config)
        after = None if request.after is None else after_of(request.after, keys, partial(_seq_in, state))
    except SortError as problem:
        raise BadSearch(str(problem)) from None
    until = began + request.timeout_ms / _MS
    return Asked(plan, meaning, config, keys, after, request.size, until)


def meaning_of(state: StreamState) -> tuple[Meaning, SearchConfig]:
    """What a stream's entries mean, and how they are searched."""
    meaning = state.tail_meaning if state.is_json else None
    if meaning is not None and meaning.problem is not None:
        raise meaning.problem
    if meaning is None or meaning.registry.search is None:
        raise BadSearch("search is not configured for this stream")
    return meaning, meaning.registry.search


async def plan_of(context: Context, text: str, config: SearchConfig | None) -> Plan:
    """A query as a stream understands it; a long one is understood beside the event loop."""
    try:
        if len(text) < _LONG_CHARS:
            return _understood(text, config)
        return await asyncio.get_running_loop().run_in_executor(context.ledger.openers, query, text, config)
    except QueryError as problem:
        raise BadSearch(problem.message, position=problem.position) from None


def seq_of(token: str) -> int:
    """The entry whose hit has this offset."""
    position = offsets.decode(token)
    if position is None:
        raise ValueError(token)
    return position.seq - 1


def _seq_in(state: StreamState, token: str) -> int:
    """The same of one stream: an offset of an earlier life, or beyond its end, is none of its hits."""
    position = offsets.decode(token)
    if position is None:
        raise ValueError(token)
    try:
        return state.issued(position) - 1
    except (Gone, InvalidOffset):
        raise ValueError(token) from None


def _reply(state: StreamState, request: SearchRequest, asked: Asked, found: Found, began: float) -> Reply[SearchView]:
    """In a thread."""
    view = view_of(state, request, asked, found, time.monotonic() - began)
    headers: RawHeaders = [(b"content-type", TYPES[request.format]), *headers_of(view)]
    if request.format == "csv":
        headers += csv_headers(view.next_search_after)
    text = formatted(request.format, view, ("offset", "score"), asked.config.fields)
    return Reply(408 if found.timed_out else 200, None, text, headers)
