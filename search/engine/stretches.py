"""Which companions, or blocks of them, have what comes first, as their bounds say.

Entries mostly come in the order of their time, and so do these: a page in the order of a time is in the newest ones,
mostly, and of the others it is enough to know that they have nothing before it.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from search.engine.model import Span

_ENOUGH = 4  # times as few entries as are wanted are better than nothing
_STRETCHES_MAX = 64  # to look at more takes no less than to look at all


class Stretch(NamedTuple):
    """Where the entries of a stream are in a companion, or in a block, and the bounds of their values."""

    spans: Sequence[Span]
    least: float
    most: float

    @property
    def entries(self) -> int:
        return sum(end - first for first, end in self.spans)


class Foremost(NamedTuple):
    """Some of them; no other one has a value that comes before `bound`."""

    spans: Sequence[Span]
    entries: int
    bound: float


def in_order(known: Iterable[Stretch], *, descending: bool) -> list[Stretch]:
    """Those first that may have the foremost value."""
    return sorted(known, key=lambda each: -each.most if descending else each.least)


def foremost(ordered: Sequence[Stretch], wanted: int, *, descending: bool) -> Foremost | None:
    """Those that may have the first values: as few as have about so many entries before all others.

    None if that helps nothing: there are only few others, or too many to be in any order.
    """
    entries, total, found = 0, sum(each.entries for each in ordered), None
    for at in range(1, min(len(ordered), _STRETCHES_MAX)):
        entries += ordered[at - 1].entries
        if 2 * entries > total:
            break
        bound = ordered[at].most if descending else ordered[at].least
        before = sum(each.entries * _share(each, bound, descending=descending) for each in ordered[:at])
        if _ENOUGH * before >= wanted:
            found = Foremost([span for each in ordered[:at] for span in each.spans], entries, bound)
        if before >= wanted:
            break
    return found


def _share(one: Stretch, bound: float, *, descending: bool) -> float:
    """How much of a stretch comes before a bound, if its values are evenly spread."""
    before, whole = one.most - bound if descending else bound - one.least, one.most - one.least
    if before <= 0:
        return 0.0
    return before / max(1, whole) if before < whole else 1.0  # integers may be too large to be divided otherwise
