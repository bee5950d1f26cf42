"""The newest generation of a bucket's catalogue, as whoever reads entries needs it; no node is asked.

Owns     a copy of the catalogue in a folder, moved on by the generations that are new.
Keeps    streams and objects are of one generation, so that each entry is in exactly one of the objects.
Dies     anywhere: the folder is nobody else's, and made anew.
"""

import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from streams_node.errors import CatalogueError
from streams_node.manifest import Chain
from streams_node.manifest.feed import MIRROR
from streams_node.manifest.rebuild import extend, rebuild
from streams_node.manifest.statements import mirror_statements
from streams_node.manifest.tables import OBJECT_COLUMNS, at, header_of, open_mirror
from streams_node.objects import RetryingStore
from streams_node.placement.made import ObjectFacts

_SQL = mirror_statements()
_ATTEMPTS = 3  # a node may remove generations behind a new snapshot while they are read
_FORKS_MAX = 1000  # of forks: a damaged catalogue must not make a circle


_Fork = tuple[int | None, int | None]  # (source, first entry of its own)


class Stream(NamedTuple):
    """A living stream. `lives` are the incarnations whose objects hold its entries, newest first, each with its first
    entry there: its own, and below each fork point those of what it was forked from.
    """

    id: int
    bucket: str
    name: str
    epochs: tuple[tuple[int, int], ...]  # (first entry, epoch), ascending
    earliest_seq: int
    next_seq: int
    lives: tuple[tuple[int, int], ...]


class Generation(NamedTuple):
    number: int
    through_row: int  # rows of the log up to this one are in objects
    streams: list[Stream]
    objects: list[ObjectFacts]


class Catalogue:
    def __init__(self, store: RetryingStore, folder: Path) -> None:
        self._chain = Chain(store)
        self._folder = folder
        self._at = 0

    def newest(self, pattern: str) -> Generation:
        """The newest generation, with the streams that the pattern names; CatalogueError if there is none."""
        for attempt in range(_ATTEMPTS):
            try:
                self._move_on()
                break
            except CatalogueError:
                self._at = 0
                if attempt == _ATTEMPTS - 1:
                    raise
        with closing(open_mirror(self._folder / MIRROR)) as db:
            header = header_of(db)
            objects = [
                ObjectFacts(**dict(zip(OBJECT_COLUMNS, row, strict=True))) for row in db.execute(_SQL.all_objects)
            ]
            streams = _streams(db, pattern, time.time_ns() // 1000)
        return Generation(self._at, 0 if header is None else header.through_row, streams, objects)

    def _move_on(self) -> None:
        newest = self._chain.newest(self._at)
        if not newest:
            raise CatalogueError(
                f"{self._chain.store.place} holds no catalogue: is it a node's bucket or `objects` folder?"
            )
        if 0 < self._at < newest:
            extend(self._chain, self._folder / MIRROR, newest)
        elif self._at != newest:
            rebuild(self._chain, self._folder, newest)
        with closing(open_mirror(self._folder / MIRROR)) as db:
            self._at = at(db).generation


def _streams(db: sqlite3.Connection, pattern: str, now_us: int) -> list[Stream]:
    forks: dict[int, _Fork] = {}

    def fork_of(stream: int) -> _Fork:
        if stream not in forks:
            forks[stream] = db.execute(_SQL.fork_point, (stream,)).fetchone() or (None, None)
        return forks[stream]

    asked_for_own = "/__" in f"/{pattern}"
    found = []
    for row in db.execute(_SQL.readable_streams, (pattern,)).fetchall():
        stream, bucket, name, _, first_epoch, later, source, fork_seq, earliest, expires_us, next_seq = row
        if (name.startswith("__") and not asked_for_own) or (expires_us is not None and expires_us <= now_us):
            continue
        forks[stream] = (source, fork_seq)
        epochs = ((0, first_epoch), *((first, epoch) for epoch, first in json.loads(later)))
        found.append(Stream(stream, bucket, name, epochs, earliest, next_seq, _lives(stream, fork_of)))
    return found


def _lives(stream: int, fork_of: Callable[[int], _Fork]) -> tuple[tuple[int, int], ...]:
    lives: list[tuple[int, int]] = []
    current: int | None = stream
    while current is not None and len(lives) < _FORKS_MAX:
        source, fork_seq = fork_of(current)
        lives.append((current, fork_seq or 0))
        current = source if fork_seq else None
    return tuple(lives)
