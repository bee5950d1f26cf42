"""Snippets of a record: where the words of a query are in its texts.

Keeps    what is marked is what matched, by the analyser itself, whether a hit came from an index or from a scan.
         Marks are places in the snippet, in characters: nobody has to escape anything.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from search.language import AllOf, AnyOf, Plan, Target, Text, raw_values, words
from streams_node.schema.search_config import Kind

CHARS = 160  # of a snippet, about
SNIPPETS = 3  # of a field
_TEXT_CHARS_MAX = 100_000  # of one value are looked at


class Snippet(NamedTuple):
    text: str
    marks: list[tuple[int, int]]  # [start, end), in order


def highlight(
    plan: Plan, record: object, version: int, *, chars: int = CHARS, snippets: int = SNIPPETS
) -> dict[str, list[Snippet]]:
    """By field, in the order of its values; fields without a mark are left out. What is negated marks nothing."""
    found: dict[str, list[Snippet]] = {}
    targets: dict[str, list[tuple[Text, Target]]] = {}
    for clause in _positive(plan):
        for target in clause.targets:
            targets.setdefault(target.field.name, []).append((clause, target))
    for name, asked in targets.items():
        for value in raw_values(asked[0][1].field, version)(record):
            if isinstance(value, str) and len(found.get(name, ())) < snippets:
                marks = _merged([mark for clause, target in asked for mark in _marks(clause, target, value)])
                made = _snippets(value, marks, chars)
                if made:
                    found.setdefault(name, []).extend(made[: snippets - len(found.get(name, ()))])
    return found


def _positive(plan: Plan) -> Iterator[Text]:
    if isinstance(plan, Text):
        yield plan
    elif isinstance(plan, AllOf | AnyOf):
        for part in plan.parts:
            yield from _positive(part)


def _marks(clause: Text, target: Target, value: str) -> list[tuple[int, int]]:
    """The places of the words that match; of a phrase those that stand side by side."""
    if target.field.kind is Kind.KEYWORD:
        (term,) = target.tokens
        own = value.lower() if target.field.lowercase else value
        return [(0, len(value))] if (own.startswith(term) if clause.prefix else own == term) else []
    tokens, last = target.tokens, len(target.tokens) - 1
    places = list(_places(value[:_TEXT_CHARS_MAX]))

    def fits(word: str, index: int) -> bool:
        return word.startswith(tokens[index]) if clause.prefix and index == last else word == tokens[index]

    if not clause.phrase:
        return [place for word, place in places if any(fits(word, index) for index in range(len(tokens)))]
    starts = range(len(places) - last)
    found = [at for at in starts if all(fits(places[at + index][0], index) for index in range(len(tokens)))]
    return [(places[at][1][0], places[at + last][1][1]) for at in found]


def _places(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """The words of a text, and where they are in it: lower case may be longer than what was written."""
    lowered = text.lower()
    same = len(lowered) == len(text)
    origins: Sequence[int] = range(len(text)) if same else [at for at, c in enumerate(text) for _ in c.lower()]
    at = 0
    for word in words(text):
        at = lowered.index(word, at)
        yield word, (origins[at], origins[at + len(word) - 1] + 1)
        at += len(word)


def _merged(marks: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, end in sorted(marks):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _snippets(text: str, marks: Sequence[tuple[int, int]], chars: int) -> list[Snippet]:
    """Pieces of the text with marks that are close together, begun and ended between words."""
    found: list[Snippet] = []
    at = 0
    while at < len(marks):
        start = _back(text, max(0, marks[at][0] - chars // 4), marks[at][0])
        end = _forth(text, max(marks[at][1], min(len(text), start + chars)))
        inside = [mark for mark in marks[at:] if mark[1] <= end]
        found.append(Snippet(text[start:end], [(first - start, last - start) for first, last in inside]))
        at += len(inside)
    return found


def _back(text: str, start: int, most: int) -> int:
    """A place not before `start` where a word begins."""
    while 0 < start < most and not text[start - 1].isspace():
        start += 1
    return start


def _forth(text: str, end: int) -> int:
    """A place not behind it, or only a little, where a word ends."""
    return next((at for at in range(end, min(len(text), end + 20)) if text[at].isspace()), min(len(text), end + 20))
