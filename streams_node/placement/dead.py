"""What is dead in packs: entries of streams that are gone, counted by the packs' directories.

A stream is gone when it has no head, and never comes back, so a count is at most too small. It is taken pack by pack,
again and again, from what is there: nothing has to be remembered about deletions, and nothing can be missed over a
restart. It runs in a worker, as a directory may have a million streams.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

import sql
from streams_node.segments.directory import Directory
from streams_node.wal.batch import rollback

_COMPACTION = sql.queries("compaction")
_SLICE = 20_000  # streams asked for in one statement, so that no read transaction lasts long


def gone_among(db: sqlite3.Connection, streams: Iterable[int]) -> Iterator[int]:
    """Those streams that are gone."""
    waiting = iter(streams)
    while some := list(islice(waiting, _SLICE)):
        row = db.execute(_COMPACTION.gone_among, {"streams": msgspec.json.encode(some).decode()}).fetchone()
        yield from msgspec.json.decode(row[0], type=list[int])


def count_dead(db: sqlite3.Connection, directory: Directory) -> int:
    """Entries of a pack whose streams are gone."""
    gone = gone_among(db, (stream for stream, _, _ in directory.places()))
    return sum(place.entries for stream in gone if (place := directory.find(stream)))


def kept_directory(db: sqlite3.Connection, made: str) -> Directory | None:
    """What this folder knows of a pack's streams, if it does."""
    row = db.execute(_COMPACTION.directory_of, (made,)).fetchone()
    return None if row is None else Directory.unpack(row[0], made)


def keep_counts(db: sqlite3.Connection, counts: Sequence[tuple[str, int]]) -> None:
    """One transaction: what was counted, for those who look at the folder and for the next start."""
    db.execute("BEGIN IMMEDIATE")
    try:
        db.executemany(_COMPACTION.set_dead_entries, [(dead, made) for made, dead in counts])
        db.execute("COMMIT")
    except BaseException:
        rollback(db)
        raise
