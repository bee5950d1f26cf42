"""`/v1/server/_subscriptions`: every subscription of the node, with what makes it again elsewhere, and how it is."""

from heapq import nsmallest
from typing import Any

import msgspec
from litestar import Request, get
from litestar.datastructures import State

from streams_node.http.context import Context
from streams_node.http.query import number, parameters
from streams_node.http.subscriptions import SubscriptionBody, WebhookBody
from streams_node.protocol.times import rfc3339
from streams_node.subscriptions import Subscription, path_of
from streams_node.subscriptions.wakes import Wake

Req = Request[Any, Any, State]
_PAGE = frozenset(("after", "limit"))
_PAGE_MAX = 100
_NAMES_MAX = 10_000  # of streams on a page, some 5 MB: the first subscription of a page may have more


class WakeView(msgspec.Struct):
    phase: str
    generation: int
    holder: str | None
    lease_ends_at: str | None
    attempts: int
    next_attempt_at: str | None


class SubscriptionEntry(msgspec.Struct):
    id: str
    request: SubscriptionBody
    created_at: str
    status: str
    news: int
    wake: WakeView


class SubscriptionPage(msgspec.Struct):
    subscriptions: list[SubscriptionEntry]
    next_cursor: str | None
    has_more: bool


@get("/v1/server/_subscriptions")
async def server_subscriptions(request: Req) -> SubscriptionPage:
    """A page of subscriptions in the order of their ids."""
    context: Context = request.app.state.context
    asked = parameters(request.scope["query_string"], _PAGE)
    limit = number(asked, "limit", _PAGE_MAX, least=1, most=_PAGE_MAX)
    after = asked.get("after", "")
    later = (each for each in context.subscriptions.registry if each.id > after)
    found = nsmallest(limit + 1, later, key=lambda each: each.id)
    shown = _fitting(found[:limit])
    more = len(shown) < len(found)
    return SubscriptionPage([_entry(each) for each in shown], shown[-1].id if more else None, more)


HANDLERS = (server_subscriptions,)


def _fitting(found: list[Subscription]) -> list[Subscription]:
    """As many as a page has room for; one at least."""
    names = 0
    for at, each in enumerate(found):
        names += len(each.named)
        if at and names > _NAMES_MAX:
            return found[:at]
    return found


def _entry(subscription: Subscription) -> SubscriptionEntry:
    return SubscriptionEntry(
        subscription.id,
        _request(subscription),
        rfc3339(subscription.created_us),
        subscription.status,
        len(subscription.pending),
        _wake(subscription.wake),
    )


def _request(subscription: Subscription) -> SubscriptionBody:
    wake_stream = subscription.wake_stream
    return SubscriptionBody(
        type=subscription.kind.value,
        pattern=subscription.pattern,
        streams=sorted(map(path_of, subscription.named)) or None,
        webhook=None if subscription.url is None else WebhookBody(subscription.url),
        wake_stream=None if wake_stream is None else path_of(wake_stream),
        lease_ttl_ms=subscription.lease_ms,
        description=subscription.description,
    )


def _wake(wake: Wake) -> WakeView:
    return WakeView(
        wake.phase.value,
        wake.generation,
        wake.holder,
        rfc3339(wake.lease_us) if wake.lease_us else None,
        wake.attempts,
        rfc3339(wake.attempt_us) if wake.attempt_us else None,
    )
