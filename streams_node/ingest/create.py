"""Decides a PUT: a new stream with its first content in the same batch, or a check against the one that is there."""

from typing import NamedTuple

import sql
from streams_node.errors import Missing, ProducerGap, StreamExists
from streams_node.ingest.append import Appended, AppendRequest, check_beside, pieces_of, store, waits_for_check
from streams_node.ingest.batches import Batch
from streams_node.ingest.cache import Absent, Bucket
from streams_node.ingest.forks import EMPTY_HEAD, ForkRequest, Plan, fork_state, planned, same_fork
from streams_node.ingest.ledger import Ledger, window_end_us
from streams_node.ingest.state import StreamState, window_slack_us
from streams_node.protocol import content_types
from streams_node.protocol.frames import Piece, cut_bytes
from streams_node.protocol.producers import Producer, Verdict, expected_seq, judge
from streams_node.wal.lookup import Configured, Name

_STREAMS = sql.queries("streams")
_BUCKETS = sql.queries("buckets")


class CreateRequest(NamedTuple):
    content_type: str | None  # None: not said; octets, or as the source of a fork has it
    ttl_s: int | None
    expires_us: int | None
    first: AppendRequest  # the initial content: its body may be empty
    implicit_bucket: bool  # the surface makes buckets as they are named
    fork: ForkRequest | None = None


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
            confirmed = await _there(ledger, state, request)
            if confirmed is None:
                continue
            return confirmed
        bucket = await ledger.buckets.get(name.bucket)
        if (bucket is None or not bucket.alive) and not request.implicit_bucket:
            raise Missing(f"bucket `{name.bucket}` does not exist; create it with PUT /{name.bucket}")
        if request.fork is None:
            created = _made(ledger, name, bucket, state, request)
        else:
            created = await _forked(ledger, name, bucket, request, request.fork)
        if created is not None:
            return created


async def _there(ledger: Ledger, state: StreamState, request: CreateRequest) -> Created | None:
    """Confirm a stream that is there; None when it has gone meanwhile."""
    await ledger.settle(state)
    source = await ledger.source(state)
    ledger.trust()
    if state.kept:
        name = state.name.stream
        raise StreamExists(f"stream `{name}` was deleted, and is kept for forks of it until they are gone")
    if state.gone:
        return None
    confirmed = _confirm(ledger, state, request, source)
    await ledger.kept(state)
    return confirmed


async def _forked(
    ledger: Ledger, name: Name, bucket: Bucket | None, request: CreateRequest, fork: ForkRequest
) -> Created | None:
    """A new fork; None when its name or its source have changed while the source was looked at."""
    async with planned(ledger, name, fork, request.content_type) as plan:
        content_type = request.content_type or plan.source.content_type
        if plan.meaning is not None and waits_for_check(
            plan.meaning, request.first, is_json=content_types.is_json(content_type)
        ):
            request = request._replace(first=await check_beside(ledger, plan.meaning, request.first))
        state = await ledger.state(name)
        ledger.trust()
        if isinstance(state, Absent) and not plan.source.gone:
            return _made(ledger, name, bucket, state, request, plan)
    return None


def _made(
    ledger: Ledger, name: Name, bucket: Bucket | None, absent: Absent, request: CreateRequest, plan: Plan | None = None
) -> Created | None:
    """A new stream, without waiting; None when somebody else was faster."""
    newer = ledger.states.peek(name)
    if newer is not None and not newer.gone:
        return None
    return _decide(ledger, name, bucket, absent.dead_epoch if newer is None else newer.epoch, request, plan)


