"""The streams that something happens to most often, over the last minute, in bounded memory.

Keeps    a bounded number of counters in each slot of time (Misra and Gries): when there are too many, as much is taken
         off each as leaves the largest half. A count is never too high, and in a slot too low by `1 / (kept + 1)` of
         all that happened in it at most. Only the event loop touches it.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

SLOT_S = 10.0
WINDOW_S = 60.0
KEPT = 256  # counters of a slot that are left when there are twice as many


class Rate(NamedTuple):
    stream: int
    per_second: float


class Busiest:
    """Counts one kind of event by stream."""

    def __init__(self, clock_s: Callable[[], float], kept: int = KEPT) -> None:
        self._clock_s = clock_s
        self._kept = kept
        self._began_s = clock_s()
        self._turns_s = self._began_s + SLOT_S
        self._counts: dict[int, int] = {}
        self._slots: deque[tuple[float, dict[int, int]]] = deque([(self._began_s, self._counts)])

    def add(self, stream: int) -> None:
        self.add_all((stream,))

    def add_all(self, streams: Iterable[int]) -> None:
        """One event of each; a stream may be named more than once."""
        if self._clock_s() >= self._turns_s:
            self._turn()
        counts = self._counts
        for stream in streams:
            if stream in counts:
                counts[stream] += 1
            else:
                counts[stream] = 1
                if len(counts) > 2 * self._kept:
                    self._trim()

    def top(self, count: int) -> list[Rate]:
        """The streams with the highest rates."""
        self._turn()
        now_s = self._clock_s()
        total = Counter[int]()
        for _, counts in self._slots:
            total.update(counts)
        seconds = min(max(WINDOW_S, now_s - self._slots[0][0]), max(1.0, now_s - self._began_s))
        return [Rate(stream, found / seconds) for stream, found in total.most_common(count)]

    def _turn(self) -> None:
        """Begin a slot if this one is over, and forget those that have left the window."""
        now_s = self._clock_s()
        if now_s >= self._turns_s:
            self._counts = {}
            self._turns_s = now_s + SLOT_S
            self._slots.append((now_s, self._counts))
        while len(self._slots) > 1 and self._slots[0][0] + SLOT_S <= now_s - WINDOW_S:
            self._slots.popleft()

    def _trim(self) -> None:
        counts = self._counts
        floor = sorted(counts.values(), reverse=True)[self._kept]
        left = [(stream, count - floor) for stream, count in counts.items() if count > floor]
        counts.clear()  # the slot holds it, too
        counts.update(left)
