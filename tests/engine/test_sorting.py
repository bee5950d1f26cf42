"""Sort keys and `search_after`."""

import json
import random
from typing import Any

import pytest

from search.engine import SortError, SortKey, after_of, shower, sort_of
from search.engine.sorting import ordered, place_of
from search.language import query
from tests.engine.world import CONFIG

CARD, LEVEL, NOT_CARD = query("card", CONFIG), query("level:a", CONFIG), query("level:a NOT card", CONFIG)
FIELDS = CONFIG.fields


def named(keys: tuple[SortKey, ...]) -> list[str]:
    return [f"{'-' if key.descending else ''}{key.field.name if key.field else key.by}" for key in keys]


def test_the_default_sort_is_by_score_when_there_is_text_and_else_by_offset() -> None:
    assert named(sort_of(None, CARD, CONFIG)) == ["-score", "-eventTime", "-offset"]
    assert named(sort_of([], NOT_CARD, CONFIG)) == ["-score", "-eventTime", "-offset"]
    assert named(sort_of(None, LEVEL, CONFIG)) == ["-offset"]


def test_the_offset_is_always_the_last_key() -> None:
    assert named(sort_of(["level:asc", "ts"], LEVEL, CONFIG)) == ["level", "-eventTime", "-offset"]
    assert named(sort_of(["offset:asc", "level"], LEVEL, CONFIG)) == ["offset"]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("", "sort entries must not be empty"),
        (":asc", "sort entries must not be empty"),
        ("level:up", "invalid sort direction for level"),
        ("nothing", "unknown sort field nothing"),
        ("message", "search field message is not sortable"),
    ],
)
def test_what_is_no_sort_is_refused(raw: str, message: str) -> None:
    with pytest.raises(SortError, match=message):
        sort_of([raw], LEVEL, CONFIG)


def test_what_a_hit_shows_is_read_back() -> None:
    """Dates keep their nanoseconds, and integers are not rounded by a client that knows only doubles."""
    draw = random.Random(1)
    keys = sort_of(["_score", "ts", "status", "dur", "level", "ok"], CARD, CONFIG)
    pools: list[list[Any]] = [
        [0.1, 3.0], [None, 0, -1, 1, -1_000_001, 1_774_433_040_000_000_001, 8_640_000_000_000 * 10**9, 5_000_000],
        [None, 0, -5, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, int(1e30)], [None, 0.0, 1e300, -2.5],
        [None, "", "a", "\u65e5", "12"], [None, True, False], [0, 7, 2**60],
    ]  # fmt: skip
    for _ in range(500):
        values = tuple(draw.choice(pool) for pool in pools)
        shown_ = json.loads(json.dumps(shower(keys)(values, str(values[-1]))))
        assert after_of(shown_, keys, int) == values


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("offset", 5), ("offset", "x"), ("_score", "1"), ("_score", True), ("ts", "2026-03-25T10:04:00Z"), ("ts", 1.5),
        ("ts", True), ("status", "five"), ("status", 1.5), ("ok", 1), ("level", 5), ("level", ["a"]), ("dur", {}),
    ],
)  # fmt: skip
def test_elements_that_cannot_be_read_are_refused(name: str, bad: object) -> None:
    with pytest.raises(SortError, match="search_after"):
        after_of([bad], sort_of([name], CARD, CONFIG), int)


def test_short_ones_go_on_with_null_and_long_ones_are_refused() -> None:
    keys = sort_of(["level"], LEVEL, CONFIG)
    assert after_of(["a"], keys, int) == ("a", None)
    with pytest.raises(SortError, match="3 elements"):
        after_of(["a", "1", 2], keys, int)


def test_rows_are_put_in_the_order_of_their_places() -> None:
    draw = random.Random(2)
    pools: list[list[Any]] = [
        [None, 0.5, 3, -1.0], [None, True, False], [-0.0, 0.0, None],
        [None, "", "a", "ab", "\u65e5", "\ud800", "\U0001f600"],
    ]  # fmt: skip
    for count in (0, 1, 2, 7, 300):
        for _ in range(40):
            keys = [SortKey("offset", descending=draw.random() < 0.5) for _ in range(len(pools) + 1)]
            rows = [(*map(draw.choice, pools), seq) for seq in draw.sample(range(10**6), count)]
            assert ordered(rows, keys) == sorted(rows, key=place_of(keys))
