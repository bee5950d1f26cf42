"""How many requests the object store got, for whom and for what: requests are what a bucket costs.

Owns     counts since the last `take`, a row for each (owner, artifact, operation), and totals since the start.
Hands on the rows to whoever stores them, in batches: not one write to the database for each request.
Keeps    every request is in exactly one row, and in exactly one `take`. Beyond `ROWS_MAX` rows new owners are counted
         with the node, so that a million quiet streams cannot fill the memory between two takes; sums stay right.
Dies     at any point: requests since the last batch that was stored are not counted.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from streams_node.objects.keys import Artifact
from streams_node.protocol.numbers import StreamId

Op = Literal["put", "get", "head", "delete", "list"]
Owner = StreamId | None  # None is the node itself

ROWS_MAX = 50_000
_OPS: tuple[Op, ...] = get_args(Op)
_ARTIFACTS: tuple[Artifact, ...] = get_args(Artifact)


class Row(NamedTuple):
    owner: Owner
    artifact: Artifact
    op: Op


@dataclass(slots=True)
class Tally:
    """`size` is what was sent or received; a request that answered `no such object` or `precondition` did not fail."""

    requests: int = 0
    failures: int = 0
    size: int = 0
    seconds: float = 0.0

    def add(self, other: "Tally") -> None:
        self.requests += other.requests
        self.failures += other.failures
        self.size += other.size
        self.seconds += other.seconds


class RequestCounts:
    def __init__(self, rows_max: int = ROWS_MAX) -> None:
        self._rows_max = rows_max
        self._rows: dict[Row, Tally] = {}
        self._totals: dict[tuple[Artifact, Op], Tally] = {}
        self._lock = threading.Lock()
        self.retries = 0
        self.settled = 0  # puts whose answer was lost, and which a read showed to be done
        self.damaged = 0  # answers that were not the bytes that were stored

    def add(self, row: Row, tally: Tally) -> None:
        with self._lock:
            self._totals.setdefault((row.artifact, row.op), Tally()).add(tally)
            self._add_row(row, tally)

    def of(self, owner: Owner) -> Mapping[tuple[str, str], int]:
        """Requests of one owner that no `take` has had, by artifact and operation."""
        with self._lock:
            found = {(what, op): self._rows.get(Row(owner, what, op)) for what in _ARTIFACTS for op in _OPS}
        return {name: tally.requests for name, tally in found.items() if tally is not None}

    def take(self) -> Mapping[Row, Tally]:
        """The rows since the last time, to be stored; if that fails, `give_back` them."""
        with self._lock:
            taken, self._rows = self._rows, {}
        return taken

    def give_back(self, taken: Mapping[Row, Tally]) -> None:
        with self._lock:
            for row, tally in taken.items():
                self._add_row(row, tally)

    def totals(self) -> Mapping[tuple[Artifact, Op], Tally]:
        """Since the start, by what and how; a copy."""
        with self._lock:
            return {
                name: Tally(one.requests, one.failures, one.size, one.seconds) for name, one in self._totals.items()
            }

    def count_retry(self) -> None:
        with self._lock:
            self.retries += 1

    def count_settled(self) -> None:
        with self._lock:
            self.settled += 1

    def count_damaged(self) -> None:
        with self._lock:
            self.damaged += 1

    def _add_row(self, row: Row, tally: Tally) -> None:
        if row not in self._rows and len(self._rows) >= self._rows_max:
            row = row._replace(owner=None)
        self._rows.setdefault(row, Tally()).add(tally)
