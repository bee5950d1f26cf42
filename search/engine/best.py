"""Documents of a view by score, best first: of one word, or where the order of adding does not change a score.

Mostly many documents score alike, and a page shows the newest of them. To have all that score so only to sort them may
take as long as the search itself, so they are looked for among the newest entries first, where companions are one after
another; or among the first by the other keys, where enough of them score so.
"""

import math
from bisect import bisect_left
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import tantivy

from indexers.companion import zones
from indexers.companion.layout import ROW
from search.engine.sorting import SortKey, SortValue
from search.engine.source import both, unscored
from search.engine.walk import WINDOW_MAX, Found, Walker

_Values = tuple[SortValue, ...]

_BEST_MIN = 64  # of these mostly all score alike
# Or, of a word that so many documents have, all that score so are among these: to look again takes longer then.
_MANY, _ALIKE_MIN = 1 << 16, 512
_COUNTED_MIN = 1024  # and of several words or a phrase, where another search costs more than more hits
_WHOLE_MAX = 2048  # documents: to have all of them takes no longer than to ask which of the best come first
_TIED_MIN, _TIED_SHARE = 48, 16  # documents, of a window, whose scores are looked at; so many have to be of use
_MARGIN = 2  # times as many entries are looked at as would have a page
# What a document takes among some blocks, beside one of a whole list; and how many others of those take as much as one.
_AMONG, _EACH = 5, 4
_SCATTERED = 8  # times as many documents between some rows as there are rows


class _Window(NamedTuple):
    """Documents of a score, behind `at` others that score better, and whether there may be more behind these."""

    alike: list[Found]
    at: int
    more: bool


class Best(Walker):
    """Walks by score."""

    def best(
        self, query: tantivy.Query, keys: Sequence[SortKey], after: _Values | None, *, count: bool
    ) -> Iterator[_Values]:
        """As `walk`, where a document has the same score whatever else is asked for beside it."""
        if after is not None and after[0] is None:
            after = None  # null comes first
        least = _COUNTED_MIN if count else _ALIKE_MIN if self._effort > _MANY else _BEST_MIN
        size, at, done = max(self._window, least), 0, math.inf
        if self._most <= _WHOLE_MAX:
            size = self._most + 1
        while True:
            found = self._scored(query, size, at, count=count)  # all before them score better than `done`
            last = found[-1][0] if len(found) == size else -math.inf  # others may score so, too
            yield from self._grouped([[each for each in found if last < each[0] < done]], keys, after)
            if len(found) < size:
                return
            if last == done and size >= WINDOW_MAX:
                at = self._passed(query, last, at + size, count=count)
                continue
            if last < done:
                at += sum(1 for each in found if each[0] > last)
                if after is None or float(after[0] or 0.0) >= last:
                    inner = after[1:] if after is not None and after[0] == last else None
                    known = _Window([each for each in found if each[0] == last], at, more=True)
                    yield from ((last, *row) for row in self._alike(query, last, keys[1:], inner, known))
                done = last
            size = min(WINDOW_MAX, size * 4)

    def _passed(self, query: tantivy.Query, score: float, least: int, *, count: bool) -> int:
        """How many documents score so or better: more than `least`, and not to be held all."""

        def worse(number: int) -> int:
            found = self._scored(query, 1, number, count=count)
            return int(not found or found[0][0] < score)

        most = 2 * least
        while not worse(most):
            least, most = most, 2 * most
        return bisect_left(range(most), 1, least, key=worse)

    def _alike(
        self, query: tantivy.Query, score: float, keys: Sequence[SortKey], after: _Values | None, known: _Window
    ) -> Iterator[_Values]:
        """The documents of a score, of which some are known: the first ones that Tantivy comes by."""
        field, docs = keys[0].field, self._source.docs
        first, last = (self._source.place_of(known.alike[at][1]) for at in (0, -1))
        share = len(known.alike) / (last - first + 1)  # of all documents between the first and the last of them

        def walk(walker: Best, part: tantivy.Query, after: _Values | None) -> Iterator[_Values]:
            window = known if walker is self else walker.window(part, score, _ALIKE_MIN)
            low, high = walker._bounds
            expected = min(walker._most, int(_MARGIN * share * min(docs, high - low + 1)))
            return walker.of_score(part, score, keys, after, window, expected)

        wanted = int(_MARGIN * (self._size + 1) / share)
        is_short = wanted * (_AMONG * self._effort + docs // _EACH) <= self._effort * docs
        is_full = field is None or self._source.full(self._source.layout.of(field.name))
        if is_short and is_full:
            return self._newest_first(query, keys[0], after, wanted, walk)
        return walk(self, query, after)

    def window(self, query: tantivy.Query, score: float, size: int, at: int = 0) -> _Window:
        found = self._scored(query, size, at, count=False)
        more = len(found) == size and found[-1][0] >= score
        before = sum(1 for each in found if each[0] > score)
        return _Window([each for each in found if each[0] == score], at + before, more)

    def of_score(
        self, query: tantivy.Query, score: float, keys: Sequence[SortKey], after: _Values | None, known: _Window,
        expected: int,
    ) -> Iterator[_Values]:  # fmt: skip
        """As `_alike`, all at once. About so many are `expected`."""
        if known.more and self._most > _WHOLE_MAX >= expected:
            known = self.window(query, score, max(_ALIKE_MIN, expected), known.at)
        if known.more and self._most > _WHOLE_MAX:
            after, more = yield from self._tied(query, score, keys, after)
            if not more:
                return
        size = _WHOLE_MAX
        while known.more:
            known = self.window(query, score, size, known.at)
            size *= 4
        place = None if after is None else (score, *after)
        for _, *row in self._grouped([known.alike], (SortKey("score"), *keys), place):
            yield tuple(row)

    def _tied(
        self, query: tantivy.Query, score: float, keys: Sequence[SortKey], after: _Values | None
    ) -> Generator[_Values, None, tuple[_Values | None, bool]]:
        """The documents that score so, as far as these are not rare: up to where, and whether there may be more."""
        rows, count = self.walk(query, keys, after), _TIED_MIN
        while chunk := list(islice(rows, count)):
            scores = self._scores(query, [int(row[-1] or 0) for row in chunk])
            if scores is None:
                return after, True
            kept = [row for row in chunk if scores[int(row[-1] or 0)] == score]
            yield from kept
            after = chunk[-1]
            if len(kept) * _TIED_SHARE < len(chunk):
                return after, True
            count = min(WINDOW_MAX, count * 4)
        return after, False

    def _scores(self, query: tantivy.Query, seqs: Sequence[int]) -> Mapping[int, float] | None:
        """The scores of documents, by their seqs; None when too many others lie between them.

        By whole blocks that takes little, unless very many others are in these: then a range has to be looked for.
        """
        low, high = min(seqs), max(seqs)
        rows = zones.last_of(high) - zones.first_of(low) + 1
        size = max(_ALIKE_MIN, _MARGIN * self._most * rows // self._source.docs)
        found = None
        if size <= _WHOLE_MAX:
            found = self._scored(both(unscored(self._source.blocks_query(low, high)), query), size, count=False)
        if found is None or len(found) == size:
            size = _SCATTERED * len(seqs)
            found = self._scored(both(unscored(self._source.rows_query(low, high)), query), size, count=False)
            if len(found) == size:
                return None
        among = self._source.values(ROW, [address for _, address in found])
        return {int(seq): score for seq, (score, _) in zip(among, found, strict=True)}
