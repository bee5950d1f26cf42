"""Finding an old row of a stream without an index: every row points back twice.

`prev_row` is the row before it. `jump_row` is its anchor: for most rows the newest row whose ordinal is a multiple of
32; for such an anchor itself the anchor before it on the highest level it belongs to (multiples of 32, 1024, 32768 and
1048576). A walk from the newest row to any other takes at most some 31 steps a level, and the log needs no second tree:
at one million streams an index over (stream, seq) would cost more than the append itself (docs/decisions/0001).
"""

from collections.abc import Sequence

LEVELS = 4
_SHIFT = 5


def jump_of(ordinal: int, anchors: Sequence[int]) -> int:
    """The jump target of the row with this ordinal, given the newest anchors before it."""
    level = level_of(ordinal)
    return anchors[level - 1] if level else anchors[0]


def level_of(ordinal: int) -> int:
    """How many levels of anchors a row belongs to: 0 for most."""
    level = 0
    while level < LEVELS and ordinal & 31 == 0:
        ordinal >>= _SHIFT
        level += 1
    return level


def moved(anchors: Sequence[int], ordinal: int, row: int) -> tuple[int, int, int, int]:
    """The newest anchors after this row."""
    level = level_of(ordinal)
    first, second, third, fourth = (row,) * level + tuple(anchors[level:])
    return first, second, third, fourth
