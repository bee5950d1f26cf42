"""Objects that an index driver could not use: tried again, later each time, and listed meanwhile."""

from collections.abc import Callable
from dataclasses import dataclass

_WAIT_S = 10.0
_WAIT_S_MAX = 3600.0
_KEPT_MAX = 1000


@dataclass(slots=True)
class Failure:
    made: str
    reason: str
    count: int
    since_us: int
    not_before: float


class Failures:
    """In memory: a restart tries everything again."""

    def __init__(self, clock: Callable[[], float], now_us: Callable[[], int]) -> None:
        self._clock = clock
        self._now_us = now_us
        self._known: dict[str, Failure] = {}

    def add(self, made: str, reason: str) -> Failure:
        before = self._known.pop(made, None)
        count = 1 if before is None else before.count + 1
        since_us = self._now_us() if before is None else before.since_us
        wait_s = min(_WAIT_S * 2 ** (count - 1), _WAIT_S_MAX)
        found = self._known[made] = Failure(made, reason, count, since_us, self._clock() + wait_s)
        while len(self._known) > _KEPT_MAX:
            del self._known[next(iter(self._known))]
        return found

    def forget(self, made: str) -> None:
        """It could be used."""
        self._known.pop(made, None)

    def rests(self, made: str) -> bool:
        """Whether it is not to be tried yet."""
        found = self._known.get(made)
        return found is not None and found.not_before > self._clock()

    def listed(self) -> list[Failure]:
        return list(self._known.values())
