"""Random syntax trees, records and queries over the example configuration."""

from typing import Any

from hypothesis import strategies as st

from search.language.analysis import WHITESPACE
from search.language.lexer import is_word
from search.language.syntax import And, Bare, Fielded, Has, Literal, Node, Not, Op, Or

# Letters that grammar and analyser treat differently, close together, so that collisions are frequent.
_ODD = 'aBé*-"\\:()<>=,._/\u0130\u03a3\u03c3 \t\u00a0\ufeff\u0301\u0661\u4e94' + WHITESPACE[:3]
texts = st.text(st.sampled_from(_ODD), max_size=8) | st.text(max_size=6)
_KEYWORDS = {"AND", "OR", "NOT"}
words = (texts | st.sampled_from(["and", "Or", "has", "contains", "a", "not1"])).filter(is_word)
names = words.filter(lambda word: word not in {"has", "contains"} and word.upper() != "NOT")
literals = st.builds(Literal, words) | st.builds(Literal, texts, st.just(True))  # noqa: FBT003 - positional in the tree
bare = st.builds(Bare, literals.filter(lambda literal: literal.quoted or literal.text.upper() != "NOT"))
clauses = st.builds(Has, words) | st.builds(Fielded, names, st.sampled_from(Op), literals)


def trees(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Node]:
    def deeper(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        parts = st.lists(inner, min_size=2, max_size=4).map(tuple)
        return st.builds(Not, inner) | st.builds(And, parts) | st.builds(Or, parts)

    return st.recursive(leaves, deeper, max_leaves=12)


search_trees = trees(clauses | bare)
filter_trees = trees(clauses)

# --- records and queries that meet each other -----------------------------------------------------------------------

_terms = st.sampled_from(["card", "Card", "declined", "by", "bank", "ba", "b", "É", "x1"])
_phrases = st.lists(_terms, max_size=5).map(" ".join) | st.lists(_terms, max_size=3).map("-".join)
_integers = st.integers(-3, 3) | st.sampled_from([2**53, 2**53 + 1, -(2**63), 2**64 - 1, 2**70])
_floats = st.sampled_from([0.0, -0.0, 1.0, 1.5, -2.25, 3.0, 1e300])
_dates = st.sampled_from(
    ["2026-03-25T10:04:00Z", "2026-03-25T10:04:00.000000001Z", "2026-03-25T12:04:00+02:00", "2026", "2026-03-25"]
)
_epochs = st.sampled_from([1774433040000, 1774433040001, 0, -1])
_anything: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | _integers | _floats | _phrases | _dates | st.just({}) | st.just({"a": 1})
)
_values: dict[str, st.SearchStrategy[Any]] = {
    "eventTime": _dates | _epochs | _anything,
    "level": _terms | _anything,
    "service": _terms | _anything,
    "status": _integers | _integers.map(str) | _anything,
    "dur": _floats | _floats.map(str) | _integers | _anything,
    "ok": st.booleans() | st.sampled_from(["true", "FALSE", "no"]) | _anything,
    "tags": _terms | _anything,
    "message": _phrases | _anything,
    "title": _phrases | _anything,
    "plain": _terms | _anything,
}


def _nested(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return values | st.lists(values | st.lists(values, max_size=2), max_size=3)


records = st.fixed_dictionaries({}, optional={name: _nested(each) for name, each in _values.items()}) | _anything


def _stars(terms: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return terms | terms.filter(bool).map(lambda term: term + "*")


def _literal(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Literal]:
    return values.map(lambda value: Literal(str(value).lower() if isinstance(value, bool) else str(value), quoted=True))


_eq = st.just(Op.EQ)
_any_op = st.sampled_from(Op)
_filled = _phrases.filter(bool)
_typed = (
    st.builds(Fielded, st.sampled_from(["eventTime", "ts"]), _any_op, _literal(_dates | _epochs))
    | st.builds(Fielded, st.just("status"), _any_op, _literal(_integers))
    | st.builds(Fielded, st.just("dur"), _any_op, _literal(_floats | _integers.filter(lambda n: abs(n) < 2**53)))
)
_keywords = st.builds(Fielded, st.sampled_from(["level", "lvl", "service", "tags"]), _eq, _literal(_terms))
_bools = st.builds(Fielded, st.just("ok"), _eq, _literal(st.booleans()))
_exists = st.builds(Has, st.sampled_from(["eventTime", "level", "service", "status", "dur", "ok", "tags", "message"]))
filters = trees(_typed | _keywords | _bools | _exists)
_prefixes = st.builds(Fielded, st.sampled_from(["level", "lvl", "tags"]), _eq, _literal(_stars(_terms)))
_quoted = st.booleans()


def _either_quoted(values: st.SearchStrategy[str]) -> st.SearchStrategy[Literal]:
    return st.builds(lambda text, quoted: Literal(text, quoted or not is_word(text)), values, _quoted)


_texts = st.builds(Fielded, st.sampled_from(["message", "title"]), _eq, _either_quoted(_stars(_filled)))
_bares = st.builds(Bare, _either_quoted(_stars(_filled)))
_more = (
    st.builds(Has, st.just("title"))
    | st.builds(Fielded, st.just("ok"), _any_op, _literal(st.booleans()))
    | _prefixes
    | _texts
    | _bares
)
queries = trees(_typed | _keywords | _bools | _exists | _more)
