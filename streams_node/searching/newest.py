"""The newest companions of a stream, as a view of their own: what shows the newest hits first mostly needs no others.

It helps where a query has a beginning of a word: all documents of all words that begin so are gathered in every
companion of a view before the first hit is known. 3.4 -> 1.3 ms with a million entries; others gained nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

from search.language import Plan, Prefix, clauses
from streams_node.answers.ranges import Range
from streams_node.indexing import Covering

_ENTRIES_MIN = 1 << 10  # in fewer there are often not enough hits for a page
_SHARE = 3  # what a third of all companions cannot spare is not worth a second view


class Newest(NamedTuple):
    """Companions, and the entry from which on they are all that cover anything before some end."""

    covers: Sequence[Covering]
    first: int


def has_beginning(plan: Plan) -> bool:
    """Whether words that begin in some way have to be gathered."""
    return any(isinstance(each, Prefix) for each in clauses(plan))


def newest(covers: Sequence[Covering], spans: Sequence[Range]) -> Newest | None:
    """Those of the last entries of some spans; None if they are not few of all. Covers are in order."""
    end = spans[-1].end if spans else 0
    made, entries, first = set[str](), 0, end
    for cover in reversed(covers):
        if cover.first_seq >= end:
            continue
        if cover.made not in made and entries >= _ENTRIES_MIN:
            break
        made.add(cover.made)
        entries += min(end, cover.end_seq) - cover.first_seq
        first = cover.first_seq
    if not made or len(made) * _SHARE > len({cover.made for cover in covers}):
        return None
    return Newest([cover for cover in covers if cover.made in made], first)
