"""The query language: `q` of `_search` and `_aggregate`, `filter` of reads, `include` of rollups.

    text --parser--> syntax tree --planner--> plan --evaluate--> functions of a record

Owns     grammar, canonical values, the analyser of text, the plain evaluator, and the counting score. It is the one
         meaning of a query: filtered reads, index builders, companions and search all build on it, and an index is
         judged by it.
Pulls    nothing: plain functions of values, without I/O, clock or state. Imports the standard library and
         `streams_node.schema` only, so that Spark workers load it in milliseconds.
Hands on, from this package:

    query(text, config) -> Plan             a `q`; QueryError with message and position
    filter_(text, config) -> Plan           a `filter`; config may be None
    check_config(config)                    the `include` queries of a new configuration; SearchConfigError
    matcher(plan, version) -> record -> bool
    scorer(plan, version, text_score=count_score) -> record -> float, or None when the record does not match
    values(field, version) -> record -> list of canonical values        index builders, sorting, rollups
    raw_values(field, version) -> record -> list of values as they are  scores, highlights
    raw_fields(fields, version) -> record -> values as they are by name `fields` of a hit
    canonicalizer(field) -> value -> canonical value or None            literals of requests: search_after, keys
    exact_text(kind, value) -> str          the spelling in exact indexes and keys of groups
    order_key(kind, value) -> bytes         sorts as the values do: ranges, sorted runs, bounds
    words(text) -> list of str              the analyser, also for building indexes
    clauses, fields, has_text, necessary, shape     what a plan consists of
    parse_query, parse_filter, print_query, plan_query, plan_filter     the single steps

         `version` is always the current schema version, and a record is promoted to it first; `record` is a parsed JSON
         document of any type. A plan can be pickled; a function is made where it is used. Text scores come through a
         seam: `scorer(..., text_score=bm25)` with any function of a TextMatch.

         What an index must know beyond that: values of kind integer may lie outside of 64 bits (they are doubles
         then), dates outside of 64-bit nanoseconds (years before 1677 and after 2262): clamp them in a column and let
         `matcher` decide. A keyword target of a bare term needs no `exact` or `prefix` flag, so it may have no index.
Keeps    parse(print(tree)) == tree; no exception but QueryError for any text; time linear in the query, and in clauses
         times characters of a record; no recursion deeper than DEPTH_MAX.
Dies     holds no state.
"""

from search.language.analysis import words
from search.language.errors import QueryError
from search.language.evaluate import Matcher, Scorer, matcher, raw_fields, raw_values, scorer, values
from search.language.parser import parse_filter, parse_query
from search.language.plan import (
    AllOf,
    AnyOf,
    Compare,
    Exists,
    NotOf,
    Plan,
    Prefix,
    Target,
    Text,
    clauses,
    fields,
    has_text,
    necessary,
    shape,
)
from search.language.planner import check_config, filter_, plan_filter, plan_query, query
from search.language.printer import print_query
from search.language.score import TextMatch, TextScore, count_score
from search.language.syntax import Op
from search.language.values import Canonical, canonicalizer, exact_text, order_key

__all__ = [
    "AllOf",
    "AnyOf",
    "Canonical",
    "Compare",
    "Exists",
    "Matcher",
    "NotOf",
    "Op",
    "Plan",
    "Prefix",
    "QueryError",
    "Scorer",
    "Target",
    "Text",
    "TextMatch",
    "TextScore",
    "canonicalizer",
    "check_config",
    "clauses",
    "count_score",
    "exact_text",
    "fields",
    "filter_",
    "has_text",
    "matcher",
    "necessary",
    "order_key",
    "parse_filter",
    "parse_query",
    "plan_filter",
    "plan_query",
    "print_query",
    "query",
    "raw_fields",
    "raw_values",
    "scorer",
    "shape",
    "values",
    "words",
]
