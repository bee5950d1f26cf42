"""Questions about the tables of subscriptions, each asked in one hop to a reader."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

import sql
from streams_node.subscriptions.subscription import Link, Row
from streams_node.wal.batch import rollback
from streams_node.wal.lookup import Name

SUBSCRIPTIONS = sql.queries("subscriptions")
_LOG = sql.queries("log")
_FREE_LINKS = 500  # a slice holds the writer for a few milliseconds


class Place(NamedTuple):
    """Where a scan of all streams goes on: behind this one."""

    bucket: int = -1
    name: str = ""


class Late(NamedTuple):
    """A stream with a log row above the one that was asked for."""

    name: Name
    stream: int
    last_row: int


class End(NamedTuple):
    """Where a stream ends that nobody has in memory."""

    stream: int
    epoch: int
    seq: int


class Loaded(NamedTuple):
    rows: list[Row]
    named: list[tuple[int, Name]]
    joined_through: int | None


def load(db: sqlite3.Connection) -> Loaded:
    """Everything that is held in memory, as of one moment."""
    db.execute("BEGIN")
    try:
        rows = [Row(*row) for row in db.execute(SUBSCRIPTIONS.all_subscriptions)]
        named = [
            (number, Name(bucket, name)) for number, bucket, name in db.execute(SUBSCRIPTIONS.explicit_links)
        ]  # fmt: skip
        through = db.execute(SUBSCRIPTIONS.joined_through).fetchone()
    finally:
        rollback(db)
    return Loaded(rows, named, None if through is None else through[0])


def load_one(db: sqlite3.Connection, number: int) -> Row | None:
    row = db.execute(SUBSCRIPTIONS.one_subscription, (number,)).fetchone()
    return None if row is None else Row(*row)


def wake_links(db: sqlite3.Connection, number: int, names: Sequence[Name], companions: int) -> dict[Name, Link]:
    """The links to some streams; and a few others, as long as they are few together."""
    found = find_links(db, number, names) if names else {}
    if len(found) < companions:
        for link in some_links(db, number, companions):
            found.setdefault(link.name, link)
    return found


def find_links(db: sqlite3.Connection, number: int, names: Sequence[Name]) -> dict[Name, Link]:
    """The links to some streams, by their names."""
    rows = db.execute(SUBSCRIPTIONS.find_links, {"names": text_of(names), "number": number})
    return {link.name: link for link in map(_link, rows)}


def some_links(db: sqlite3.Connection, number: int, limit: int) -> list[Link]:
    return [_link(row) for row in db.execute(SUBSCRIPTIONS.some_links, (number, limit))]


def count_links(db: sqlite3.Connection, number: int, limit: int) -> int:
    found: int = db.execute(SUBSCRIPTIONS.count_links, (number, limit)).fetchone()[0]
    return found


def missing_links(db: sqlite3.Connection, wanted: Sequence[tuple[int, Name]]) -> list[int]:
    """Which of some pairs of a subscription and a stream have no link, by their places in the list."""
    pairs = text_of((number, *name) for number, name in wanted)
    return [int(place) for (place,) in db.execute(SUBSCRIPTIONS.missing_links, (pairs,))]


def links_behind(db: sqlite3.Connection, number: int, limit: int) -> list[Name]:
    """Streams with more than was acknowledged, as far as heads are written."""
    return [Name(*row) for row in db.execute(SUBSCRIPTIONS.links_behind, (number, limit))]


def streams_from(db: sqlite3.Connection, place: Place, limit: int) -> tuple[list[Name], Place | None]:
    """Some streams in the order of their table; and where to go on, None at the end."""
    rows = db.execute(SUBSCRIPTIONS.streams_from, (*place, limit)).fetchall()
    names = [Name(bucket, name) for _, bucket, name in rows]
    return names, None if len(rows) < limit else Place(rows[-1][0], rows[-1][2])


def plain_ends(db: sqlite3.Connection, names: Sequence[Name]) -> dict[Name, End]:
    """Where streams end, as heads say; only those of the plainest kind."""
    rows = db.execute(SUBSCRIPTIONS.plain_ends, (text_of(names),))
    return {Name(bucket, name): End(*end) for bucket, name, *end in rows}


def late_streams(
    db: sqlite3.Connection, place: Place, through: int, limit: int
) -> tuple[list[Late], Place | None]:  # fmt: skip
    """Some streams that were written after a log row; and where to go on, None at the end."""
    values = {**place._asdict(), "through": through, "limit": limit}
    rows = db.execute(SUBSCRIPTIONS.late_streams, values).fetchall()
    late = [Late(Name(bucket, name), stream, last_row) for _, bucket, name, stream, last_row in rows]
    return late, None if len(rows) < limit else Place(rows[-1][0], rows[-1][2])


def first_seqs(db: sqlite3.Connection, looks: Iterable[tuple[int, int]]) -> list[int]:
    """The first entries of streams, each by its newest row, above a log row; 0, the beginning, when that has left."""
    values = ({"row": row, "through": through} for row, through in looks)
    return [db.execute(_LOG.first_above, each).fetchone()[0] or 0 for each in values]


def free_links(db: sqlite3.Connection) -> bool:
    """Free a slice of what deleted subscriptions left; whether there is more. On the writer's thread."""
    found = db.execute(SUBSCRIPTIONS.buried_subscriptions, (1,)).fetchone()
    if found is None:
        return False
    freed = db.execute(SUBSCRIPTIONS.free_links, {"number": found[0], "count": _FREE_LINKS}).rowcount
    if freed < _FREE_LINKS:
        db.execute(SUBSCRIPTIONS.unbury_subscription, found)
    return True


def text_of(values: Iterable[Any]) -> str:
    """Values as the list that a statement takes."""
    return msgspec.json.encode(list(values)).decode()


def _link(row: tuple[Any, ...]) -> Link:
    bucket, name, stream, seq, acked, explicit = row
    return Link(Name(bucket, name), stream, seq, acked, bool(explicit))
