"""GET of `…/_routing_keys`: the distinct routing keys of a stream, page by page."""

import time

import msgspec

from streams_node.answers import KeysPage, configs_of
from streams_node.errors import InvalidDeclaration, InvalidRequest, Unavailable
from streams_node.http.context import Context
from streams_node.http.query import DIGITS_MAX, parameters
from streams_node.http.reply import Reply, SubRequest
from streams_node.ingest.state import StreamState
from streams_node.meaning import name_of

_KNOWN = frozenset(("limit", "after"))
_LIMIT, _LIMIT_MAX = 100, 500
_MS = 1000


class RoutingKeySource(msgspec.Struct):
    kind: str = "routing_key"
    name: str = ""


class RoutingKeysCoverage(msgspec.Struct):
    complete: bool
    indexed_segments: int
    scanned_uploaded_segments: int
    scanned_local_segments: int
    scanned_wal_rows: int
    possible_missing_uploaded_segments: int
    possible_missing_local_segments: int


class RoutingKeysTiming(msgspec.Struct):
    lexicon_run_get_ms: int
    lexicon_decode_ms: int
    lexicon_enumerate_ms: int
    lexicon_merge_ms: int
    fallback_scan_ms: int
    fallback_segment_get_ms: int
    fallback_wal_scan_ms: int
    lexicon_runs_loaded: int


class RoutingKeysView(msgspec.Struct):
    stream: str
    source: RoutingKeySource
    took_ms: int
    coverage: RoutingKeysCoverage
    timing: RoutingKeysTiming
    keys: list[str]
    next_after: str | None


async def read_routing_keys(context: Context, request: SubRequest) -> Reply[RoutingKeysView]:
    """A page of keys in the order of their UTF-8."""
    began = time.monotonic()
    after, limit = _query(request.query_string)
    state = await context.ledger.readable(request.name)
    _check(state)
    indexes = context.tiers.indexes
    if indexes is None:
        raise Unavailable("the node does not know yet what is indexed; try again")
    page = await indexes.routing_keys(
        context.tiers.reader,
        state,
        configs_of(state.tail_meaning, is_json=state.is_json).get("lexicon"),
        after=after,
        limit=limit,
        seconds=context.settings.request_ms_max / _MS / 2,
    )
    name = name_of(request.name.bucket, request.name.stream)
    return Reply(200, _view(name, page, time.monotonic() - began))


def _query(query_string: bytes) -> tuple[str | None, int]:
    """The cursor, where a blank one stands behind the blank key; and how many keys."""
    found = parameters(query_string, _KNOWN, blank=frozenset(("after",)))
    text = found.get("limit")
    if text is None:
        return found.get("after"), _LIMIT
    if not (text.isascii() and text.isdigit()) or len(text) > DIGITS_MAX or not 0 < int(text) <= _LIMIT_MAX:
        raise InvalidRequest("limit", f"a whole number from 1 to {_LIMIT_MAX}", text)
    return found.get("after"), int(text)


def _check(state: StreamState) -> None:
    """Refuse a stream whose schema has no routing key; one that a profile finds does not count."""
    meaning = state.tail_meaning
    if meaning is not None and meaning.problem is not None:
        raise meaning.problem
    if meaning is None or meaning.registry.routing_key is None:
        raise InvalidDeclaration("routing key not configured")


def _view(name: str, page: KeysPage, seconds: float) -> RoutingKeysView:
    timing = page.timing
    coverage = RoutingKeysCoverage(
        complete=page.complete,
        indexed_segments=page.indexed,
        scanned_uploaded_segments=page.scanned,
        scanned_local_segments=0,  # what is not in the bucket yet is in the log, too
        scanned_wal_rows=page.log_rows,
        possible_missing_uploaded_segments=page.missing,
        possible_missing_local_segments=0,
    )
    said = RoutingKeysTiming(
        lexicon_run_get_ms=_ms(timing.get),
        lexicon_decode_ms=_ms(timing.decode),
        lexicon_enumerate_ms=_ms(timing.enumerate),
        lexicon_merge_ms=_ms(timing.merge),
        fallback_scan_ms=_ms(timing.fallback),
        fallback_segment_get_ms=_ms(timing.fallback_get),
        fallback_wal_scan_ms=_ms(timing.fallback_log),
        lexicon_runs_loaded=timing.runs,
    )
    return RoutingKeysView(name, RoutingKeySource(), _ms(seconds), coverage, said, list(page.keys), page.next_after)


def _ms(seconds: float) -> int:
    return round(max(0.0, seconds) * _MS)
