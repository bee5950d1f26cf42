"""Syntax tree + search configuration -> typed plan, by the rules of `q` or by those of `filter`.

Keeps    every refusal has the text of the original and the place in the query. Where the two surfaces differ: a
         `filter` has no text, no prefixes and no comparison of booleans, and asks for other capabilities.
         Differs from the original where that was a defect:
           - a bare term has the tokens that each default field gives it, not those of the first one in the list: a
             keyword in front no longer hides the text fields behind it, nor the other way round;
           - an `include` that is no query is refused with the configuration (`check_config`).
"""

from collections.abc import Callable

from search.language import limits
from search.language.analysis import trim, words
from search.language.errors import QueryError
from search.language.parser import parse_filter, parse_query
from search.language.plan import AllOf, AnyOf, Compare, Exists, NotOf, Plan, Prefix, Target, Text
from search.language.syntax import And, Bare, Fielded, Has, Literal, Node, Not, Op, Or
from search.language.values import canonicalizer
from streams_node.schema.search_config import TYPED, DefaultField, Field, Kind, SearchConfig, SearchConfigError


def query(text: str, config: SearchConfig | None) -> Plan:
    """The plan of a `q`."""
    if config is None:
        raise QueryError("search is not configured for this stream", 0)
    return plan_query(parse_query(text), config)


def filter_(text: str, config: SearchConfig | None) -> Plan:
    """The plan of a `filter`."""
    return plan_filter(parse_filter(text), config)


def plan_query(tree: Node, config: SearchConfig) -> Plan:
    return _plan(tree, lambda clause: _search_clause(clause, config))


def plan_filter(tree: Node, config: SearchConfig | None) -> Plan:
    return _plan(tree, lambda clause: _filter_clause(clause, config))


def check_config(config: SearchConfig) -> None:
    """Refuses a configuration with an `include` that is no query; the one rule that `search_config` cannot check."""
    for path, include in config.includes():
        try:
            query(include, config)
        except QueryError as error:
            what = f"{path} is not a query: {error.message} (at character {error.position})"
            raise SearchConfigError(what) from error


def _plan(tree: Node, clause: Callable[[Has | Fielded | Bare], Plan]) -> Plan:
    match tree:
        case Not(part):
            return NotOf(_plan(part, clause))
        case And(parts):
            return AllOf(tuple(_plan(part, clause) for part in parts))
        case Or(parts):
            return AnyOf(tuple(_plan(part, clause) for part in parts))
        case _:
            return clause(tree)


# --- q --------------------------------------------------------------------------------------------------------------


def _search_clause(tree: Has | Fielded | Bare, config: SearchConfig) -> Plan:
    if isinstance(tree, Bare):
        return _text(tree.value, _defaults(config, tree.value.position))
    field = config.resolve(tree.name)
    if field is None:
        raise QueryError(f"unknown search field {tree.name}", tree.position)
    if isinstance(tree, Has):
        if not (field.exists or field.exact or field.column or field.kind is Kind.TEXT):
            raise QueryError(f"search field {tree.name} does not support has:", tree.position)
        return Exists(field)
    if field.kind in TYPED:
        return _typed(tree, field)
    if tree.op is not Op.EQ:
        raise QueryError(f"search field {tree.name} does not support comparisons", tree.position)
    return _keyword(tree, field) if field.kind is Kind.KEYWORD else _text(tree.value, [(field, 1.0)])


def _typed(tree: Fielded, field: Field) -> Compare:
    if tree.op is not Op.EQ and not field.column:
        raise QueryError(f"search field {tree.name} does not support comparisons", tree.position)
    if not (field.column or field.exact):
        raise QueryError(f"search field {tree.name} does not support equality", tree.position)
    return _compare(tree, field, "invalid value for search field")


def _keyword(tree: Fielded, field: Field) -> Compare | Prefix:
    literal, prefix = _starred(tree.value.text)
    if prefix and not field.prefix:
        raise QueryError(f"search field {tree.name} does not support prefix queries", tree.position)
    if not prefix and not field.exact:
        raise QueryError(f"search field {tree.name} does not support exact queries", tree.position)
    value = str(canonicalizer(field)(literal))
    return Prefix(field, value) if prefix else Compare(field, Op.EQ, value)


def _text(literal: Literal, fields: list[tuple[Field, float]]) -> Text:
    term, prefix = _starred(literal.text)
    term = trim(term)
    if not term:
        raise QueryError("search text clause must not be empty", literal.position)
    targets = [Target(field, boost, _tokens(term, field)) for field, boost in fields]
    targets = [target for target in targets if target.tokens]
    if not targets:
        raise QueryError("search text clause did not produce any searchable tokens", literal.position)
    if any(len(target.tokens) > limits.WORDS_MAX for target in targets):
        raise QueryError(f"search text clause has too many words (at most {limits.WORDS_MAX})", literal.position)
    return Text(tuple(targets), phrase=literal.quoted, prefix=prefix)


def _tokens(term: str, field: Field) -> tuple[str, ...]:
    return (str(canonicalizer(field)(term)),) if field.kind is Kind.KEYWORD else tuple(words(term))


def _defaults(config: SearchConfig, position: int) -> list[tuple[Field, float]]:
    chosen = config.default_fields or tuple(
        DefaultField(field.name) for field in config.fields.values() if field.kind is Kind.TEXT
    )
    if not chosen:
        raise QueryError("search.defaultFields must include at least one text or keyword field", position)
    return [(config.fields[each.field], each.boost) for each in chosen]


def _starred(text: str) -> tuple[str, bool]:
    """A final `*` asks for a prefix, inside quotes too; alone it is itself."""
    return (text[:-1], True) if len(text) > 1 and text.endswith("*") else (text, False)


# --- filter ---------------------------------------------------------------------------------------------------------


def _filter_clause(tree: Has | Fielded | Bare, config: SearchConfig | None) -> Plan:
    if isinstance(tree, Bare):
        raise QueryError("expected field name in filter", tree.value.position)
    field = None if config is None else config.resolve(tree.name)
    if field is None:
        raise QueryError(f"filter field {tree.name} is not indexed", tree.position)
    if isinstance(tree, Has):
        if not (field.exists or field.exact or field.column):
            raise QueryError(f"filter field {tree.name} does not support has:", tree.position)
        return Exists(field)
    if field.kind is Kind.TEXT:
        raise QueryError("invalid value for filter field", tree.value.position)
    clause = _compare(tree, field, "invalid value for filter field")
    if tree.op is not Op.EQ and field.kind in {Kind.KEYWORD, Kind.BOOL}:
        raise QueryError("comparison operator not supported for filter field", tree.position)
    if tree.op is not Op.EQ and not field.column:
        raise QueryError(f"filter field {tree.name} does not support comparisons", tree.position)
    if not (field.exact or field.column):
        raise QueryError(f"filter field {tree.name} does not support equality filters", tree.position)
    return clause


def _compare(tree: Fielded, field: Field, refusal: str) -> Compare:
    value = canonicalizer(field)(tree.value.text)
    if value is None:
        raise QueryError(refusal, tree.value.position)
    return Compare(field, tree.op, value)
