"""Where the time of one request goes: noted by whoever does a part of it, shown in `Server-Timing` and in the log.

Keeps    only requests that are followed cost anything: an append is not, and a note of nobody's request is dropped.
         Times of parts may overlap, and those of parts that run beside each other add up to more than the whole.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_MS = 1000


class Phases:
    """Of one request, from its head on."""

    __slots__ = ("began", "route", "seconds", "stream")

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.route = ""
        self.stream: str | None = None
        self.seconds: dict[str, float] = {}

    def add(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    @property
    def total(self) -> float:
        return time.perf_counter() - self.began

    def header(self) -> bytes:
        """As `Server-Timing` has it, in milliseconds."""
        parts = [f"total;dur={self.total * _MS:.3f}"]
        parts += [f"{name};dur={seconds * _MS:.3f}" for name, seconds in self.seconds.items()]
        return ", ".join(parts).encode()

    def shown(self) -> dict[str, float]:
        """For the log: milliseconds by their phases."""
        return {f"{name}_ms": round(seconds * _MS, 1) for name, seconds in self.seconds.items()}


current: ContextVar[Phases | None] = ContextVar("phases", default=None)


def note(name: str, seconds: float) -> None:
    """A part of the request that is being answered took so long."""
    phases = current.get()
    if phases is not None:
        phases.add(name, seconds)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """What the block takes is a part of the request that is being answered."""
    phases = current.get()
    if phases is None:
        yield
        return
    began = time.perf_counter()
    try:
        yield
    finally:
        phases.add(name, time.perf_counter() - began)
