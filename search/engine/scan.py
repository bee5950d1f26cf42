"""The plain evaluator over entries: the tail of a search, and single entries of which an index is not sure."""

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from search.engine.bm25 import Score
from search.engine.model import Entry, Over
from search.engine.sorting import SortKey, SortValue, place_of
from search.language import Matcher, values

_Values = tuple[SortValue, ...]
_AT_ONCE = 128  # entries between two looks at the clock


class Scanned(NamedTuple):
    """Sort values of the first matches behind a place, in order; how many match at all; how many were looked at."""

    rows: list[_Values]
    matches: int
    seen: int


def scan(
    entries: Sequence[Entry],
    matches: Matcher,
    read: Callable[[int, object], _Values],
    keys: Sequence[SortKey],
    *,
    after: _Values | None,
    size: int,
    over: Over,
) -> Scanned:
    """What `matches` takes of the entries. When the time is over, the rest is left out."""
    place = place_of(keys)
    bound = None if after is None else place(after)
    found, count, seen = list[_Values](), 0, 0
    for at in range(0, len(entries), _AT_ONCE):
        if over():
            break
        for entry in entries[at : at + _AT_ONCE]:
            seen += 1
            if matches(entry.record):
                count += 1
                row = read(entry.seq, entry.record)
                if bound is None or place(row) > bound:
                    found.append(row)
    return Scanned(heapq.nsmallest(size, found, key=place), count, seen)


def reader(keys: Iterable[SortKey], version: int, score: Score) -> Callable[[int, object], _Values]:
    """The function from an entry to its sort values."""
    parts = [_reader(key, version, score) for key in keys]
    return lambda seq, record: tuple(part(seq, record) for part in parts)


def _reader(key: SortKey, version: int, score: Score) -> Callable[[int, object], SortValue]:
    if key.by == "offset":
        return lambda seq, _: seq
    if key.by == "score" or key.field is None:
        return lambda _, record: score(record) or 0.0
    read = values(key.field, version)

    def first(_: int, record: object) -> SortValue:
        found = read(record)
        return found[0] if found else None

    return first
