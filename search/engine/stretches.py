"""Which companions, or blocks of them, have what comes first, as their bounds say.

Entries mostly come in the order of their time, and so do these: a page in the order of a time is in the newest ones,
mostly, and of the others it is enough to know that they have nothing before it.
"""

from collections.abc import Iterable, Iterator, Sequence
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


class _Step(NamedTuple):
    """What the first so many stretches have: their entries, and about how many of these come before all others."""

    stretches: int
    entries: int
    before: float
    bound: float


class Ordered:
    """Stretches, those first that may have the foremost value. Made once for a view, as many ask."""

    def __init__(self, known: Iterable[Stretch], *, descending: bool) -> None:
        self._stretches = sorted(known, key=lambda each: -each.most if descending else each.least)
        self._steps = list(_steps(self._stretches, descending=descending))

    def foremost(self, wanted: float) -> Foremost | None:
        """Those that may have the first values: as few as have about so many entries before all others.

        None if that helps nothing: there are only few others, or too many to be in any order.
        """
        found: _Step | None = None
        for step in self._steps:
            if _ENOUGH * step.before >= wanted:
                found = step
            if step.before >= wanted:
                break
        if found is None:
            return None
        spans = [span for each in self._stretches[: found.stretches] for span in each.spans]
        return Foremost(spans, found.entries, found.bound)


def _steps(ordered: Sequence[Stretch], *, descending: bool) -> Iterator[_Step]:
    entries, total = 0, sum(each.entries for each in ordered)
    for at in range(1, min(len(ordered), _STRETCHES_MAX)):
        entries += ordered[at - 1].entries
        if 2 * entries > total:
            break
        bound = ordered[at].most if descending else ordered[at].least
        before = sum(each.entries * _share(each, bound, descending=descending) for each in ordered[:at])
        yield _Step(at, entries, before, bound)


def _share(one: Stretch, bound: float, *, descending: bool) -> float:
    """How much of a stretch comes before a bound, if its values are evenly spread."""
    before, whole = one.most - bound if descending else bound - one.least, one.most - one.least
    if before <= 0:
        return 0.0
    return before / max(1, whole) if before < whole else 1.0  # integers may be too large to be divided otherwise
