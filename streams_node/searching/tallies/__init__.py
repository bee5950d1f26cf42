"""Aggregations that no schema declares: terms, windows of time, sums and percentiles over aggregatable fields.

Owns     what is wanted, how parts of an answer add up, and what became of entries that could not be looked at.
Pulls    companions and minis of a stream as one view, in which Tantivy adds up; everything else of it parsed from
         memory, from the log and from sealed objects, entry by entry.
Hands on to the edge: a tree of buckets and numbers, and the coverage of the answer.
Keeps    every entry that the coverage claims is counted once, by the view or by itself. What an index holds only
         roughly is counted from its record. Percentiles are approximate as soon as the view says something.
Dies     holds nothing.

    tallies = Tallies(database, searches, scan_bytes_max)                # one a node
    tallied = await tallies.tally(cold, indexes, state, asked)

`wanted.py` says what may be asked, `parts.py` how parts of answers add up, `records.py` counts entries, `indexed.py`
asks the view, `service.py` puts an answer together.
"""

from streams_node.searching.tallies.service import Tallies
from streams_node.searching.tallies.wanted import Asked, DateHistogram, Percentiles, Stats, Tallied, Terms, Wanted

__all__ = ["Asked", "DateHistogram", "Percentiles", "Stats", "Tallied", "Tallies", "Terms", "Wanted"]
