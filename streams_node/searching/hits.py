"""The best hits of a search so far."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from search.engine import SortKey, SortValue
from search.language import values

_TEXT_BYTES_MAX = 1 << 14  # of a hit that is kept with its text: a larger one is read again if it is shown
PAGE_BYTES_MAX = 32 << 20  # of records; a page with more ends before its size is reached, and has a next one
_SPARE = 64  # hits above the size of a page, before the worst leave
Rank = tuple[Any, ...]  # what is shown first is smaller


@dataclass(slots=True)
class Hit:
    """An entry that matches; `values` are those of the sort keys, `text` is the entry as it is stored, if known."""

    rank: Rank
    seq: int
    score: float | None  # None: nobody asked for it yet
    values: tuple[SortValue, ...]
    text: bytes | None = None


class Top:
    """Keeps as many of the best hits behind a place as a page shows, each entry once."""

    def __init__(self, size: int, after: Rank | None) -> None:
        self.size = size
        self._after = after
        self._hits: dict[int, Hit] = {}
        self._worst: Rank | None = None  # of a page that is full already
        self._in_order = False  # all of them are
        self.held_max = 0

    def take(self, hit: Hit) -> None:
        if self._after is not None and hit.rank <= self._after:
            return
        if self._worst is not None and hit.rank > self._worst:
            return
        if hit.text is not None and len(hit.text) > _TEXT_BYTES_MAX:
            hit.text = None
        self._hits[hit.seq] = hit
        self._in_order = False
        self.held_max = max(self.held_max, len(self._hits))
        if len(self._hits) >= 2 * self.size + _SPARE:
            kept = self.best()
            self._hits = {hit.seq: hit for hit in kept}
            self._worst = kept[-1].rank

    def beyond(self, beginning: Rank) -> bool:
        """Whether hits whose places begin like that are behind a page that is full already."""
        return self._worst is not None and beginning > self._worst[: len(beginning)]

    def take_page(self, hits: Sequence[Hit]) -> None:
        """A page of hits in their order, behind the place."""
        if self._hits or len(hits) > self.size:
            for hit in hits:
                self.take(hit)
            return
        self._hits, self._in_order = {hit.seq: hit for hit in hits}, True
        self.held_max = max(self.held_max, len(self._hits))

    def last(self) -> Hit | None:
        """The last hit of the page, if there are enough for a page."""
        return self.best()[-1] if len(self._hits) >= self.size else None

    def best(self) -> list[Hit]:
        """The page."""
        if self._in_order:
            return list(self._hits.values())
        return sorted(self._hits.values(), key=lambda hit: hit.rank)[: self.size]


def values_of(keys: tuple[SortKey, ...], version: int) -> Callable[[object, int, float], tuple[SortValue, ...]]:
    """(record, sequence, score) -> a value for each sort key. Of several values of a field the first one counts."""
    gets = [None if key.field is None else values(key.field, version) for key in keys]

    def found(record: object, seq: int, score: float) -> tuple[SortValue, ...]:
        said: list[SortValue] = []
        for key, get in zip(keys, gets, strict=True):
            if get is not None:
                some = get(record)
                said.append(some[0] if some else None)
            else:
                said.append(score if key.by == "score" else seq)
        return tuple(said)

    return found
