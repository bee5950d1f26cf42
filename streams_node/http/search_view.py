"""The answer of a search as clients see it. A long one is made in a thread: it holds up to hundreds of records."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Protocol

import msgspec

from search.engine import SortKey, highlight, shower
from search.language import has_text, raw_fields
from search.language.dates import MS_NS
from search.language.pointers import segments
from streams_node.http.headers import RawHeaders
from streams_node.http.search_request import SearchRequest
from streams_node.ingest.state import StreamState
from streams_node.meaning import StreamLenses, name_of
from streams_node.protocol.times import rfc3339
from streams_node.schema.search_config import Kind, SearchConfig
from streams_node.searching import Asked, Found, Work
from streams_node.searching.left_out import count_of
from streams_node.searching.sources import record_of

_MS = 1000
_spelled = lru_cache(256)(rfc3339)  # the same again until more is indexed
_encode = msgspec.json.Encoder().encode


class SearchCoverage(msgspec.Struct):
    mode: str
    complete: bool
    stream_head_offset: str
    visible_through_offset: str
    visible_through_primary_timestamp_max: str | None
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
    omitted: list[list[str]]


class SearchTotal(msgspec.Struct):
    value: int
    relation: str


class SearchHit(msgspec.Struct, omit_defaults=True):
    offset: str
    score: float
    sort: Any
    fields: Any
    source: Any
    highlight: Any = None


class SearchExplain(msgspec.Struct):
    waited_ms: float
    index_ms: float
    scan_ms: float
    records_ms: float
    opened: int
    pruned: int
    scanned: int
    evaluated: int


class SearchView(msgspec.Struct, omit_defaults=True):
    stream: str
    snapshot_end_offset: str
    took_ms: int
    timed_out: bool
    timeout_ms: int
    coverage: SearchCoverage
    total: SearchTotal
    hits: list[SearchHit]
    next_search_after: Any
    explain: SearchExplain | None = None


COUNTS = tuple(
    name
    for name in SearchCoverage.__struct_fields__
    if name
    not in (
        "mode", "complete", "stream_head_offset", "visible_through_offset", "visible_through_primary_timestamp_max",
        "oldest_omitted_append_at", "possible_missing_events_upper_bound", "possible_missing_uploaded_segments",
        "possible_missing_sealed_rows", "possible_missing_wal_rows", "omitted",
    )
)  # fmt: skip
_HEADS = tuple(f"search-{name.replace('_', '-')}".encode() for name in COUNTS)
_counts = attrgetter(*COUNTS)


def view_of(state: StreamState, request: SearchRequest, asked: Asked, found: Found, took_s: float) -> SearchView:
    """The whole answer."""
    coverage = coverage_of(state, found)
    hits = list(hits_of(state, request, asked, found))
    last = found.last
    exact = coverage.complete and last is None
    return SearchView(
        stream=name_of(state.name.bucket, state.name.stream),
        snapshot_end_offset=coverage.stream_head_offset,
        took_ms=round(took_s * _MS),
        timed_out=found.timed_out,
        timeout_ms=request.timeout_ms,
        coverage=coverage,
        total=SearchTotal(len(hits), "eq" if exact else "gte"),
        hits=hits,
        next_search_after=None if last is None else as_json(shower(asked.keys)(last.values, state.token(last.seq + 1))),
        explain=explained(found.work) if request.explain else None,
    )


class Answered(Protocol):
    """An answer, whatever it covers."""

    took_ms: int
    timed_out: bool
    timeout_ms: int
    total: SearchTotal
    coverage: Any


def headers_of(view: Answered) -> RawHeaders:
    """The numbers once more, for those who do not look into the body."""
    coverage = view.coverage
    return [
        (b"search-timed-out", _flag(view.timed_out)),
        (b"search-timeout-ms", b"%d" % view.timeout_ms),
        (b"search-took-ms", b"%d" % view.took_ms),
        (b"search-total-relation", view.total.relation.encode()),
        (b"search-coverage-complete", _flag(coverage.complete)),
        *zip(_HEADS, map(_count, _counts(coverage)), strict=True),
    ]


def _flag(value: object) -> bytes:
    return b"true" if value else b"false"


def _count(value: int | list[str]) -> bytes:
    return b"%d" % value if isinstance(value, int) else ",".join(value).encode()


def coverage_of(state: StreamState, found: Found) -> SearchCoverage:
    """What an answer of a stream rests on."""
    omitted, work = found.omitted, found.work
    missing = sum(span.end - span.first for span in omitted)
    in_log = count_of(omitted, found.logged)
    primary, oldest = found.primary_ns_max, found.oldest_omitted_us
    return SearchCoverage(
        mode="published" if missing else "complete",
        complete=not missing and not found.timed_out,
        stream_head_offset=state.token(found.tail.seq),
        visible_through_offset=state.token(omitted[0].first if omitted else found.tail.seq),
        visible_through_primary_timestamp_max=None if primary is None else _spelled(primary // (MS_NS // _MS)),
        oldest_omitted_append_at=None if oldest is None else rfc3339(oldest),
        possible_missing_events_upper_bound=missing,
        possible_missing_uploaded_segments=found.omitted_objects,
        possible_missing_sealed_rows=0,  # what is not in the bucket yet is in the log, too
        possible_missing_wal_rows=in_log,
        indexed_segments=work.indexed,
        indexed_segment_time_ms=_ms(work.indexed_s),
        fts_section_get_ms=_ms(work.open_s),
        fts_decode_ms=_ms(work.decode_s),
        fts_clause_estimate_ms=0,
        scanned_segments=work.scanned,
        scanned_segment_time_ms=_ms(work.scanned_s),
        scanned_tail_docs=work.tail_docs,
        scanned_tail_time_ms=_ms(work.tail_s),
        exact_candidate_time_ms=_ms(work.prune_s),
        candidate_doc_ids=work.candidates,
        decoded_records=work.parsed,
        json_parse_time_ms=_ms(work.parse_s),
        segment_payload_bytes_fetched=work.bytes,
        sort_time_ms=_ms(work.sort_s),
        peak_hits_held=work.held_max,
        index_families_used=sorted(work.families),
        omitted=[[state.token(span.first), state.token(span.end)] for span in omitted],
    )


def explained(work: Work) -> SearchExplain:
    """What took how long."""
    waited, index, scan, records = (
        round(seconds * _MS, 3) for seconds in (work.waited_s, work.indexed_s, work.parse_s, work.records_s)
    )
    return SearchExplain(waited, index, scan, records, work.opened, work.pruned, work.looked, work.parsed)


def hits_of(state: StreamState, request: SearchRequest, asked: Asked, found: Found) -> Iterator[SearchHit]:
    """The hits of a page, in their order."""
    lenses, token = StreamLenses(asked.meaning, state.token), state.token
    version = asked.meaning.version
    fields, members = _fields_of(asked.config, version), _members_of(asked.config, version)
    sort, plain = shower(asked.keys), _plain(asked.keys)
    scored, unread = has_text(asked.plan), not request.highlight
    for hit in found.hits:
        text, offset = hit.text or b"null", token(hit.seq + 1)
        shown: Any = None
        record: Any = None
        if unread and members is not None and hit.seq >= lenses.current_from and (hit.score is not None or not scored):
            shown = members(text)
        if shown is None:
            record, text = record_of(lenses, hit.seq, text)
            shown = as_json(fields(record))
        said = sort(hit.values, offset)
        yield SearchHit(
            offset,
            found.score(record) or 0.0 if hit.score is None else hit.score,
            said if plain else as_json(said),
            shown,
            msgspec.Raw(text),
            _marked(asked, record) if request.highlight else None,
        )


def _plain(keys: Sequence[SortKey]) -> bool:
    """Whether all values of such keys are numbers, offsets and moments: nothing that has to be spelled with care."""
    return all(key.field is None or key.field.kind is not Kind.KEYWORD for key in keys)


@lru_cache(64)
def _fields_of(config: SearchConfig, version: int) -> Callable[[object], dict[str, Any]]:
    """The function from a record to what a hit shows of it."""
    return raw_fields(config.fields, version)


@lru_cache(64)
def _members_of(config: SearchConfig, version: int) -> Callable[[bytes], Any] | None:
    """The function from a text to what a hit shows of its record, as it is written there, without reading the rest.

    Only where every field is the member of that name; and None for a text that may have lists, or is read otherwise
    than by the fast parser: of these the record is asked.
    """
    pointers = [(name, field.pointer(version)) for name, field in config.fields.items()]
    names = [name for name, pointer in pointers if pointer is not None]
    if any(segments(pointer) != (name,) for name, pointer in pointers if pointer is not None):
        return None
    members = [(f"f{at}", msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for at in range(len(names))]
    renamed = {f"f{at}": name for at, name in enumerate(names)}
    decode = msgspec.json.Decoder(msgspec.defstruct("Members", members, rename=renamed, gc=False)).decode

    def shown(text: bytes) -> Any:
        if b"[" in text:
            return None
        try:
            return decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    return shown


def _marked(asked: Asked, record: object) -> Any:
    """Pieces of texts, with the places of what matched in them."""
    found = highlight(asked.plan, record, asked.meaning.version)
    return as_json({name: [{"text": one.text, "marks": one.marks} for one in some] for name, some in found.items()})


def as_json(value: Any) -> msgspec.Raw:
    """As JSON: text that no UTF-8 spells, and numbers beyond 64 bits, are spelled as Python's own encoder does it."""
    try:
        return msgspec.Raw(_encode(value))
    except (UnicodeEncodeError, OverflowError, ValueError):
        return msgspec.Raw(json.dumps(value, allow_nan=False, separators=(",", ":")).encode())


def _ms(seconds: float) -> int:
    return round(max(0.0, seconds) * _MS)
