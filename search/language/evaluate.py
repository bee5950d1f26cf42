"""Plan -> functions that say whether a record matches, and how well.

    matches = matcher(plan, version)      record -> bool
    score = scorer(plan, version)         record -> float, or None when it does not match

Owns     the plain evaluator: what `filter` reads, the last chunk of a search, and the oracle of every index.
Keeps    a record is a parsed JSON document, already promoted to `version`; the binding is that version's. A record that
         is no object has no fields. Arrays are flattened, a clause matches when some value does, and two clauses on one
         field may be satisfied by different values. The functions hold no state that a second thread could disturb.

The plan is compiled once: each clause becomes a closure that reads one pointer. Clauses on the same field that stand
side by side share one extraction.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from search.language.analysis import needle, spaced
from search.language.plan import AllOf, AnyOf, Compare, Exists, NotOf, Plan, Prefix, Target, Text, has_text
from search.language.pointers import MISSING, Getter, flat, getter, segments
from search.language.score import TextMatch, TextScore, count_score
from search.language.syntax import Op
from search.language.values import Canonical, Canonicalizer, canonicalizer
from streams_node.schema.search_config import Field, Kind

Matcher = Callable[[object], bool]
Scorer = Callable[[object], float | None]
_Test = Callable[[Any], bool]
_ValueClause = Exists | Compare | Prefix

# The literal is the first argument: `value > 5` is `lt(5, value)`.
_TESTS: dict[Op, Callable[[Any, Any], bool]] = {
    Op.EQ: operator.eq,
    Op.GT: operator.lt,
    Op.GE: operator.le,
    Op.LT: operator.gt,
    Op.LE: operator.ge,
}


def matcher(plan: Plan, version: int) -> Matcher:
    return _Compiler(version).matcher(plan)


def scorer(plan: Plan, version: int, text_score: TextScore = count_score) -> Scorer:
    """AND and OR add the scores of their matching sides; everything but text scores 0."""
    return _Compiler(version).scorer(plan, text_score)


def values(field: Field, version: int) -> Callable[[object], list[Canonical]]:
    """All canonical values of a field in their order: for index builders, sorting (its first one), and rollups."""
    get, canonical = _getter(field, version), canonicalizer(field)

    def extract(record: object) -> list[Canonical]:
        return list(_canonical_values(get(record), canonical))

    return extract


def raw_values(field: Field, version: int) -> Callable[[object], list[Any]]:
    """All values of a field as the record has them, `null` and unreadable ones too: for showing hits."""
    pointer = field.pointer(version)
    get = getter(pointer, MISSING) if pointer is not None else lambda _: MISSING

    def extract(record: object) -> list[Any]:
        raw = get(record)
        if raw is MISSING:
            return []
        return list(flat(raw)) if raw.__class__ is list else [raw]

    return extract


def raw_fields(fields: Mapping[str, Field], version: int) -> Callable[[object], dict[str, Any]]:
    """By name what `raw_values` says, of those fields that a record has: a value, or a list of several."""
    pointers = [(name, pointer) for name, field in fields.items() if (pointer := field.pointer(version)) is not None]
    gets = [(name, getter(pointer, MISSING)) for name, pointer in pointers]
    members = [(name, path[0]) for name, pointer in pointers if len(path := segments(pointer)) == 1]

    def extract(record: object) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, get in gets:
            raw = _one(get(record))
            if raw is not MISSING:
                found[name] = raw
        return found

    def extract_members(record: object) -> dict[str, Any]:
        """The same where all pointers are to members of the record itself: a page has hundreds of them."""
        found: dict[str, Any] = {}
        if record.__class__ is dict:
            get = record.get
            for name, member in members:
                raw = get(member, MISSING)
                if raw.__class__ is list:
                    raw = _one(raw)
                if raw is not MISSING:
                    found[name] = raw
        return found

    return extract_members if len(members) == len(gets) else extract


def _one(raw: Any) -> Any:
    """A value, a list of several, or MISSING."""
    if raw.__class__ is list:
        some = list(flat(raw))
        return some[0] if len(some) == 1 else some or MISSING
    return raw


class _Compiler:
    """One compilation: the version, and what clauses on the same text share."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._views: dict[str, _TextView] = {}

    def matcher(self, plan: Plan) -> Matcher:
        match plan:
            case AllOf(parts):
                return _all(self._grouped(parts, _every))
            case AnyOf(parts):
                return _any(self._grouped(parts, _some))
            case NotOf(part):
                inner = self.matcher(part)
                return lambda record: not inner(record)
            case Text():
                return _any([self._text_matcher(plan, target) for target in plan.targets])
            case _:
                return _value_matcher(plan.field, self._version, _test(plan))

    def scorer(self, plan: Plan, text_score: TextScore) -> Scorer:
        if not has_text(plan):
            return self._unscored(plan)
        match plan:
            case AllOf(parts):
                return self._scored_all(parts, text_score)
            case AnyOf(parts):
                return _sum_any([self.scorer(part, text_score) for part in parts])
            case Text():
                return _best([self._text_scorer(plan, target, text_score) for target in plan.targets])
            case _:
                return self._unscored(plan)

    def _scored_all(self, parts: Sequence[Plan], text_score: TextScore) -> Scorer:
        """What scores nothing decides first: it costs less than a text."""
        score = _sum_all([self.scorer(part, text_score) for part in parts if has_text(part)])
        others = tuple(part for part in parts if not has_text(part))
        if not others:
            return score
        allowed = self.matcher(AllOf(others))
        return lambda record: score(record) if allowed(record) else None

    def _unscored(self, plan: Plan) -> Scorer:
        matches = self.matcher(plan)
        return lambda record: 0.0 if matches(record) else None

    def _grouped(self, parts: Sequence[Plan], join: Callable[[list[_ValueClause], int], Matcher]) -> list[Matcher]:
        """A function a part, but one for all parts on the same field: its value is read once. Text comes last."""
        by_field: dict[str, list[_ValueClause]] = {}
        others: list[Plan] = []
        for part in parts:
            if isinstance(part, Exists | Compare | Prefix):
                by_field.setdefault(part.field.name, []).append(part)
            else:
                others.append(part)
        groups = [
            join(group, self._version) if len(group) > 1 else self.matcher(group[0]) for group in by_field.values()
        ]
        return groups + [self.matcher(part) for part in others]

    def _text_matcher(self, clause: Text, target: Target) -> Matcher:
        if target.field.kind is Kind.KEYWORD:
            return _value_matcher(target.field, self._version, _keyword_test(clause, target))
        get, has = _getter(target.field, self._version), self._text_test(clause, target)

        def matches(record: object) -> bool:
            raw = get(record)
            if raw.__class__ is str:
                return has(raw) is not None
            if raw.__class__ is list:
                return any(each.__class__ is str and has(each) is not None for each in flat(raw))
            return False

        return matches

    def _text_scorer(self, clause: Text, target: Target, text_score: TextScore) -> Scorer:
        get, find = _getter(target.field, self._version), self._finder(clause, target)

        def score(record: object) -> float | None:
            raw = get(record)
            best: float | None = None
            for each in flat(raw) if raw.__class__ is list else (raw,):
                found = find(each) if each.__class__ is str else None
                if found is not None:
                    scored = text_score(found)
                    best = scored if best is None or scored > best else best
            return best

        return score

    def _finder(self, clause: Text, target: Target) -> Callable[[str], TextMatch | None]:
        """One value -> what of the clause is in it, or None when it does not match."""
        if target.field.kind is Kind.KEYWORD:
            test, canonical = _keyword_test(clause, target), canonicalizer(target.field)

            def find_keyword(value: str) -> TextMatch | None:
                return TextMatch(target, clause.phrase, (1,), value) if test(canonical(value)) else None

            return find_keyword
        has, counted = self._text_test(clause, target), _needles(clause, target)

        def find(value: str) -> TextMatch | None:
            text = has(value)
            if text is None:
                return None
            return TextMatch(target, clause.phrase, tuple(map(text.count, counted)), text)

        return find

    def _text_test(self, clause: Text, target: Target) -> Callable[[str], str | None]:
        """One value -> its words as `spaced` has them if the clause matches, else None.

        Most texts lack some token altogether; that is seen before the text is taken apart.
        """
        view = self._views.setdefault(target.field.name, _TextView())
        longest_first = sorted(set(target.tokens), key=len, reverse=True)
        sought = (needle(target.tokens, prefix=clause.prefix),) if clause.phrase else _needles(clause, target)

        def test(value: str) -> str | None:
            lowered = view.lowered(value)
            for token in longest_first:
                if token not in lowered:
                    return None
            text = view.spaced(lowered)
            for each in sought:
                if each not in text:
                    return None
            return text

        return test


