"""GET of `…/_details`: all that is known of a stream, and the next other state of it."""

import hashlib
import os
from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from streams_node.details import Moment, Parts, Shown, held
from streams_node.http.context import Context
from streams_node.http.details_view import (
    ArtifactRequests,
    CompanionFamilies,
    DetailsView,
    EpochDetails,
    ForkDetails,
    LocalStorage,
    ObjectStorage,
    StorageDetails,
    StoreRequests,
    StreamDetails,
    StreamSubscription,
    StreamSubscriptions,
)
from streams_node.http.index_view import IndexStatusView, status_view
from streams_node.http.profile import profile_text
from streams_node.http.reply import Reply, SubRequest
from streams_node.http.watched import Sealed, Stored, sealed_now, stored_now, watched
from streams_node.indexing.status import Looked
from streams_node.ingest.declare import standing_of
from streams_node.ingest.state import StreamState
from streams_node.meaning import Standing, name_of
from streams_node.protocol.numbers import StreamId
from streams_node.protocol.times import rfc3339
from streams_node.wal.folder import DATABASE

_SUBSCRIPTIONS_MAX = 100
_MARK_BYTES = 8
_OPS = ("put", "get", "head", "list", "delete")
_NAMES: Mapping[str, str] = {
    "generation": "manifest", "snapshot": "manifest", "pack": "segment", "segment": "segment",
    "lexicon": "routing_key_lexicon", "exact": "exact_index", "companion": "bundled_companion",
    "rollups": "bundled_companion", "metrics": "bundled_companion",
}  # fmt: skip
ARTIFACTS = (
    "bundled_companion", "exact_index", "manifest", "meta", "routing_index", "routing_key_lexicon", "schema_registry",
    "segment",
)  # fmt: skip


async def read_details(context: Context, request: SubRequest) -> Reply[DetailsView]:
    """The details; with `live=long-poll` and the tag of those that are known, the next other ones."""

    async def make(state: StreamState) -> Shown:
        return await _made(context, state)

    return await watched(context, request, "details", make)


async def _made(context: Context, state: StreamState) -> Shown:
    stored = await stored_now(context, state)
    generation, version = context.tiers.generation, context.subscriptions.registry.version
    subscriptions, who = await _subscriptions(context, state)
    standing = standing_of(state, stored.meaning)
    sealed = await sealed_now(context, state, stored)
    moment, parts = sealed.moment, sealed.parts
    texts = await context.details.kept.of(state.id, "texts", stored.meaning_number, lambda: _texts(context, standing))
    index_status = status_view(state, sealed.measured, sealed.number)
    view = DetailsView(
        stream=_stream(state, stored, standing, moment, parts),
        profile=cast("Any", msgspec.Raw(texts[0])),
        schema=cast("Any", msgspec.Raw(texts[1])),
        index_status=index_status,
        storage=_storage(context, sealed, index_status),
        object_store_requests=_requests(context, state, moment),
        subscriptions=subscriptions,
    )
    base = context.ledger.epochs.base
    tag = f'W/"details:{state.id}.{base}.{stored.change}.{moment.moves}.{moment.open_seq}.{parts.mark}.{who}"'
    return Shown(tag, msgspec.json.encode(view), stored.change, generation, version)


async def _texts(context: Context, standing: Standing) -> tuple[bytes, bytes]:
    return profile_text(standing), await context.ledger.workshop.make(standing.registry.encode)


# --- its parts ------------------------------------------------------------------------------------------------------


def _stream(state: StreamState, stored: Stored, standing: Standing, moment: Moment, parts: Parts) -> StreamDetails:
    tail = stored.tail
    rows, size = str(tail.seq - moment.open_seq), str(moment.open_bytes)
    through = str(moment.open_seq - 1)
    whole = state.earliest_seq == 0
    fork = state.lineage
    return StreamDetails(
        name=name_of(*state.name),
        content_type=state.content_type,
        profile=standing.profile,
        created_at=rfc3339(state.created_us),
        updated_at=rfc3339(max(state.created_us, stored.ts)),
        expires_at=None if state.ends_us is None else rfc3339(state.ends_us),
        ttl_seconds=state.ttl_s,
        stream_seq=stored.stream_seq,
        closed=stored.closed,
        epoch=state.epoch,
        epochs=[EpochDetails(epoch, str(first)) for epoch, first in state.epochs],
        earliest_offset=str(state.earliest_seq),
        next_offset=str(tail.seq),
        sealed_through=through,
        uploaded_through=through,
        segment_count=parts.segments,
        uploaded_segment_count=parts.segments,
        pending_rows=rows,
        pending_bytes=size,
        total_size_bytes=str(tail.position if whole else parts.payload_bytes + moment.open_bytes),
        wal_rows=rows,
        wal_bytes=size,
        last_append_at=rfc3339(stored.ts or state.created_us),
        last_segment_cut_at=None if parts.newest_us is None else rfc3339(parts.newest_us),
        forked_from=None if fork is None else ForkDetails(name_of(*fork.source_name), str(fork.fork_seq)),
    )


