"""What may be asked of a stream, and what comes of it: plain values."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from search.language import Plan
from streams_node.meaning import Meaning
from streams_node.schema.search_config import Field, SearchConfig
from streams_node.searching.basis import Basis
from streams_node.searching.tallies.parts import Buckets, Part, Spread, Sums

TOO_MANY = "the answer would have too many buckets; ask for less time or longer intervals"


@dataclass(frozen=True, slots=True)
class Terms:
    """The values that most entries have, and what is wanted of the entries of each."""

    field: Field
    size: int
    inside: "Mapping[str, Wanted]"


@dataclass(frozen=True, slots=True)
class DateHistogram:
    """Windows of time that have entries. They begin at multiples of the interval since 1970."""

    field: Field
    interval_ms: int
    inside: "Mapping[str, Wanted]"


@dataclass(frozen=True, slots=True)
class Stats:
    """Count, sum, least, greatest and average of the values."""

    field: Field


@dataclass(frozen=True, slots=True)
class Percentiles:
    field: Field
    percents: tuple[float, ...]


Wanted = Terms | DateHistogram | Stats | Percentiles


class Asked(NamedTuple):
    """`plan` says which entries, their times too; None: all. `until` is of the monotonic clock."""

    config: SearchConfig
    meaning: Meaning
    plan: Plan | None
    wanted: Mapping[str, Wanted]
    until: float

    @property
    def late(self) -> bool:
        return time.monotonic() >= self.until


@dataclass(slots=True, kw_only=True)
class Tallied(Basis):
    """`matched` entries are in it. `inexact` of them the index may have taken for others."""

    parts: Mapping[str, Part]
    matched: int
    inexact: int = 0


def nothing(wanted: Mapping[str, Wanted]) -> dict[str, Part]:
    """What is wanted of no entries at all."""
    return {name: _nothing(each) for name, each in wanted.items()}


def _nothing(wanted: Wanted) -> Part:
    if isinstance(wanted, Terms | DateHistogram):
        return Buckets()
    return Sums() if isinstance(wanted, Stats) else Spread()
