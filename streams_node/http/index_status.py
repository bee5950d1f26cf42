"""GET of `…/_index_status`: how far the indexes of a stream are. POST of `…/_index/rebuild`: have the rest indexed."""

from http import HTTPStatus
from typing import get_args

import msgspec

from indexers.plan import FAMILIES, Family
from streams_node.details import Shown
from streams_node.errors import InvalidRequest, Missing, Unavailable
from streams_node.http.context import Context
from streams_node.http.index_view import IndexStatusView, spans_of, status_view
from streams_node.http.reply import Reply, SubRequest
from streams_node.http.watched import sealed_now, stored_now, watched
from streams_node.indexing.desk import Desk
from streams_node.indexing.status import left_to_do
from streams_node.ingest.state import StreamState
from streams_node.meaning import name_of

REBUILD_BODY_BYTES_MAX = 4096


class RebuildRequest(msgspec.Struct, forbid_unknown_fields=True):
    families: list[str] = []
    anew: bool = False


class RebuildView(msgspec.Struct):
    stream: str
    anew: bool
    entries: dict[str, int]


async def read_index_status(context: Context, request: SubRequest) -> Reply[IndexStatusView]:
    """The status; with `live=long-poll` and the tag of the one that is known, the next other one."""

    async def make(state: StreamState) -> Shown:
        return await _made(context, state)

    return await watched(context, request, "index status", make)


async def _made(context: Context, state: StreamState) -> Shown:
    stored = await stored_now(context, state)
    generation, version = context.tiers.generation, context.subscriptions.registry.version
    sealed = await sealed_now(context, state, stored)
    view = status_view(state, sealed.measured, sealed.number)
    number = f"{context.ledger.epochs.base}.{stored.change}.{sealed.moment.moves}.{sealed.parts.mark}"
    return Shown(f'W/"index_status:{state.id}.{number}"', msgspec.json.encode(view), stored.change, generation, version)


async def rebuild(context: Context, request: SubRequest) -> Reply[RebuildView]:
    """Have all that is sealed and not indexed indexed; with `anew`, all that is sealed."""
    asked = _rebuild_request(request.body)
    state = await context.ledger.living(request.name)
    desk = _desk(context)
    looked = (await sealed_now(context, state, await stored_now(context, state))).looked
    chosen = [family for family in looked.plan.configs if not asked.families or family in asked.families]
    if not chosen:
        raise Missing(f"stream `{request.name.stream}` has no such index; its schema and profile say which it has")
    await desk.rebuild(state.id, chosen, anew=asked.anew)
    sealed = await sealed_now(context, state, await stored_now(context, state))
    left = left_to_do(sealed.looked, chosen, spans_of(sealed.parts.located))
    return Reply(
        HTTPStatus.ACCEPTED,
        RebuildView(name_of(*request.name), asked.anew, {str(family): count for family, count in left.items()}),
    )


def _rebuild_request(body: bytes) -> RebuildRequest:
    if not body:
        return RebuildRequest()
    try:
        asked = msgspec.json.decode(body, type=RebuildRequest)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise InvalidRequest("the body", f"a JSON object with `families` and `anew`: {problem}") from None
    unknown = [family for family in asked.families if family not in FAMILIES]
    if unknown:
        raise InvalidRequest("`families`", f"some of {', '.join(get_args(Family))}", unknown[0])
    return asked


def _desk(context: Context) -> Desk:
    desk = context.tiers.desk
    if desk is None:
        raise Unavailable("the indexes of this node are not open yet; try again")
    return desk
