"""Decides a PUT: a new stream with its first content in the same batch, or a check against the one that is there."""

from typing import NamedTuple

import sql
from streams_node.errors import Missing, ProducerGap, StreamExists
from streams_node.ingest.append import Appended, AppendRequest, pieces_of, store
from streams_node.ingest.batches import Batch
from streams_node.ingest.cache import Absent, Bucket
from streams_node.ingest.ledger import Ledger, window_end_us
from streams_node.ingest.state import StreamState, window_slack_us
from streams_node.protocol import content_types
from streams_node.protocol.producers import Producer, Verdict, expected_seq, judge
from streams_node.wal.lookup import Configured, Head, Name

_STREAMS = sql.queries("streams")
_BUCKETS = sql.queries("buckets")


class CreateRequest(NamedTuple):
    content_type: str
    ttl_s: int | None
    expires_us: int | None
    first: AppendRequest  # the initial content: its body may be empty
    implicit_bucket: bool  # the surface makes buckets as they are named


class Created(NamedTuple):
    state: StreamState
    batch: Batch | None
    next_seq: int
    closed: bool
    producer: Producer | None = None
    fresh: bool = False


async def create(ledger: Ledger, name: Name, request: CreateRequest) -> Created:
    """Create or confirm. Everything about the body is checked before anything exists."""
    while True:
        ledger.trust()
        state = await ledger.state(name)
        if not isinstance(state, Absent):
            await ledger.settle(state)
            ledger.trust()
            if state.gone:
                continue
            confirmed = _confirm(ledger, state, request)
            await ledger.kept(state)
            return confirmed
        bucket = await ledger.buckets.get(name.bucket)
        if (bucket is None or not bucket.alive) and not request.implicit_bucket:
            raise Missing(f"bucket `{name.bucket}` does not exist; create it with PUT /{name.bucket}")
        newer = ledger.states.peek(name)
        if newer is None or newer.gone:
            return _decide(ledger, name, bucket, state.dead_epoch if newer is None else newer.epoch, request)


def _confirm(ledger: Ledger, state: StreamState, request: CreateRequest) -> Created:
    wanted = content_types.media(request.content_type)
    differences = [
        what
        for what, same in (
            (f"content type is `{state.content_type}`", state.media == wanted),
            (f"TTL is {state.ttl_s}", state.ttl_s == request.ttl_s),
            ("expiry differs", state.expires_us == request.expires_us),
            (f"stream is {'closed' if state.closed else 'open'}", state.closed == request.first.close),
        )
        if not same
    ]
    if differences:
        raise StreamExists(f"stream `{state.name.stream}` exists with another configuration: {', '.join(differences)}")
    ledger.touch(state)
    return Created(state, None, state.tail.seq, state.tail_closed)


def _decide(
    ledger: Ledger, name: Name, bucket: Bucket | None, dead_epoch: int | None, request: CreateRequest
) -> Created:
    is_json = content_types.is_json(request.content_type)
    first = request.first
    pieces = pieces_of(ledger, first, is_json=is_json, empty_array=True).pieces if first.body else []
    if first.producer is not None and judge(None, first.producer.epoch, first.producer.seq) is not Verdict.ACCEPT:
        raise ProducerGap(expected_seq(None), first.producer.seq)
    ledger.admit(len(first.body))
    ledger.admit_epoch(0 if dead_epoch is None else dead_epoch + 1)
    now_us = ledger.now_us()
    bucket = _ensure_bucket(ledger, bucket, name.bucket, now_us)
    state = _new_state(ledger, name, bucket, dead_epoch, request, now_us)
    appended = None
    if pieces or first.close or first.producer is not None:
        appended = store(ledger, state, pieces, first)
    batch = ledger.committer.added(0, 4) if appended is None or appended.batch is None else appended.batch
    state.batch = batch
    batch.created.append(state)
    ledger.states.put(state)
    ledger.count_stream(bucket.id, bucket.name, batch, by=1)
    return Created(state, batch, state.next_seq, state.closed, _producer(appended), fresh=True)


def _producer(appended: Appended | None) -> Producer | None:
    return None if appended is None else appended.producer


def _ensure_bucket(ledger: Ledger, bucket: Bucket | None, name: str, now_us: int) -> Bucket:
    bucket = bucket or ledger.buckets.peek(name)  # somebody may have made it while we looked
    statements = ledger.committer.open.writes.statements
    if bucket is None:
        bucket = ledger.buckets.create(name, now_us)
        statements.append((_BUCKETS.insert_bucket, (bucket.id, name, now_us)))
    elif not bucket.alive:
        bucket.alive, bucket.created_us = True, now_us
        statements.append((_BUCKETS.revive_bucket, (now_us, bucket.id)))
    return bucket


def _new_state(
    ledger: Ledger, name: Name, bucket: Bucket, dead_epoch: int | None, request: CreateRequest, now_us: int
) -> StreamState:
    stream, ledger.next_stream = ledger.next_stream, ledger.next_stream + 1
    first_epoch = max(0 if dead_epoch is None else dead_epoch + 1, ledger.epochs.base)
    ledger.give_epoch(first_epoch)
    dies_us = request.expires_us
    if request.ttl_s is not None:
        dies_us = window_end_us(now_us, request.ttl_s, window_slack_us(request.ttl_s))
    ledger.committer.open.writes.statements += [
        (
            _STREAMS.insert_stream,
            (bucket.id, name.stream, stream, request.content_type, now_us, request.ttl_s, request.expires_us, dies_us,
             first_epoch),
        ),
        (_STREAMS.insert_head, (stream, now_us)),
        (_BUCKETS.count_streams, (1, bucket.id)),
    ]  # fmt: skip
    config = Configured(
        stream,
        request.content_type,
        now_us,
        request.ttl_s,
        request.expires_us,
        dies_us,
        first_epoch,
        1,
        "generic",
        0,
        0,
        0,
    )
    state = StreamState(name, bucket.id, config, _EMPTY_HEAD._replace(ts=now_us), {}, [])
    state.touched_us = now_us
    return state


_EMPTY_HEAD = Head(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, None, None, None, None)
