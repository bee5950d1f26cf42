"""How far the indexes of a stream are, in the words of the protocol's `_index_status`.

Its families are named by what they are for: our lexicon is both `routing_key_index` and `routing_key_lexicon`; exact
values are `exact`; a companion is `col` (fast fields) and `fts` (text); rollups are `agg`, metric blocks `mblk`. What
it calls a segment is a sealed part of the stream: the entries that one object holds.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

import sql
from indexers.plan import Family, exact_fields
from streams_node.indexing.covers import Covering, Plan, covers_of, plan_of_stream
from streams_node.indexing.spans import Span, holds, united, without
from streams_node.schema.registry import Registry
from streams_node.schema.search_config import Kind

_INDEX = sql.queries("index")
_US_A_MS = 1000


class Share(NamedTuple):
    """An object that covers a stream, and how much of it is the stream's."""

    family: Family
    config: str
    made: str
    payload_bytes: int
    object_payload_bytes: int
    object_bytes: int
    sections: Mapping[str, int]
    made_us: int

    def bytes(self, section: str | None = None) -> float:
        part = self.payload_bytes / self.object_payload_bytes if self.object_payload_bytes else 0.0
        size = self.object_bytes if section is None else self.sections.get(section, 0)
        return part * size


class Looked(NamedTuple):
    """What the database says of a stream's indexes, at one moment."""

    plan: Plan
    covers: list[Covering]
    shares: list[Share]


class Progress(NamedTuple):
    """One family, or a part of it, over the sealed parts of a stream."""

    covered: int
    contiguous: int
    stale: int  # parts that only a former configuration covers
    lag_segments: int
    indexed_us: int | None  # time of the newest entry of the contiguous ones
    bytes: float
    objects: int
    active: int
    retired: int
    updated_us: int | None
    started: bool  # something is covered as it should be

    @property
    def complete(self) -> bool:
        return not self.lag_segments

    def lag_ms(self, newest_us: int) -> int | None:
        """From its newest entry to the stream's; None when it has none."""
        return None if self.indexed_us is None else max(0, newest_us - self.indexed_us) // _US_A_MS


NOTHING = Progress(0, 0, 0, 0, None, 0.0, 0, 0, 0, None, started=False)


class SearchFamily(NamedTuple):
    """One of exact, col, fts, agg, mblk."""

    name: str
    fields: list[str]
    progress: Progress


def look(db: sqlite3.Connection, stream: int) -> Looked:
    db.execute("BEGIN")
    try:
        shares = [_share(row) for row in db.execute(_INDEX.shares_of, (stream,))]
        return Looked(plan_of_stream(db, stream), covers_of(db, stream), shares)
    finally:
        db.execute("COMMIT")


def _share(row: tuple[Any, ...]) -> Share:
    family, config, made, payload, of_payload, size, sections, made_us = row
    return Share(
        family, config, made, payload, of_payload, size, msgspec.json.decode(sections, type=dict[str, int]), made_us
    )


def moves(db: sqlite3.Connection, stream: int) -> int:
    """A number that grows with each change of a stream's plan, and of what covers it."""
    row = db.execute(_INDEX.plan_moves, (stream,)).fetchone()
    return 0 if row is None else int(row[0]) + int(row[1])


def progress(
    looked: Looked, family: Family, parts: Sequence[Span], *, section: str | None = None, share: float = 1.0
) -> Progress:
    """How far a family is. `section` and `share`: which part of its bytes counts."""
    config = looked.plan.configs.get(family)
    if config is None:
        return NOTHING
    mine = [each for each in looked.covers if each.family == family]
    now = united((each.first_seq, each.end_seq) for each in mine if each.config == config)
    ever = united((each.first_seq, each.end_seq) for each in mine)
    covered = contiguous = stale = 0
    unbroken, through = True, -1
    for part in parts:
        whole = holds(now, [part])
        covered += whole
        unbroken = unbroken and whole
        if unbroken:
            contiguous, through = contiguous + 1, part[1]
        stale += not whole and holds(ever, [part])
    indexed_us = max((each.max_ts for each in mine if each.config == config and each.end_seq <= through), default=None)
    shares = [each for each in looked.shares if each.family == family]
    known = section is not None and any(each.sections for each in shares)
    size = sum(each.bytes(section) if known else share * each.bytes() for each in shares)
    active = {each.made for each in shares if each.config == config}
    every = {each.made for each in shares}
    return Progress(
        covered,
        contiguous,
        stale,
        len(parts) - contiguous,
        indexed_us,
        size,
        len(every),
        len(active),
        len(every - active),
        max((each.made_us for each in shares), default=None),
        started=bool(now),
    )


def search_families(looked: Looked, registry: Registry, parts: Sequence[Span]) -> list[SearchFamily]:
    """The configured ones, in the protocol's order."""
    configs, search = looked.plan.configs, registry.search
    found = []
    if search is not None and "exact" in configs:
        found.append(SearchFamily("exact", exact_fields(search), progress(looked, "exact", parts)))
    if search is not None and "companion" in configs:
        columns, texts = column_fields(registry), text_fields(registry)
        for name, fields in (("col", columns), ("fts", texts)):
            if fields:
                share = len(fields) / (len(columns) + len(texts))
                each = progress(looked, "companion", parts, section=name, share=share)
                found.append(SearchFamily(name, fields, each))
    if search is not None and "rollups" in configs:
        names = sorted(search.rollups)
        found.append(SearchFamily("agg", names, progress(looked, "rollups", parts)))
    if "metrics" in configs:
        found.append(SearchFamily("mblk", ["metrics"], progress(looked, "metrics", parts)))
    return found


def column_fields(registry: Registry) -> list[str]:
    """Fields with values in columns."""
    search = registry.search
    return [] if search is None else sorted(name for name, field in search.fields.items() if field.column)


def text_fields(registry: Registry) -> list[str]:
    """Fields whose words, or keywords, are looked up."""
    search = registry.search
    if search is None:
        return []
    return sorted(
        name
        for name, field in search.fields.items()
        if field.kind is Kind.TEXT or (field.kind is Kind.KEYWORD and field.prefix)
    )


def left_to_do(looked: Looked, families: Iterable[Family], parts: Sequence[Span]) -> dict[Family, int]:
    """Sealed entries that each family lacks."""
    whole = united(parts)
    left: dict[Family, int] = {}
    for family in families:
        config = looked.plan.configs.get(family)
        covered = [
            (each.first_seq, each.end_seq) for each in looked.covers if each.family == family and each.config == config
        ]
        left[family] = sum(end - first for first, end in without(whole, covered))
    return left
