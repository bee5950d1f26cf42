"""Looks through parsed entries for hits, in a thread."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from search.engine.bm25 import WordScore
from search.engine.sorting import place_of
from search.language import Compare, Matcher, Op, Plan, Prefix, Scorer, Text, matcher, necessary
from streams_node.answers.ranges import Range
from streams_node.schema.search_config import Kind
from streams_node.searching.hits import Hit, values_of
from streams_node.searching.recent import Piece
from streams_node.searching.sieve import Wanted

_AT_ONCE = 64  # entries between two looks at the clock
_UNLEARNT_MAX = 32 << 10  # bytes of entries whose values are learnt on the event loop: 0.1 ms
_EQUALS_MAX = 2  # keywords whose values are looked up: a third one seldom rules out more


class Looked:
    """What was looked at, in no order, and the bytes of that."""

    def __init__(self) -> None:
        self.ranges: list[Range] = []
        self.bytes = 0

    def add(self, piece: Piece, part: Range) -> None:
        """A part of a piece."""
        self.ranges.append(part)
        whole = part.first == piece.first and part.end == piece.end
        some = () if whole else piece.texts[part.first - piece.first : part.end - piece.first]
        self.bytes += piece.text_bytes if whole else sum(map(len, some))


def look(pieces: Sequence[Piece], spans: Sequence[Range], wanted: Wanted, over: Callable[[], bool]) -> Looked:
    """Hand hits among the entries of the spans to the page in the making; the newest come first, if order allows."""
    looked, lead = Looked(), wanted.keys[0]
    by_offset, oldest_first = lead.by == "offset", lead.by == "offset" and not lead.descending
    judge, values, rank = _judge(wanted), values_of(wanted.keys, wanted.version), place_of(wanted.keys)
    candidates = _candidates(wanted)
    for piece, part in _parts(pieces, spans, oldest_first=oldest_first):
        if by_offset and settled(wanted, part, oldest_first=oldest_first):
            break
        at, places = part.first, candidates(piece)
        step = _AT_ONCE if len(places) > _AT_ONCE else len(piece.texts)
        while at < part.end and not over():
            end = min(part.end, at + step)
            some = places[bisect_left(places, at - piece.first) : bisect_left(places, end - piece.first)]
            for place, score in judge(piece, some):
                row = values(piece.records[place], piece.first + place, score or 0.0)
                wanted.top.take(Hit(rank(row), piece.first + place, score, row, piece.texts[place]))
            at = end
        looked.add(piece, Range(part.first, at))
        if at < part.end:
            break
    return looked


def ruled_out(pieces: Sequence[Piece], spans: Sequence[Range], wanted: Wanted) -> Looked | None:
    """What was looked at when no entry has a keyword's value that all hits have; None if that takes a closer look.

    On the event loop: as good as all that has to be known was learnt by a search before.
    """
    for each in _equals(wanted.plan)[:1]:
        parts = list(_parts(pieces, spans, oldest_first=True))
        if sum(piece.unlearnt(each.field, wanted.version) for piece, _ in parts) > _UNLEARNT_MAX:
            return None
        if any(piece.with_value(each.field, wanted.version, each.value) != () for piece, _ in parts):
            return None
        looked = Looked()
        for piece, part in parts:
            looked.add(piece, part)
        return looked
    return None


def _equals(plan: Plan) -> list[Compare]:
    """Values of keywords that every match has."""
    return [
        part
        for part in necessary(plan)
        if isinstance(part, Compare) and part.op is Op.EQ and part.field.kind is Kind.KEYWORD
    ]


def _candidates(wanted: Wanted) -> Callable[[Piece], Sequence[int]]:
    """The function from a piece to the places of those that may match, in order."""
    equal, version = _equals(wanted.plan)[:_EQUALS_MAX], wanted.version
    word = None if _counts_words(wanted) else word_of(wanted.plan)

    def candidates(piece: Piece) -> Sequence[int]:
        known = [places for each in equal if (places := piece.with_value(each.field, version, each.value)) is not None]
        if known:
            return min(known, key=len)
        return range(len(piece.texts)) if word is None else piece.may_hold(word)

    return candidates


_Judge = Callable[[Piece, Sequence[int]], Iterator[tuple[int, float | None]]]


def _judge(wanted: Wanted) -> _Judge:
    """The function from a piece, and places in it, to those that match, with their scores if these are wanted."""
    plan, score, place = wanted.plan, wanted.score, place_of(wanted.keys[:1])
    by_score = wanted.keys[0].by == "score"

    def beyond(found: float | None) -> bool:
        return by_score and wanted.top.beyond(place((found or 0.0,)))

    if not any(key.by == "score" for key in wanted.keys):
        return _matching(matcher(plan, wanted.version))
    if isinstance(score, WordScore) and _counts_words(wanted):
        return _by_word(score, wanted.version, beyond)
    if isinstance(plan, Text) and not plan.phrase:  # to score it is as quick as to tell that it matches
        return _scored(None, score, beyond)
    return _scored(matcher(plan, wanted.version), score, beyond)


def _counts_words(wanted: Wanted) -> bool:
    """Whether to score is to count one word, in what is known of all texts: nothing need be passed over before."""
    return isinstance(wanted.score, WordScore) and any(key.by == "score" for key in wanted.keys)


def _matching(matches: Matcher) -> _Judge:
    def judge(piece: Piece, places: Sequence[int]) -> Iterator[tuple[int, None]]:
        return ((at, None) for at in places if matches(piece.records[at]))

    return judge


def _scored(matches: Matcher | None, score: Scorer, beyond: Callable[[float | None], bool]) -> _Judge:
    def judge(piece: Piece, places: Sequence[int]) -> Iterator[tuple[int, float | None]]:
        for at in places:
            record = piece.records[at]
            if matches is None or matches(record):
                found = score(record)
                if (matches is not None or found is not None) and not beyond(found):
                    yield at, found

    return judge


def _by_word(score: WordScore, version: int, beyond: Callable[[float | None], bool]) -> _Judge:
    """Many texts are as long as others, and have the word as often: what is behind the page stays there."""
    needle, behind = f" {score.token} ", set[tuple[int, int]]()

    def judge(piece: Piece, places: Sequence[int]) -> Iterator[tuple[int, float | None]]:
        said = piece.spoken(score.field, version)
        for at in places:
            text, length = said[at]
            count = text.count(needle)
            if count and (count, length) not in behind:
                found = score.of(count, length)
                if beyond(found):
                    behind.add((count, length))
                else:
                    yield at, found

    return judge


def word_of(plan: Plan) -> bytes | None:
    """A text of ASCII that some string of every match has, in whatever case; the longest one, as it is the rarest."""
    found: list[str] = []
    for part in necessary(plan):
        if isinstance(part, Text) and all(target.field.kind is Kind.TEXT for target in part.targets):
            shared = set[str].intersection(*(set(target.tokens) for target in part.targets))
            found += [token for token in shared if token.isalnum()]
        elif isinstance(part, Compare) and part.op is Op.EQ and part.field.kind is Kind.KEYWORD:
            found.append(str(part.value).lower())
        elif isinstance(part, Prefix):
            found.append(part.prefix.lower())
    return max((text for text in found if text.isascii()), key=len, default="").encode() or None


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
