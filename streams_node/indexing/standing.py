"""How much of which streams waits to be indexed: what is kept in memory of every stream with a plan.

Keeps    numbers only, which may be a little off: what really lacks an index is looked up when somebody claims it.
"""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

import sql
from indexers.plan import Family
from streams_node.indexing.covers import decode_configs
from streams_node.wal.listing import sealed_ends

_INDEX = sql.queries("index")


@dataclass(slots=True)
class Standing:
    """`uncovered`: entries that the family which is furthest behind lacks. From `fresh_from` on they are fresh."""

    sealed_end: int
    uncovered: int
    entry_bytes: float
    fresh_from: int
    own: bool = False  # the node's own numbers: they are indexed when a driver runs, and start none
    asked: bool = False
    due_at: float | None = None

    @property
    def bytes(self) -> int:
        return int(self.uncovered * self.entry_bytes)


class Measured(NamedTuple):
    """What the database says. What was sealed a moment ago it may not know yet: `ends` of `measure` does."""

    sealed_end: int
    uncovered: int
    entry_bytes: float
    fresh_from: int
    own: bool
    stale: bool  # a family covers it that its plan does not have


def measure(db: sqlite3.Connection, ends: Mapping[int, int]) -> dict[int, Measured]:
    """Some streams as they are now, each with what is known of its sealed end.

    Those without a family are left out, and those that are gone.
    """
    asked = {"streams": msgspec.json.encode(list(ends)).decode()}
    rows = db.execute(_INDEX.measure, asked).fetchall()
    covered: dict[int, dict[tuple[str, str], tuple[int, int]]] = {}
    for stream, family, config, entries, end in db.execute(_INDEX.measure_covers, asked):
        covered.setdefault(stream, {})[family, config] = (entries, end)
    found = {}
    through = rows[0][-1] if rows else 0
    late = [(row[0], row[4]) for row in rows if row[4] > through]
    open_at = dict(zip((stream for stream, _ in late), sealed_ends(db, [row for _, row in late], through), strict=True))
    for stream, start, next_seq, position, _, configs, own, _ in rows:
        sealed = open_at.get(stream)
        end = max(next_seq if sealed is None else sealed, ends[stream])
        has = covered.get(stream, {})
        plan = decode_configs(configs)
        stale = any(family not in plan for family, _ in has)
        if plan or stale:
            found[stream] = _measured(plan, has, start, end, position / max(next_seq, 1), own=bool(own), stale=stale)
    return found


def _measured(
    plan: Mapping[Family, str],
    has: Mapping[tuple[str, str], tuple[int, int]],
    start: int,
    end: int,
    entry_bytes: float,
    *,
    own: bool,
    stale: bool,
) -> Measured:
    uncovered, fresh_from = 0, end
    for family, config in plan.items():
        entries, newest = has.get((family, config), (0, start))
        # A cover may begin below the first entry that is kept: the count alone would say too little.
        uncovered = max(uncovered, end - start - entries, end - max(newest, start))
        if entries:
            fresh_from = min(fresh_from, newest)
    return Measured(end, uncovered, entry_bytes, fresh_from, own, stale)