def _confirm(ledger: Ledger, state: StreamState, request: CreateRequest, source: StreamState | None) -> Created:
    """`source` of a fork that is there: what it inherited need not be said, and may be."""
    fork, lifetime = request.fork, (request.ttl_s, request.expires_us)
    content_type = request.content_type or (content_types.DEFAULT if fork is None else state.content_type)
    inherited = fork is not None and lifetime == (None, None) and source is not None
    if inherited and source is not None and (source.ttl_s, source.expires_us) == (state.ttl_s, state.expires_us):
        lifetime = state.ttl_s, state.expires_us
    differences = [
        what
        for what, same in (
            (f"content type is `{state.content_type}`", state.media == content_types.media(content_type)),
            (f"TTL is {state.ttl_s}", state.ttl_s == lifetime[0]),
            ("expiry differs", state.expires_us == lifetime[1]),
            (f"stream is {'closed' if state.closed else 'open'}", state.closed == request.first.close),
            ("it is a fork" if fork is None else "it was not forked like that", same_fork(state, fork)),
        )
        if not same
    ]
    if differences:
        raise StreamExists(f"stream `{state.name.stream}` exists with another configuration: {', '.join(differences)}")
    ledger.touch(state)
    return Created(state, None, state.tail.seq, state.tail_closed)


def _decide(
    ledger: Ledger, name: Name, bucket: Bucket | None, dead_epoch: int | None, request: CreateRequest,
    plan: Plan | None = None,
) -> Created:  # fmt: skip
    content_type = request.content_type or content_types.DEFAULT
    first, meaning = request.first, None
    if plan is not None:
        content_type, meaning = request.content_type or plan.source.content_type, plan.meaning
    is_json = content_types.is_json(content_type)
    pieces: list[Piece] = []
    if first.body:
        done = pieces_of(ledger, first, is_json=is_json, empty_array=True, meaning=meaning)
        if done.refused is not None:
            raise done.refused
        pieces = done.pieces
    if first.producer is not None and judge(None, first.producer.epoch, first.producer.seq) is not Verdict.ACCEPT:
        raise ProducerGap(expected_seq(None), first.producer.seq)
    ledger.admit(len(first.body))
    ledger.admit_epoch(0 if dead_epoch is None else dead_epoch + 1)
    now_us = ledger.now_us()
    bucket = _ensure_bucket(ledger, bucket, name.bucket, now_us)
    first_epoch = max(0 if dead_epoch is None else dead_epoch + 1, ledger.epochs.base)
    appended = None
    if plan is None:
        state = _new_state(ledger, name, bucket, first_epoch, request._replace(content_type=content_type), now_us)
    else:
        state = fork_state(ledger, name, bucket, first_epoch, plan, (request.ttl_s, request.expires_us), content_type)
        if plan.copied:
            if not (pieces or first.close or first.producer is not None):
                first = AppendRequest(b"", None)  # what it says is about content of its own, and there is none
            pieces = [*cut_bytes(plan.copied, ledger.settings.log_row_bytes_max), *pieces]
    if pieces or first.close or first.producer is not None:
        appended = store(ledger, state, pieces, first)
    batch = ledger.committer.added(0, 4) if appended is None or appended.batch is None else appended.batch
    state.batch = batch
    if plan is not None:
        plan.source.batch = batch  # it stays in memory until the row of it says the same
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
    ledger: Ledger, name: Name, bucket: Bucket, first_epoch: int, request: CreateRequest, now_us: int
) -> StreamState:
    stream, ledger.next_stream = ledger.next_stream, ledger.next_stream + 1
    ledger.give_epoch(first_epoch)
    content_type = request.content_type or content_types.DEFAULT
    dies_us = request.expires_us
    if request.ttl_s is not None:
        dies_us = window_end_us(now_us, request.ttl_s, window_slack_us(request.ttl_s))
    ledger.committer.open.writes.statements += [
        (
            _STREAMS.insert_stream,
            (bucket.id, name.stream, stream, content_type, now_us, request.ttl_s, request.expires_us, dies_us,
             first_epoch),
        ),
        (_STREAMS.insert_head, (stream, now_us)),
        (_BUCKETS.count_streams, (1, bucket.id)),
    ]  # fmt: skip
    config = Configured(
        stream,
        content_type,
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
    state = StreamState(name, bucket.id, config, EMPTY_HEAD._replace(ts=now_us), {}, [])
    state.touched_us = now_us
    return state
