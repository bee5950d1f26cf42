"""Slots: the stretches of stream ids at which packs are cut. Two slots are apart, or one is inside the other.

A slot is all ids that share their upper bits. That two of them never overlap in part is what bounds a merge by stream
range: whatever the sizes of the packs were, those of several merges line up, and a slot takes whole packs with it.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self


class Slot(NamedTuple):
    """The ids that are `number` when their lower `bits` are cut off."""

    bits: int
    number: int

    @classmethod
    def around(cls, first: int, last: int) -> Self:
        """The smallest slot that holds two ids, and so everything between them."""
        bits = (first ^ last).bit_length()
        return cls(bits, first >> bits)

    @property
    def first(self) -> int:
        return self.number << self.bits

    @property
    def end(self) -> int:
        return (self.number + 1) << self.bits

    @property
    def middle(self) -> int:
        """Where its upper half begins; a slot of a single id has none."""
        return self.first + (1 << self.bits >> 1)

    def holds(self, other: "Slot") -> bool:
        return self.bits >= other.bits and other.number >> (self.bits - other.bits) == self.number


def cuts(streams: Sequence[int], sums: Sequence[int], bytes_max: int) -> list[int]:
    """Where packs begin anew so that none has more than so much: halves of slots, and halves of these.

    `streams` are ids in order; `sums` is one longer: how much there is before each of them, and in all.
    """
    return list(_cuts(streams, sums, 0, len(streams), bytes_max)) if streams else []


def _cuts(streams: Sequence[int], sums: Sequence[int], start: int, end: int, bytes_max: int) -> Iterator[int]:
    if end - start <= 1 or sums[end] - sums[start] <= bytes_max:
        return
    middle = Slot.around(streams[start], streams[end - 1]).middle
    at = bisect_left(streams, middle, start, end)
    yield from _cuts(streams, sums, start, at, bytes_max)
    yield middle
    yield from _cuts(streams, sums, at, end, bytes_max)
