"""What a search does with entries that no companion covers: readers' threads evaluate them, wherever they lie."""

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from search.engine import SortKey
from search.engine.sorting import place_of
from search.language import Plan, Scorer, matcher
from streams_node.answers.ranges import Range
from streams_node.errors import LensError
from streams_node.read.filtered import Filtered
from streams_node.read.keyed import Chunk, Lenses, Pruner
from streams_node.searching.hits import Hit, Top, values_of


class Wanted(NamedTuple):
    """What a search is after. `version` is the schema's that entries are judged in."""

    plan: Plan
    version: int
    keys: tuple[SortKey, ...]
    top: Top
    score: Scorer


class Finder:
    """A sieve that shows nothing: it hands hits to the page in the making.

    Entries at and behind `end` are none of its business. One that cannot be promoted has no fields, as in an index.
    """

    key: str | None = None

    def __init__(self, wanted: Wanted, lenses: Lenses, pruner: Pruner, end: int) -> None:
        self.pruner = pruner
        self._top, self._score = wanted.top, wanted.score
        self._matches = matcher(wanted.plan, wanted.version)
        self._scored = any(key.by == "score" for key in wanted.keys)
        self._end = end
        self._values = values_of(wanted.keys, wanted.version)
        self._place = place_of(wanted.keys)
        self._found: tuple[object, float | None] = (None, None)
        self.parsed = 0
        self._sieve = Filtered(wanted.plan, self._judge, lenses=Lenient(lenses), raw=True)

    def matching(self, chunk: Chunk, count: int) -> Iterator[tuple[int, bytes | None]]:
        for at, text in self._sieve.matching(chunk, bisect_left(chunk.seqs, self._end, 0, count)):
            if text is not None:
                record, score = self._found
                seq = chunk.seqs[at]
                values = self._values(record, seq, score or 0.0)
                self._top.take(Hit(self._place(values), seq, score, values, text))
            yield at, None

    def _judge(self, record: object) -> bool:
        self.parsed += 1
        if not self._matches(record):
            return False
        self._found = record, self._score(record) if self._scored else None
        return True


class Lenient:
    """Lenses that give nothing instead of a failure."""

    def __init__(self, lenses: Lenses) -> None:
        self._lenses = lenses
        self.current_from = lenses.current_from

    def document(self, seq: int, text: bytes) -> Any:
        try:
            return self._lenses.document(seq, text)
        except LensError:
            return None

    def text(self, seq: int, document: Any) -> bytes:
        return self._lenses.text(seq, document)


class Picker:
    """A sieve that keeps the texts of certain entries."""

    key: str | None = None

    def __init__(self, pruner: Pruner, seqs: Sequence[int]) -> None:
        self.pruner = pruner
        self._seqs = seqs
        self.texts: dict[int, bytes] = {}

    def matching(self, chunk: Chunk, count: int) -> Iterator[tuple[int, bytes | None]]:
        for seq in self._seqs:
            at = bisect_left(chunk.seqs, seq, 0, count)
            if at < count and chunk.seqs[at] == seq:
                self.texts[seq] = chunk.data[chunk.begins[at] : chunk.ends[at]]
        yield from ()


class Spans:
    """A pruner of some spans only, and of what another one leaves of them."""

    def __init__(self, spans: Sequence[Range], inner: Pruner | None = None) -> None:
        self._spans = spans
        self._inner = inner
        self.pruned = 0  # entries that the other one has ruled out
        self.seconds = 0.0

    async def stretch(self, at: int, end: int) -> tuple[int, int]:
        for span in self._spans:
            first, stop = max(at, span.first), min(end, span.end)
            if first >= stop:
                continue
            if self._inner is None:
                return first, stop
            began = time.monotonic()
            start, until = await self._inner.stretch(first, stop)
            self.seconds += time.monotonic() - began
            self.pruned += min(start, stop) - first
            if start < until:
                return start, until
        return end, end
