"""Parts of an answer that add up: what the view says, and what single entries say.

Keeps    counts, minima and maxima add up exactly, and sums as doubles in some order. A value of terms that an index did
         not list is not lost: by how much its count may be wrong is known.
"""

import math
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Key = str | int | float | bool


@dataclass(slots=True)
class Bucket:
    """Entries that have one value, or lie in one window."""

    count: int = 0
    inside: "dict[str, Part]" = field(default_factory=dict)


@dataclass(slots=True)
class Buckets:
    """Counts are wrong by `error_bound` at most. `other` times an entry has a value that is in no bucket, each of which
    is in at most `unlisted_max` entries: only an index leaves values out, of a field that has very many.
    """

    found: dict[Key, Bucket] = field(default_factory=dict)
    other: int = 0
    unlisted_max: int = 0
    error_bound: int = 0

    def add(self, other: "Buckets") -> None:
        for key, bucket in other.found.items():
            mine = self.found.get(key)
            if mine is None:
                self.found[key] = bucket
                self.error_bound = max(self.error_bound, self.unlisted_max)
            else:
                mine.count += bucket.count
                add(mine.inside, bucket.inside)
        self.other += other.other
        self.unlisted_max = max(self.unlisted_max, other.unlisted_max)
        self.error_bound = max(self.error_bound, other.error_bound)


@dataclass(slots=True)
class Sums:
    """Of values."""

    count: int = 0
    sum: float = 0.0
    min: float | None = None
    max: float | None = None

    def add(self, other: "Sums") -> None:
        self.count += other.count
        self.sum += other.sum
        self.min = _of_both(min, self.min, other.min)
        self.max = _of_both(max, self.max, other.max)


@dataclass(slots=True)
class Spread:
    """Values one by one, and beside them `indexed` values of which only a curve is known: (share, value), ascending."""

    values: "array[float]" = field(default_factory=lambda: array("d"))
    indexed: int = 0
    curve: tuple[tuple[float, float], ...] = ()

    def add(self, other: "Spread") -> None:
        self.values.extend(other.values)
        if other.indexed:
            assert not self.indexed  # noqa: S101 - there is one view
            self.indexed, self.curve = other.indexed, other.curve

    def percentile(self, percent: float) -> float | None:
        """The least value that so many per cent of the values do not exceed. Of a curve, its step."""
        return next(iter(self.percentiles([percent])))

    def percentiles(self, percents: Iterable[float]) -> list[float | None]:
        values = sorted(self.values)
        weighted = [(value, 1.0) for value in values] if self.indexed else []
        before = 0.0
        for share, value in self.curve:
            weighted.append((value, (share - before) * self.indexed))
            before = share
        weighted.sort()
        return [self._at(percent / 100, values, weighted) for percent in percents]

    def _at(self, share: float, values: list[float], weighted: list[tuple[float, float]]) -> float | None:
        if not self.indexed:
            return values[max(0, math.ceil(share * len(values)) - 1)] if values else None
        if not values:
            return _on(self.curve, share)
        wanted, seen = share * (self.indexed + len(values)), 0.0
        for value, weight in weighted:
            seen += weight
            if seen >= wanted:
                return value
        return weighted[-1][0]


Part = Buckets | Sums | Spread


def add(parts: dict[str, Part], others: Mapping[str, Part]) -> None:
    """The others are used up."""
    for name, other in others.items():
        mine: Any = parts.setdefault(name, other)  # a name has one kind
        if mine is not other:
            mine.add(other)


def _on(curve: tuple[tuple[float, float], ...], share: float) -> float:
    """The value at a share: the percents that were asked for are on the curve."""
    return min(curve, key=lambda point: abs(point[0] - share))[1]


def _of_both(choose: Callable[[float, float], float], one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return choose(one, other)
