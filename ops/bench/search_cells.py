"""What was measured of searches: cells, and how one is measured."""

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from ops.bench.errors import BenchError
from ops.bench.search_queries import Question
from ops.bench.stats import percentile

CLIENTS = (1, 8)
SECONDS_LEAST = 2.0  # in less, clients that begin and end are a part of it
WARM, EMPTIED, COLD = "warm", "emptied", "cold"
Ask = Callable[[Question], list[str] | None]  # the ids of all that is shown; None for anything but a whole answer


class Cell(NamedTuple):
    """Answers to one kind of question. `same` are digests of what has one order, by the number of the question."""

    events: str
    size: int
    side: str
    query: str
    state: str  # of the caches: warm, without copies of the store, or started again without them
    clients: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    asked: int
    failed: int
    same: Mapping[str, str]

    @property
    def key(self) -> tuple[object, ...]:
        return self[:6]


def warm(
    about: tuple[str, int, str], asker: Callable[[], Ask], asked: Mapping[str, Sequence[Question]], rounds: int,
    seconds: float,
) -> Iterator[Cell]:  # fmt: skip
    """Each kind of question, by one client and by several."""
    for name, some in asked.items():
        for clients in CLIENTS:
            times, failed, same = _timed(some, asker, clients, max(clients * 2, rounds // some[0].pages), seconds)
            yield cell(about, name, WARM, clients, times, failed, same)


def cell(
    about: tuple[str, int, str], name: str, state: str, clients: int, seconds: Sequence[float], failed: int,
    same: Mapping[str, str],
) -> Cell:  # fmt: skip
    p50, p95, p99 = (round(1000 * percentile(seconds, share), 3) for share in (0.5, 0.95, 0.99))
    return Cell(*about, name, state, clients, p50, p95, p99, len(seconds), failed, same)


def _timed(
    asked: Sequence[Question], asker: Callable[[], Ask], clients: int, rounds: int, seconds_max: float
) -> tuple[list[float], int, dict[str, str]]:
    """Each client asks all questions in turn: `rounds` in all, and for SECONDS_LEAST, or as long as a cell may take."""
    seconds, same, failed = list[float](), dict[str, str](), 0
    lock, begun = threading.Lock(), time.monotonic()

    def work(first: int) -> None:
        nonlocal failed
        ask = asker()
        ask(asked[first % len(asked)])  # the connection is open, and what is opened once is open
        for number in count(first):
            question = asked[number % len(asked)]
            began = time.perf_counter()
            found = ask(question)
            took = (time.perf_counter() - began) / question.pages
            with lock:
                seconds.append(took)
                if found is None:
                    failed += 1
                elif question.ordered:
                    same[str(number % len(asked))] = digest(found)
            elapsed, whole = time.monotonic() - begun, (number - first + 1) * clients >= rounds
            if elapsed > seconds_max or (whole and elapsed > SECONDS_LEAST):
                return

    threads = [threading.Thread(target=work, args=(first,), daemon=True) for first in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not seconds:
        raise BenchError(f"no answer to {asked[0].asked}")
    return seconds, failed, same


def digest(found: Sequence[Any]) -> str:
    return hashlib.sha256("\n".join(map(str, found)).encode()).hexdigest()[:16]
