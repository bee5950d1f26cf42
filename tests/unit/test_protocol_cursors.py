"""Cursors only ever grow; entity tags tell every two answers apart."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_node.protocol.cursors import EPOCH_S, INTERVAL_S, JITTER_S_MAX, cursor
from streams_node.protocol.etags import etag, matches

steady = settings(deadline=None)
moments = st.floats(EPOCH_S, EPOCH_S + 2**33, allow_nan=False)
jitters = st.floats(0, 1, exclude_max=True)
numbers = st.integers(0, 2**63)


# --- cursors --------------------------------------------------------------------------------------------------------


@steady
@given(moments, jitters)
def test_a_first_cursor_is_the_number_of_the_interval(now_s: float, jitter: float) -> None:
    assert cursor(now_s, None, jitter) == str(int((int(now_s) - EPOCH_S) / INTERVAL_S))


@steady
@given(moments, st.integers(0, 10**17), jitters)
def test_a_cursor_is_strictly_greater_than_the_one_that_came(now_s: float, seen: int, jitter: float) -> None:
    given_back = cursor(now_s, str(seen), jitter)
    assert given_back.isascii()
    assert given_back.isdigit()
    assert int(given_back) > seen
    assert int(given_back) <= max(seen, int(now_s - EPOCH_S) // INTERVAL_S) + JITTER_S_MAX // INTERVAL_S  # no floats


@steady
@given(moments, jitters)
def test_a_cursor_of_the_running_interval_moves_on(now_s: float, jitter: float) -> None:
    first = cursor(now_s, None, jitter)
    assert int(cursor(now_s, first, jitter)) > int(first)


@pytest.mark.parametrize("seen", ["", "abc", "-1", "1.5", "+3", " 4", "\u0661\u0662", "9" * 19, "9" * 5000, "\0"])
def test_a_cursor_that_is_not_ours_is_ignored(seen: str) -> None:
    now_s = EPOCH_S + 1000
    assert cursor(now_s, seen, 0.5) == cursor(now_s, None, 0.5) == "50"


@pytest.mark.parametrize(("jitter", "ahead"), [(0.0, 1), (0.999999, 180)])
def test_jitter_is_between_one_interval_and_an_hour(jitter: float, ahead: int) -> None:
    assert int(cursor(EPOCH_S, "7", jitter)) == 7 + ahead


# --- entity tags ----------------------------------------------------------------------------------------------------


@steady
@given(
    st.tuples(numbers, numbers, numbers, st.booleans(), st.sampled_from(["", "raw", "c", "k"])),
    st.tuples(numbers, numbers, numbers, st.booleans(), st.sampled_from(["", "raw", "c", "k"])),
)
def test_two_different_answers_never_share_a_tag(
    one: tuple[int, int, int, bool, str], other: tuple[int, int, int, bool, str]
) -> None:
    def tag(facts: tuple[int, int, int, bool, str]) -> str:
        stream, start, end, closed, form = facts
        return etag(stream, start, end, closed=closed, form=form)

    # `c` is the mark of closure, so no form may be called that: the pair is here to keep it so.
    if not {"c"} & {one[4], other[4]}:
        assert (tag(one) == tag(other)) == (one == other)


def test_every_fact_changes_the_tag() -> None:
    facts = product((1, 2), (1, 2), (1, 2), (False, True), ("", "raw"))
    tags = {etag(stream, start, end, closed=closed, form=form) for stream, start, end, closed, form in facts}
    assert len(tags) == 32


def test_closing_without_data_changes_the_tag() -> None:
    assert etag(7, 3, 9, closed=False) == '"7:3:9"'
    assert etag(7, 3, 9, closed=True) == '"7:3:9:c"'


tags = st.builds(lambda s, a, b, c: etag(s, a, b, closed=c), numbers, numbers, numbers, st.booleans())
spaces = st.sampled_from(["", " ", "\t", "  "])


@steady
@given(st.lists(tags, min_size=1, max_size=5, unique=True), st.data())
def test_a_tag_is_found_in_a_list_weak_or_strong(listed: list[str], data: st.DataObject) -> None:
    wanted = data.draw(st.sampled_from(listed))
    written = [
        data.draw(spaces) + data.draw(st.sampled_from(["", "W/"])) + tag + data.draw(spaces) for tag in listed
    ]  # fmt: skip
    assert matches(",".join(written), wanted)


@steady
@given(st.lists(tags, max_size=5), tags)
def test_a_tag_outside_the_list_is_not_found(listed: list[str], wanted: str) -> None:
    assert matches(", ".join(listed), wanted) == (wanted in listed)


@pytest.mark.parametrize("header", ["*", " * ", '"x"', 'W/"x"', '"a", "x"', '"a",W/"x" ,"b"', ',,"x",'])
def test_forms_that_match(header: str) -> None:
    assert matches(header, '"x"')


@pytest.mark.parametrize("header", ["", ",", "x", '"X"', 'w/"x"', '"x', '"x" "x"', "**", '"*"', 'W/W/"x"'])
def test_forms_that_do_not_match(header: str) -> None:
    assert not matches(header, '"x"')
