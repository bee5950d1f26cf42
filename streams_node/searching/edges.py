"""Finds the entries at the edges of an aggregation in companions, so that whole objects need not be looked through.

Keeps    what is named is all that may lie there: where the index does not decide, or names many, nothing is said, and
         the object is looked through.
"""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from search.engine import Ask, SortKey
from search.language import AllOf, AnyOf, Compare, Op
from search.language.dates import MS_NS
from streams_node.answers import Indexes
from streams_node.answers.ranges import Range, within
from streams_node.answers.runs import UNUSABLE
from streams_node.ingest.state import StreamState
from streams_node.observe.logs import get_logger
from streams_node.searching.aggregated import Asked
from streams_node.searching.scan import joined
from streams_node.searching.service import Searches

if TYPE_CHECKING:  # it loads tantivy
    from search.engine import Page, Searcher

log = get_logger(__name__)
_NAMED_MIN, _NAMED_MAX = 1000, 8192  # entries that are read by themselves: a few minutes of a busy stream,
_NAMED_BYTES = 4 << 20  # as long as they are about so large in all
NAMED_BYTES_MAX = 16 << 20  # that are read of them: there they may be much larger than elsewhere in the stream
_PLACES_MAX = 32  # in which they lie: each is a read of its own
_NEAR = 64  # entries between two that are read in one go
_OPENING_SHARE = 0.3  # of the time


async def named(
    searches: Searches, indexes: Indexes | None, state: StreamState, asked: Asked, config: str | None,
    spans: Sequence[Range], edges: Sequence[tuple[int, int]],
) -> dict[Range, list[int]]:  # fmt: skip
    """Of some spans, the entries that may lie at the edges; spans that nothing is known of are left out."""
    views = None if indexes is None else indexes.views
    if indexes is None or views is None or config is None or not spans or asked.late:
        return {}
    try:
        covers = [
            cover
            for cover in await indexes.covers(state.id, "companion", config)
            if within(spans, cover.first_seq, cover.end_seq)
        ]
        if not covers:
            return {}
        seconds = (asked.until - time.monotonic()) * _OPENING_SHARE
        async with views.view(covers, asked.config, asked.meaning.version, seconds) as (opened, ready):
            if opened is None:
                return {}
            held = joined([Range(cover.first_seq, cover.end_seq) for cover in ready])
            known = [span for span in spans if any(each.first <= span.first and span.end <= each.end for each in held)]
            most = int(_NAMED_BYTES * state.next_seq / max(1, state.position))
            most = max(_NAMED_MIN, min(_NAMED_MAX, most))
            seqs = await searches.run(_found, opened.searcher, state.id, asked, known, edges, most) if known else None
    except UNUSABLE as problem:
        log.info("companions were left aside", stream=state.id, error=repr(problem))
        return {}
    if seqs is None or _places(seqs) > _PLACES_MAX:
        return {}
    return {span: [seq for seq in seqs if span.first <= seq < span.end] for span in known}


def _found(
    searcher: "Searcher", stream: int, asked: Asked, spans: Sequence[Range], edges: Sequence[tuple[int, int]], most: int
) -> list[int] | None:
    """In a thread. None: they are many, or not known."""
    from search.engine import TimeOver  # noqa: PLC0415 - it loads tantivy

    doubted = False

    def records(_: Sequence[int]) -> Mapping[int, object]:
        nonlocal doubted
        doubted = True
        return {}

    field = asked.config.fields[asked.rollup.timestamp_field]
    ranges = [AllOf((Compare(field, Op.GE, begin * MS_NS), Compare(field, Op.LT, end * MS_NS))) for begin, end in edges]
    times = AnyOf(tuple(ranges))
    plan = times if asked.plan is None else AllOf((times, asked.plan))
    ask = Ask(
        plan=plan,
        stream=stream,
        spans=spans,
        sort=(SortKey("offset", descending=False),),
        records=records,
        size=most + 1,
        over=lambda: asked.late,
    )
    try:
        page: Page = searcher.page(ask)
    except TimeOver:
        return None
    if doubted or page.timed_out or len(page.hits) > most:
        return None
    return [hit.seq for hit in page.hits]


def _places(seqs: Sequence[int]) -> int:
    return sum(at == 0 or seq - seqs[at - 1] > _NEAR for at, seq in enumerate(seqs))
