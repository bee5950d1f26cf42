"""What the catalogue has not been told of indexes: its lines, and what to forget once it has been.

Keeps    everything is told as it is now, so telling it again, or in a later generation, does no harm.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

import sql
from streams_node.manifest.records import IndexCovers, IndexDrop, IndexObject, IndexPlan, OfIndex

_CATALOGUE = sql.queries("catalogue")
PLANS_MAX = 20_000  # in one generation
OBJECTS_MAX = 1000
COVERS_MAX = 100_000  # of the objects of one generation: some 10 MB of lines
_COVERS_A_LINE = 2000
_texts = msgspec.json.Decoder(dict[str, str])
_numbers = msgspec.json.Decoder(dict[str, int])
_pairs = msgspec.json.Decoder(list[tuple[str, str]])


class Told(NamedTuple):
    """A row of `index_untold` that a generation tells of."""

    kind: str
    id: int
    change: int


class Untold(NamedTuple):
    records: list[OfIndex]
    told: list[Told]


def untold(db: sqlite3.Connection) -> Untold:
    """As much as one generation takes; the caller has a transaction open."""
    records: list[OfIndex] = []
    told: list[Told] = []
    for row in db.execute(_CATALOGUE.untold_plans, {"limit": PLANS_MAX}):
        told.append(Told("plan", row[0], row[1]))
        if row[2] is not None:
            records.append(_plan(row))
    drops: list[OfIndex] = []
    objects: list[OfIndex] = []
    covers = 0
    for row in db.execute(_CATALOGUE.untold_objects, {"limit": OBJECTS_MAX}).fetchall():
        number, change, made, *facts, count, dead_us = row
        if covers and covers + (count or 0) > COVERS_MAX:
            break
        told.append(Told("object", number, change))
        if made is not None and dead_us is not None:
            drops.append(IndexDrop(made=made))
        elif made is not None:
            covers += count
            objects.append(_object(made, facts))
            objects += of_covers(made, db.execute(_CATALOGUE.covers_in_object, (number,)).fetchall())
    return Untold([*records, *drops, *objects], told)


def forget(db: sqlite3.Connection, told: list[Told]) -> None:
    """The catalogue knows now; in the transaction that says so."""
    db.executemany(_CATALOGUE.told_index, told)


def of_covers(made: str, rows: list[tuple[Any, ...]]) -> Iterator[IndexCovers]:
    """Lines for the covers of an object: rows of stream, first_seq, end_seq, config, and the numbers after it."""
    for at in range(0, len(rows), _COVERS_A_LINE):
        some = rows[at : at + _COVERS_A_LINE]
        configs = {config: place for place, config in enumerate(dict.fromkeys(row[3] for row in some))}
        yield IndexCovers(
            made=made, configs=tuple(configs), covers=tuple((*row[:3], configs[row[3]], *row[4:]) for row in some)
        )


def _plan(row: tuple[Any, ...]) -> IndexPlan:
    stream, _, generation, configs, since_us, kept = row
    others: dict[str, tuple[str, ...]] = {}
    for family, config in _pairs.decode(kept):
        others[family] = (*others.get(family, ()), config)
    return IndexPlan(id=stream, generation=generation, configs=_texts.decode(configs), since_us=since_us, kept=others)


def _object(made: str, facts: list[Any]) -> IndexObject:
    family, level, size, checksum, rows, filter_bytes, filter_sum, sections, payload_bytes, made_us = facts
    return IndexObject(
        made=made, family=family, level=level, bytes=size, sum=checksum, rows=rows, filter_bytes=filter_bytes,
        filter_sum=filter_sum, sections=_numbers.decode(sections), payload_bytes=payload_bytes, made_us=made_us,
    )  # fmt: skip
