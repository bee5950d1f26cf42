"""Scores of records that are read, by the statistics of the view: as Tantivy scores its documents.

A record's score: the clauses about text that match, added; of a clause the best of the targets that match. A target's
score is its boost times the sum over its words of

    idf * 2.2 * n / (n + 1.2 * (0.25 + 0.75 * length / average))        idf = ln(1 + (docs - df + 0.5) / (df + 0.5))

with n the word's occurrences in all values of the field, and `length` the words in them, rounded down to what Tantivy
keeps in a byte. A phrase scores as one word that occurs as often as it does, with the sum of its words' idf; one that
ends in the beginning of a word, as its words do. Such a beginning scores 1, and a keyword its idf. `docs`, `df` and
`average` are those of all documents of the view, of trimmed entries and of other streams too; the tail does not change
them. Without a view they are those of the tail.
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Protocol

from search.language import AllOf, AnyOf, NotOf, Plan, Target, Text, has_text, matcher, raw_values, values, words
from search.language.plan import fields
from streams_node.schema.search_config import Field, Kind

K1, B = 1.2, 0.75
Score = Callable[[object], float | None]


def _lengths() -> list[int]:
    """The lengths that Tantivy can keep: all to 40, then eight of each step, which doubles."""
    found, step = list(range(41)), 2
    while len(found) < 256:  # noqa: PLR2004 - a byte
        found += [found[-1] + step * at for at in range(1, 9)]
        step *= 2
    return found[:256]


_LENGTHS = _lengths()


def kept(length: int) -> int:
    return _LENGTHS[bisect_right(_LENGTHS, length) - 1]


class Statistics(Protocol):
    @property
    def counted(self) -> int: ...

    def frequency(self, field: Field, token: str) -> int: ...

    def average(self, field: Field) -> float: ...


class OfRecords:
    """The statistics of some records."""

    def __init__(self, records: Sequence[object], plan: Plan, version: int) -> None:
        self.counted = len(records)
        self._frequencies: dict[str, Counter[str]] = {}
        self._totals: dict[str, int] = {}
        for field in fields(plan):
            if field.kind in {Kind.TEXT, Kind.KEYWORD}:
                tokens = _tokens(field, version)
                found = [tokens(record) for record in records]
                self._frequencies[field.name] = Counter(chain.from_iterable(map(set, found)))
                self._totals[field.name] = sum(map(len, found))

    def frequency(self, field: Field, token: str) -> int:
        return self._frequencies[field.name][token]

    def average(self, field: Field) -> float:
        return self._totals[field.name] / self.counted if self.counted else 0.0


def idf(statistics: Statistics, field: Field, token: str) -> float:
    found = statistics.frequency(field, token)
    return math.log(1 + (statistics.counted - found + 0.5) / (found + 0.5))


def bm25(plan: Plan, version: int, statistics: Statistics) -> Score:
    """The function from a record to its score; None when it does not match."""
    if not has_text(plan) or isinstance(plan, NotOf):
        matches = matcher(plan, version)
        return lambda record: 0.0 if matches(record) else None
    if isinstance(plan, Text):
        found = [_target(plan, target, version, statistics) for target in plan.targets]
        if len(found) == 1:
            return found[0]
        return lambda record: max((each for each in [part(record) for part in found] if each is not None), default=None)
    assert isinstance(plan, AllOf | AnyOf)  # noqa: S101 - no other plan has text
    parts = [bm25(part, version, statistics) for part in plan.parts]
    return _added(parts, len(parts) if isinstance(plan, AllOf) else 1)


def _added(parts: Sequence[Score], least: int) -> Score:
    def score(record: object) -> float | None:
        found = [each for each in [part(record) for part in parts] if each is not None]
        return sum(found) if len(found) >= least else None

    return score


def _target(clause: Text, target: Target, version: int, statistics: Statistics) -> Score:
    matches = matcher(Text((target,), clause.phrase, clause.prefix), version)
    exact = target.tokens[:-1] if clause.prefix else target.tokens
    weights = [(token, idf(statistics, target.field, token)) for token in exact]
    base = 1.0 if clause.prefix else 0.0
    if target.field.kind is Kind.KEYWORD:
        fixed = target.boost * (base + sum(weight for _, weight in weights))
        return lambda record: fixed if matches(record) else None
    if len(target.tokens) == 1 and not clause.prefix:
        return WordScore(target, version, statistics)
    tokens, average = _tokens(target.field, version), statistics.average(target.field)
    if clause.phrase and not clause.prefix:
        return _phrase(target, sum(weight for _, weight in weights), version, average)

    def score(record: object) -> float | None:
        if not matches(record):
            return None
        found = tokens(record)
        norm, total = _norm(len(found), average), base
        for token, weight in weights:
            count = found.count(token)
            if not count:
                return None
            total += weight * (1 + K1) * count / (count + norm)
        return total * target.boost

    return score


def _phrase(target: Target, weight: float, version: int, average: float) -> Score:
    read, wanted = values(target.field, version), list(target.tokens)

    def score(record: object) -> float | None:
        said = [words(str(value)) for value in read(record)]
        count = sum(text[at : at + len(wanted)] == wanted for text in said for at in range(len(text) - len(wanted) + 1))
        if not count:
            return None
        norm = _norm(sum(map(len, said)), average)
        return weight * (1 + K1) * count / (count + norm) * target.boost

    return score


class WordScore:
    """The score of one word in a text: of a record, or by what `spoken` says of one."""

    def __init__(self, target: Target, version: int, statistics: Statistics) -> None:
        (self.token,) = target.tokens
        self.field, self._boost = target.field, target.boost
        self._weight, self._average = idf(statistics, self.field, self.token), statistics.average(self.field)
        self._may_hold, self._tokens = _may_hold(self.field, version, self.token), _tokens(self.field, version)

    def __call__(self, record: object) -> float | None:
        if not self._may_hold(record):
            return None
        found = self._tokens(record)
        return self.of(found.count(self.token), len(found))

    def of(self, count: int, length: int) -> float | None:
        """Of a text with so many of this word, and of all words."""
        if not count:
            return None
        return self._weight * (1 + K1) * count / (count + _norm(length, self._average)) * self._boost


def spoken(field: Field, version: int) -> Callable[[object], tuple[str, int]]:
    """A record's words in a field, each between two spaces of its own; and how many they are."""
    tokens = _tokens(field, version)

    def said(record: object) -> tuple[str, int]:
        found = tokens(record)
        return f" {'  '.join(found)} ", len(found)

    return said


def _norm(length: int, average: float) -> float:
    return K1 * (1 - B + B * (kept(length) / average if average else 1.0))


def _may_hold(field: Field, version: int, token: str) -> Callable[[object], bool]:
    """Whether a word is in the text of a field at all, perhaps within another word."""
    read = raw_values(field, version)
    return lambda record: any(value.__class__ is str and token in value.lower() for value in read(record))


def _tokens(field: Field, version: int) -> Callable[[object], list[str]]:
    read = values(field, version)
    if field.kind is Kind.KEYWORD:
        return lambda record: [str(value) for value in read(record)]
    return lambda record: [word for value in read(record) for word in words(str(value))]
