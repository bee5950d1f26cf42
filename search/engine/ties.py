"""Documents of one score, or of one value, that other sort keys put in order: often very many, of which few are shown.

Pure: whoever walks reads the values.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from search.engine.sorting import SortKey


class Tie(NamedTuple):
    """Neighbours with the same value, by their addresses."""

    value: Any
    addresses: list[Any]


def ties(windows: Iterable[Sequence[tuple[Any, Any]]]) -> Iterator[list[Tie]]:
    """The ties of each window, which has all of them whole.

    A window is a search, so none is asked for before what came in those before it has been taken.
    """
    for window in windows:
        yield [Tie(value, [address for _, address in group]) for value, group in groupby(window, itemgetter(0))]


def together(some: Iterable[Tie], least: int, most: int) -> Iterator[list[Tie]]:
    """Ties in lists, of which one read each is made: at least so many documents, and those with very many alone."""
    gathered, count = list[Tie](), 0
    for tie in some:
        if len(tie.addresses) > most:
            if gathered:
                yield gathered
                gathered, count = [], 0
            yield [tie]
            continue
        gathered.append(tie)
        count += len(tie.addresses)
        if count >= least:
            yield gathered
            gathered, count = [], 0
    if gathered:
        yield gathered


def leading(values: Sequence[Any], key: SortKey, size: int) -> list[bool]:
    """Which values are before all others in the order of a key: at least `size` of them, and all that equal the last.

    What is missing is the greatest value.
    """
    known = sorted((value for value in values if value is not None), reverse=key.descending)
    missing = len(values) - len(known)
    wanted = size - missing if key.descending else size
    if wanted <= 0:
        return [value is None for value in values]
    if wanted >= len(known):
        return (
            [True] * len(values) if key.descending or wanted > len(known) else [value is not None for value in values]
        )
    last = known[wanted - 1]
    if key.descending:
        return [value is None or value >= last for value in values]
    return [value is not None and value <= last for value in values]
