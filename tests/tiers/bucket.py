"""A bucket that outlives the nodes on it, and fails when it is told to."""

import itertools
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streams_node.objects import (
    Fault,
    FaultPlan,
    FaultyStore,
    FolderStore,
    Key,
    MemoryStore,
    ObjectStore,
    RequestCounts,
    RetryingStore,
    RetryPolicy,
)
from streams_node.objects.keys import EVERYTHING, root_prefix
from streams_node.objects.s3 import S3Address, S3Store
from tests.store.servers import KEYS

QUICK = RetryPolicy(attempts_max=3, wait_ms=1, wait_ms_max=4)
MILD = {
    Fault.SLOW: 0.05, Fault.BUSY: 0.03, Fault.LOST: 0.05, Fault.DROPPED: 0.05, Fault.LATE: 0.05, Fault.TRUNCATED: 0.05,
    Fault.CORRUPT: 0.05, Fault.STALE: 0.2,
}  # fmt: skip
WILD = {fault: min(0.5, chance * 5) for fault, chance in MILD.items()}
_ATTEMPT_S = 20.0


class _Lasting:
    """Nodes come and go, and close their store; what is in memory has to stay."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def close(self) -> None:
        """Not yet."""


@dataclass
class Bucket:
    """`open_bare` opens the store as it is; `settings` are what a node needs to be on it."""

    open_bare: Callable[[], ObjectStore]
    settings: dict[str, Any]
    plan: FaultPlan = field(default_factory=lambda: FaultPlan(0))
    lines: list[FaultyStore] = field(default_factory=list)

    @property
    def troubled(self) -> bool:
        return bool(self.plan.away or self.plan.chances)

    @property
    def place(self) -> str:
        return self.open_bare().place

    def connect(self, counts: RequestCounts) -> RetryingStore:
        """As a node sees it: through a line of its own."""
        self.lines.append(FaultyStore(self.open_bare(), self.plan))
        return RetryingStore(self.lines[-1], counts, QUICK)

    def direct(self) -> RetryingStore:
        """As a test sees it: always there."""
        return RetryingStore(self.open_bare(), RequestCounts(), QUICK)

    def calm(self) -> None:
        """It is there, answers, and tells the truth."""
        self.plan.away = False
        self.plan.chances = {}
        self.plan._busy_left = 0

    def all_keys(self) -> list[Key]:
        bare = self.open_bare()
        found: list[Key] = []
        while True:
            page = bare.list(EVERYTHING, found[-1] if found else None)
            found += [one.key for one in page.objects]
            if page.next_after is None:
                bare.close()
                return found

    @contextmanager
    def away(self) -> Iterator[None]:
        self.plan.away = True
        try:
            yield
        finally:
            self.plan.away = False


def memory_bucket(clock: Callable[[], int] | None = None) -> Bucket:
    store = MemoryStore() if clock is None else MemoryStore(now=lambda: clock() / 1_000_000)
    lasting: Any = _Lasting(store)
    return Bucket(lambda: lasting, {"object_store": "memory"})


def folder_bucket(folder: Path) -> Bucket:
    """Reads of a folder go to its files, and around the line."""
    return Bucket(lambda: FolderStore.open(folder), {"object_store": "folder", "object_store_folder": folder})


_prefixes = itertools.count()


def s3_bucket(address: S3Address) -> Bucket:
    """A prefix of its own."""
    root = root_prefix(f"tiers/{os.getpid()}-{next(_prefixes)}-{secrets.token_hex(4)}")
    own = address._replace(root=root)
    return Bucket(lambda: S3Store(own, KEYS, attempt_s=_ATTEMPT_S), {"object_store": "memory"})
