"""What was measured of searches: cells, and how one is measured."""

import hashlib
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from itertools import count
from typing import Any, NamedTuple, Protocol

from ops.bench.asking import Clients, Talk
from ops.bench.search_queries import Question
from ops.bench.stats import percentile

CLIENTS = (1, 8)
SECONDS_LEAST = 2.0  # in less, clients that begin and end are a part of it
FAR_MS = 200.0  # whoever takes so long in its first turn gets no other: what is compared are tenths of it
WARM, EMPTIED, COLD = "warm", "emptied", "cold"
Ask = Callable[[Question], list[str] | None]  # the ids of all that is shown; None for anything but a whole answer
Asker = Callable[["Taken", int], None]  # asks by so many clients


class Asks(Protocol):
    """As `Ask`, in a talk. Ids are looked for only where nobody has."""

    def __call__(self, question: Question, *, is_new: bool) -> Talk[list[str] | None]: ...


class Side(NamedTuple):
    """Who is asked, and what. Nobody but one who is awake runs."""

    name: str
    asked: Mapping[str, Sequence[Question]]
    ask: Asker
    awake: Callable[[], AbstractContextManager[object]]


class Cell(NamedTuple):
    """Answers to one kind of question, in all turns: the medians of them.

    `same` are digests of what has one order, by the number of the question.
    """

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
    p50s_ms: Sequence[float] = ()  # of each turn

    @property
    def key(self) -> tuple[object, ...]:
        return self[:6]


class Taken:
    """What several clients were told, who ask for a while: the time of each answer, and what was wrong."""

    def __init__(self, asked: Sequence[Question], clients: int, rounds: int, seconds: float) -> None:
        self._asked, self._clients, self._rounds, self._seconds = asked, clients, rounds, seconds
        self._begun = 0.0
        self.turns, self.failed, self.same = list[list[float]](), 0, dict[str, str]()

    def begin(self) -> None:
        """A turn."""
        self._begun = time.monotonic()
        self.turns.append([])

    def question(self, number: int) -> Question:
        return self._asked[number % len(self._asked)]

    def is_new(self, number: int) -> bool:
        """Whether nobody has looked at what is shown there."""
        return self.question(number).ordered and str(number % len(self._asked)) not in self.same

    def note(self, number: int, seconds: float, found: list[str] | None, *, is_new: bool = True) -> None:
        question = self.question(number)
        self.turns[-1].append(seconds / question.pages)
        if found is None:
            self.failed += 1
        elif is_new and question.ordered:
            self.same[str(number % len(self._asked))] = digest(found)

    def is_over(self, asked: int) -> bool:
        """For a client that has asked so often: `rounds` in all, and SECONDS_LEAST, or as long as a cell may take."""
        elapsed = time.monotonic() - self._begun
        return elapsed > self._seconds or (asked * self._clients >= self._rounds and elapsed > SECONDS_LEAST)


def in_turns(events: str, size: int, sides: Sequence[Side], turns: int, rounds: int, seconds: float) -> Iterator[Cell]:
    """Each kind of question, by one client and by several, who each ask all of them; of one side after another."""
    for name in dict.fromkeys(name for side in sides for name in side.asked):
        for clients in CLIENTS:
            some = [
                (side, Taken(asked, clients, max(clients * 2, rounds // asked[0].pages), seconds))
                for side in sides
                if (asked := side.asked.get(name))
            ]
            for turn in range(turns):
                for side, taken in some:
                    if turn == 0 or 1000 * percentile(taken.turns[0], 0.5) < FAR_MS:
                        with side.awake():
                            taken.begin()
                            side.ask(taken, clients)
            for side, taken in some:
                yield cell((events, size, side.name), name, WARM, clients, taken.turns, taken.failed, taken.same)


def cell(
    about: tuple[str, int, str], name: str, state: str, clients: int, turns: Sequence[Sequence[float]], failed: int,
    same: Mapping[str, str],
) -> Cell:  # fmt: skip
    of_turns = [[round(1000 * percentile(each, share), 3) for each in turns] for share in (0.5, 0.95, 0.99)]
    p50, p95, p99 = (round(statistics.median(each), 3) for each in of_turns)
    return Cell(*about, name, state, clients, p50, p95, p99, sum(map(len, turns)), failed, same, of_turns[0])


def in_threads(asker: Callable[[], Ask]) -> Asker:
    """A side in this process, which does not hold the lock of the interpreter."""

    def turn(taken: Taken, clients: int) -> None:
        def work(first: int) -> None:
            ask = asker()
            ask(taken.question(first)._replace(pages=1))  # what is opened once is open
            for number in count(first):
                began = time.perf_counter()
                found = ask(taken.question(number))
                took = time.perf_counter() - began
                with lock:
                    taken.note(number, took, found)
                if taken.is_over(number - first + 1):
                    return

        lock = threading.Lock()
        threads = [threading.Thread(target=work, args=(first,), daemon=True) for first in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return turn


def over_http(port: int, asks: Asks) -> Asker:
    """A server, asked by clients who have a connection each."""

    def turn(taken: Taken, clients: int) -> None:
        def talk(first: int) -> Talk[None]:
            yield from asks(taken.question(first)._replace(pages=1), is_new=False)  # what is opened once is open
            for number in count(first):
                is_new = taken.is_new(number)
                began = time.perf_counter()
                found = yield from asks(taken.question(number), is_new=is_new)
                taken.note(number, time.perf_counter() - began, found, is_new=is_new)
                if taken.is_over(number - first + 1):
                    return

        with closing(Clients(port, "application/json", clients)) as several:
            several.talk(talk)

    return turn


def digest(found: Sequence[Any]) -> str:
    return hashlib.sha256("\n".join(map(str, found)).encode()).hexdigest()[:16]
