"""Decides a fork: where it leaves its source, what it inherits, and that the source is kept for it.

Keeps    a fork and its count in the source are one transaction, decided without a wait in between: a refused fork
         leaves nothing. Entries below the fork point are the source's own, in its epochs; what the fork writes itself
         is in an epoch that no earlier life of its name had. Producers and `Stream-Seq` stay with the source.
Dies     before the commit: there is no fork, and its source has none. After it: there are both.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import sql
from streams_node.errors import Conflict, ContentTypeMismatch, InvalidRequest, Missing
from streams_node.indexing.plans import configs_of, plan_statement
from streams_node.ingest.cache import Absent, Bucket
from streams_node.ingest.ledger import Ledger, window_end_us
from streams_node.ingest.state import NOTHING_STORED, StreamState, window_slack_us
from streams_node.meaning import Meaning, name_of
from streams_node.protocol import content_types
from streams_node.protocol.offsets import Position
from streams_node.schema.registry import Boundary, like
from streams_node.wal.batch import Writes
from streams_node.wal.lineage import Lineage, load_lives
from streams_node.wal.lookup import Configured, Head, Name

_STREAMS = sql.queries("streams")
_BUCKETS = sql.queries("buckets")
_FORKS = sql.queries("forks")
_SCHEMAS = sql.queries("schemas")
DEPTH_MAX = 100  # forks of forks: a read of the oldest entries looks at each of them
EMPTY_HEAD = Head(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, None, None, None, None)


class Taken(NamedTuple):
    """What a sub-offset takes of an append: entries before `fork_seq` are shared, and these bytes are copied."""

    fork_seq: int
    copied: bytes


class ForkRequest(NamedTuple):
    """A fork as it was asked for. `position` None: at the source's end. `take` looks at stored entries."""

    source: Name
    position: Position | None
    sub: int
    take: Callable[[StreamState, int, int], Awaitable[Taken]]


class Plan(NamedTuple):
    """What a fork will be, decided but for its name."""

    source: StreamState
    fork_seq: int
    fork_sub: int
    copied: bytes
    meaning: Meaning | None
    configs: str  # of the indexes of its own entries


def same_fork(state: StreamState, fork: ForkRequest | None) -> bool:
    """Whether a stream that is there was forked as asked, or not forked at all."""
    lineage = state.lineage
    if lineage is None or fork is None:
        return lineage is None and fork is None
    anchor = lineage.anchor(is_json=state.is_json)
    at_anchor = fork.position is None or fork.position.seq == anchor
    return lineage.source_name == fork.source and lineage.fork_sub == fork.sub and at_anchor


@asynccontextmanager
async def planned(ledger: Ledger, name: Name, fork: ForkRequest, content_type: str | None) -> AsyncIterator[Plan]:
    """Everything about the source is checked; it stays in memory as long as the block runs."""
    source = await ledger.state(fork.source)
    if isinstance(source, Absent):
        raise Missing(f"the source `{fork.source.stream}` does not exist in bucket `{fork.source.bucket}`")
    source.held += 1
    try:
        await ledger.settle(source)
        yield await _plan(ledger, name, source, fork, content_type)
    finally:
        source.held -= 1


async def _plan(ledger: Ledger, name: Name, source: StreamState, fork: ForkRequest, content_type: str | None) -> Plan:
    if source.soft_deleted:
        raise Conflict(f"the source `{source.name.stream}` was deleted, and only kept for the forks that it has")
    if content_type is not None and content_types.media(content_type) != source.media:
        raise ContentTypeMismatch(f"the source is `{source.content_type}`, the fork says `{content_type}`")
    if source.lineage is not None:
        lineage = source.lineage
        lives = await ledger.database.readers.run(load_lives, lineage.source, lineage.fork_seq)
        if len(lives) >= DEPTH_MAX:
            raise InvalidRequest("the source of a fork", f"at most {DEPTH_MAX - 1} times a fork of a fork")
    anchor = source.tail.seq if fork.position is None else source.resolve(fork.position)
    taken = await fork.take(source, anchor, fork.sub) if fork.sub else Taken(anchor, b"")
    meaning, configs = await _inherited(ledger, name, source, taken.fork_seq)
    return Plan(source, taken.fork_seq, fork.sub, taken.copied, meaning, configs)


