"""Queries and records that want to cost much: time grows with their size, not with its square."""

import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from search.language import QueryError, limits, matcher, parse_query, query, scorer
from streams_node.schema.search_config import parse
from tests.language.examples import CONFIG

config = parse(CONFIG)
SECONDS_MAX = 2.0  # a hundred times what each case needs: the machine may be busy, and a square would take minutes


def cost(run: Callable[[], object]) -> float:
    began = time.process_time()
    with suppress(QueryError):
        run()
    return time.process_time() - began


@pytest.mark.parametrize(
    "text",
    ["(" * limits.QUERY_CHARS_MAX, "-" * limits.QUERY_CHARS_MAX, '"' * limits.QUERY_CHARS_MAX,
     '"' + "\\" * (limits.QUERY_CHARS_MAX - 1), '"a' * (limits.QUERY_CHARS_MAX // 2),
     "a:" * (limits.QUERY_CHARS_MAX // 2),
     " " * limits.QUERY_CHARS_MAX, "NOT " * (limits.QUERY_CHARS_MAX // 4), ">=" * (limits.QUERY_CHARS_MAX // 2),
     '"' + '\\"' * (limits.QUERY_CHARS_MAX // 2 - 1), "a OR " * (limits.QUERY_CHARS_MAX // 5),
     '"' + "\\" * 10_001 + '"' + " " * 1000],
    ids="open minus quote backslash strings colons blank not operators escapes or odd".split(),
)  # fmt: skip
def test_a_hostile_query_is_read_in_no_time(text: str) -> None:
    assert cost(lambda: parse_query(text)) < SECONDS_MAX


@pytest.mark.parametrize(
    "literal",
    ["9" * 16_000, "0." + "0" * 15_000, "-" + "1" * 15_000, " " * 15_000 + "x", "2026" * 4000, "1e" + "9" * 15_000],
)
@pytest.mark.parametrize("name", ["status", "dur", "ts", "ok", "level"])
def test_a_hostile_literal_is_understood_in_no_time(name: str, literal: str) -> None:
    assert cost(lambda: query(f'{name}:"{literal}"', config)) < SECONDS_MAX


def test_a_hostile_text_is_searched_in_no_time() -> None:
    phrase = scorer(query(f'"{"a " * 255}b"', config), 1)
    record = {"message": "a " * 1_000_000}
    assert cost(lambda: phrase(record)) < SECONDS_MAX
    assert phrase(record) is None


def test_many_clauses_take_a_text_apart_once() -> None:
    many = matcher(query(" ".join(["-zz"] * 400), config), 1)
    record = {"message": "a zzz " * 30_000}
    assert many(record)
    assert cost(lambda: many(record)) < SECONDS_MAX


def test_deep_records_are_no_recursion() -> None:
    deep: object = "t1"
    for _ in range(100_000):
        deep = [deep]
    assert matcher(query("tags:t1", config), 1)({"tags": deep})
    assert scorer(query("title:t1", config), 1)({"title": deep}) == 1.0


def test_a_long_record_value_is_read_in_no_time() -> None:
    is_match = matcher(query("status:>0 OR dur:>0 OR ts:>2020 OR ok:true", config), 1)
    for value in ("9" * 5_000_000, " " * 5_000_000, "-" * 5_000_000, "2026-" * 1_000_000, "1e" + "9" * 5_000_000):
        record = dict.fromkeys(["status", "dur", "eventTime", "ok"], value)
        assert cost(lambda record=record: is_match(record)) < SECONDS_MAX  # type: ignore[misc]
        assert not is_match(record)
