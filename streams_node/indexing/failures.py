"""Objects that an index driver could not use: tried again, later each time, and listed meanwhile."""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

import sql
from streams_node.wal.batch import rollback

_INDEX = sql.queries("index")
_WAIT_S = 10.0
_WAIT_S_MAX = 3600.0
_KEPT_MAX = 1000
_US_A_SECOND = 1_000_000
_REASON_CHARS_MAX = 2000


@dataclass(slots=True)
class Failure:
    made: str
    reason: str
    count: int
    since_us: int
    not_before: float


class Failures:
    """In memory; `restore` and `rows` are for who keeps them across restarts."""

    def __init__(self, clock: Callable[[], float], now_us: Callable[[], int]) -> None:
        self._clock = clock
        self._now_us = now_us
        self._known: dict[str, Failure] = {}
        self.changed = False  # since it was kept

    def add(self, made: str, reason: str) -> Failure:
        before = self._known.pop(made, None)
        count = 1 if before is None else before.count + 1
        since_us = self._now_us() if before is None else before.since_us
        wait_s = min(_WAIT_S * 2 ** (count - 1), _WAIT_S_MAX)
        reason = reason[:_REASON_CHARS_MAX]
        found = self._known[made] = Failure(made, reason, count, since_us, self._clock() + wait_s)
        while len(self._known) > _KEPT_MAX:
            del self._known[next(iter(self._known))]
        self.changed = True
        return found

    def forget(self, made: str) -> None:
        """It could be used."""
        if self._known.pop(made, None) is not None:
            self.changed = True

    def rests(self, made: str) -> bool:
        """Whether it is not to be tried yet."""
        found = self._known.get(made)
        return found is not None and found.not_before > self._clock()

    def listed(self) -> list[Failure]:
        return list(self._known.values())

    # --- across restarts ---

    def restore(self, rows: Sequence["FailureRow"]) -> None:
        """What was known before. A clock that was set back makes nothing rest for longer."""
        now, now_us = self._clock(), self._now_us()
        for made, reason, count, since_us, until_us in rows[-_KEPT_MAX:]:
            left_s = min(max(0, until_us - now_us) / _US_A_SECOND, _WAIT_S_MAX)
            self._known.setdefault(made, Failure(made, reason, count, since_us, now + left_s))

    def rows(self) -> list["FailureRow"]:
        """All that is to be kept, as it is now."""
        self.changed = False
        now, now_us = self._clock(), self._now_us()
        return [
            (each.made, each.reason, each.count, each.since_us, now_us + int((each.not_before - now) * _US_A_SECOND))
            for each in self._known.values()
        ]


FailureRow = tuple[str, str, int, int, int]  # made, reason, count, since, until: in microseconds


def kept(db: sqlite3.Connection) -> list[FailureRow]:
    """What was kept, of objects that are there."""
    return [(made, reason, count, since, until) for made, reason, count, since, until in db.execute(_INDEX.failures)]


def keep(db: sqlite3.Connection, rows: Sequence[FailureRow]) -> None:
    """Exactly these."""
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute(_INDEX.keep_failures, {"made": msgspec.json.encode([made for made, *_ in rows]).decode()})
        db.executemany(_INDEX.put_failure, rows)
        db.execute("COMMIT")
    except BaseException:
        rollback(db)
        raise
