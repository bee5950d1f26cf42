"""Medians, quartiles and paired ratios; pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from ops.bench.cell import Better


@dataclass(frozen=True, slots=True)
class Spread:
    """The five numbers that say how far a figure can be trusted."""

    lowest: float
    lower_quartile: float
    median: float
    upper_quartile: float
    highest: float
    count: int

    def better_quartile(self, better: Better) -> float:
        """Where the better quarter of the rounds begins: what a quiet machine lets a server do."""
        return self.upper_quartile if better == "higher" else self.lower_quartile


def percentile(values: Sequence[float], share: float) -> float:
    """Interpolate linearly between the two nearest values; `share` is 0 to 1."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def spread(values: Sequence[float]) -> Spread | None:
    if not values:
        return None
    low, lower, median, upper, high = (percentile(values, share) for share in (0.0, 0.25, 0.5, 0.75, 1.0))
    return Spread(low, lower, median, upper, high, len(values))


def paired_ratios(ours: dict[int, float], theirs: dict[int, float]) -> list[float]:
    """Divide round by round: both sides of a pair were measured seconds apart, so slow drifts cancel."""
    return [ours[index] / theirs[index] for index in sorted(ours.keys() & theirs.keys()) if theirs[index] > 0]
