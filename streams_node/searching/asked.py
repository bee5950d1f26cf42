"""What is asked of a search, what comes of it, and what it took: plain values."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from search.engine import SortKey, SortValue
from search.language import Plan, Scorer
from streams_node.answers.ranges import Range
from streams_node.meaning import Meaning
from streams_node.schema.search_config import SearchConfig
from streams_node.searching.hits import Hit, Rank
from streams_node.wal.tails import LogEnd


class Asked(NamedTuple):
    """One page. `after` are the sort values of the last hit of the page before; `until` is of the monotonic clock.

    A search that is a part of another one has a share of its budget, and is told which hits are still of use.
    """

    plan: Plan
    meaning: Meaning
    config: SearchConfig
    keys: tuple[SortKey, ...]
    after: tuple[SortValue, ...] | None
    size: int
    until: float
    scan_bytes: int | None = None  # the node's bound by default
    useful: Callable[[Rank], bool] | None = None

    @property
    def late(self) -> bool:
        return time.monotonic() >= self.until


@dataclass(slots=True)
class Work:
    """What a search did; times are seconds."""

    indexed: int = 0  # covers that were searched
    indexed_s: float = 0.0
    open_s: float = 0.0  # to fetch and to open what they lie in
    decode_s: float = 0.0
    scanned: int = 0  # sealed objects whose entries were looked at
    scanned_s: float = 0.0
    scan_s: float = 0.0  # to look through what no companion covers: what is sealed and what is not
    tail_docs: int = 0
    tail_s: float = 0.0
    prune_s: float = 0.0
    candidates: int = 0
    parsed: int = 0
    parse_s: float = 0.0
    bytes: int = 0
    sort_s: float = 0.0
    held_max: int = 0
    waited_s: float = 0.0  # for a turn
    records_s: float = 0.0  # to fetch what is shown
    opened: int = 0  # index objects
    pruned: int = 0  # entries that an exact index has ruled out
    looked: int = 0  # entries outside of companions that were looked at, or ruled out
    families: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Found:
    """A page, and what of the stream nobody looked at. `logged` entries are in the log."""

    hits: Sequence[Hit]
    first: int
    tail: LogEnd
    omitted: list[Range]
    timed_out: bool
    logged: list[Range]
    work: Work
    score: Scorer  # of records of hits that have none yet
    last: Hit | None = None  # where the next page begins, when this one is full, even if its record could not be had
    omitted_objects: int = 0
    oldest_omitted_us: int | None = None
    primary_ns_max: int | None = None
