"""What there is to compact: packs, small segments, segments of streams that are gone."""

import sqlite3
from typing import Any, NamedTuple

import msgspec

import sql
from streams_node.placement.made import ObjectFacts

_COMPACTION = sql.queries("compaction")
_NAMES = ObjectFacts.__struct_fields__


class Pack(NamedTuple):
    facts: ObjectFacts
    dead_entries: int = 0  # as of the last count
    dead_since_us: int = 0  # when the first of them was seen to be dead


class SmallSegments(NamedTuple):
    """Segments that are not full, by stream; every stream that was looked at; the newest object that led to one."""

    by_stream: dict[int, list[ObjectFacts]]
    streams: list[int]
    through: int


def live_packs(db: sqlite3.Connection) -> list[Pack]:
    """Every pack that the catalogue names."""
    return [Pack(_facts(row), row[-1]) for row in db.execute(_COMPACTION.live_packs)]


def small_segments_after(
    db: sqlite3.Connection, after: int, limit: int, *, payload_bytes: int, entries: int
) -> SmallSegments:
    """The small segments of those streams that got one since `after`; all of a stream, as they are neighbours."""
    new = db.execute(_COMPACTION.segments_after, {"after": after, "limit": limit}).fetchall()
    streams = sorted({stream for _, stream in new})
    found = small_segments(db, streams, payload_bytes=payload_bytes, entries=entries)
    return SmallSegments(found, streams, new[-1][0] if new else after)


def small_segments(
    db: sqlite3.Connection, streams: list[int], *, payload_bytes: int, entries: int
) -> dict[int, list[ObjectFacts]]:
    """Segments of these streams with less than so much in them, in order."""
    found: dict[int, list[ObjectFacts]] = {}
    values = {"streams": msgspec.json.encode(streams).decode(), "payload_bytes": payload_bytes, "entries": entries}
    for row in db.execute(_COMPACTION.small_segments, values):
        found.setdefault(row[4], []).append(_facts(row))
    return found


def gone_segments(db: sqlite3.Connection, limit: int) -> list[ObjectFacts]:
    """Segments in which everything is dead."""
    return [_facts(row) for row in db.execute(_COMPACTION.gone_segments, {"limit": limit})]


def _facts(row: tuple[Any, ...]) -> ObjectFacts:
    return ObjectFacts(**dict(zip(_NAMES, row[1:], strict=False)))
