"""A store that fails as real ones do, on purpose and repeatably: for tests of everything that uses one.

A `FaultPlan` draws from a seed what happens to each request; `FaultyStore` makes it happen around any other store.
"""

import contextlib
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from streams_node.errors import StoreError, StoreUnavailable
from streams_node.objects.counts import Op
from streams_node.objects.keys import Key, KeyPrefix
from streams_node.objects.protocol import LIST_KEYS_MAX, Data, ETag, Fetched, Listed, ObjectStore, Page, Stored, WriteId
from streams_node.protocol.numbers import Micros

_RECENT_MAX = 8  # changes that a stale listing may not know


class Fault(Enum):
    SLOW = auto()  # answers after a wait
    BUSY = auto()  # 503, and so do the next few
    LOST = auto()  # done, and the answer never came
    DROPPED = auto()  # not done, and the same silence
    LATE = auto()  # not done yet: silence now, and the write arrives some requests later
    TRUNCATED = auto()  # fewer bytes than there are
    CORRUPT = auto()  # a flipped bit
    STALE = auto()  # a listing from a moment ago


_WRITES: tuple[Op, ...] = ("put", "delete")
_POSSIBLE: dict[Fault, tuple[Op, ...]] = {
    Fault.SLOW: ("put", "get", "head", "delete", "list"),
    Fault.BUSY: ("put", "get", "head", "delete", "list"),
    Fault.LOST: _WRITES,
    Fault.DROPPED: ("put", "get", "head", "delete", "list"),
    Fault.LATE: ("put",),
    Fault.TRUNCATED: ("get",),
    Fault.CORRUPT: ("get",),
    Fault.STALE: ("list",),
}


@dataclass
class FaultPlan:
    """How likely each fault is for a request to which it can happen. `hits` counts them, so that a test can ask."""

    seed: int
    chances: dict[Fault, float] = field(default_factory=dict)
    slow_s: float = 0.01
    busy_requests: int = 3
    late_requests: int = 2
    away: bool = False  # nothing answers until it is False again
    hits: Counter[Fault] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - repeatable on purpose
        self._busy_left = 0

    def draw(self, op: Op) -> Fault | None:
        fault = self._drawn(op)
        if fault:
            self.hits[fault] += 1
        return fault

    def position(self, size: int) -> int:
        return self._random.randrange(size)

    def _drawn(self, op: Op) -> Fault | None:
        if self._busy_left:
            self._busy_left -= 1
            return Fault.BUSY
        for fault, chance in self.chances.items():
            if op in _POSSIBLE[fault] and self._random.random() < chance:
                self._busy_left = self.busy_requests - 1 if fault is Fault.BUSY else 0
                return fault
        return None


@dataclass
class _Late:
    requests_left: int
    land: Callable[[], object]


class FaultyStore:
    """Another store, seen through a bad line. Safe for threads; repeatable when requests come in the same order."""

    def __init__(self, store: ObjectStore, plan: FaultPlan, sleep: Callable[[float], None] = time.sleep) -> None:
        self._store = store
        self._plan = plan
        self._sleep = sleep
        self._lock = threading.RLock()
        self._late: list[_Late] = []
        self._new: deque[Key] = deque(maxlen=_RECENT_MAX)
        self._gone: deque[Listed] = deque(maxlen=_RECENT_MAX)

    @property
    def place(self) -> str:
        return self._store.place

    def put(self, key: Key, data: Data, *, write_id: WriteId, if_match: ETag | None = None) -> Stored:
        def send() -> Stored:
            stored = self._store.put(key, data, write_id=write_id, if_match=if_match)
            self._new.append(key)
            return stored

        fault = self._begin("put", key)
        if fault is Fault.LATE:
            self._late.append(_Late(self._plan.late_requests, send))
            raise _silence("put", key)
        stored = send()
        if fault is Fault.LOST:
            raise _silence("put", key)
        return stored

    def get(self, key: Key, start: int = 0, end: int | None = None) -> Fetched:
        fault = self._begin("get", key)
        data, stored = self._store.get(key, start, end)
        if data and fault is Fault.TRUNCATED:
            data = data[: self._plan.position(len(data))]
        if data and fault is Fault.CORRUPT:
            place = self._plan.position(len(data))
            data = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        return Fetched(data, stored)

    def head(self, key: Key) -> Stored | None:
        self._begin("head", key)
        return self._store.head(key)

    def delete(self, key: Key) -> None:
        fault = self._begin("delete", key)
        before = self._store.head(key)
        self._store.delete(key)
        if before:
            self._gone.append(Listed(key, before.size, Micros(0)))
        if fault is Fault.LOST:
            raise _silence("delete", key)

    def list(self, prefix: KeyPrefix, after: Key | None = None, limit: int = LIST_KEYS_MAX) -> Page:
        fault = self._begin("list", prefix)
        page = self._store.list(prefix, after, limit)
        return self._stale(page, prefix, after) if fault is Fault.STALE else page

    def close(self) -> None:
        self._store.close()

    def settle(self) -> None:
        """Let every late write land now."""
        with self._lock:
            late, self._late = self._late, []
        for each in late:
            _land(each)

    def _begin(self, op: Op, what: str) -> Fault | None:
        with self._lock:
            self._land_late()
            if self._plan.away:
                raise StoreUnavailable(f"{self.place}: cannot {op} `{what}`: away", outcome_unknown=op in _WRITES)
            fault = self._plan.draw(op)
        match fault:
            case Fault.SLOW:
                self._sleep(self._plan.slow_s)
            case Fault.BUSY:
                raise StoreUnavailable(
                    f"{self.place}: cannot {op} `{what}`: 503 SlowDown", outcome_unknown=op in _WRITES
                )
            case Fault.DROPPED:
                raise _silence(op, what)
        return fault

    def _land_late(self) -> None:
        for each in self._late:
            each.requests_left -= 1
        landing = [each for each in self._late if each.requests_left <= 0]
        self._late = [each for each in self._late if each.requests_left > 0]
        for each in landing:
            _land(each)

    def _stale(self, page: Page, prefix: KeyPrefix, after: Key | None) -> Page:
        """The newest objects are missing, and deleted ones are still there."""
        last = page.next_after
        ghosts = {
            ghost.key: ghost
            for ghost in self._gone
            if ghost.key.startswith(prefix) and ghost.key > (after or "") and (last is None or ghost.key <= last)
        }
        known = ghosts | {one.key: one for one in page.objects if one.key not in self._new}
        return Page(tuple(known[key] for key in sorted(known)), last)


def _land(late: _Late) -> None:
    with contextlib.suppress(StoreError):  # its sender is long gone
        late.land()


def _silence(op: Op, what: str) -> StoreUnavailable:
    return StoreUnavailable(f"cannot {op} `{what}`: no answer in time", outcome_unknown=op in _WRITES)
