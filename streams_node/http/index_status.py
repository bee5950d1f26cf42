"""GET of `…/_index_status`: how far the indexes of a stream are. POST of `…/_index/rebuild`: have the rest indexed."""

import asyncio
from http import HTTPStatus
from typing import get_args

import msgspec

from indexers.plan import FAMILIES, Family
from streams_node.errors import InvalidRequest, Missing, Unavailable
from streams_node.http.context import Context
from streams_node.http.index_view import IndexStatusView, measured, spans_of, status_view
from streams_node.http.query import parameters, waiting
from streams_node.http.reply import Reply, SubRequest
from streams_node.indexing.desk import Desk
from streams_node.indexing.status import left_to_do, look, moves
from streams_node.ingest.state import StreamState
from streams_node.live.hub import Hub
from streams_node.meaning import name_of
from streams_node.placement.locate import Located
from streams_node.protocol.etags import matches
from streams_node.schema.registry import Registry

REBUILD_BODY_BYTES_MAX = 4096
_KNOWN = frozenset(("live", "timeout", "timeout_ms"))
_PARTS_MAX = 1_000_000
_REST_S = 0.1  # between two looks of a waiter: a stream may change a thousand times a second


class RebuildRequest(msgspec.Struct, forbid_unknown_fields=True):
    families: list[str] = []
    anew: bool = False


class RebuildView(msgspec.Struct):
    stream: str
    anew: bool
    entries: dict[str, int]


async def read_index_status(context: Context, request: SubRequest) -> Reply[IndexStatusView]:
    """The status; with `live=long-poll` and the tag of the one that is known, the next other one."""
    wait_ms = waiting(parameters(request.query_string, _KNOWN))
    known = request.headers.get(b"if-none-match", b"").decode("latin-1")
    state = await context.ledger.readable(request.name)
    if wait_ms is not None and known and matches(known, await _tag(context, state)):
        ms_max = context.settings.long_poll_ms_max
        await _wait(context, state, known, min(wait_ms or ms_max, ms_max) / 1000)
        state = await context.ledger.readable(request.name)
    return await _reply(context, state)


async def rebuild(context: Context, request: SubRequest) -> Reply[RebuildView]:
    """Have all that is sealed and not indexed indexed; with `anew`, all that is sealed."""
    asked = _rebuild_request(request.body)
    state = await context.ledger.living(request.name)
    desk = _desk(context)
    looked = await context.database.readers.run(look, state.id)
    chosen = [family for family in looked.plan.configs if not asked.families or family in asked.families]
    if not chosen:
        raise Missing(f"stream `{request.name.stream}` has no such index; its schema and profile say which it has")
    await desk.rebuild(state.id, chosen, anew=asked.anew)
    looked = await context.database.readers.run(look, state.id)
    left = left_to_do(looked, chosen, spans_of(await _parts(context, state)))
    return Reply(
        HTTPStatus.ACCEPTED,
        RebuildView(name_of(*request.name), asked.anew, {str(family): count for family, count in left.items()}),
    )


# --- waiting --------------------------------------------------------------------------------------------------------


async def _wait(context: Context, state: StreamState, known: str, seconds: float) -> None:
    """Until the tag is another one, the stream is gone, or the time is over."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    desk = context.tiers.desk
    with context.live.attached(state, "long_poll") as hub:
        if desk is None:
            await _until_changed(context, hub, asyncio.Event(), known, deadline)
            return
        with desk.watching(state.id) as bell:
            await _until_changed(context, hub, bell, known, deadline)


async def _until_changed(context: Context, hub: Hub, bell: asyncio.Event, known: str, deadline: float) -> None:
    loop = asyncio.get_running_loop()
    while not hub.ended and not hub.state.gone and loop.time() < deadline:
        bell.clear()
        changed = hub.waiter()
        rang: asyncio.Future[bool] = asyncio.ensure_future(_rung(bell))
        try:
            if not matches(known, await _tag(context, hub.state)):
                return
            await asyncio.wait([changed, rang], timeout=deadline - loop.time(), return_when=asyncio.FIRST_COMPLETED)
        finally:
            hub.leave(changed)
            changed.cancel()
            rang.cancel()
        await asyncio.sleep(min(_REST_S, max(0.0, deadline - loop.time())))


async def _rung(bell: asyncio.Event) -> bool:
    return await bell.wait()


# --- the status -----------------------------------------------------------------------------------------------------


async def _reply(context: Context, state: StreamState) -> Reply[IndexStatusView]:
    tag = await _tag(context, state)  # before what it stands for: a change in between makes the next answer
    parts = await _parts(context, state)
    looked = await context.database.readers.run(look, state.id)
    published = parts[-1].end_seq if parts else 0
    number = published + await context.database.readers.run(moves, state.id)
    meaning = state.tail_meaning
    registry = Registry(name_of(*state.name)) if meaning is None else meaning.registry
    view = status_view(state, measured(looked, registry, parts), number)
    return Reply(200, view, tag=tag)


async def _tag(context: Context, state: StreamState) -> str:
    """See decisions/0013: what is stored of the stream, what of it is in the bucket, what of it is indexed."""
    through = context.tiers.published_through
    published = state.tail.seq
    if state.tail.row > through:
        (found,) = await context.database.sealed_ends([state.tail.row], through)
        published = published if found is None else found
    number = state.change + published + await context.database.readers.run(moves, state.id)
    return f'"index_status:{state.id}.{context.ledger.epochs.base}.{number}"'


async def _parts(context: Context, state: StreamState) -> list[Located]:
    reader = context.tiers.reader
    if reader is None:
        return []
    return await reader.located(state.id, state.earliest_seq, _PARTS_MAX)


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
