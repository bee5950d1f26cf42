"""What `_index_status` shows: its views, and how they are made of what was looked up."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from indexers.plan import exact_fields
from streams_node.indexing.covers import Plan
from streams_node.indexing.spans import Span
from streams_node.indexing.status import NOTHING, Looked, Progress, SearchFamily, progress, search_families
from streams_node.ingest.state import StreamState
from streams_node.meaning import name_of
from streams_node.placement.locate import Located
from streams_node.protocol.times import rfc3339
from streams_node.schema.registry import Registry


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


class Measured(NamedTuple):
    """How far the indexes of a stream are; appends do not change it."""

    plan: Plan
    parts: int
    newest_us: int | None  # of the sealed entries
    lexicon: Progress
    companion: Progress
    exact: Progress  # of one field: each has the same
    exact_fields: list[tuple[str, str]]  # names and kinds
    families: list[SearchFamily]


def measured(looked: Looked, registry: Registry, parts: list[Located]) -> Measured:
    """With thousands of parts it takes long: not for the loop then."""
    spans = spans_of(parts)
    search = registry.search
    names = [] if search is None or "exact" not in looked.plan.configs else exact_fields(search)
    fields = [] if search is None else [(name, str(search.fields[name].kind)) for name in names]
    return Measured(
        looked.plan,
        len(parts),
        max((part.facts.max_ts for part in parts), default=None),
        progress(looked, "lexicon", spans),
        progress(looked, "companion", spans),
        progress(looked, "exact", spans, share=1 / max(1, len(names))),
        fields,
        search_families(looked, registry, spans),
    )


def spans_of(parts: list[Located]) -> list[Span]:
    return [(part.first_seq, part.end_seq) for part in parts]


def status_view(state: StreamState, found: Measured, number: int) -> IndexStatusView:
    """Of this moment. `number` grows with whatever is new in the bucket."""
    plan, newest_us = found.plan, state.ts
    keys = RunFamily(
        configured="lexicon" in plan.configs,
        **_runs(found.lexicon if "lexicon" in plan.configs else NOTHING, newest_us),
    )
    return IndexStatusView(
        stream=name_of(*state.name),
        profile=state.profile,
        desired_index_plan_generation=plan.generation if plan.configs else 0,
        segments=IndexSegments(found.parts, found.parts),
        manifest=IndexManifest(
            number, number, None if found.newest_us is None else rfc3339(found.newest_us), None, None
        ),
        routing_key_index=keys,
        routing_key_lexicon=keys,
        exact_indexes=[
            ExactIndex(
                name=name, kind=kind, stale_configuration=not found.exact.started, **_runs(found.exact, newest_us)
            )
            for name, kind in found.exact_fields
        ],
        bundled_companions=BundledCompanions(found.companion.objects, _size(found.companion), found.companion.complete),
        search_families=[_family(each, plan, newest_us) for each in found.families],
    )


def _family(each: SearchFamily, plan: Plan, newest_us: int) -> SearchFamilyStatus:
    return SearchFamilyStatus(
        family=each.name,
        fields=each.fields,
        plan_generation=plan.generation,
        covered_segment_count=each.progress.covered,
        contiguous_covered_segment_count=each.progress.contiguous,
        stale_segment_count=each.progress.stale,
        object_count=each.progress.objects,
        **_common(each.progress, newest_us),
    )


def _runs(found: Progress, newest_us: int) -> Mapping[str, Any]:
    return {
        "indexed_segment_count": found.contiguous,
        "object_count": found.objects,
        "active_run_count": found.active,
        "retired_run_count": found.retired,
        **_common(found, newest_us),
    }


def _common(found: Progress, newest_us: int) -> Mapping[str, Any]:
    lag_ms = found.lag_ms(newest_us)
    return {
        "lag_segments": found.lag_segments,
        "lag_ms": None if lag_ms is None else str(lag_ms),
        "bytes_at_rest": _size(found),
        "fully_indexed_uploaded_segments": found.complete,
        "updated_at": None if found.updated_us is None else rfc3339(found.updated_us),
    }


def _size(found: Progress) -> str:
    return str(round(found.bytes))
