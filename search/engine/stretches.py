"""Which companions have what comes first, as their bounds say.

Entries mostly come in the order of their time, and so do companions: a page in the order of a time is in the newest
ones, mostly, and of the others it is enough to know that they have nothing before it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from search.engine.model import Span


class Stretch(NamedTuple):
    """Where the entries of a stream are in a companion, and the bounds of their values."""

    spans: Sequence[Span]
    least: float
    most: float

    @property
    def entries(self) -> int:
        return sum(end - first for first, end in self.spans)


class Foremost(NamedTuple):
    """Some companions; no other one has a value that comes before `bound`."""

    spans: Sequence[Span]
    entries: int
    bound: float


def foremost(known: Sequence[Stretch], wanted: int, *, descending: bool) -> Foremost | None:
    """The companions that may have the first values: as few as have so many entries; None if that helps nothing."""
    ordered = sorted(known, key=lambda each: -each.most if descending else each.least)
    entries = at = 0
    while at < len(ordered) and entries < wanted:
        entries += ordered[at].entries
        at += 1
    if at == len(ordered) or 2 * entries > sum(each.entries for each in ordered):
        return None
    first, rest = ordered[:at], ordered[at]
    if (first[0].most <= rest.most) if descending else (first[0].least >= rest.least):
        return None
    return Foremost([span for each in first for span in each.spans], entries, rest.most if descending else rest.least)
