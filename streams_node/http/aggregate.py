"""POST of `…/_aggregate`: what the entries of a stream add up to, by a rollup, in windows of time."""

import time

from streams_node.errors import BadSearch
from streams_node.http.aggregate_request import AggregateRequest, members_of, request_of
from streams_node.http.aggregate_view import AggregateView, encoded, view_of
from streams_node.http.context import Context
from streams_node.http.reply import Reply, SubRequest
from streams_node.http.search import plan_of
from streams_node.ingest.state import StreamState
from streams_node.searching.aggregated import Aggregated, Asked

_MS = 1000


async def aggregate(context: Context, sub: SubRequest) -> Reply[AggregateView]:
    """Within three fifths of what a request may take."""
    until = time.monotonic() + context.settings.request_ms_max * 3 / 5 / _MS
    given = members_of(sub.body)
    state = await context.ledger.readable(sub.name)
    asked, request = await _asked(context, state, given, until)
    tiers = context.tiers
    found = await context.aggregates.aggregate(tiers.reader, tiers.indexes, state, asked)
    context.ledger.touch(state)
    return await context.searches.run(_reply, state, request, found)


async def _asked(
    context: Context, state: StreamState, given: dict[str, object], until: float
) -> tuple[Asked, AggregateRequest]:
    """The request as this stream understands it."""
    meaning = state.tail_meaning if state.is_json else None
    if meaning is not None and meaning.problem is not None:
        raise meaning.problem
    if meaning is None or meaning.registry.search is None:
        raise BadSearch("search is not configured for this stream")
    config = meaning.registry.search
    request = request_of(given, config)
    plan = None if request.q is None else await plan_of(context, request.q, config)
    asked = Asked(
        rollup=request.rollup,
        config=config,
        meaning=meaning,
        begin=request.begin,
        end=request.end,
        interval=request.interval_ms,
        plan=plan,
        group_by=request.group_by,
        measures=request.measures,
        until=until,
    )
    return asked, request


def _reply(state: StreamState, request: AggregateRequest, found: Aggregated) -> Reply[AggregateView]:
    """In a thread."""
    return Reply(408 if found.timed_out else 200, None, encoded(view_of(state, request, found)))