async def _inherited(ledger: Ledger, name: Name, source: StreamState, fork_seq: int) -> tuple[Meaning | None, str]:
    """What entries of the fork mean: as the source has it now, for all that the fork writes itself; and its indexes."""
    meaning = source.meaning
    if meaning is None:
        return None, ""
    if meaning.problem is not None:
        raise meaning.problem
    standing = meaning.standing
    boundaries = tuple(Boundary(min(each.offset, fork_seq), each.version) for each in standing.registry.boundaries)
    registry = like(standing.registry, name_of(*name), boundaries)
    commons = ledger.workshop.commons

    def make() -> tuple[Meaning, str]:
        made = Meaning.of(standing._replace(registry=registry), commons)
        return made, configs_of(registry, standing.profile, is_json=source.is_json)

    return await ledger.workshop.make(make)


def fork_state(
    ledger: Ledger, name: Name, bucket: Bucket, epoch: int, plan: Plan, lifetime: tuple[int | None, int | None],
    content_type: str,
) -> StreamState:  # fmt: skip
    """A new fork, and what has to be stored of it and of its source. `epoch` is the first that the name may use."""
    source, fork_seq, now_us = plan.source, plan.fork_seq, ledger.now_us()
    stream, ledger.next_stream = ledger.next_stream, ledger.next_stream + 1
    epochs = _epochs(source, fork_seq, epoch)
    ledger.give_epoch(epochs[-1][0])
    ttl_s, expires_us = (source.ttl_s, source.expires_us) if lifetime == (None, None) else lifetime
    dies_us = expires_us if ttl_s is None else window_end_us(now_us, ttl_s, window_slack_us(ttl_s))
    meaning = plan.meaning
    config = Configured(
        stream, content_type, now_us, ttl_s, expires_us, dies_us, epochs[0][0], len(epochs),
        source.profile, 0, source.earliest_seq, 0, int(meaning is not None),
        0, source.id, fork_seq, plan.fork_sub,
    )  # fmt: skip
    ts = max(now_us, source.ts)  # times never run backwards, over the fork point neither
    version = 0 if meaning is None else meaning.version
    head = EMPTY_HEAD._replace(next_seq=fork_seq, ts=ts, schema_version=version)
    state = StreamState(name, bucket.id, config, head, {}, list(epochs[1:]), meaning)
    state.lineage = Lineage(source.id, source.name, fork_seq, plan.fork_sub)
    state.tail = NOTHING_STORED
    state.touched_us = now_us
    statements = ledger.committer.open.writes.statements
    statements += [
        (
            _FORKS.insert_fork,
            (bucket.id, name.stream, stream, content_type, now_us, ttl_s, expires_us, dies_us, epochs[0][0],
             len(epochs), source.profile, source.id, fork_seq, plan.fork_sub, source.earliest_seq,
             int(meaning is not None)),
        ),
        (_FORKS.insert_fork_head, (stream, fork_seq, ts, version)),
        (_FORKS.count_forks, (1, source.bucket_id, source.name.stream)),
        (_BUCKETS.count_streams, (1, bucket.id)),
        *((_STREAMS.insert_epoch, (stream, *each)) for each in epochs[1:]),
    ]  # fmt: skip
    if meaning is not None:
        stored = meaning.standing.encode()
        statements += [
            (_SCHEMAS.put_schema, (stream, stored.registry, stored.config)),
            plan_statement(stream, plan.configs, now_us),
        ]
    _write_head(ledger, source)
    source.forks += 1
    return state


def _epochs(source: StreamState, fork_seq: int, epoch: int) -> tuple[tuple[int, int], ...]:
    """Those of the shared entries; one more, if the name or the node must not use the last of them for others."""
    shared = tuple(each for each in source.epochs if each[1] < fork_seq)
    if not shared:
        return ((max(epoch, source.epochs[0][0]), 0),)
    return shared if shared[-1][0] >= epoch else (*shared, (epoch, fork_seq))


def _write_head(ledger: Ledger, source: StreamState) -> None:
    """Readers of a fork find the shared rows from the source's head as it is stored: it must not be before them."""
    if not source.dirty:
        return
    head = Writes()
    source.add_head(head)
    text, values = (
        (_STREAMS.write_plain_heads, head.plain_heads) if head.plain_heads else (_STREAMS.write_heads, head.heads)
    )
    ledger.committer.open.writes.statements.append((text, tuple(values)))
