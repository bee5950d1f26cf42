"""What is asked of an aggregation, and what comes of it: plain values, and the ranges of time that it consists of."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from search.language import AllOf, AnyOf, Compare, NotOf, Op, Plan, exact_text
from streams_node.meaning import Meaning
from streams_node.schema.search_config import Kind, Rollup, SearchConfig
from streams_node.searching.basis import Basis

WINDOW_MS_MAX = 1 << 53  # of larger windows no run has rows: they are counted from the entries
Dimensions = Sequence[str | None]


class Asked(NamedTuple):
    """Times are milliseconds since 1970, [begin, end); `until` is of the monotonic clock.

    `group_by` and `measures` are sorted. `spelled` makes the text of a window out of its start and its groups; it
    depends on nothing that is not asked here.
    """

    rollup: Rollup
    config: SearchConfig
    meaning: Meaning
    begin: int
    end: int
    interval: int
    plan: Plan | None
    group_by: tuple[str, ...]
    measures: tuple[str, ...]
    spelled: Callable[[int, "Sequence[Group]"], bytes]
    until: float

    @property
    def late(self) -> bool:
        return time.monotonic() >= self.until


class Windows(NamedTuple):
    """Windows of `interval` that lie in [begin, end), and fill it."""

    interval: int
    begin: int
    end: int


class Times(NamedTuple):
    """How a range of time is put together: whole windows, and what is left at their edges."""

    windows: Sequence[Windows]
    edges: Sequence[tuple[int, int]]


class Group(NamedTuple):
    """Measures of what has these values of the fields that are grouped by, in the window that begins at `start`."""

    start: int
    key: Dimensions
    measures: Mapping[str, Any]  # indexers.rollups.Summary


@dataclass(slots=True, kw_only=True)
class Aggregated(Basis):
    """Windows by time, as they are spelled."""

    windows: Sequence[bytes]


def times_of(asked: Asked) -> Times:
    """Whole windows in the middle, smaller ones at the edges, and what no window of the rollup fills.

    A smaller window may begin anywhere: an edge lies in one window of the answer, so what lies in it does, too.
    """
    smaller = sorted((each.ms for each in asked.rollup.intervals if each.ms < asked.interval), reverse=True)
    if asked.interval > WINDOW_MS_MAX or not answerable(asked):
        return Times((), ((asked.begin, asked.end),))
    first, last = _aligned(asked.begin, asked.end, asked.interval)
    if first > last:
        return _edge(asked.begin, asked.end, smaller)
    left, right = _edge(asked.begin, first, smaller), _edge(last, asked.end, smaller)
    middle = [Windows(asked.interval, first, last)] if first < last else []
    return Times([*left.windows, *middle, *right.windows], [*left.edges, *right.edges])


def _edge(begin: int, end: int, intervals: Sequence[int]) -> Times:
    """A part of one window, out of smaller ones as far as they go."""
    if begin >= end:
        return Times((), ())
    if not intervals:
        return Times((), ((begin, end),))
    first, last = _aligned(begin, end, intervals[0])
    if first >= last:
        return _edge(begin, end, intervals[1:])
    left, right = _edge(begin, first, intervals[1:]), _edge(last, end, intervals[1:])
    return Times([*left.windows, Windows(intervals[0], first, last), *right.windows], [*left.edges, *right.edges])


def _aligned(begin: int, end: int, interval: int) -> tuple[int, int]:
    return -(-begin // interval) * interval, end // interval * interval


def answerable(asked: Asked) -> bool:
    """Whether dimensions tell which records match: the query asks for equal values of dimensions, and nothing else."""
    return asked.plan is None or _of_dimensions(asked.plan, frozenset(asked.rollup.dimensions))


def _of_dimensions(plan: Plan, names: frozenset[str]) -> bool:
    if isinstance(plan, NotOf):
        return _of_dimensions(plan.part, names)
    if isinstance(plan, AllOf | AnyOf):
        return all(_of_dimensions(part, names) for part in plan.parts)
    return isinstance(plan, Compare) and plan.op is Op.EQ and plan.field.name in names and plan.field.kind != Kind.TEXT


def takes(plan: Plan, values: Mapping[str, str | None]) -> bool:
    """Whether a record matches that has these values of the dimensions. What contributes has one of each at most."""
    if isinstance(plan, NotOf):
        return not takes(plan.part, values)
    if isinstance(plan, AllOf):
        return all(takes(part, values) for part in plan.parts)
    if isinstance(plan, AnyOf):
        return any(takes(part, values) for part in plan.parts)
    assert isinstance(plan, Compare)  # noqa: S101 - others are not asked
    return values[plan.field.name] == exact_text(plan.field.kind, plan.value)
