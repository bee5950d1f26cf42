"""The search engine: one stream's pages of hits, from companions and from entries that are not indexed yet.

    plan --translate--> Tantivy query --walk--> candidates in order --verify--> hits <--scan-- tail

Owns     what a plan is as a query over a view, the order of hits, their scores, pages, and what is counted over them.
Pulls    views of companions, entries of the tail, and single records by seq, as its caller gives them. No I/O of its
         own but the views' files; no event loop: it runs in a thread, unless a page is wanted `soon`.
Hands on, from this package:

    open_views(packs, folder) -> views          one, or one each where Tantivy's files cannot be stitched
    Searcher(views, config, version)            .page(Ask) -> Page, .effort(Ask) -> documents, .may_be_soon(plan),
                                                .count(plan, stream, spans) -> (least, most),
                                                .aggregate(Tally) -> Tallied, .scorer(plan) -> record -> score or None
    sort_of(raw, plan, config) -> keys          the effective sort; SortError
    after_of(raw, keys, seq_of), shower(keys)(values, offset)           `search_after` and the `sort` of a hit as JSON
    build_mini(...) -> path                     a companion of entries that are not indexed yet
    highlight(plan, record, version) -> fields  snippets of what matched
    Terms, DateHistogram, Stats, Percentiles    what an aggregation may want

Keeps    a page has the hits that the evaluator finds among exactly the entries that were given, in their order; pages
         that go on after one another skip and repeat nothing, as long as the views are the same. No entry may be twice
         in the views, nor in a span and in the tail.
Dies     holds no state but what it reads off a view once.

What needs Tantivy or Arrow is imported when it is first asked for: a node without indexes starts without them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from search.engine.model import Ask, Entry, Hit, NotSoon, OneViewNeeded, Page, Records, Span
from search.engine.sorting import SortError, SortKey, SortValue, after_of, shower, sort_of

if TYPE_CHECKING:
    from search.engine.aggregate import AggregationTooLarge, DateHistogram, Percentiles, Stats, Tallied, Tally, Terms
    from search.engine.highlight import Snippet, highlight
    from search.engine.mini import build_mini
    from search.engine.search import Searcher, open_views
    from search.engine.walk import TimeOver

__all__ = [
    "AggregationTooLarge",
    "Ask",
    "DateHistogram",
    "Entry",
    "Hit",
    "NotSoon",
    "OneViewNeeded",
    "Page",
    "Percentiles",
    "Records",
    "Searcher",
    "Snippet",
    "SortError",
    "SortKey",
    "SortValue",
    "Span",
    "Stats",
    "Tallied",
    "Tally",
    "Terms",
    "TimeOver",
    "after_of",
    "build_mini",
    "highlight",
    "open_views",
    "shower",
    "sort_of",
]

_LATER = {
    "AggregationTooLarge": "search.engine.aggregate",
    "DateHistogram": "search.engine.aggregate",
    "Percentiles": "search.engine.aggregate",
    "Stats": "search.engine.aggregate",
    "Tallied": "search.engine.aggregate",
    "Tally": "search.engine.aggregate",
    "Terms": "search.engine.aggregate",
    "Snippet": "search.engine.highlight",
    "highlight": "search.engine.highlight",
    "build_mini": "search.engine.mini",
    "Searcher": "search.engine.search",
    "open_views": "search.engine.search",
    "TimeOver": "search.engine.walk",
}


def __getattr__(name: str) -> Any:
    """A public name of a module that has not been needed yet."""
    where = _LATER.get(name)
    if where is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(where), name)
    return found
