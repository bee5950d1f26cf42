"""Looks at memory and clock once a second, keeps the highest numbers, and says how tight memory is.

Keeps    a state is left only well below where it began, so that it does not flicker. Who listens is told of each
         change, on the event loop. Without a limit the state is always `calm`.
"""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from streams_node.observe.logs import get_logger
from streams_node.observe.process import Memory, memory

log = get_logger(__name__)
State = Literal["calm", "tight", "critical"]
STATES: tuple[State, ...] = ("calm", "tight", "critical")
LOOK_S = 1.0
_BEGINS = {"tight": 0.80, "critical": 0.92}  # of the limit
_ENDS = {"tight": 0.72, "critical": 0.86}
_JUMP_US = 1_000_000  # what slewing and a late look never make
_JUMP_SHOWN_S = 3600.0


class Peak(NamedTuple):
    """The highest value of a number so far, and when it was seen."""

    value: int
    at_us: int


class Jump(NamedTuple):
    """The clock went on by so much more (or less) than time did."""

    by_us: int
    at_us: int
    seen_s: float


class Vitals:
    """One a node; on the event loop only. `measure` is replaced by tests."""

    def __init__(
        self,
        limit_bytes: int,
        now_us: Callable[[], int],
        clock_s: Callable[[], float],
        measure: Callable[[], Memory] = memory,
    ) -> None:
        self.limit_bytes = limit_bytes
        self.measure = measure
        self.state: State = "calm"
        self.changes: dict[State, int] = dict.fromkeys(STATES, 0)  # how often each began
        self.listeners: list[Callable[[State], None]] = []
        self.peaks: dict[str, Peak] = {}
        self.jumps = 0
        self._now_us = now_us
        self._clock_s = clock_s
        self._jump: Jump | None = None
        self._looked_s: float | None = None
        self._looked_us = 0
        self.memory = measure()

    def look(self) -> None:
        """Once a second, by the node's upkeep."""
        now_us, now_s = self._now_us(), self._clock_s()
        self._watch_clock(now_us, now_s)
        self._looked_us, self._looked_s = now_us, now_s
        self.memory = self.measure()
        self.note({"rss_bytes": self.memory.rss})
        state = state_of(self.memory.rss, self.limit_bytes, self.state)
        if state != self.state:
            log.warning("memory", state=state, rss_bytes=self.memory.rss, limit_bytes=self.limit_bytes)
            self.state = state
            self.changes[state] += 1
            for listener in self.listeners:
                listener(state)

    def look_if_late(self) -> None:
        """Before somebody is told: the upkeep of a node that is being tried out may not run."""
        if self._looked_s is None or self._clock_s() - self._looked_s >= LOOK_S:
            self.look()

    def note(self, numbers: Mapping[str, int]) -> None:
        """Keep the highest value of each number."""
        for name, value in numbers.items():
            peak = self.peaks.get(name)
            if peak is None or value > peak.value:
                self.peaks[name] = Peak(value, self._now_us())

    @property
    def jump(self) -> Jump | None:
        """The last jump of the clock, if it was within an hour."""
        recent = self._jump is not None and self._clock_s() - self._jump.seen_s < _JUMP_SHOWN_S
        return self._jump if recent else None

    def _watch_clock(self, now_us: int, now_s: float) -> None:
        if self._looked_s is None:
            return
        by_us = (now_us - self._looked_us) - int((now_s - self._looked_s) * 1e6)
        if abs(by_us) >= _JUMP_US:
            self.jumps += 1
            self._jump = Jump(by_us, now_us, now_s)
            log.warning("the clock jumped", by_ms=by_us // 1000)


def state_of(rss: int, limit: int, before: State) -> State:
    """How tight it is, given how tight it was."""
    if not limit:
        return "calm"
    share = rss / limit
    if share >= (_ENDS if before == "critical" else _BEGINS)["critical"]:
        return "critical"
    return "tight" if share >= (_BEGINS if before == "calm" else _ENDS)["tight"] else "calm"
