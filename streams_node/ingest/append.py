"""Decides one append: the order of the checks is the protocol's, and nothing changes unless all of them pass."""

import asyncio
from typing import NamedTuple

from streams_node.errors import (
    ContentTypeMismatch,
    InvalidEntry,
    InvalidRequest,
    InvariantBroken,
    ProducerFenced,
    ProducerGap,
    ProducerLimit,
    SequenceRegressed,
    StreamClosed,
    StreamsError,
    TooLarge,
)
from streams_node.ingest.batches import Batch
from streams_node.ingest.ledger import Ledger, log_end
from streams_node.ingest.state import StreamState
from streams_node.meaning import Bounds, Meaning, prepared, prepared_at_once, takes_long
from streams_node.protocol import content_types
from streams_node.protocol.anchors import jump_of, moved
from streams_node.protocol.content_types import media
from streams_node.protocol.frames import BadJson, Piece, TooManyElements, cut_bytes, cut_elements, json_elements
from streams_node.protocol.producers import Producer, Verdict, expected_seq, judge
from streams_node.wal.heads import CLOSES, CONTINUES, FIRST

LARGE_BYTES = 512 << 10  # opening that much JSON takes about a millisecond
CHECKS_MAX = 8  # of one body that waits for them, while its stream is declared anew again and again

_COPIED_BYTES_MAX = 4 << 10  # a copy that sqlite3 binds at once costs less than its search for an adapter of bytes


class ProducerHeaders(NamedTuple):
    id: str
    epoch: int
    seq: int


class AppendRequest(NamedTuple):
    """An append as the edge has parsed it."""

    body: bytes
    content_type: str | None = None
    close: bool = False
    producer: ProducerHeaders | None = None
    stream_seq: str | None = None
    key: bytes | None = None  # a packed routing key for all entries
    hint_us: int | None = None
    opened: "Opened | None" = None  # a large JSON body, opened beforehand


class Opened(NamedTuple):
    """A JSON body as pieces of log rows, or what is wrong with it: said when its turn comes among the checks.

    `refused` is why the stream does not take what is in it; `meaning` is what it was held against.
    """

    pieces: list[Piece]
    wrong: StreamsError | None = None
    refused: StreamsError | None = None
    meaning: Meaning | None = None


class Appended(NamedTuple):
    """What to answer once the batch is on disk; no batch when nothing had to be stored."""

    batch: Batch | None
    next_seq: int
    closed: bool
    stored: bool = False
    producer: Producer | None = None


async def append(ledger: Ledger, state: StreamState, request: AppendRequest) -> Appended:
    """Decide, and wait for what the decision rests on. The caller then waits for the batch, if there is one."""
    ledger.trust()
    try:
        decided = decide(ledger, state, request)
    except StreamsError:
        if not state.settled:
            await ledger.settle(state)
        raise
    if decided.batch is None and not state.settled:
        await ledger.settle(state)
    return decided


def decide(ledger: Ledger, state: StreamState, request: AppendRequest) -> Appended:
    """The whole decision, on the loop, without waiting."""
    body = request.body
    if body and request.content_type is None:
        raise InvalidRequest("Content-Type", f"sent with a body; the stream is `{state.content_type}`")
    if not (body or request.close):
        raise InvalidRequest("the body of an append", "non-empty, unless Stream-Closed: true is sent")
    if state.closed:
        return _on_closed(state, request)
    pieces, _, refused, _ = checked_pieces(ledger, state, request) if body else _EMPTY
    producer = request.producer
    if producer is not None:
        last = state.producers.get(producer.id)
        verdict = judge(last, producer.epoch, producer.seq)
        if verdict is not Verdict.ACCEPT:
            return _on_verdict(state, last, verdict, producer)
        if last is None and len(state.producers) >= ledger.settings.producers_per_stream_max:
            raise ProducerLimit(f"the stream has its {len(state.producers)} producers already; none can be added")
    if refused is not None:  # after the producer: its retry is answered so, whatever the schema has become
        raise refused
    if request.stream_seq is not None and state.stream_seq is not None:
        _check_stream_seq(state.stream_seq, request.stream_seq)
    ledger.admit(len(body))
    return store(ledger, state, pieces, request)


_EMPTY = Opened([])


