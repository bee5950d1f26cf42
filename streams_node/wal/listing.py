"""Pages of streams: of one bucket by id, of the whole node by full name."""

import sqlite3
from typing import NamedTuple

import sql
from streams_node.wal.batch import rollback
from streams_node.wal.lookup import Name
from streams_node.wal.stretches import find_place

_LOG = sql.queries("log")
_STREAMS = sql.queries("streams")
_BUCKETS = sql.queries("buckets")
_FORKS = sql.queries("forks")
_LAST_CHAR = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_ABOVE_TEXTS = b""  # SQLite sorts every text below every blob
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
    last_row: int


def list_bucket(
    db: sqlite3.Connection, bucket: int, prefix: str, after: str, limit: int, now_us: int
) -> list[BucketEntry]:
    """A page of a bucket in byte order; streams whose stored end has passed are not on it."""
    entries: list[BucketEntry] = []
    end = after_prefix(prefix)
    while len(entries) < limit:
        page = [
            BucketEntry._make(row)
            for row in db.execute(
                _BUCKETS.list_bucket,
                {
                    "bucket": bucket,
                    "first": max(prefix, after),  # code points sort as UTF-8 does
                    "end": _ABOVE_TEXTS if end is None else end,
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


def list_streams(db: sqlite3.Connection, limit: int, offset: int, now_us: int) -> list[StreamEntry]:
    """A page of all streams in byte order of bucket and name, without those whose stored end has passed."""
    db.execute("BEGIN")  # one snapshot: the place belongs to the list that is read from it
    try:
        place = find_place(db, offset, now_us)
        if place is None:
            return []
        rows = db.execute(_BUCKETS.list_streams, {**place._asdict(), "limit": limit, "now": now_us})
        return [StreamEntry._make((row[0], row[2], row[1], *row[3:])) for row in rows]
    finally:
        rollback(db)


def sealed_ends(db: sqlite3.Connection, rows: list[int], through: int) -> list[int | None]:
    """For newest rows of streams: the sequence that begins in their first row above another one; None if unknown."""
    return [db.execute(_LOG.first_above, {"row": row, "through": through}).fetchone()[0] for row in rows]


def ended_streams(db: sqlite3.Connection, now_us: int, limit: int) -> list[Name]:
    """Streams whose stored end has passed."""
    return [Name(*row) for row in db.execute(_STREAMS.ended_streams, (now_us, limit))]


def orphaned_streams(db: sqlite3.Connection, limit: int) -> list[Name]:
    """Streams that were kept for forks, and have none any more."""
    return [Name(*row) for row in db.execute(_FORKS.orphaned_streams, (limit,))]


def after_prefix(prefix: str) -> str | None:
    """The least text that no text with this prefix reaches; None when there is none."""
    for at in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[at])
        if code < _LAST_CHAR:
            following = code + 1
            return prefix[:at] + chr(_SURROGATES.stop if following in _SURROGATES else following)
    return None
