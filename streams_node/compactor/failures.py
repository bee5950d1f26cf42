"""Objects that could not be rewritten are left alone for a while: longer each time, and never for ever."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

_DAMAGED_S = 60.0
_FAILED_S = 1.0
_WAIT_S_MAX = 6 * 3600.0


@dataclass(slots=True)
class _Wait:
    failures: int = 0
    until: float = 0.0


class Failures:
    """By object; `clock` gives seconds that never go back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waits: dict[str, _Wait] = {}

    def blocked(self) -> set[str]:
        """Objects that have to be left alone now."""
        now = self._clock()
        return {made for made, wait in self._waits.items() if wait.until > now}

    def note(self, objects: Iterable[str], *, damaged: bool) -> float:
        """They failed once more; returns how long they are left alone."""
        wait_s = 0.0
        for made in objects:
            wait = self._waits.setdefault(made, _Wait())
            wait_s = min((_DAMAGED_S if damaged else _FAILED_S) * 2.0 ** min(wait.failures, 20), _WAIT_S_MAX)
            wait.failures += 1
            wait.until = self._clock() + wait_s
        return wait_s

    def forget(self, objects: Iterable[str]) -> None:
        for made in objects:
            self._waits.pop(made, None)

    def keep(self, living: Collection[str]) -> None:
        """Of packs that are gone nothing is remembered; segments are few here, and forgotten when they are merged."""
        self._waits = {made: wait for made, wait in self._waits.items() if made in living or wait.until > self._clock()}
