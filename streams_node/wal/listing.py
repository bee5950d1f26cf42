"""Pages of streams: of one bucket by id, of the whole node by full name."""

import sqlite3
from typing import NamedTuple

import sql
from streams_node.wal.lookup import Name

_STREAMS = sql.queries("streams")
_BUCKETS = sql.queries("buckets")
_LAST_CHAR = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
DEFAULT_BUCKET = "_default"


class BucketEntry(NamedTuple):
    """One line of a bucket's listing, as the database has it."""

    stream: int
    name: str
    content_type: str
    created_us: int
    next_seq: int
    ts: int
    closed: int
    dies_us: int | None
    ttl_s: int | None


class StreamEntry(NamedTuple):
    """One line of the node's listing, as the database has it."""

    bucket: str
    stream: int
    name: str
    created_us: int
    ttl_s: int | None
    expires_us: int | None
    dies_us: int | None
    epoch: int
    profile: str
    next_seq: int


class Mark(NamedTuple):
    """The last stream of a page."""

    bucket: str
    name: str


def list_bucket(
    db: sqlite3.Connection, bucket: int, prefix: str, after: str, limit: int, now_us: int
) -> list[BucketEntry]:
    """A page of a bucket in byte order; streams whose stored end has passed are not on it."""
    entries: list[BucketEntry] = []
    while len(entries) < limit:
        page = [
            BucketEntry._make(row)
            for row in db.execute(
                _BUCKETS.list_bucket,
                {
                    "bucket": bucket,
                    "prefix": prefix,
                    "prefix_end": after_prefix(prefix),
                    "after": after,
                    "limit": limit,
                },
            )
        ]
        entries += [entry for entry in page if entry.dies_us is None or entry.dies_us > now_us]
        if len(page) < limit:
            break
        after = page[-1].name
    return entries[:limit]


def list_streams(
    db: sqlite3.Connection, limit: int, offset: int, now_us: int, mark: Mark | None = None
) -> tuple[list[StreamEntry], Mark | None]:
    """A page of all streams, bucket by bucket, and the place where it ends.

    Whole buckets before the page are skipped by their counters; within one bucket an offset is a walk, so a page that
    follows another begins at its mark instead.
    """
    entries: list[StreamEntry] = []
    for bucket, name, streams in db.execute(_BUCKETS.list_buckets).fetchall():
        after = ""
        if mark is not None:
            if name < mark.bucket:
                continue
            after, offset = (mark.name if name == mark.bucket else ""), 0
        elif offset >= streams:
            offset -= streams
            continue
        rows = db.execute(_BUCKETS.list_streams, (bucket, after, limit - len(entries), offset))
        offset = 0
        entries += [StreamEntry(name, *row) for row in rows]
        if len(entries) >= limit:
            break
    end = Mark(entries[-1].bucket, entries[-1].name) if entries else None
    return [entry for entry in entries if entry.dies_us is None or entry.dies_us > now_us], end


def ended_streams(db: sqlite3.Connection, now_us: int, limit: int) -> list[Name]:
    """Streams whose stored end has passed."""
    return [Name(*row) for row in db.execute(_STREAMS.ended_streams, (now_us, limit))]


def after_prefix(prefix: str) -> str | None:
    """The least text that no text with this prefix reaches; None when there is none."""
    for at in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[at])
        if code < _LAST_CHAR:
            following = code + 1
            return prefix[:at] + chr(_SURROGATES.stop if following in _SURROGATES else following)
    return None
