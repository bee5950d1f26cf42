"""Which objects hold a stream's entries: its segments by an index, packs by their directories.

There is no table of places by stream: a million small streams cost nothing here. An entry is in one living object at
most, and merges replace objects in one transaction, so a look at one moment finds every sealed entry once.
"""

import sqlite3
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, NamedTuple

import sql
from streams_node.placement.directories import Directories
from streams_node.placement.made import ObjectFacts

_PLACEMENT = sql.queries("placement")


class Located(NamedTuple):
    """Entries [first_seq, end_seq) of a stream: consecutive rows of one object, the first of them at `row_index`."""

    facts: ObjectFacts
    row_index: int
    first_seq: int
    end_seq: int


class DirectoriesMissing(Exception):
    """Packs that may hold the entry, and whose directories are not known here yet."""

    def __init__(self, packs: list[ObjectFacts]) -> None:
        super().__init__([facts.made for facts in packs])
        self.packs = packs


def locate(
    db: sqlite3.Connection, directories: Directories, stream: int, seq: int, *, places_max: int = 1
) -> list[Located]:
    """Where the entries from `seq` on are, without a gap, up to a number of objects.

    Empty when no object has the first; DirectoriesMissing when that cannot be said yet.
    """
    db.execute("BEGIN")  # one moment: a merge must not come between segments and packs
    try:
        return _locate(db, directories, stream, seq, places_max)
    finally:
        db.execute("COMMIT")


def _locate(db: sqlite3.Connection, directories: Directories, stream: int, seq: int, places_max: int) -> list[Located]:
    values = {"stream": stream, "seq": seq, "limit": places_max}
    places = [_whole(_facts(row)) for row in db.execute(_PLACEMENT.segments_from, values)]
    chain = _chain(places, seq, places_max)
    if len(chain) == places_max:
        return chain
    missing: list[ObjectFacts] = []
    for row in db.execute(_PLACEMENT.packs_of, {"stream": stream}).fetchall():
        directory = directories.find(db, row[0], row[1])
        if directory is None:
            missing.append(_facts(row))
        elif (found := directory.find(stream)) is not None:
            end_seq = found.first_seq + found.entries
            places.append(Located(_facts(row), found.first_row, found.first_seq, end_seq))
    chain = _chain(places, seq, places_max)
    if missing and not chain:
        raise DirectoriesMissing(missing)
    return chain


def _chain(places: Iterable[Located], seq: int, places_max: int) -> list[Located]:
    """The places that hold the entries from `seq` on, one after the other."""
    chain: list[Located] = []
    for place in sorted(places, key=attrgetter("first_seq")):
        if place.first_seq <= seq < place.end_seq and len(chain) < places_max:
            chain.append(place)
            seq = place.end_seq
    return chain


def _whole(facts: ObjectFacts) -> Located:
    return Located(facts, 0, facts.first_seq, facts.end_seq)


def _facts(row: tuple[Any, ...]) -> ObjectFacts:
    return ObjectFacts(**dict(zip(ObjectFacts.__struct_fields__, row[1:], strict=True)))
