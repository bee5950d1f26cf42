"""The answer of a search of a bucket as clients see it. Made in a thread."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from search.engine import shower
from streams_node.http.bucket_search_request import BucketSearchRequest
from streams_node.http.bucket_streams import Listed
from streams_node.http.search_view import (
    COUNTS,
    SearchCoverage,
    SearchTotal,
    as_json,
    coverage_of,
    explained,
    hits_of,
)
from streams_node.searching.across import Merged, Page, Searched

_MS = 1000
_SUMMED = (
    *(name for name in COUNTS if name not in ("peak_hits_held", "index_families_used")),
    "possible_missing_events_upper_bound", "possible_missing_uploaded_segments", "possible_missing_sealed_rows",
    "possible_missing_wal_rows",
)  # fmt: skip


class BucketSearchStreams(msgspec.Struct):
    matched: int
    relation: str
    searched: int
    not_searchable: int
    failed: int
    left_out: int


class BucketSearchGap(msgspec.Struct):
    stream_id: str
    stream_head_offset: str
    visible_through_offset: str
    possible_missing_events_upper_bound: int
    omitted: list[list[str]]


class BucketSearchCoverage(msgspec.Struct):
    mode: str
    complete: bool
    streams: BucketSearchStreams
    oldest_omitted_append_at: str | None
    possible_missing_events_upper_bound: int
    possible_missing_uploaded_segments: int
    possible_missing_sealed_rows: int
    possible_missing_wal_rows: int
    indexed_segments: int
    indexed_segment_time_ms: int
    fts_section_get_ms: int
    fts_decode_ms: int
    fts_clause_estimate_ms: int
    scanned_segments: int
    scanned_segment_time_ms: int
    scanned_tail_docs: int
    scanned_tail_time_ms: int
    exact_candidate_time_ms: int
    candidate_doc_ids: int
    decoded_records: int
    json_parse_time_ms: int
    segment_payload_bytes_fetched: int
    sort_time_ms: int
    peak_hits_held: int
    index_families_used: list[str]
    incomplete: list[BucketSearchGap]


class BucketSearchHit(msgspec.Struct, omit_defaults=True):
    stream_id: str
    offset: str
    score: float
    sort: Any
    fields: Any
    source: Any
    highlight: Any = None


class BucketSearchStream(msgspec.Struct):
    stream_id: str
    snapshot_end_offset: str
    waited_ms: float
    index_ms: float
    scan_ms: float
    records_ms: float
    opened: int
    pruned: int
    scanned: int
    evaluated: int


class BucketSearchView(msgspec.Struct, omit_defaults=True):
    bucket_id: str
    streams: str
    took_ms: int
    timed_out: bool
    timeout_ms: int
    coverage: BucketSearchCoverage
    total: SearchTotal
    hits: list[BucketSearchHit]
    next_search_after: Any
    explain: list[BucketSearchStream] | None = None


def bucket_view(
    bucket: str, request: BucketSearchRequest, listed: Listed, page: Page, took_s: float
) -> BucketSearchView:
    """The whole answer."""
    coverage = _coverage(listed, page)
    hits = _hits(request, page.hits)
    exact = coverage.complete and page.last is None
    return BucketSearchView(
        bucket_id=bucket,
        streams=request.streams.text,
        took_ms=round(took_s * _MS),
        timed_out=page.timed_out,
        timeout_ms=request.search.timeout_ms,
        coverage=coverage,
        total=SearchTotal(len(hits), "eq" if exact else "gte"),
        hits=hits,
        next_search_after=None if page.last is None else as_json(_sort(page.last)),
        explain=[_explained(one) for one in page.searched] if request.search.explain else None,
    )


def fields_of(page: Page) -> set[str]:
    """The fields that the streams of its hits declare."""
    configs = {id(hit.of.part.asked.config): hit.of.part.asked.config for hit in page.hits}
    return {name for config in configs.values() for name in config.fields}


def _coverage(listed: Listed, page: Page) -> BucketSearchCoverage:
    covers = [coverage_of(one.part.state, one.found) for one in page.searched]
    left_out = listed.left_out + page.late
    streams = BucketSearchStreams(
        matched=len(page.searched) + len(page.refused) + page.failed + left_out,
        relation="eq" if listed.whole else "gte",
        searched=len(page.searched),
        not_searchable=len(page.refused),
        failed=page.failed,
        left_out=left_out,
    )
    oldest = [each.oldest_omitted_append_at for each in covers if each.oldest_omitted_append_at is not None]
    all_streams = listed.whole and not left_out and not page.failed
    return BucketSearchCoverage(
        mode="complete" if all_streams and all(each.mode == "complete" for each in covers) else "published",
        complete=all_streams and all(each.complete for each in covers),
        streams=streams,
        oldest_omitted_append_at=min(oldest, default=None),
        peak_hits_held=max((each.peak_hits_held for each in covers), default=0),
        index_families_used=sorted({name for each in covers for name in each.index_families_used}),
        incomplete=list(_gaps(page.searched, covers)),
        **{name: sum(getattr(each, name) for each in covers) for name in _SUMMED},
    )


def _gaps(searched: Sequence[Searched], covers: Sequence[SearchCoverage]) -> Iterable[BucketSearchGap]:
    for one, cover in zip(searched, covers, strict=True):
        if not cover.complete:
            yield BucketSearchGap(
                one.part.name,
                cover.stream_head_offset,
                cover.visible_through_offset,
                cover.possible_missing_events_upper_bound,
                cover.omitted,
            )


def _hits(request: BucketSearchRequest, page: Sequence[Merged]) -> list[BucketSearchHit]:
    """Stream by stream, as each has its own way to read records; then in their order."""
    by_stream: dict[str, list[Merged]] = {}
    for hit in page:
        by_stream.setdefault(hit.name, []).append(hit)
    made: dict[tuple[str, int], BucketSearchHit] = {}
    for name, merged in by_stream.items():
        part, found = merged[0].of
        found.hits = [each.hit for each in merged]
        for each, said in zip(merged, hits_of(part.state, request.search, part.asked, found), strict=True):
            sort = as_json(_sort(each))
            made[name, each.hit.seq] = BucketSearchHit(
                name, said.offset, said.score, sort, said.fields, said.source, said.highlight
            )
    return [made[hit.name, hit.hit.seq] for hit in page]


def _sort(hit: Merged) -> list[object]:
    part = hit.of.part
    return [*shower(part.asked.keys)(hit.hit.values, part.state.token(hit.hit.seq + 1)), hit.name]


def _explained(one: Searched) -> BucketSearchStream:
    head = one.part.state.token(one.found.tail.seq)
    return BucketSearchStream(one.part.name, head, *msgspec.structs.astuple(explained(one.found.work)))
