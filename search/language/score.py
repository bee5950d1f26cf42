"""How well a text matches: the function of the original, and the place for another one.

A TextScore gets one matching value at a time; a clause scores the best of its targets and values. BM25 is such a
function, closed over the document frequencies and the average length of a field: `match.target` says which field and
tokens, `match.counts` how often each token occurs, `match.length` how long the value is.
"""

from collections.abc import Callable
from dataclasses import dataclass

from search.language.plan import Target
from streams_node.schema.search_config import Kind

PHRASE_BONUS = 2  # for each token of a phrase


@dataclass(frozen=True, slots=True)
class TextMatch:
    target: Target
    phrase: bool
    counts: tuple[int, ...]  # a token: how often it occurs; for a prefix, how many words begin so
    text: str  # the value as `analysis.spaced` has it; of a keyword the value itself

    @property
    def length(self) -> int:
        """Words in the value."""
        return 1 if self.target.field.kind is Kind.KEYWORD else len(self.text.split())


TextScore = Callable[[TextMatch], float]


def count_score(match: TextMatch) -> float:
    """Occurrences and a bonus for phrases, times the boost; a keyword that matches scores its boost."""
    if match.target.field.kind is Kind.KEYWORD:
        return match.target.boost
    bonus = PHRASE_BONUS * len(match.counts) if match.phrase else 0
    return (sum(match.counts) + bonus) * match.target.boost
