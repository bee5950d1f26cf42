"""GET of `…/_index_status`: how far the indexes of a stream are. POST of `…/_index/rebuild`: have the rest indexed."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple, get_args

import msgspec

from indexers.plan import FAMILIES, Family, exact_fields
from streams_node.errors import InvalidRequest, Missing, Unavailable
from streams_node.http.context import Context
from streams_node.http.query import parameters, waiting
from streams_node.http.reply import Reply, SubRequest
from streams_node.indexing.desk import Desk
from streams_node.indexing.spans import Span
from streams_node.indexing.status import (
    NOTHING,
    Looked,
    Progress,
    left_to_do,
    look,
    moves,
    progress,
    search_families,
)
from streams_node.ingest.state import StreamState
from streams_node.live.hub import Hub
from streams_node.meaning import name_of
from streams_node.placement.locate import Located
from streams_node.protocol.etags import matches
from streams_node.protocol.times import rfc3339
from streams_node.schema.registry import Registry

REBUILD_BODY_BYTES_MAX = 4096
_KNOWN = frozenset(("live", "timeout", "timeout_ms"))
_PARTS_MAX = 1_000_000
_REST_S = 0.1  # between two looks of a waiter: a stream may change a thousand times a second


class IndexSegments(msgspec.Struct):
    total_count: int
    uploaded_count: int


class IndexManifest(msgspec.Struct):
    generation: int
    uploaded_generation: int
    last_uploaded_at: str | None
    last_uploaded_etag: str | None
    last_uploaded_size_bytes: str | None


class RunFamily(msgspec.Struct):
    configured: bool
    indexed_segment_count: int
    lag_segments: int
    lag_ms: str | None
    bytes_at_rest: str
    object_count: int
    active_run_count: int
    retired_run_count: int
    fully_indexed_uploaded_segments: bool
    updated_at: str | None


class ExactIndex(msgspec.Struct):
    name: str
    kind: str
    indexed_segment_count: int
    lag_segments: int
    lag_ms: str | None
    bytes_at_rest: str
    object_count: int
    active_run_count: int
    retired_run_count: int
    fully_indexed_uploaded_segments: bool
    stale_configuration: bool
    updated_at: str | None


class BundledCompanions(msgspec.Struct):
    object_count: int
    bytes_at_rest: str
    fully_indexed_uploaded_segments: bool


class SearchFamilyStatus(msgspec.Struct):
    family: str
    fields: list[str]
    plan_generation: int
    covered_segment_count: int
    contiguous_covered_segment_count: int
    lag_segments: int
    lag_ms: str | None
    bytes_at_rest: str
    object_count: int
    stale_segment_count: int
    fully_indexed_uploaded_segments: bool
    updated_at: str | None


class IndexStatusView(msgspec.Struct):
    stream: str
    profile: str
    desired_index_plan_generation: int
    segments: IndexSegments
    manifest: IndexManifest
    routing_key_index: RunFamily
    routing_key_lexicon: RunFamily
    exact_indexes: list[ExactIndex]
    bundled_companions: BundledCompanions
    search_families: list[SearchFamilyStatus]


class RebuildRequest(msgspec.Struct, forbid_unknown_fields=True):
    families: list[str] = []
    anew: bool = False


class RebuildView(msgspec.Struct):
    stream: str
    anew: bool
    entries: dict[str, int]


class Seen(NamedTuple):
    """A stream's status, and the number that grows with each change of it."""

    view: IndexStatusView
    tag: str


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
    left = left_to_do(looked, chosen, _spans(await _parts(context, state)))
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
    view = _view(state, registry, looked, parts, number)
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


def _spans(parts: list[Located]) -> list[Span]:
    return [(part.first_seq, part.end_seq) for part in parts]


def _view(state: StreamState, registry: Registry, looked: Looked, parts: list[Located], number: int) -> IndexStatusView:
    spans = _spans(parts)
    lexicon = progress(looked, "lexicon", spans, state.ts)
    keys = _run_family(lexicon, configured="lexicon" in looked.plan.configs)
    companion = progress(looked, "companion", spans, state.ts)
    newest = max((part.facts.max_ts for part in parts), default=None)
    return IndexStatusView(
        stream=name_of(*state.name),
        profile=state.profile,
        desired_index_plan_generation=looked.plan.generation if looked.plan.configs else 0,
        segments=IndexSegments(len(parts), len(parts)),
        manifest=IndexManifest(number, number, None if newest is None else rfc3339(newest), None, None),
        routing_key_index=keys,
        routing_key_lexicon=keys,
        exact_indexes=_exact_indexes(looked, registry, spans, state.ts),
        bundled_companions=BundledCompanions(companion.objects, _size(companion), companion.complete),
        search_families=[
            SearchFamilyStatus(
                family=each.name,
                fields=each.fields,
                plan_generation=looked.plan.generation,
                covered_segment_count=each.progress.covered,
                contiguous_covered_segment_count=each.progress.contiguous,
                stale_segment_count=each.progress.stale,
                object_count=each.progress.objects,
                **_common(each.progress),
            )
            for each in search_families(looked, registry, spans, state.ts)
        ],
    )


def _exact_indexes(looked: Looked, registry: Registry, spans: list[Span], newest_us: int) -> list[ExactIndex]:
    search = registry.search
    if search is None or "exact" not in looked.plan.configs:
        return []
    names = exact_fields(search)
    each = progress(looked, "exact", spans, newest_us, share=1 / max(1, len(names)))
    return [
        ExactIndex(name=name, kind=str(search.fields[name].kind), stale_configuration=not each.started, **_runs(each))
        for name in names
    ]


def _run_family(found: Progress, *, configured: bool) -> RunFamily:
    return RunFamily(configured=configured, **_runs(found if configured else NOTHING))


def _runs(found: Progress) -> Mapping[str, Any]:
    return {
        "indexed_segment_count": found.contiguous,
        "object_count": found.objects,
        "active_run_count": found.active,
        "retired_run_count": found.retired,
        **_common(found),
    }


def _common(found: Progress) -> Mapping[str, Any]:
    return {
        "lag_segments": found.lag_segments,
        "lag_ms": None if found.lag_ms is None else str(found.lag_ms),
        "bytes_at_rest": _size(found),
        "fully_indexed_uploaded_segments": found.complete,
        "updated_at": None if found.updated_us is None else rfc3339(found.updated_us),
    }


def _size(found: Progress) -> str:
    return str(round(found.bytes))


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
