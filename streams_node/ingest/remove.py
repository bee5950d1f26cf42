"""Deletes streams and buckets, and ends the streams whose time is over."""

import sql
from streams_node.errors import BucketExists, BucketNotEmpty, Missing
from streams_node.ingest.batches import Batch
from streams_node.ingest.cache import Absent, Bucket
from streams_node.ingest.ledger import Ledger
from streams_node.wal.lookup import Name

_BUCKETS = sql.queries("buckets")
_SWEEP = 1000  # streams ended in one pass


async def delete_stream(ledger: Ledger, name: Name) -> Batch:
    """Decide the end of a stream; the caller waits for the batch."""
    state = await ledger.living(name)
    ledger.admit(0)
    if not await ledger.end(state):  # a fork's source had to be loaded: another request was first
        await ledger.living(name)  # says so
        raise Missing(f"stream `{name.stream}` was deleted, and made again, at this moment")
    assert state.batch is not None  # noqa: S101 - set by whoever ended it
    return state.batch


async def create_bucket(ledger: Ledger, name: str) -> Batch:
    """A new bucket; 409 when there is one, also one that a stream's path made."""
    bucket = await ledger.buckets.stored(name)
    ledger.admit(0)
    bucket = bucket or ledger.buckets.peek(name)
    if bucket is not None and bucket.alive:
        raise BucketExists(f"bucket `{name}` exists already")
    now_us = ledger.now_us()
    statements = ledger.committer.open.writes.statements
    if bucket is None:
        bucket = ledger.buckets.create(name, now_us)
        statements.append((_BUCKETS.insert_bucket, (bucket.id, name, now_us)))
    else:
        bucket.alive, bucket.created_us = True, now_us
        statements.append((_BUCKETS.revive_bucket, (now_us, bucket.id)))
    return _settling(ledger, bucket)


async def delete_bucket(ledger: Ledger, name: str) -> Batch:
    """The end of an empty bucket. Streams whose time is over do not count; soft-deleted ones do, their data lives."""
    bucket = await ledger.buckets.stored(name)
    if bucket is not None and bucket.alive and bucket.streams:
        await end_streams(ledger, _SWEEP)
        bucket = await ledger.buckets.stored(name)
    ledger.admit(0)
    if bucket is None or not bucket.alive:
        raise Missing(f"bucket `{name}` does not exist")
    if bucket.streams:
        raise BucketNotEmpty(f"bucket `{name}` holds {bucket.streams} streams; delete them first")
    bucket.alive = False
    ledger.committer.open.writes.statements.append((_BUCKETS.delete_bucket, (bucket.id,)))
    return _settling(ledger, bucket)


async def end_streams(ledger: Ledger, limit: int) -> int:
    """End up to `limit` streams whose stored end has passed and that are really over; returns how many it looked at."""
    names = await ledger.database.ended_streams(ledger.now_us(), limit)
    for at, name in enumerate(names):
        if ledger.refusals:
            return at
        state = await ledger.state(name)
        if not isinstance(state, Absent):
            ledger.touch(state)  # somebody reads it live, which holds it
    for name in await ledger.database.orphaned_streams(limit):
        orphan = await ledger.state(name)
        if not isinstance(orphan, Absent) and orphan.kept and not ledger.refusals:
            await ledger.end(orphan)
    return len(names)


def _settling(ledger: Ledger, bucket: Bucket) -> Batch:
    batch = ledger.committer.added(0, 1)
    ledger.buckets.moving[bucket.id] = batch
    return batch
