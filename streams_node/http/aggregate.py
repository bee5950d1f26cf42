"""POST of `…/_aggregate`: what the entries of a stream add up to, by a rollup, or by any aggregatable fields."""

import time
from functools import partial

from search.language import Plan
from streams_node.errors import BadSearch
from streams_node.http.aggregate_request import AggregateRequest, members_of, request_of, timeout_of
from streams_node.http.aggregate_tree import tree_of
from streams_node.http.aggregate_view import AggregateView, bucket_of, coverage_of, encoded, iso, text_of
from streams_node.http.aggregate_wanted import WantedRequest, wanted_of, within
from streams_node.http.context import Context
from streams_node.http.reply import Reply, SubRequest
from streams_node.http.search import plan_of
from streams_node.ingest.state import StreamState
from streams_node.meaning import Meaning, name_of
from streams_node.schema.search_config import SearchConfig
from streams_node.searching.aggregated import Aggregated, Asked
from streams_node.searching.tallies import Asked as AskedTally
from streams_node.searching.tallies import Tallied

_MS = 1000


async def aggregate(context: Context, sub: SubRequest) -> Reply[AggregateView]:
    """Within `timeout_ms`, and three fifths of what a request may take."""
    began = time.monotonic()
    given = members_of(sub.body)
    until = began + timeout_of(given, context.settings.request_ms_max * 3 // 5) / _MS
    state = await context.ledger.readable(sub.name)
    meaning, config = _declared(state)
    answer = _rollup if given.get("aggs") is None else _tally
    reply = await answer(context, state, meaning, config, given, until)
    context.ledger.touch(state)
    return reply


def _declared(state: StreamState) -> tuple[Meaning, SearchConfig]:
    meaning = state.tail_meaning if state.is_json else None
    if meaning is not None and meaning.problem is not None:
        raise meaning.problem
    if meaning is None or meaning.registry.search is None:
        raise BadSearch("search is not configured for this stream")
    return meaning, meaning.registry.search


# --- by a rollup ---


async def _rollup(
    context: Context, state: StreamState, meaning: Meaning, config: SearchConfig, given: dict[str, object], until: float
) -> Reply[AggregateView]:
    request = request_of(given, config)
    asked = Asked(
        rollup=request.rollup,
        config=config,
        meaning=meaning,
        begin=request.begin,
        end=request.end,
        interval=request.interval_ms,
        plan=await _plan(context, request.q, config),
        group_by=request.group_by,
        measures=request.measures,
        spelled=partial(bucket_of, request),
        until=until,
    )
    tiers = context.tiers
    found = await context.aggregates.aggregate(tiers.reader, tiers.indexes, state, asked)
    return await context.searches.run(_reply, state, request, found)


async def _plan(context: Context, q: str | None, config: SearchConfig) -> Plan | None:
    return None if q is None else await plan_of(context, q, config)


def _reply(state: StreamState, request: AggregateRequest, found: Aggregated) -> Reply[AggregateView]:
    """In a thread."""
    return Reply(408 if found.timed_out else 200, None, text_of(state, request, found))


# --- by any fields ---


async def _tally(
    context: Context, state: StreamState, meaning: Meaning, config: SearchConfig, given: dict[str, object], until: float
) -> Reply[AggregateView]:
    request = wanted_of(given, config)
    plan = within(await _plan(context, request.q, config), request, config)
    tiers = context.tiers
    asked = AskedTally(config, meaning, plan, request.wanted, until)
    found = await context.aggregates.tallies.tally(tiers.reader, tiers.indexes, state, asked)
    return await context.searches.run(_tally_reply, state, request, found)


def _tally_reply(state: StreamState, request: WantedRequest, found: Tallied) -> Reply[AggregateView]:
    """In a thread."""
    view = AggregateView(
        stream=name_of(state.name.bucket, state.name.stream),
        begin=None if request.begin is None else iso(request.begin),
        end=None if request.end is None else iso(request.end),
        coverage=coverage_of(state, found),
        matched=found.matched,
        inexact=found.inexact,
        aggs=tree_of(request.wanted, found.parts),
    )
    return Reply(408 if found.timed_out else 200, None, encoded(view))
