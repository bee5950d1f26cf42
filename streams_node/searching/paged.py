"""A page of a view: looked for on the loop, in a thread, or in a turn of what takes long."""

import math
import time
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from search.engine import Ask, NotSoon, Page
from search.language import Scorer, has_text, shape
from streams_node.answers.ranges import Range
from streams_node.searching.asked import Asked
from streams_node.searching.place import Fetch, Place
from streams_node.searching.short import GIVEN_UP_S

if TYPE_CHECKING:
    from search.engine import Searcher  # loads tantivy
    from streams_node.searching.service import Searches

_LONG = 1 << 18  # documents that are looked at for a page: some two milliseconds
_PARTS_MAX = 32  # of a query: to know more of a longer one takes the loop too long


class Paging:
    """The best hits of a view, or of `first`, a view of the newest of it with these spans, if those are enough."""

    def __init__(
        self, searches: "Searches", searcher: "Searcher", first: "tuple[Searcher, list[Range]] | None" = None
    ) -> None:
        self._searches = searches
        self._searcher = searcher
        self._first = first
        self._views = (searcher,) if first is None else (searcher, first[0])
        self.score: Scorer | None = None  # of its records, if the query has text
        self.waited_s = 0.0  # for a turn of what takes long
        self._effort = 0

    async def page(self, stream: int, asked: Asked, spans: Sequence[Range], fetch: Fetch) -> Page:
        """Of the entries of some spans."""
        with Place(asked.until, fetch) as place:
            ask = Ask(
                plan=asked.plan, stream=stream, spans=spans, sort=asked.keys, records=place.records,
                after=asked.after, size=asked.size, over=place.over, soon=True,
            )  # fmt: skip
            page = await self._soon(ask, place)
            if page is not None:
                return page
            work = partial(self._page, replace(ask, soon=False))
            found, self.waited_s = await self._searches.run_long(stream, asked.until, self._effort, work)
            return found

    async def _soon(self, ask: Ask, place: Place) -> Page | None:
        """None if it takes long."""
        searches, effort = self._searches, None
        alike = self._alike(ask)
        if alike is not None and all(searches.short.knows(view, alike) for view in self._views):
            effort = self._effort = self._searcher.effort(ask)
            if effort > _LONG:
                return None
            page = await self._at_once(ask, place, (alike, effort.bit_length()))
            if page is not None:
                return page
        self._effort, page = await searches.run(place.busy.at, self._looked, replace(ask, soon=False), effort)
        searches.long_turns.others(place.busy.seconds)
        if page is not None and alike is not None and not page.timed_out:
            searches.short.took((alike, self._effort.bit_length()), math.inf if page.verified else place.busy.spent_s)
            for view in self._views:
                searches.short.knew(view, alike)
        return page

    def _alike(self, ask: Ask) -> Hashable:
        """What those have in common that take about the same; None if nobody knows."""
        shaped = shape(ask.plan, _PARTS_MAX)
        if shaped is None or not self._searcher.may_be_soon(ask.plan):
            return None
        return ask.stream, shaped, hash(ask.sort), ask.after is None, ask.size.bit_length()

    async def _at_once(self, ask: Ask, place: Place, kind: Hashable) -> Page | None:
        """On the loop, if it is short; None if that was not the place for it."""
        short = self._searches.short
        if not short.is_short(kind):
            return None
        await short.room(kind)
        began, until = time.monotonic(), place.until
        place.until = min(until, began + GIVEN_UP_S)
        try:
            page = self._page(ask, self._first)
        except NotSoon:  # a thread will tell how long it takes
            return None
        finally:
            place.until = until
        seconds = time.monotonic() - began
        self._searches.long_turns.others(seconds)
        if page.timed_out and seconds < GIVEN_UP_S:  # it may have had no time at all, so nothing is learnt of it
            return None
        short.took(kind, seconds)
        return None if page.timed_out else page

    # --- wherever it is ---

    def _looked(self, ask: Ask, effort: int | None) -> tuple[int, Page | None]:
        """And about how many documents are looked at for it; no page if these are very many."""
        effort = self._searcher.effort(ask) if effort is None else effort
        return effort, self._page(ask, self._first) if effort <= _LONG else None

    def _page(self, ask: Ask, first: "tuple[Searcher, list[Range]] | None" = None) -> Page:
        if has_text(ask.plan):
            self.score = self._searcher.scorer(ask.plan)
        if first is not None:
            page = first[0].page(replace(ask, spans=first[1]))
            if len(page.hits) == ask.size or page.timed_out:
                return page
        return self._searcher.page(ask)
