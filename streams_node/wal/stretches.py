"""The list of all streams in stretches of some hundred, so that a page by offset walks through one of them at most.

Owns     the table `stretches`: where each begins, and how many streams are in it.
Keeps    the counts are right in every snapshot: triggers move them in the transaction that writes a stream.
Dies     during `tend`: the transaction never was.
"""

import sqlite3
from bisect import bisect_right
from typing import NamedTuple

import sql
from streams_node.wal.batch import rollback

_BUCKETS = sql.queries("buckets")
STREAMS_TARGET = 1024  # walking that far takes about 0.5 ms, and so does adding up the stretches of a million streams
STREAMS_MAX = 2 * STREAMS_TARGET
_JOINED_MAX = STREAMS_TARGET // 2
_CUTS = 8  # a slice of work holds the writer for about 3 ms
_JOINS = 64


class Stretch(NamedTuple):
    """Streams of the list, from this bucket and name up to where the next stretch begins."""

    bucket: str
    name: str
    streams: int


class Place(NamedTuple):
    """A place in the list of all streams: so many listed streams after a name."""

    bucket: str
    name: str
    skip: int


def find_place(db: sqlite3.Connection, offset: int, now_us: int) -> Place | None:
    """Where an offset lies; None behind the end."""
    stretches = [Stretch._make(row) for row in db.execute(_BUCKETS.list_stretches)]
    ended = _ended(db, stretches, now_us)
    for stretch, gone in zip(stretches, ended, strict=True):
        listed = stretch.streams - gone
        if offset < listed:
            return Place(stretch.bucket, stretch.name, offset)
        offset -= listed
    return None


def _ended(db: sqlite3.Connection, stretches: list[Stretch], now_us: int) -> list[int]:
    """How many streams of each stretch have ended: they are off the list at once, but counted until collected."""
    ended = [0] * len(stretches)
    starts = [(stretch.bucket, stretch.name) for stretch in stretches]
    for bucket, name, streams in db.execute(_BUCKETS.count_ended, (now_us,)):
        ended[bisect_right(starts, (bucket, name or "")) - 1] += streams
    return ended


def uneven(db: sqlite3.Connection) -> bool:
    """Whether there is something to tend."""
    return bool(_long(db) or _short(db, limit=1))


def tend(db: sqlite3.Connection) -> None:
    """One slice: cut the first stretch that has become long, join those that have become short."""
    db.execute("BEGIN IMMEDIATE")
    try:
        long = _long(db)
        if long is not None:
            _cut(db, long)
        for short in _short(db, limit=_JOINS):
            _join(db, short)
        db.execute("COMMIT")
    except BaseException:
        rollback(db)
        raise


def _long(db: sqlite3.Connection) -> Stretch | None:
    row = db.execute(_BUCKETS.long_stretch, (STREAMS_MAX,)).fetchone()
    return None if row is None else Stretch(*row)


def _short(db: sqlite3.Connection, *, limit: int) -> list[Stretch]:
    return [Stretch._make(row) for row in db.execute(_BUCKETS.short_stretches, (_JOINED_MAX, limit))]


def _cut(db: sqlite3.Connection, stretch: Stretch) -> None:
    """Cut pieces off its front; what is left is the last piece, and may be long still."""
    at, left = stretch, stretch.streams
    for _ in range(_CUTS):
        if left <= STREAMS_MAX:
            break
        values = {"bucket": at.bucket, "name": at.name, "skip": STREAMS_TARGET}
        bucket, name = db.execute(_BUCKETS.name_after, values).fetchone()
        db.execute(_BUCKETS.set_stretch, (STREAMS_TARGET, at.bucket, at.name))
        left -= STREAMS_TARGET
        at = Stretch(bucket, name, left)
        db.execute(_BUCKETS.begin_stretch, at)


def _join(db: sqlite3.Connection, stretch: Stretch) -> None:
    values = {**stretch._asdict(), "most": _JOINED_MAX}
    if db.execute(_BUCKETS.lengthen_stretch, values).rowcount:
        db.execute(_BUCKETS.end_stretch, (stretch.bucket, stretch.name))