class _TextView:
    """The last text of a field that a clause took apart: the next clause on the field finds it done.

    Two threads may use it at once: each replaces a whole pair, and trusts a pair only for the very string in it.
    """

    __slots__ = ("_lowered", "_spaced")

    def __init__(self) -> None:
        self._lowered = ("", "")
        self._spaced = ("", spaced(""))

    def lowered(self, text: str) -> str:
        held = self._lowered
        if held[0] is not text:
            held = self._lowered = (text, text.lower())
        return held[1]

    def spaced(self, lowered: str) -> str:
        held = self._spaced
        if held[0] is not lowered:
            held = self._spaced = (lowered, spaced(lowered))
        return held[1]


# --- clauses on values ----------------------------------------------------------------------------------------------


def _test(clause: _ValueClause) -> _Test:
    match clause:
        case Compare(_, op, value):
            return partial(_TESTS[op], value)
        case Prefix(_, prefix):
            return lambda value: bool(value.startswith(prefix))
        case Exists():
            return lambda _: True


def _value_matcher(field: Field, version: int, test: _Test) -> Matcher:
    get, canonical = _getter(field, version), canonicalizer(field)

    def matches(record: object) -> bool:
        raw = get(record)
        if raw is None:
            return False
        if raw.__class__ is list:
            return any(map(test, _canonical_values(raw, canonical)))
        value = canonical(raw)
        return value is not None and test(value)

    return matches


