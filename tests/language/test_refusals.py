"""Every rule about fields and values, with the text of its refusal and the place that it points at."""

from typing import Any

import pytest

from search.language import QueryError, check_config, filter_, query
from streams_node.schema.search_config import SearchConfigError, parse
from tests.language.examples import CONFIG, TEXT, field

config = parse(CONFIG)


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("a:b", "unknown search field a", 0),
        ("card nix:b", "unknown search field nix", 5),
        ("Level:b", "unknown search field Level", 0),
        ("has:nix", "unknown search field nix", 0),
        # typed fields
        ("exactly:>5", "search field exactly does not support comparisons", 0),
        ("number:>5", "search field number does not support comparisons", 0),
        ("number:5", "search field number does not support equality", 0),
        ("number:x", "search field number does not support equality", 0),
        ("status:x", "invalid value for search field", 7),
        ("status:1.5", "invalid value for search field", 7),
        ("status:05", "invalid value for search field", 7),
        ('status:""', "invalid value for search field", 7),
        ("status:5*", "invalid value for search field", 7),
        ("dur:1,5", "invalid value for search field", 4),
        ("dur:NaN", "invalid value for search field", 4),
        ("dur:Infinity", "invalid value for search field", 4),
        ('dur:" "', "invalid value for search field", 4),
        ("ok:1", "invalid value for search field", 3),
        ("ts:soon", "invalid value for search field", 3),
        ("ts:>=2026-02-30", "invalid value for search field", 5),
        # keywords
        ("level:>a", "search field level does not support comparisons", 0),
        ("lvl:<=a", "search field lvl does not support comparisons", 0),
        ("service:a*", "search field service does not support prefix queries", 0),
        ('service:"a*"', "search field service does not support prefix queries", 0),
        ("only:a", "search field only does not support exact queries", 0),
        ("only:*", "search field only does not support exact queries", 0),
        ("plain:a", "search field plain does not support exact queries", 0),
        # texts
        ("message:>a", "search field message does not support comparisons", 0),
        ('message:""', "search text clause must not be empty", 8),
        ('message:" *"', "search text clause must not be empty", 8),
        ("message:*", "search text clause did not produce any searchable tokens", 8),
        ("message:!!!", "search text clause did not produce any searchable tokens", 8),
        ("message:**", "search text clause did not produce any searchable tokens", 8),
        # has:
        ("has:number", "search field number does not support has:", 0),
        ("has:plain", "search field plain does not support has:", 0),
        ("a has:only", "search field only does not support has:", 2),
        # bare terms
        ('""', "search text clause must not be empty", 0),
        ('a "  "', "search text clause must not be empty", 2),
        ("*", "search text clause did not produce any searchable tokens", 0),
        ("!!!", "search text clause did not produce any searchable tokens", 0),
        ("_", "search text clause did not produce any searchable tokens", 0),
        ("x-" * 257, "search text clause has too many words (at most 256)", 0),
    ],
)
def test_what_a_query_is_refused_for(text: str, message: str, position: int) -> None:
    with pytest.raises(QueryError) as refused:
        query(text, config)
    assert (refused.value.message, refused.value.position) == (message, position)


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("nix:a", "filter field nix is not indexed", 0),
        ("level:a has:nix", "filter field nix is not indexed", 8),
        ("has:title", "filter field title does not support has:", 0),
        ("has:number", "filter field number does not support has:", 0),
        ("has:only", "filter field only does not support has:", 0),
        ("message:card", "invalid value for filter field", 8),
        ('title:"a b"', "invalid value for filter field", 6),
        ("status:x", "invalid value for filter field", 7),
        ("dur:x", "invalid value for filter field", 4),
        ('dur:""', "invalid value for filter field", 4),
        ("ts:>x", "invalid value for filter field", 4),
        ("ok:x", "invalid value for filter field", 3),
        ("number:x", "invalid value for filter field", 7),
        ("level:>a", "comparison operator not supported for filter field", 0),
        ("tags:<=a", "comparison operator not supported for filter field", 0),
        ("ok:>false", "comparison operator not supported for filter field", 0),
        ("exactly:>5", "filter field exactly does not support comparisons", 0),
        ("number:>5", "filter field number does not support comparisons", 0),
        ("number:5", "filter field number does not support equality filters", 0),
        ("plain:a", "filter field plain does not support equality filters", 0),
        ("only:a*", "filter field only does not support equality filters", 0),
    ],
)
def test_what_a_filter_is_refused_for(text: str, message: str, position: int) -> None:
    with pytest.raises(QueryError) as refused:
        filter_(text, config)
    assert (refused.value.message, refused.value.position) == (message, position)


