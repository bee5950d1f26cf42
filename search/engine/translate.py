"""Plan -> Tantivy queries: what surely matches, and what may.

Keeps    lower ⊆ what the evaluator finds ⊆ upper, over the documents of the view; where they are the same query, the
         index decides alone. Negation swaps them, so nothing is lost below a NOT either.

A clause is not decided by the index where

    the document is inexact in the column       see indexers/companion: clamped numbers, terms that are too long or no
                                                Unicode, texts of several values (words may lie in different ones)
    a phrase, and no positions are indexed      candidates have all its words
    a phrase that ends in a prefix              Tantivy tries fifty words of that beginning: these match surely
    a prefix of more than PREFIX_CHARS_MAX      candidates begin with that much
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tantivy

from indexers.companion import ColumnsOf
from search.engine.source import MUST, NOT, Query, Source, both, fits, none_of, some, unscored, without
from search.language import AllOf, AnyOf, Compare, Exists, NotOf, Op, Plan, Prefix, Target, Text, clauses, has_text
from streams_node.schema.search_config import Field, Kind

_Q = tantivy.Query
PREFIX_CHARS_MAX = 100  # Tantivy's automata have at most 1000 states, and a character takes up to four
CLASSES_MAX = 32
_TERMS = {Kind.KEYWORD, Kind.BOOL}  # of whose values each has a list of its documents
_PLACES = 3  # times as long as at a document it takes to look at where its words are
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1


class Pair(NamedTuple):
    """Equal objects when the index decides."""

    lower: tantivy.Query
    upper: tantivy.Query

    @property
    def exact(self) -> bool:
        return self.lower is self.upper

    @property
    def doubt(self) -> tantivy.Query:
        return without(self.upper, self.lower)

    def within(self, some: tantivy.Query) -> "Pair":
        upper = both(some, self.upper)
        return Pair(upper if self.exact else both(some, self.lower), upper)


def sure(query: tantivy.Query) -> Pair:
    return Pair(query, query)


class Translator:
    """Queries over one view."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._schema = source.schema

    def pair(self, plan: Plan) -> Pair:
        match plan:
            case AllOf(parts):
                return self._all(parts)
            case AnyOf(parts):
                pairs = [self.pair(part) for part in parts]
                return _joined(pairs, some)
            case NotOf(part):
                inner = self.pair(part)
                upper = none_of(inner.lower)
                return sure(upper) if inner.exact else Pair(none_of(inner.upper), upper)
            case Text(targets, phrase, prefix):
                pairs = [self._target(target, phrase=phrase, prefix=prefix) for target in targets]
                return pairs[0] if len(pairs) == 1 else _joined(pairs, some)
            case Exists(field):
                columns = self._source.layout.of(field.name)
                return self._doubted(sure(self._source.layout.has_query(self._schema, field.name)), columns)
            case Prefix(field, prefix):
                return self._beginning(field, prefix)
            case Compare(field, op, value):
                return self._doubted(sure(self._compared(field, op, value)), self._source.layout.of(field.name))

    def _all(self, parts: Sequence[Plan]) -> Pair:
        """Negated parts become negated clauses: nothing is enumerated for them. Lists of documents are said first."""
        lower: list[tuple[tantivy.Occur, tantivy.Query]] = []
        upper: list[tuple[tantivy.Occur, tantivy.Query]] = []
        exact = True
        for part in sorted(parts, key=can_skip, reverse=True):
            negated = isinstance(part, NotOf)
            pair = self.pair(part.part) if isinstance(part, NotOf) else self.pair(part)
            exact = exact and pair.exact
            lower.append((NOT, pair.upper) if negated else (MUST, pair.lower))
            upper.append((NOT, pair.lower) if negated else (MUST, pair.upper))
        if all(isinstance(part, NotOf) for part in parts):
            lower.append((MUST, Query.all_query()))
            upper.append((MUST, Query.all_query()))
        found = Query.boolean_query(upper)
        return sure(found) if exact else Pair(Query.boolean_query(lower), found)

    def _doubted(self, pair: Pair, columns: ColumnsOf) -> Pair:
        """The same, but of inexact documents nothing is known."""
        if columns.field.name not in self._source.inexact:
            return pair
        inexact = self._source.inexact_query(columns)
        return Pair(without(pair.lower, inexact), some([pair.upper, inexact]))

    # --- values ---

    def _compared(self, field: Field, op: Op, value: Any) -> tantivy.Query:
        column = self._source.layout.of(field.name).column
        if field.kind is Kind.KEYWORD:
            return self._term(column, str(value), "basic")
        if field.kind is Kind.BOOL:
            return self._truth(column, op, value=bool(value))
        if field.kind is Kind.FLOAT:
            return self._range(column, tantivy.FieldType.Float, op, float(value))
        if not _INT_MIN <= value <= _INT_MAX:  # only inexact documents have such values
            holds = op in ({Op.LT, Op.LE} if value > 0 else {Op.GT, Op.GE})
            return Query.exists_query(column) if holds else Query.empty_query()
        return self._range(column, tantivy.FieldType.Integer, op, int(value))

    def _truth(self, column: str, op: Op, *, value: bool) -> tantivy.Query:
        holds: dict[Op, Callable[[bool], bool]] = {
            Op.EQ: lambda each: each == value,
            Op.GT: lambda each: each > value,
            Op.GE: lambda each: each >= value,
            Op.LT: lambda each: each < value,
            Op.LE: lambda each: each <= value,
        }
        terms = [Query.term_query(self._schema, column, each) for each in (False, True) if holds[op](each)]
        return some(terms) if terms else Query.empty_query()

    def _range(self, column: str, kind: tantivy.FieldType, op: Op, value: Any) -> tantivy.Query:
        if op is Op.EQ:
            return Query.range_query(self._schema, column, kind, value, value)
        if op in {Op.GT, Op.GE}:
            return Query.range_query(self._schema, column, kind, value, None, include_lower=op is Op.GE)
        return Query.range_query(self._schema, column, kind, None, value, include_upper=op is Op.LE)

    def _beginning(self, field: Field, prefix: str) -> Pair:
        columns = self._source.layout.of(field.name)
        return self._doubted(self._begins(columns.column, prefix), columns)

    def _begins(self, column: str, prefix: str) -> Pair:
        if not fits(prefix):
            return sure(Query.empty_query())
        found = Query.regex_query(self._schema, column, f"{_escaped(prefix[:PREFIX_CHARS_MAX])}(?s:.)*")
        return sure(found) if len(prefix) <= PREFIX_CHARS_MAX else Pair(Query.empty_query(), found)

    def _term(self, column: str, term: str, option: str) -> tantivy.Query:
        return Query.term_query(self._schema, column, term, option) if fits(term) else Query.empty_query()

    # --- text ---

    def _target(self, target: Target, *, phrase: bool, prefix: bool) -> Pair:
        columns = self._source.layout.of(target.field.name)
        if target.field.kind is Kind.KEYWORD:
            (term,) = target.tokens
            found = self._begins(columns.column, term) if prefix else sure(self._term(columns.column, term, "basic"))
            return self._doubted(found, columns)
        return self._doubted(self._words(columns, target.tokens, phrase=phrase, prefix=prefix), columns)

    def _words(self, columns: ColumnsOf, tokens: tuple[str, ...], *, phrase: bool, prefix: bool) -> Pair:
        column = columns.column
        last = self._begins(column, tokens[-1]) if prefix else sure(self._term(column, tokens[-1], "freq"))
        if len(tokens) == 1:
            return last
        terms = [self._term(column, token, "freq") for token in tokens[:-1]]
        every = _joined([*map(sure, terms), last], lambda parts: both(*parts))
        if not phrase:
            return every
        if not columns.field.positions:
            return Pair(Query.empty_query(), every.upper)
        if not prefix:
            return sure(Query.phrase_query(self._schema, column, list(tokens)))
        return Pair(Query.phrase_prefix_query(self._schema, column, list(tokens)), every.upper)

    # --- scores ---

    def scored(self, plan: Plan, idf: Callable[[Field, str], float]) -> tantivy.Query:
        """What may match, with its score; right where no clause is in doubt."""
        if not has_text(plan):
            return unscored(self.pair(plan).upper)
        match plan:
            case AllOf(parts):
                return both(*[self.scored(part, idf) for part in parts])
            case AnyOf(parts):
                return some([self.scored(part, idf) for part in parts])
            case Text(targets, phrase, prefix):
                found = [self._scored_target(each, idf, phrase=phrase, prefix=prefix) for each in targets]
                return found[0] if len(found) == 1 else Query.disjunction_max_query(found)
            case _:
                return unscored(self.pair(plan).upper)

    def word(self, plan: Plan) -> tuple[tantivy.Query, int] | None:
        """The query of one word in one text, with its score, and how many documents have it.

        Of such Tantivy finds the best without scoring all.
        """
        match plan:
            case Text((Target(field, 1, (token,)),), _, False) if field.kind is Kind.TEXT:
                if field.name not in self._source.inexact:
                    query = self._term(self._source.layout.of(field.name).column, token, "freq")
                    return query, self._source.frequency(field, token)
        return None

    def known(self, plan: Plan) -> int | None:
        """So many documents match, where the index knows without looking for them."""
        match plan:
            case AllOf(()):
                return self._source.docs
            case Compare(field, Op.EQ, value) if field.kind is Kind.KEYWORD and field.name not in self._source.inexact:
                return self._source.frequency(field, str(value))
        word = self.word(plan)
        return None if word is None else word[1]

    def most(self, plan: Plan) -> int:
        """So many documents match at most, as far as an index tells without looking for them."""
        match plan:
            case AllOf(parts):
                return min(map(self.most, parts), default=self._source.docs)
            case Text(targets, _, False) if not any(each.field.name in self._source.inexact for each in targets):
                return sum(self._least(each) for each in targets)
        known = self.known(plan)
        return self._source.docs if known is None else known

    def effort(self, plan: Plan) -> int:
        """About so many documents are looked at to find the best; of a phrase, also at where its words are."""
        match plan:
            case AllOf(parts):
                return min(map(self.effort, parts), default=self._source.docs)
            case AnyOf(parts):
                return sum(map(self.effort, parts))
            case Text(targets, phrase, False):
                return sum(self._target_effort(each, phrase=phrase) for each in targets)
        return self.most(plan)

    def _least(self, target: Target) -> int:
        return min(self._source.frequency(target.field, token) for token in target.tokens)

    def _target_effort(self, target: Target, *, phrase: bool) -> int:
        found = self._least(target)
        return found * _PLACES if phrase and len(target.tokens) > 1 else found

    def _scored_target(
        self, target: Target, idf: Callable[[Field, str], float], *, phrase: bool, prefix: bool
    ) -> tantivy.Query:
        column = self._source.layout.of(target.field.name).column
        exact = target.tokens[:-1] if prefix else target.tokens
        scores: list[tantivy.Query] = []
        if target.field.kind is Kind.KEYWORD:
            scores = [
                Query.const_score_query(self._term(column, token, "basic"), idf(target.field, token)) for token in exact
            ]
        else:
            scores = [self._term(column, token, "freq") for token in exact]
        if prefix:
            scores.append(Query.const_score_query(self._begins(column, target.tokens[-1]).upper, 1.0))
        if phrase and len(target.tokens) > 1:
            matches = self._target(target, phrase=True, prefix=prefix).upper
            scores = [unscored(matches), *scores] if prefix else [matches]
        whole = both(*scores) if len(scores) > 1 else scores[0]
        return Query.boost_query(whole, target.boost) if target.boost != 1 else whole

    def classes(self, plan: Plan, idf: Callable[[Field, str], float]) -> list[tuple[float, tantivy.Query]] | None:
        """Scores and who has them, when there are few: words are not counted in keywords and in beginnings of words.

        Right where no clause is in doubt. A beginning is mostly a wide one, and all that have it score alike: to sort
        them by what comes next is for an index to do.
        """
        if not has_text(plan) or isinstance(plan, NotOf):
            return [(0.0, self.pair(plan).upper)]
        if isinstance(plan, Text):
            return self._target_classes(plan, idf)
        assert isinstance(plan, AllOf | AnyOf)  # noqa: S101 - no other plan has text
        found: list[tuple[float, list[tantivy.Query]]] = [(0.0, [])]
        for part in plan.parts:
            inner = self.classes(part, idf)
            if inner is None or len(found) * (len(inner) + 1) > CLASSES_MAX:
                return None
            if isinstance(plan, AnyOf):
                inner.append((0.0, none_of(self.pair(part).upper)))
            found = [(total + score, [*held, query]) for total, held in found for score, query in inner]
        whole = self.pair(plan).upper
        return [(total, both(whole, *held)) for total, held in found]

    def _target_classes(
        self, clause: Text, idf: Callable[[Field, str], float]
    ) -> list[tuple[float, tantivy.Query]] | None:
        """The best target decides, so each has those that no better one has."""
        scores = []
        for target in clause.targets:
            keyword = target.field.kind is Kind.KEYWORD
            if not keyword and not (clause.prefix and len(target.tokens) == 1):
                return None
            score = idf(target.field, target.tokens[0]) if keyword and not clause.prefix else 1.0
            query = self._target(target, phrase=clause.phrase, prefix=clause.prefix).upper
            scores.append((score * target.boost, query))
        scores.sort(key=lambda each: -each[0])
        return [
            (score, without(query, some([better for _, better in scores[:at]])) if at else query)
            for at, (score, query) in enumerate(scores)
        ]

    def doubts(self, plan: Plan) -> list[tantivy.Query]:
        """Of each clause the documents of which the index does not know whether they match it."""
        if isinstance(plan, AllOf | AnyOf):
            return [each for part in plan.parts for each in self.doubts(part)]
        if isinstance(plan, NotOf):
            return self.doubts(plan.part)
        parts = [Text((each,), plan.phrase, plan.prefix) for each in plan.targets] if isinstance(plan, Text) else [plan]
        pairs = [self.pair(part) for part in parts]
        return [pair.doubt for pair in pairs if not pair.exact]


def addends(plan: Plan) -> int:
    """So many numbers are added for a score, at most."""
    match plan:
        case AllOf(parts) | AnyOf(parts):
            return sum(map(addends, parts))
        case Text(targets, phrase, prefix):
            return 1 if phrase and not prefix else max(len(target.tokens) for target in targets)
    return 0


def can_skip(plan: Plan) -> bool:
    """Whether each clause is a list of documents that is gone through, and not a column that is looked at from its
    beginning, or words that have to be gathered before.
    """
    return all(
        not clause.prefix if isinstance(clause, Text) else isinstance(clause, Compare) and clause.field.kind in _TERMS
        for clause in clauses(plan)
    )


def _joined(pairs: Sequence[Pair], join: Callable[[Sequence[tantivy.Query]], tantivy.Query]) -> Pair:
    upper = join([pair.upper for pair in pairs])
    return sure(upper) if all(pair.exact for pair in pairs) else Pair(join([pair.lower for pair in pairs]), upper)


def _escaped(text: str) -> str:
    """For Rust's regular expressions: what Python escapes beyond ASCII punctuation is an error there."""
    return "".join(f"\\u{{{ord(c):x}}}" if not (c.isascii() and c.isalnum()) else c for c in text)