def checked_pieces(ledger: Ledger, state: StreamState, request: AppendRequest) -> Opened:
    """The body as the pieces of log rows, if its type and its form are the stream's."""
    content_type = request.content_type or ""
    meaning = state.meaning
    if meaning is not None and meaning.version and not content_types.is_json(content_type):
        raise InvalidEntry("stream requires JSON")
    if content_type != state.content_type and media(content_type) != state.media:
        raise ContentTypeMismatch(f"the stream is `{state.content_type}`, the body says `{content_type}`")
    return pieces_of(ledger, request, is_json=state.is_json, meaning=meaning)


def pieces_of(
    ledger: Ledger,
    request: AppendRequest,
    *,
    is_json: bool,
    empty_array: bool = False,
    meaning: Meaning | None = None,
) -> Opened:
    """The body as pieces; a JSON body is checked and opened here, unless that was done before for the same meaning."""
    settings = ledger.settings
    if not is_json:
        return Opened(cut_bytes(request.body, settings.log_row_bytes_max))
    if meaning is not None and not meaning.checks:
        meaning = None
    done = request.opened
    if done is None or done.meaning is not meaning:
        if meaning is None:
            done = opened(request.body, settings.append_entries_max, settings.log_row_bytes_max)
        else:
            done = opened_for(meaning, request, bounds_of(ledger), ledger.now_us())
    if done.wrong is not None:
        raise done.wrong
    if not done.pieces and done.refused is None and not empty_array:
        raise InvalidRequest("a JSON array in an append", "non-empty", "[]")
    return done


def waits_for_check(meaning: Meaning | None, request: AppendRequest, *, is_json: bool) -> bool:
    """Whether a body has to be held against what the stream's entries mean before it is decided, beside the loop."""
    if meaning is None or not meaning.checks or not is_json:
        return False
    done = request.opened
    return (done is None or done.meaning is not meaning) and takes_long(meaning, request.body)


async def check_beside(ledger: Ledger, meaning: Meaning, request: AppendRequest) -> AppendRequest:
    """Do so; at once if that is soon done."""
    bounds, now_us = bounds_of(ledger), ledger.now_us()
    done = prepared_at_once(meaning, request.body, request.key, bounds)
    if done is not None:
        return request._replace(opened=Opened(*done, meaning))
    return request._replace(opened=await ledger.workshop.check(lambda: opened_for(meaning, request, bounds, now_us)))


def opened_for(meaning: Meaning, request: AppendRequest, bounds: Bounds, now_us: int) -> Opened:
    """A JSON body as this meaning takes it."""
    return Opened(*prepared(meaning, request.body, request.key, now_us, bounds), meaning)


def bounds_of(ledger: Ledger) -> Bounds:
    settings = ledger.settings
    return Bounds(settings.append_entries_max, settings.log_row_bytes_max, settings.routing_key_bytes_max)


async def open_large(ledger: Ledger, request: AppendRequest, *, is_json: bool) -> AppendRequest:
    """Open a large JSON body beside the loop, which would stand still for as long as that takes."""
    if not is_json or len(request.body) < LARGE_BYTES:
        return request
    loop = asyncio.get_running_loop()
    bounds = ledger.settings.append_entries_max, ledger.settings.log_row_bytes_max
    return request._replace(opened=await loop.run_in_executor(ledger.openers, opened, request.body, *bounds))


def opened(body: bytes, entries_max: int, piece_bytes_max: int) -> Opened:
    """The elements of a JSON body, each with the client's own bytes, cut into pieces."""
    try:
        elements = json_elements(body, entries_max)
    except BadJson as problem:
        return Opened([], InvalidRequest("the body of a JSON stream", f"valid JSON; {problem}"))
    except TooManyElements:
        return Opened([], TooLarge(f"an append may hold {entries_max} messages; this one has more"))
    return Opened(cut_elements(elements, piece_bytes_max))


