"""What the database says of one stream at one moment, and the sums over its sealed parts."""

import hashlib
import sqlite3
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import sql
from streams_node.indexing.status import moves
from streams_node.placement.locate import Located
from streams_node.wal.tails import LogEnd

_DETAILS = sql.queries("details")
_MARK_BYTES = 8
_KEPT_MAX = 1024  # a stream of 10,000 parts takes some 10 MB, and few have that many
T = TypeVar("T")


class Moment(NamedTuple):
    """One snapshot. Entries from `open_seq` on are in the log alone."""

    generation: int
    open_seq: int
    open_bytes: int
    moves: int  # of the indexes
    schema_bytes: int
    requests: Mapping[tuple[str, str], int]  # by artifact and operation


class Parts(NamedTuple):
    """The sealed parts of a stream, summed up once for each generation that changed them."""

    located: list[Located]
    mark: str  # differs when any of them does
    segments: int
    bytes: int  # of the objects: the stream's share
    payload_bytes: int
    newest_us: int | None
    shares: Mapping[str, float]  # object -> the part of it that is the stream's


def look(db: sqlite3.Connection, stream: int, tail: LogEnd) -> Moment:
    db.execute("BEGIN")  # one moment: a generation moves entries from the log into parts
    try:
        generation, through = db.execute(_DETAILS.catalogue).fetchone()
        row, seq, position = db.execute(_DETAILS.open_row, {"row": tail.row, "through": through}).fetchone()
        open_seq, open_at = (tail.seq, tail.position) if row is None else (seq, position)
        schema = db.execute(_DETAILS.schema_bytes, (stream,)).fetchone()
        requests: Counter[tuple[str, str]] = Counter()
        for artifact, op, count in db.execute(_DETAILS.requests_of, (stream,)):
            requests[artifact, op] = count
        return Moment(
            generation,
            min(open_seq, tail.seq),
            tail.position - open_at,
            moves(db, stream),
            0 if schema is None else schema[0],
            requests,
        )
    finally:
        db.execute("COMMIT")


def summed(located: list[Located], end: int) -> Parts:
    """With thousands of parts it takes milliseconds: not for the loop. Entries from `end` on are not counted."""
    mark = hashlib.blake2b(digest_size=_MARK_BYTES)
    size = payload = 0.0
    newest: int | None = None
    shares: dict[str, float] = {}
    kept = [part for part in located if part.first_seq < end]
    for part in kept:
        facts = part.facts
        share = (part.end_seq - part.first_seq) / facts.entries if facts.entries else 0.0
        mark.update(facts.made.encode())
        shares[facts.made] = share
        size += share * facts.bytes
        payload += share * facts.payload_bytes
        newest = facts.max_ts if newest is None else max(newest, facts.max_ts)
    return Parts(kept, mark.hexdigest(), len(kept), round(size), round(payload), newest, shares)


def held(parts: Parts, size_of: Callable[[str], int]) -> int:
    """Bytes of these parts that are on disk here, too."""
    return round(sum(share * size_of(made) for made, share in parts.shares.items()))


class Kept:
    """What took long to find out of the streams that were looked at last, each with what it stands for."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, str], tuple[object, Any]] = OrderedDict()

    async def of(self, stream: int, what: str, key: object, find: Callable[[], Awaitable[T]]) -> T:
        """What was found for this key, or is found now."""
        known = self._kept.get((stream, what))
        if known is None or known[0] != key:
            known = self._kept[stream, what] = (key, await find())
            if len(self._kept) > _KEPT_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end((stream, what))
        found: T = known[1]
        return found
