"""Entries that contribute to a rollup, as columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Far above every useful window, and low enough that no start of a window leaves 64 bits: dates of records are within
# 8.64e15 ms of 1970. What is configured beyond is answered from the entries.
INTERVAL_MS_MAX = 1 << 53


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


def chains(intervals: Sequence[int]) -> list[tuple[int, ...]]:
    """Intervals by length, in stretches of which each divides the next one."""
    found: list[tuple[int, ...]] = []
    for interval in sorted(set(intervals)):
        if not 0 < interval <= INTERVAL_MS_MAX:
            raise ValueError(f"an interval of {interval} ms has no windows: at most {INTERVAL_MS_MAX}")
        if found and interval % found[-1][-1] == 0:
            found[-1] = (*found[-1], interval)
        else:
            found.append((interval,))
    return found
