"""Directories of packs: kept in the database as the pack has them, and in memory unpacked, as many as fit.

A directory comes out of the object itself. After a recovery from the bucket none is there, and each is fetched when a
read first needs it.
"""

import sqlite3
import threading
from collections import OrderedDict

import sql
from streams_node.errors import ObjectDamaged
from streams_node.placement.made import ObjectFacts
from streams_node.segments.directory import Directory
from streams_node.wal.batch import rollback

_PLACEMENT = sql.queries("placement")


class Directories:
    """Unpacked directories of all readers' threads; the longest unused leave first. One is always kept."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._known: OrderedDict[str, Directory] = OrderedDict()
        self._lock = threading.Lock()
        self.bytes = 0

    def find(self, db: sqlite3.Connection, pack: int, made: str) -> Directory | None:
        """The directory of a pack, from memory or from its row; None when nobody has fetched it yet."""
        with self._lock:
            known = self._known.get(made)
            if known is not None:
                self._known.move_to_end(made)
                return known
        row = db.execute(_PLACEMENT.load_directory, (pack,)).fetchone()
        if row is None:
            return None
        directory = Directory.unpack(row[0], made)
        self.put(made, directory)
        return directory

    def put(self, made: str, directory: Directory) -> None:
        with self._lock:
            before = self._known.pop(made, None)
            self.bytes += directory.size - (before.size if before else 0)
            self._known[made] = directory
            while self.bytes > self._bytes_max and len(self._known) > 1:
                _, gone = self._known.popitem(last=False)
                self.bytes -= gone.size

    def forget(self, made: str) -> None:
        with self._lock:
            gone = self._known.pop(made, None)
            self.bytes -= gone.size if gone else 0


def unpacked(blob: bytes | None, facts: ObjectFacts) -> Directory:
    """The directory that a pack's own footer holds, if it is what the catalogue says of that pack."""
    directory = Directory.unpack(blob or b"", facts.made)
    streams = [stream for stream, _, _ in directory.places()]
    seen = (len(streams), directory.entries, streams[:1], streams[-1:])
    if seen != (facts.streams, facts.entries, [facts.min_stream], [facts.max_stream]):
        raise ObjectDamaged(facts.made, "its directory is not what the catalogue says of it")
    return directory


def keep_directories(db: sqlite3.Connection, found: list[tuple[str, bytes]]) -> None:
    """Keep what was fetched, of packs that are still there."""
    db.execute("BEGIN IMMEDIATE")
    try:
        for made, blob in found:
            db.execute(_PLACEMENT.keep_directory, {"made": made, "directory": blob})
        db.execute("COMMIT")
    except BaseException:
        rollback(db)
        raise