@pytest.mark.parametrize(
    "text",
    ["level:a", "lvl:err*", "has:message", "has:level", "tags:t1", "ok:true", "ok:=false", "status:>=5", "exactly:5",
     'ts:>="2026-03-25T10:04:00Z"', "-(level:a OR status:5) AND NOT has:ok"],
)  # fmt: skip
def test_what_a_filter_can_ask(text: str) -> None:
    filter_(text, config)


def test_without_a_configuration() -> None:
    with pytest.raises(QueryError, match="search is not configured for this stream"):
        query("(", None)
    with pytest.raises(QueryError, match="filter field a is not indexed"):
        filter_("a:b", None)


def search(fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    date = {"t": field("date", "/t", "exact")}
    return {"primaryTimestampField": "t", "fields": date | fields, **more}


def test_a_bare_term_needs_a_text_or_a_default() -> None:
    none = parse(search({"k": field("keyword", "/k", "exact")}))
    with pytest.raises(QueryError) as refused:
        query("k:a card", none)
    assert refused.value.message == "search.defaultFields must include at least one text or keyword field"
    assert refused.value.position == 4


@pytest.mark.parametrize("flag", ["exists", "exact", "column"])
@pytest.mark.parametrize("kind", ["keyword", "integer", "date", "bool", "float"])
def test_each_of_three_flags_allows_has(kind: str, flag: str) -> None:
    one = parse(search({"f": field(kind, "/f", flag)}))
    query("has:f", one)
    filter_("has:f", one)


@pytest.mark.parametrize(("kind", "literal"), [("integer", "5"), ("float", "5"), ("date", "2026"), ("bool", "true")])
def test_equality_of_typed_fields_needs_exact_or_column(kind: str, literal: str) -> None:
    for flag in ("exact", "column"):
        one = parse(search({"f": field(kind, "/f", flag)}))
        query(f"f:{literal}", one)
        filter_(f"f:{literal}", one)
    one = parse(search({"f": field(kind, "/f", "exists sortable")}))
    with pytest.raises(QueryError, match="does not support equality"):
        query(f"f:{literal}", one)
    with pytest.raises(QueryError, match="does not support equality filters"):
        filter_(f"f:{literal}", one)


def test_a_column_of_keywords_serves_a_filter_only() -> None:
    one = parse(search({"f": field("keyword", "/f", "column")}))
    filter_("f:a", one)
    with pytest.raises(QueryError, match="does not support exact queries"):
        query("f:a", one)


def test_texts_without_the_flag_have_has_in_a_query_only() -> None:
    one = parse(search({"f": field("text", "/f", **TEXT)}))
    query("has:f", one)
    with pytest.raises(QueryError, match="filter field f does not support has:"):
        filter_("has:f", one)


# --- include --------------------------------------------------------------------------------------------------------


def test_an_include_that_is_no_query_is_refused_with_the_configuration() -> None:
    """The original stored it, and every aggregation failed with 500 from then on."""
    check_config(config)
    rollup = {"intervals": ["1m"], "measures": {"n": {"kind": "count", "include": "level:a has:"}}}
    with pytest.raises(SearchConfigError) as refused:
        check_config(parse({**CONFIG, "rollups": {"r": rollup}}))
    assert str(refused.value) == (
        "search.rollups.r.measures.n.include is not a query: has: requires a field name (at character 12)"
    )
    rollup = {"include": "nix:a", "intervals": ["1m"], "measures": {"n": {"kind": "count"}}}
    with pytest.raises(
        SearchConfigError, match=r"^search\.rollups\.r\.include is not a query: unknown search field nix"
    ):
        check_config(parse({**CONFIG, "rollups": {"r": rollup}}))
