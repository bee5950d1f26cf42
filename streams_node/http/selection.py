"""Reads of some of a stream's entries: by key and by filter, from a time on."""

import asyncio
import hashlib

import orjson

from search.language import Plan, QueryError, filter_, matcher
from streams_node.answers import configs_of, filter_want, key_want
from streams_node.errors import BadFilter
from streams_node.http.context import Context
from streams_node.http.query import Mode, ReadQuery
from streams_node.ingest.state import StreamState
from streams_node.meaning import Meaning, StreamLenses
from streams_node.read.filtered import Filtered, parser_of
from streams_node.read.keyed import Keyed, Pruner
from streams_node.read.pages import Page
from streams_node.read.scan import Bounds, Sieve, read_matching
from streams_node.read.since import seq_since

_LONG_CHARS = 1000  # to understand such a filter takes about a millisecond
_TAG_BYTES = 12
_FEW_ENTRIES = 64  # are read as soon as an index is asked


def check_selection(state: StreamState, query: ReadQuery) -> None:
    """Refuse what no stream of this type, or no read of this mode, can be asked for."""
    if query.filter is None:
        return
    if not state.is_json:
        raise BadFilter("filter requires application/json stream content-type")
    if query.mode is Mode.SSE:
        raise BadFilter("filter does not support live=sse")


async def start_of(context: Context, state: StreamState, since_us: int | None) -> int:
    """Where a read without an offset begins."""
    if since_us is None:
        return state.earliest_seq
    return await seq_since(context.database, context.tiers.reader, state, since_us)


async def selected_page(
    context: Context, state: StreamState, start: int, query: ReadQuery, bytes_max: int, *, framed: bool
) -> Page:
    """What of the entries from `start` on has the key and matches the filter."""
    settings = context.settings
    raw = query.raw is True
    meaning = state.tail_meaning if state.is_json else None  # of one moment, for the entries and for their tag
    sieve = await _sieve(context, state, meaning, start, query, raw=raw)
    bounds = Bounds(bytes_max, settings.filter_scan_bytes_max, settings.request_ms_max / 1000 / 2)
    page, examined, spent = await read_matching(
        context.database, context.tiers.reader, state, start, sieve, bounds, raw=raw, framed=framed
    )
    limit = (settings.filter_scan_bytes_max, examined) if spent and query.filter is not None else None
    version = 0 if raw else _version_of(meaning)
    return page._replace(version=version, limit=limit, selection=_form(query, meaning))


def _version_of(meaning: Meaning | None) -> int:
    """The version that entries are shown and judged in."""
    return 0 if meaning is None else meaning.version


def _form(query: ReadQuery, meaning: Meaning | None) -> str:
    """What of a selection a tag names.

    A filter is judged by what the stream's fields are, and on entries as the current version has them, however they are
    shown. Keys are stored, and stay what they are.
    """
    said: list[object] = [query.key, query.filter]
    if query.filter is not None and meaning is not None:
        said += [meaning.version, meaning.common.search_tag]
    return f"s{hashlib.blake2b(orjson.dumps(said), digest_size=_TAG_BYTES).hexdigest()}"


async def _sieve(
    context: Context, state: StreamState, meaning: Meaning | None, start: int, query: ReadQuery, *, raw: bool
) -> Sieve:
    version = _version_of(meaning)
    lenses = None if meaning is None else StreamLenses(meaning, state.token)
    if query.filter is None:
        pruner = _pruner(context, state, meaning, start, query.key, None)
        return Keyed(query.key, None if raw else lenses, pruner)
    plan = await _plan(context, query.filter, meaning)
    pruner = _pruner(context, state, meaning, start, query.key, plan)
    matches, parse = matcher(plan, version), parser_of(plan, version)
    return Filtered(plan, matches, key=query.key, lenses=lenses, raw=raw, pruner=pruner, parse=parse)


def _pruner(
    context: Context, state: StreamState, meaning: Meaning | None, start: int, key: str | None, plan: Plan | None
) -> Pruner | None:
    """What is indexed of the stream as the read understands it; None where there is nothing, or too little to read."""
    indexes = context.tiers.indexes
    if indexes is None or meaning is None or state.tail.seq - start < _FEW_ENTRIES:
        return None
    configs = configs_of(meaning, is_json=state.is_json)
    wants = [
        None if key is None else key_want(key, configs),
        None if plan is None else filter_want(plan, configs, meaning.registry.current_from),
    ]
    found = [want for want in wants if want is not None]
    return indexes.pruner(state.id, found) if found else None


async def _plan(context: Context, text: str, meaning: Meaning | None) -> Plan:
    if meaning is not None and meaning.problem is not None:
        raise meaning.problem
    config = None if meaning is None else meaning.registry.search
    try:
        if len(text) < _LONG_CHARS:
            return filter_(text, config)
        return await asyncio.get_running_loop().run_in_executor(context.ledger.openers, filter_, text, config)
    except QueryError as problem:
        raise BadFilter(problem.message, position=problem.position) from None