def _getter(field: Field, version: int) -> Getter:
    pointer = field.pointer(version)
    return getter(pointer) if pointer is not None else lambda _: None


def _canonical_values(raw: Any, canonical: Canonicalizer) -> list[Canonical]:
    each = flat(raw) if raw.__class__ is list else (raw,)
    return [value for value in map(canonical, each) if value is not None]


def _every(group: list[_ValueClause], version: int) -> Matcher:
    """All clauses hold, each for some value."""
    tests = tuple(map(_test, group))
    get, canonical = _getter(group[0].field, version), canonicalizer(group[0].field)

    def matches(record: object) -> bool:
        raw = get(record)
        if raw is None:
            return False
        if raw.__class__ is list:
            found = _canonical_values(raw, canonical)
            return all(any(map(test, found)) for test in tests)
        value = canonical(raw)
        if value is None:
            return False
        for test in tests:  # noqa: SIM110 - a loop is twice as fast as a generator in the hottest line of a filter
            if not test(value):
                return False
        return True

    return matches


def _some(group: list[_ValueClause], version: int) -> Matcher:
    """Some clause holds for some value; equalities are one look into a set."""
    equal = frozenset(clause.value for clause in group if isinstance(clause, Compare) and clause.op is Op.EQ)
    rest = [_test(clause) for clause in group if not (isinstance(clause, Compare) and clause.op is Op.EQ)]
    if not rest:
        return _value_matcher(group[0].field, version, equal.__contains__)
    return _value_matcher(group[0].field, version, lambda value: value in equal or any(test(value) for test in rest))


# --- clauses on text ------------------------------------------------------------------------------------------------


def _keyword_test(clause: Text, target: Target) -> _Test:
    (term,) = target.tokens
    return (lambda value: bool(value.startswith(term))) if clause.prefix else partial(operator.eq, term)


def _needles(clause: Text, target: Target) -> tuple[str, ...]:
    """A search for each token; that of the last one may be for a beginning."""
    last = len(target.tokens) - 1
    return tuple(needle((token,), prefix=clause.prefix and index == last) for index, token in enumerate(target.tokens))


# --- composition ----------------------------------------------------------------------------------------------------
# Plain loops: they are called for every record, and twice as fast as generators.


def _all(parts: Sequence[Matcher]) -> Matcher:
    if len(parts) == 1:
        return parts[0]

    def matches(record: object) -> bool:
        for part in parts:  # noqa: SIM110
            if not part(record):
                return False
        return True

    return matches


def _any(parts: Sequence[Matcher]) -> Matcher:
    if len(parts) == 1:
        return parts[0]

    def matches(record: object) -> bool:
        for part in parts:  # noqa: SIM110
            if part(record):
                return True
        return False

    return matches


def _sum_all(parts: Sequence[Scorer]) -> Scorer:
    def score(record: object) -> float | None:
        total = 0.0
        for part in parts:
            found = part(record)
            if found is None:
                return None
            total += found
        return total

    return score


def _sum_any(parts: Sequence[Scorer]) -> Scorer:
    def score(record: object) -> float | None:
        found = [each for each in [part(record) for part in parts] if each is not None]
        return sum(found) if found else None

    return score


def _best(parts: Sequence[Scorer]) -> Scorer:
    def score(record: object) -> float | None:
        return max((each for each in [part(record) for part in parts] if each is not None), default=None)

    return score
