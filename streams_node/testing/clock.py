"""A clock that moves when a test says so."""

from dataclasses import dataclass

_BIRTH_US = 1_790_000_000_000_000  # some moment in 2026: far from zero, so that subtraction mistakes show


@dataclass(slots=True)
class FakeClock:
    """Call it for the time in microseconds; `advance` moves it, backwards too."""

    now_us: int = _BIRTH_US

    def __call__(self) -> int:
        return self.now_us

    def advance(self, seconds: float) -> None:
        self.now_us += int(seconds * 1_000_000)
