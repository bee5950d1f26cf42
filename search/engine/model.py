"""What goes into a search, and what comes out: plain values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from search.engine.sorting import SortKey, SortValue
from search.language import Plan

Span = tuple[int, int]  # entries [first, end)
Records = Callable[[Sequence[int]], Mapping[int, object]]  # of entries by seq; without those that are gone
Over = Callable[[], bool]  # whether the time is over


class OneViewNeeded(RuntimeError):
    """Scores and aggregations are of one view, and the companions cannot be stitched: index them into one."""


class NotSoon(RuntimeError):
    """What was wanted soon may take long, or needs records."""


class Entry(NamedTuple):
    """An entry that no companion of the search has: its record is promoted to the current version."""

    seq: int
    ts: int  # append time, microseconds
    record: object


class Hit(NamedTuple):
    """`sort` is aligned with the sort keys: canonical values, the score, or the seq; None where there is none.

    `score` is None where the order did not need it: `Searcher.scorer` tells it of the record.
    """

    seq: int
    score: float | None
    sort: tuple[SortValue, ...]


def never() -> bool:
    return False


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """One page of one search of one stream.

    stream      its incarnation, as in the companions
    spans       the entries of the views that count: what was trimmed, or is not to be answered from them, is left out
    sort        from `sort_of`; its last key is always the offset
    after       the `sort` of the last hit of the page before, from `after_of`
    records     called where the index cannot decide, with few entries at a time, from the searching thread
    tail        entries outside of the views, in any order; none of them is in `spans`
    total       whether to count all matches, and not only up to the end of the page
    soon        NotSoon where it would need records, or where one search of an index might look at very many documents
    """

    plan: Plan
    stream: int
    spans: Sequence[Span]
    sort: tuple[SortKey, ...]
    records: Records
    after: tuple[SortValue, ...] | None = None
    size: int = 50
    tail: Sequence[Entry] = ()
    total: bool = False
    over: Over = never
    soon: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """`hits` is shorter than `size` only at the end of the matches, or when the time was over.

    total       with relation "eq" all matches, before the page too; with "gte" at least so many
    timed_out   something was not looked at: hits may be missing, at the page's end or between
    verified    entries that were read because the index could not decide
    scanned     entries of the tail that were looked at
    """

    hits: list[Hit]
    total: int
    relation: Literal["eq", "gte"]
    timed_out: bool
    verified: int
    scanned: int
    odd_s: float  # to understand the query, and to read what the index cannot decide
