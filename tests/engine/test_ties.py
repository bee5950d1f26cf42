"""Ties: neighbours of one value, taken together or read by their next key first, are in the order of all keys."""

from itertools import groupby
from operator import itemgetter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from search.engine import SortKey
from search.engine.ties import Tie, leading, ties, together

VALUES = st.lists(st.one_of(st.none(), st.integers(-3, 3)), max_size=40)


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers()), max_size=6), max_size=8))
def test_ties_are_the_groups_of_each_window(windows: list[list[tuple[int, int]]]) -> None:
    found = [[(tie.value, tie.addresses) for tie in some] for some in ties(windows)]
    assert found == [
        [(value, [address for _, address in group]) for value, group in groupby(window, itemgetter(0))]
        for window in windows
    ]


def test_no_window_is_asked_for_before_those_before_it_were_taken() -> None:
    asked: list[int] = []

    def windows() -> Any:
        for number in range(3):
            asked.append(number)
            yield [(number, "a"), (number, "b")]

    found = ties(windows())
    for number in range(3):
        assert next(found) == [Tie(number, ["a", "b"])]
        assert asked == list(range(number + 1))


@given(st.lists(st.integers(1, 9), max_size=30))
def test_what_is_read_together_is_all_in_order(sizes: list[int]) -> None:
    some = [Tie(number, list(range(size))) for number, size in enumerate(sizes)]
    lists = list(together(some, 5, 7))
    assert [tie for one in lists for tie in one] == some
    for one in lists[:-1]:
        count = sum(len(tie.addresses) for tie in one)
        assert count >= 5 or any(len(tie.addresses) > 7 for tie in lists[lists.index(one) + 1])
    assert all(len(one) == 1 for one in lists if any(len(tie.addresses) > 7 for tie in one))


@given(VALUES, st.booleans(), st.integers(1, 50))
def test_what_leads_is_before_all_others(values: list[int | None], descending: bool, size: int) -> None:  # noqa: FBT001
    first = leading(values, SortKey("offset", descending), size)
    great = [99 if value is None else value for value in values]  # what is missing is the greatest
    led = [value for value, is_first in zip(great, first, strict=True) if is_first]
    others = [value for value, is_first in zip(great, first, strict=True) if not is_first]
    assert len(led) >= min(size, len(values))
    if led and others:
        assert min(led) > max(others) if descending else max(led) < min(others)
