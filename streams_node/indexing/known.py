"""What covers streams, kept from one question to the next: a search asks several times, and a hop to SQLite costs it
more than the index itself.

Keeps    whatever changes covers goes through `change`, which counts on the writer's thread once it is through, even if
         nobody waits for it any more: what was read before that is read again. Trims and deletions take covers away
         without it: what lies below a stream's first entry is to be left aside, and a deleted one is never asked for.
"""

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from indexers.plan import Family
from streams_node.indexing.covers import Covering, covers_of
from streams_node.wal.database import Database

P = ParamSpec("P")
T = TypeVar("T")
_COVERS_MAX = 8192  # some 5 MB
_EACH = 8  # what an answer counts for beside its covers: there may be none


class _Answer(NamedTuple):
    changes: int
    covers: Sequence[Covering]


class KnownCovers:
    """One a node, on the event loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._answers: OrderedDict[tuple[int, Family, str], _Answer] = OrderedDict()
        self._changes = 0
        self._kept = 0

    async def of(self, stream: int, family: Family, config: str) -> Sequence[Covering]:
        """What covers a stream under one configuration, in order."""
        key = stream, family, config
        known, changes = self._answers.get(key), self._changes
        if known is None or known.changes != changes:
            known = _Answer(changes, await self._database.readers.run(covers_of, stream, family, config))
            self._keep(key, known)
        else:
            self._answers.move_to_end(key)
        return known.covers

    async def change(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run what may change covers on the writer."""

        def counted(db: sqlite3.Connection) -> T:
            """In the writer's thread, which is the only one that counts."""
            try:
                return work(db, *args, **kwargs)
            finally:
                self._changes += 1

        return await self._database.writer.run(counted)

    def _keep(self, key: tuple[int, Family, str], answer: _Answer) -> None:
        old = self._answers.pop(key, None)
        self._kept -= 0 if old is None else len(old.covers) + _EACH
        if len(answer.covers) > _COVERS_MAX // 4:
            return  # it would drive out all others
        self._answers[key] = answer
        self._kept += len(answer.covers) + _EACH
        while self._kept > _COVERS_MAX:
            _, gone = self._answers.popitem(last=False)
            self._kept -= len(gone.covers) + _EACH
