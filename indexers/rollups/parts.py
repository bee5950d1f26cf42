"""Entries that contribute to a rollup, as columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Counted:
    """`count`: 1 for an entry that its `include` takes, else 0; None: all are taken."""

    taken: Any = None


@dataclass(frozen=True, slots=True)
class Summarised:
    """`summary` of a number a record."""

    values: Any
    histogram: bool = False  # log2_v1


@dataclass(frozen=True, slots=True)
class Parts:
    """`summary_parts`: numbers that the records carry; histograms as a column of lists of (bucket, count) or None."""

    count: Any
    sum: Any
    min: Any
    max: Any
    histograms: Sequence[Mapping[str, float]] | None = None


Measure = Counted | Summarised | Parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Entries that contribute to a rollup: columns of one length, Arrow arrays or sequences."""

    stream: Any  # of all of them, or a column
    rollup: str
    intervals: Sequence[int]  # milliseconds
    times: Any  # milliseconds since 1970, rounded down
    dimensions: Sequence[Any]  # a column of exact texts or None for each; of repeated ones, also a dictionary of them
    measures: Mapping[str, Measure]
