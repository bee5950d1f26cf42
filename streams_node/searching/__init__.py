"""Searches of streams: a page of hits, and what it rests on.

Owns     whose turn it is, what a search may cost, and what became of what it could not look at.
Pulls    companions of a stream as one view, and everything else of it from the log and from sealed objects.
Hands on to the edge: hits in their order, their records, and the coverage of the answer.
Keeps    a page has what the plain evaluator finds among the entries that its coverage claims: what did not fit the
         budget, or could not be read, is counted and never silently missing. What is acknowledged when a search begins
         is in it. No entry below the earliest retained one is shown.
Dies     holds nothing that is not stored elsewhere.

    searches = Searches(database, settings)                             # one a node
    found = await searches.search(cold, indexes, state, asked)

`asked.py` says what goes in and comes out, `hits.py` keeps the best, `paged.py` asks a view, on the loop if it is short
as `short.py` knows, `sieve.py` and `scan.py` look through entries, `turns.py` says who is next, `answer.py` puts an
answer together.
"""

from streams_node.searching.asked import Asked, Found, Work
from streams_node.searching.hits import Hit
from streams_node.searching.service import Searches

__all__ = ["Asked", "Found", "Hit", "Searches", "Work"]
