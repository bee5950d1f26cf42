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


def locate_each(
    db: sqlite3.Connection, directories: Directories, stream: int, seqs: Iterable[int]
) -> list[tuple[Located, list[int]]]:
    """The objects that hold some of these entries, which ascend, and which ones each of them holds.

    An entry that is not sealed is in none; nor is one of a pack whose directory is not known here yet.
    """
    found: list[tuple[Located, list[int]]] = []
    packs: list[Located] | None = None
    db.execute("BEGIN")
    try:
        for seq in seqs:
            if found and seq < found[-1][0].end_seq:
                found[-1][1].append(seq)
                continue
            chain = _chain(_segments(db, stream, seq, 1), seq, 1)
            if not chain:
                packs = _packs(db, directories, stream)[0] if packs is None else packs
                chain = _chain(packs, seq, 1)
            found += [(place, [seq]) for place in chain]
    finally:
        db.execute("COMMIT")
    return found


def _locate(db: sqlite3.Connection, directories: Directories, stream: int, seq: int, places_max: int) -> list[Located]:
    places = _segments(db, stream, seq, places_max)
    chain = _chain(places, seq, places_max)
    if len(chain) == places_max:
        return chain
    packs, missing = _packs(db, directories, stream)
    chain = _chain([*places, *packs], seq, places_max)
    if missing and not chain:
        raise DirectoriesMissing(missing)
    return chain


def _segments(db: sqlite3.Connection, stream: int, seq: int, places_max: int) -> list[Located]:
    """The stream's own objects from the one on that may hold an entry."""
    values = {"stream": stream, "seq": seq, "limit": places_max}
    return [_whole(_facts(row)) for row in db.execute(_PLACEMENT.segments_from, values)]


def _packs(db: sqlite3.Connection, directories: Directories, stream: int) -> tuple[list[Located], list[ObjectFacts]]:
    """What packs hold of the stream, and the packs of which that is not known here yet."""
    places: list[Located] = []
    missing: list[ObjectFacts] = []
    for row in db.execute(_PLACEMENT.packs_of, {"stream": stream}).fetchall():
        directory = directories.find(db, row[0], row[1])
        if directory is None:
            missing.append(_facts(row))
        elif (found := directory.find(stream)) is not None:
            end_seq = found.first_seq + found.entries
            places.append(Located(_facts(row), found.first_row, found.first_seq, end_seq))
    return places, missing


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