async def _subscriptions(context: Context, state: StreamState) -> tuple[StreamSubscriptions, str]:
    """Who is woken by the stream, and a mark that differs when it is somebody else."""
    found = sorted(await context.subscriptions.registry.found(state.name), key=lambda each: each.id)
    named = sum(state.name in each.named for each in found)
    first = [
        StreamSubscription(each.id, each.kind.value, state.name in each.named) for each in found[:_SUBSCRIPTIONS_MAX]
    ]
    mark = hashlib.blake2b(digest_size=_MARK_BYTES)
    for each in found:
        mark.update(b"%d.%d," % (each.number, state.name in each.named))
    return StreamSubscriptions(len(found), named, first), mark.hexdigest() if found else ""


def _storage(context: Context, sealed: Sealed, status: IndexStatusView) -> StorageDetails:
    moment, parts = sealed.moment, sealed.parts
    lexicon, exact = _bytes(sealed.looked, "lexicon"), _bytes(sealed.looked, "exact")
    companions = {each: _bytes(sealed.looked, each) for each in ("companion", "rollups", "metrics")}
    indexes = lexicon + exact + sum(companions.values())
    cached = {family: _cached(context, sealed.looked, family) for family in ("lexicon", "exact", *companions)}
    companion_cache = sum(cached[each] for each in companions)
    segments = 0 if context.tiers.cache is None else held(parts, context.tiers.cache.size_of)
    sections = {each.family: each.bytes_at_rest for each in status.search_families}
    return StorageDetails(
        ObjectStorage(
            total_bytes=str(parts.bytes + indexes + moment.schema_bytes),
            segments_bytes=str(parts.bytes),
            indexes_bytes=str(indexes),
            manifest_and_meta_bytes=str(moment.schema_bytes),
            manifest_bytes=None,
            schema_registry_bytes=str(moment.schema_bytes),
            segment_object_count=parts.segments,
            routing_index_object_count=status.routing_key_index.object_count,
            routing_lexicon_object_count=status.routing_key_lexicon.object_count,
            exact_index_object_count=len({each.made for each in sealed.looked.shares if each.family == "exact"}),
            bundled_companion_object_count=len(
                {each.made for each in sealed.looked.shares if each.family in companions}
            ),
        ),
        LocalStorage(
            total_bytes=str(moment.open_bytes + segments + cached["exact"] + cached["lexicon"] + companion_cache),
            wal_retained_bytes=str(moment.open_bytes),
            pending_tail_bytes=str(moment.open_bytes),
            pending_sealed_segment_bytes="0",
            segment_cache_bytes=str(segments),
            routing_index_cache_bytes="0",
            exact_index_cache_bytes=str(cached["exact"]),
            lexicon_index_cache_bytes=str(cached["lexicon"]),
            companion_cache_bytes=str(companion_cache),
            sqlite_shared_total_bytes=str(database_bytes(context)),
        ),
        CompanionFamilies(
            **{f"{family}_bytes": sections.get(family, "0") for family in ("exact", "col", "fts", "agg", "mblk")}
        ),
    )


def _bytes(looked: Looked, family: str) -> int:
    return round(sum(each.bytes() for each in looked.shares if each.family == family))


def _cached(context: Context, looked: Looked, family: str) -> int:
    """Of the stream's share of index objects: what is on disk here."""
    indexes = context.tiers.indexes
    if indexes is None:
        return 0
    size = 0.0
    for each in looked.shares:
        if each.family == family and each.object_payload_bytes:
            copies = sum(indexes.cache.size_of(made) for made in (each.made, f"{each.made}.filter"))
            size += copies * each.payload_bytes / each.object_payload_bytes
    return round(size)


def database_bytes(context: Context) -> int:
    """Of the database that all streams share."""
    size = 0
    for suffix in ("", "-wal"):
        try:
            size += os.stat(f"{context.settings.data / DATABASE}{suffix}").st_size  # noqa: PTH116 - a path is ten times as slow
        except OSError:
            continue
    return size


def _requests(context: Context, state: StreamState, moment: Moment) -> StoreRequests:
    counts: Counter[tuple[str, str]] = Counter(moment.requests)
    counts.update(context.tiers.counts.of(StreamId(state.id)))
    by_name: dict[str, Counter[str]] = {name: Counter() for name in ARTIFACTS}
    for (artifact, op), count in counts.items():
        by_name[_NAMES.get(artifact, "meta")][op] += count
    total: Counter[str] = Counter()
    for each in by_name.values():
        total.update(each)
    return StoreRequests(
        **_row(total), by_artifact=[ArtifactRequests(artifact=name, **_row(by_name[name])) for name in ARTIFACTS]
    )


def _row(ops: Counter[str]) -> dict[str, str]:
    reads = ops["get"] + ops["head"] + ops["list"]
    return {**{f"{op}s": str(ops[op]) for op in _OPS}, "reads": str(reads)}
