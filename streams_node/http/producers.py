"""GET of `…/_producers`: the producers of a stream, page by page."""

import msgspec

from streams_node.details import Seen, Turn, seen, turns
from streams_node.http.context import Context
from streams_node.http.query import number, parameters
from streams_node.http.reply import Reply, SubRequest
from streams_node.meaning import name_of
from streams_node.protocol.times import rfc3339

_KNOWN = frozenset(("limit", "after"))
_LIMIT, _LIMIT_MAX = 100, 500
_PARTS_MAX = 50  # objects that a page asks for its times: each is a look into the catalogue


class ProducerView(msgspec.Struct):
    id: str
    epoch: int
    seq: int
    next_offset: str
    last_append_at: str | None
    last_append_exact: bool


class ProducersView(msgspec.Struct):
    stream: str
    count: int
    producers: list[ProducerView]
    next_after: str | None


async def read_producers(context: Context, request: SubRequest) -> Reply[ProducersView]:
    """A page of producers in the order of the UTF-8 of their ids, all of it on disk."""
    asked = parameters(request.query_string, _KNOWN)
    limit = number(asked, "limit", _LIMIT, least=1, most=_LIMIT_MAX)
    state = await context.ledger.readable(request.name)
    page = turns(state, asked.get("after"), limit)
    await context.ledger.settle(state)
    times = await seen(context.database, context.tiers.reader, state, page, _PARTS_MAX)
    views = [_view(turn, when) for turn, when in zip(page.turns, times, strict=True)]
    next_after = page.turns[-1].id if page.more else None
    return Reply(200, ProducersView(name_of(*request.name), page.total, views, next_after))


def _view(turn: Turn, when: Seen | None) -> ProducerView:
    return ProducerView(
        turn.id,
        turn.last.epoch,
        turn.last.seq,
        str(turn.last.next_seq),
        None if when is None else rfc3339(when.ts),
        when is not None and when.exact,
    )
