"""Ranges of sequences: pure."""

from collections.abc import Iterable
from typing import NamedTuple

from streams_node.indexing import Covering


class Range(NamedTuple):
    """Entries [first, end)."""

    first: int
    end: int


def uncovered(covers: Iterable[Covering], first: int, end: int) -> list[Range]:
    """What of [first, end) no cover has. Covers come in their order; should they overlap, that is no harm."""
    gaps, at = list[Range](), first
    for cover in covers:
        if cover.first_seq >= end:
            break
        if cover.first_seq > at:
            gaps.append(Range(at, cover.first_seq))
        at = max(at, cover.end_seq)
    if at < end:
        gaps.append(Range(at, end))
    return gaps


def within(ranges: Iterable[Range], first: int, end: int) -> list[Range]:
    """The parts of ranges that lie in [first, end)."""
    cut = (Range(max(first, one.first), min(end, one.end)) for one in ranges)
    return [one for one in cut if one.first < one.end]
