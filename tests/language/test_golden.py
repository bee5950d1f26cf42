"""What was seen on a running original, example by example, and where ours answers otherwise on purpose.

The supplement marks these as verified. A string is the message of a refusal; a number is a score; None is no match.
"""

from typing import Any

import pytest

from search.language import QueryError, filter_, matcher, query, scorer
from streams_node.schema.search_config import parse
from tests.language.examples import CONFIG, LOWER, field

config = parse(CONFIG)
FAILED = {
    "eventTime": "2026-03-25T10:09:00.000Z",
    "level": "ERROR",
    "service": "api",
    "status": -5,
    "dur": 1.5,
    "ok": True,
    "tags": ["t1", "t2"],
    "message": "card declined",
    "title": "payment",
}

QUERIES: list[tuple[str, str | float | None]] = [
    # the worked example of the configuration
    ("level:ERROR", 0.0),
    ("lvl:err*", 0.0),
    ("service:a*", "search field service does not support prefix queries"),
    ('status:"-5"', 0.0),
    ("status:-5", "expected value in fielded search clause"),
    ("tags:t1", 0.0),
    ("ok:TRUE", 0.0),
    ("has:title", 0.0),
    # the grammar
    ("eventTime:>=2026-03-25T10:04:00Z", "expected clause in search query"),
    ('eventTime:>="2026-03-25T10:04:00Z"', 0.0),
    ("ts:>=1774433340000", 0.0),
    ("ts:>1774433340000", None),
    ("card AND", "expected clause in search query"),
    ("AND card", None),  # the words `and` and `card`
    ("a:b:c", "expected clause in search query"),
    ('has:"service"', "has: requires a field name"),
    ("service:api,web", None),  # that literal
    ("message:card^2", None),  # the words `card` and `2`
    ("foo-bar", None),
    ("card -declined", None),
    ("card -accepted", 2.0),
    ("*", "search text clause did not produce any searchable tokens"),
    ("!!!", "search text clause did not produce any searchable tokens"),
    ("contains:x", "contains: is not supported on _search yet"),
    ("service:(api OR web)", "expected value in fielded search clause"),
    # scores
    ("card", 2.0),
    ('message:"card declined"', 6.0),
]

FILTERS: list[tuple[str, str | float | None]] = [
    ("status:-5", "expected value in filter clause"),
    ('status:"-5"', 0.0),
    ("eventTime:>=2026-03-25T10:04:00Z", "expected clause in filter"),
    ('eventTime:>="2026-03-25T10:04:00Z"', 0.0),
    ("ts:>=1774433340000", 0.0),
    ("lvl:err*", None),  # `*` is an ordinary character
    ("lvl:error", 0.0),
    ("service:api,web", None),
    ('has:"service"', "has: requires a field name"),
    ("has:service", 0.0),
    ("message:card", "invalid value for filter field"),
    ("has:message", 0.0),
    ("has:title", "filter field title does not support has:"),
    ("nix:a", "filter field nix is not indexed"),
    ("contains:a", "filter field contains is not indexed"),
]


@pytest.mark.parametrize(("text", "expected"), QUERIES)
def test_a_query(text: str, expected: str | float | None) -> None:
    if isinstance(expected, str):
        with pytest.raises(QueryError) as refused:
            query(text, config)
        assert refused.value.message == expected
    else:
        assert scorer(query(text, config), 1)(FAILED) == expected


@pytest.mark.parametrize(("text", "expected"), FILTERS)
def test_a_filter(text: str, expected: str | float | None) -> None:
    if isinstance(expected, str):
        with pytest.raises(QueryError) as refused:
            filter_(text, config)
        assert refused.value.message == expected
    else:
        assert matcher(filter_(text, config), 1)(FAILED) == (expected is not None)


def test_the_words_of_two_examples_are_found() -> None:
    assert scorer(query("AND card", config), 1)({"message": "card and more"}) == 4.0
    assert scorer(query("message:card^2", config), 1)({"message": "2 cards, 1 card"}) == 2.0


# --- otherwise on purpose ---------------------------------------------------------------------------------------------


def test_old_entries_are_found_by_a_field_that_was_renamed() -> None:
    """The original looked with the old pointer into the promoted record, and found nothing."""
    bindings = [{"version": 1, "jsonPointer": "/a"}, {"version": 2, "jsonPointer": "/b"}]
    renamed = parse(
        {
            "primaryTimestampField": "t",
            "fields": {
                "t": field("date", "/t"),
                "f": {"kind": "keyword", "exact": True, **LOWER, "bindings": bindings},
            },
        }
    )
    promoted = {"b": "X"}  # from the stored {"a": "X"}
    assert matcher(query("f:x", renamed), 2)(promoted)
    assert matcher(filter_("f:x", renamed), 2)(promoted)


@pytest.mark.parametrize("plan", [query, filter_])
def test_null_is_absent_on_every_surface(plan: Any) -> None:
    """The original's `q` let a null exist, its `filter` and its indexes did not."""
    record = {"level": None, "status": "x", "message": None}
    for name in ("level", "status", "message"):
        assert not matcher(plan(f"has:{name}", config), 1)(record)


def test_a_text_exists_in_a_filter() -> None:
    """The original's `filter` read no text at all, so that `has:` of a text field was never true."""
    assert matcher(filter_("has:message", config), 1)({"message": ""})
    assert not matcher(filter_("has:message", config), 1)({"message": 5})


def test_a_phrase_needs_no_positions() -> None:
    """The original answered 500 as soon as an index was asked."""
    assert scorer(query('title:"the payment"', config), 1)({"title": "by the payment"}) == 6.0


def test_records_that_are_no_objects_do_not_fail_a_query() -> None:
    """The original answered 500."""
    for record in (5, "card", ["card"], None):
        assert not matcher(query("card", config), 1)(record)


def test_a_digit_string_of_four_is_a_year_and_any_other_is_milliseconds() -> None:
    """The original's engine read other short digit strings as years or months, each engine its own way."""
    assert matcher(query("ts:2026", config), 1)({"eventTime": "2026-01-01T00:00:00Z"})
    assert matcher(query("ts:12345", config), 1)({"eventTime": 12345})
    assert matcher(query("ts:1774433340000", config), 1)(FAILED)


def test_dates_finer_than_a_millisecond_differ() -> None:
    """The original cut them to milliseconds."""
    record = {"eventTime": "2026-03-25T10:09:00.0004Z"}
    assert not matcher(query("ts:1774433340000", config), 1)(record)
    assert matcher(query("ts:>1774433340000 ts:<1774433340001", config), 1)(record)
