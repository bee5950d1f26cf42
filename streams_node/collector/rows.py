"""What the database knows of objects that may go."""

import sqlite3
from typing import NamedTuple

import msgspec

import sql
from streams_node.objects.keys import IndexFamily, Key, ObjectId, index_filter_key, index_key
from streams_node.placement.made import ObjectFacts
from streams_node.wal.batch import rollback

_COLLECTION = sql.queries("collection")
_PLACEMENT = sql.queries("placement")


class DeadIndex(NamedTuple):
    """An object of an index, and whether a filter lies beside it."""

    made: str
    family: IndexFamily
    filtered: bool

    def places(self) -> list[Key]:
        """The filter first: without its run it means nothing."""
        made = ObjectId(self.made)
        return [*([index_filter_key(made)] if self.filtered else []), index_key(self.family, made)]


def node_value(db: sqlite3.Connection, name: str) -> int:
    return int(db.execute(_PLACEMENT.node_value, (name,)).fetchone()[0])


def dead_objects(db: sqlite3.Connection, before_us: int, limit: int) -> list[ObjectFacts]:
    rows = db.execute(_COLLECTION.dead_objects, {"before": before_us, "limit": limit})
    return [ObjectFacts(**dict(zip(ObjectFacts.__struct_fields__, row[1:], strict=True))) for row in rows]


def known(db: sqlite3.Connection, made: list[str]) -> set[str]:
    rows = db.execute(_COLLECTION.known_objects, {"made": msgspec.json.encode(made).decode()})
    return {name for (name,) in rows}


def dead_indexes(db: sqlite3.Connection, before_us: int, limit: int) -> list[DeadIndex]:
    """Objects of indexes that nothing names any more, here and in the catalogue."""
    rows = db.execute(_COLLECTION.dead_index_objects, {"before": before_us, "limit": limit})
    return [DeadIndex(made, family, bool(filtered)) for made, family, filtered in rows]


def known_indexes(db: sqlite3.Connection, made: list[str]) -> set[str]:
    rows = db.execute(_COLLECTION.known_index_objects, {"made": msgspec.json.encode(made).decode()})
    return {name for (name,) in rows}


def forget_indexes(db: sqlite3.Connection, made: list[str]) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        db.executemany(_COLLECTION.forget_index_object, [(each,) for each in made])
        db.execute("COMMIT")
    except BaseException:
        rollback(db)
        raise


def forget(db: sqlite3.Connection, made: list[str]) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        for each in made:
            db.execute(_PLACEMENT.forget_directory, (each,))
            db.execute(_PLACEMENT.forget_object, (each,))
        db.execute("COMMIT")
    except BaseException:
        rollback(db)
        raise
