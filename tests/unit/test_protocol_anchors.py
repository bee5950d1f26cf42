"""The way back through a stream's rows: right whatever the target, and short whatever the length."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_node.protocol.anchors import LEVELS, jump_of, level_of, moved

steady = settings(deadline=None)
LONGEST = 100_000
# Up one level at a time (31 steps each) and down again: the docstring's "31 steps a level", twice, for the three levels
# that a chain of this length has, and one step on either side.
STEPS_MAX = 2 * 31 * 3 + 8


def chain(rows: Sequence[int]) -> dict[int, tuple[int, int, int]]:
    """row id -> (ordinal, previous row, jump row), written as an append writes them."""
    written: dict[int, tuple[int, int, int]] = {}
    anchors: tuple[int, ...] = (0,) * LEVELS
    previous = 0
    for ordinal, row in enumerate(rows, start=1):
        written[row] = (ordinal, previous, jump_of(ordinal, anchors))
        anchors = moved(anchors, ordinal, row)
        previous = row
    return written


def walk(rows: dict[int, tuple[int, int, int]], newest: int, target: int) -> tuple[int, int]:
    """From the newest row to the one with the target ordinal: (row id, steps). A jump that is too far is not taken."""
    at, steps = newest, 0
    while rows[at][0] > target:
        _, previous, jump = rows[at]
        at = jump if jump and rows[jump][0] >= target else previous
        steps += 1
    return at, steps


@pytest.fixture(scope="module")
def row_ids() -> list[int]:
    """Row ids of one stream in a log that other streams share: growing, with gaps."""
    chance, row, ids = random.Random(7), 0, []
    for _ in range(LONGEST):
        row += chance.choice((1, 1, 1, 2, 9, 400))
        ids.append(row)
    return ids


@pytest.fixture(scope="module")
def longest(row_ids: list[int]) -> dict[int, tuple[int, int, int]]:
    return chain(row_ids)


@settings(deadline=None, max_examples=400)
@given(st.integers(1, LONGEST), st.data())
def test_any_row_is_found_in_few_steps(
    row_ids: list[int], longest: dict[int, tuple[int, int, int]], length: int, data: st.DataObject
) -> None:
    target = data.draw(st.integers(1, length))
    row, steps = walk(longest, row_ids[length - 1], target)
    assert row == row_ids[target - 1]
    assert steps <= STEPS_MAX


@pytest.mark.parametrize("length", [1, 31, 32, 33, 1023, 1024, 1025, 32_767, 32_768, 32_769, 65_535, 98_304, 100_000])
def test_the_hardest_targets_of_the_hardest_lengths_take_few_steps(
    row_ids: list[int], longest: dict[int, tuple[int, int, int]], length: int
) -> None:
    near = {1, 2, 31, 32, 33, 1023, 1024, 1025, 32_767, 32_768, 32_769, length - 1, length}
    for target in sorted(target for target in near if 1 <= target <= length):
        row, steps = walk(longest, row_ids[length - 1], target)
        assert (row, steps <= STEPS_MAX) == (row_ids[target - 1], True), (length, target, steps)


def test_every_row_of_a_chain_is_reached_from_every_other_one() -> None:
    rows = chain(range(1, 1101))
    for newest in (1100, 1056, 1055, 1025, 1024, 1023, 64, 33, 32, 31, 2, 1):
        assert [walk(rows, newest, target)[0] for target in range(1, newest + 1)] == list(range(1, newest + 1))


@steady
@given(st.integers(1, LONGEST))
def test_a_jump_leads_to_an_anchor_or_nowhere(ordinal: int) -> None:
    rows = range(1, ordinal + 1)
    anchors: tuple[int, ...] = (0,) * LEVELS
    for at in range(32, ordinal, 32):
        anchors = moved(anchors, at, at)
    jump = jump_of(ordinal, anchors)
    assert jump == 0 or (jump in rows and jump < ordinal and jump % 32 == 0)
    for level, anchor in enumerate(anchors, start=1):
        assert anchor == (ordinal - 1) // 32**level * 32**level


@pytest.mark.parametrize(
    ("ordinal", "level"),
    [(1, 0), (31, 0), (32, 1), (64, 1), (1024, 2), (2048, 2), (32_768, 3), (1_048_576, 4), (33_554_432, 4)],
)
def test_the_level_of_an_ordinal(ordinal: int, level: int) -> None:
    assert level_of(ordinal) == level
