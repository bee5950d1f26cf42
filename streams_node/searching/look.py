"""Looks through parsed entries for hits, in a thread."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from search.engine.sorting import place_of
from search.language import Plan, Text, matcher, necessary
from streams_node.answers.ranges import Range
from streams_node.schema.search_config import Kind
from streams_node.searching.hits import Hit, values_of
from streams_node.searching.recent import Piece
from streams_node.searching.sieve import Wanted

_AT_ONCE = 64  # entries between two looks at the clock


class Looked:
    """What was looked at, in no order, and the bytes of that."""

    def __init__(self) -> None:
        self.ranges: list[Range] = []
        self.bytes = 0


def look(pieces: Sequence[Piece], spans: Sequence[Range], wanted: Wanted, over: Callable[[], bool]) -> Looked:
    """Hand hits among the entries of the spans to the page in the making; the newest come first, if order allows."""
    looked, lead = Looked(), wanted.keys[0]
    by_offset, oldest_first = lead.by == "offset", lead.by == "offset" and not lead.descending
    matches = matcher(wanted.plan, wanted.version)
    scored = any(key.by == "score" for key in wanted.keys)
    by_score, plan = lead.by == "score", wanted.plan
    judged = scored and isinstance(plan, Text) and not plan.phrase  # to score it is as quick as to tell that it matches
    values, rank, first = values_of(wanted.keys, wanted.version), place_of(wanted.keys), place_of(wanted.keys[:1])
    word = word_of(plan)
    for piece, part in _parts(pieces, spans, oldest_first=oldest_first):
        if by_offset and settled(wanted, part, oldest_first=oldest_first):
            break
        at = part.first
        places = range(len(piece.texts)) if word is None else piece.may_hold(word)
        while at < part.end and not over():
            end = min(part.end, at + _AT_ONCE)
            for place in places[bisect_left(places, at - piece.first) : bisect_left(places, end - piece.first)]:
                seq, record = piece.first + place, piece.records[place]
                if judged or matches(record):
                    score = wanted.score(record) if scored else None
                    if (judged and score is None) or (by_score and wanted.top.beyond(first((score or 0.0,)))):
                        continue
                    row = values(record, seq, score or 0.0)
                    wanted.top.take(Hit(rank(row), seq, score, row, piece.texts[place]))
            at = end
        looked.ranges.append(Range(part.first, at))
        looked.bytes += sum(map(len, piece.texts[part.first - piece.first : at - piece.first]))
        if at < part.end:
            break
    return looked


def word_of(plan: Plan) -> bytes | None:
    """A word of ASCII that some text of every match has, in whatever case; the longest one, as it is the rarest."""
    found: list[str] = []
    for part in necessary(plan):
        if isinstance(part, Text) and all(target.field.kind is Kind.TEXT for target in part.targets):
            shared = set[str].intersection(*(set(target.tokens) for target in part.targets))
            found += [token for token in shared if token.isascii() and token.isalnum()]
    return max(found, key=len).encode() if found else None


def settled(wanted: Wanted, part: Range, *, oldest_first: bool) -> bool:
    """Whether all that is in a part, and further on, would be behind the page; in the order of offsets."""
    last = wanted.top.last()
    return last is not None and (last.seq < part.first if oldest_first else last.seq >= part.end)


def _parts(pieces: Sequence[Piece], spans: Sequence[Range], *, oldest_first: bool) -> Iterator[tuple[Piece, Range]]:
    for piece in pieces if oldest_first else reversed(pieces):
        for span in spans if oldest_first else reversed(spans):
            part = Range(max(span.first, piece.first), min(span.end, piece.end))
            if part.first < part.end:
                yield piece, part