def store(ledger: Ledger, state: StreamState, pieces: list[Piece], request: AppendRequest) -> Appended:
    """Give the append its rows in the open batch and move the state on: from here on it is decided."""
    if state.recovered:
        ledger.open_epoch(state)
    now_us = ledger.now_us()
    hint_us = request.hint_us
    ts = now_us if hint_us is None else min(hint_us, now_us + ledger.settings.timestamp_ahead_ms_max * 1000)
    ts = max(ts, state.ts)
    state.ts = ts
    start = state.next_seq
    producer = request.producer
    id_, epoch, number = producer if producer is not None else (None, None, None)
    committer = ledger.committer
    batch_writes = committer.open.writes
    writes = batch_writes.rows
    plain = producer is None and request.stream_seq is None and request.key is None
    row = ledger.touch_rows(len(pieces) or 1)
    flags = FIRST
    last = len(pieces) - 1
    for at, (count, size, payload, lens, continues, keys) in enumerate(pieces or _NOTHING):
        if continues:
            flags |= CONTINUES
        if at >= last and request.close:
            flags |= CLOSES
        state.ordinal = ordinal = state.ordinal + 1
        writes += (
            row, state.id, state.next_seq, count, ordinal, state.last_row, jump_of(ordinal, state.anchors),
            state.position, ts, flags, state.schema_version, id_, epoch, number, request.stream_seq, lens,
            request.key if keys is None else keys, bytearray(payload) if size <= _COPIED_BYTES_MAX else payload,
        )  # fmt: skip
        if plain and lens is None and keys is None:
            batch_writes.plain_rows += 1
        if ordinal & 31 == 0:
            state.anchors = moved(state.anchors, ordinal, row)
        state.last_row = row
        state.next_seq += count
        state.position += size
        row += 1
        flags = 0
    return _decided(ledger, state, request, pieces, start)


_NOTHING = [Piece(0, 0, b"")]


def _decided(ledger: Ledger, state: StreamState, request: AppendRequest, pieces: list[Piece], start: int) -> Appended:
    producer = request.producer
    accepted = None
    if producer is not None:
        accepted = state.producers[producer.id] = Producer(producer.epoch, producer.seq, state.next_seq)
        if state.dirty_producers is None:
            state.dirty_producers = set()
        if producer.id not in state.dirty_producers:
            state.dirty_producers.add(producer.id)
            ledger.states.weigh(state)
    if request.stream_seq is not None:
        state.stream_seq = request.stream_seq
    if request.close:
        state.closed = True
        state.closed_by = None if producer is None else (producer.id, producer.epoch, producer.seq)
    committer = ledger.committer
    fresh = None if state.hub is None else (start, _payload(pieces, is_json=state.is_json))
    committer.open.touched.append((state, log_end(state), request.close, fresh))
    if not state.dirty:
        committer.dirtied(state)
    postponed = state.ttl_s is not None and ledger.postpone(state)  # before the batch may be full: it is one answer
    state.batch = batch = committer.added(len(request.body), len(pieces) or 1)
    if postponed:
        state.window = batch
    return Appended(batch, state.next_seq, state.closed, stored=True, producer=accepted)


def _payload(pieces: list[Piece], *, is_json: bool) -> bytes:
    """What live readers are sent: the entries as a page would show them."""
    if len(pieces) == 1:
        return pieces[0].payload
    parts: list[bytes] = []
    for piece in pieces:
        if is_json and parts and not piece.continues:
            parts.append(b",")
        parts.append(piece.payload)
    return b"".join(parts)


def _on_closed(state: StreamState, request: AppendRequest) -> Appended:
    producer = request.producer
    if producer is not None:
        if state.closed_by == tuple(producer):
            return Appended(None, state.next_seq, closed=True, producer=state.producers[producer.id])
    elif request.close and not request.body:
        return Appended(None, state.next_seq, closed=True)
    raise StreamClosed(state.name.stream, state.token(state.next_seq))


def _on_verdict(state: StreamState, last: Producer | None, verdict: Verdict, sent: ProducerHeaders) -> Appended:
    match verdict:
        case Verdict.DUPLICATE:
            return Appended(None, state.next_seq, state.closed, producer=last)
        case Verdict.FENCED if last is not None:
            raise ProducerFenced(last.epoch, sent.epoch)
        case Verdict.MUST_START_AT_ZERO:
            raise InvalidRequest("Producer-Seq of a new epoch", "0", sent.seq)
        case Verdict.GAP:
            raise ProducerGap(expected_seq(last), sent.seq)
        case _:
            raise InvariantBroken(f"a producer verdict without an answer: {verdict}")


def _check_stream_seq(last: str, seen: str) -> None:
    if seen.encode("utf-8") <= last.encode("utf-8"):
        raise SequenceRegressed(last, seen)
