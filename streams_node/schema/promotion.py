"""Documents of older versions made into documents of the current one: the chain of lenses, compiled once."""

from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

from streams_node.schema.errors import LensFailed
from streams_node.schema.jsontext import dumps
from streams_node.schema.lens import Lens, Room

GROWTH = 4  # a document may become so many times as large as it is stored,
GROWTH_BYTES = 64 << 10  # and by this much larger
_OP_BYTES = 32  # of the shortest operation


class Promoter:
    """Knows the way from every version to the current one."""

    __slots__ = ("_steps", "_steps_left", "_weights_left", "current")

    def __init__(self, lenses: Mapping[int, Lens], current: int) -> None:
        self.current = current
        way = [lenses.get(version) for version in range(1, current)]
        # One after the other and not a whole way for each version, which would be half a square of them.
        self._steps = [() if lens is None else lens.steps for lens in way]
        self._steps_left = _left(map(len, self._steps))
        self._weights_left = _left(0.0 if lens is None else _weight(lens) for lens in way)

    def promote(self, document: Any, version: int, room: Room) -> Any:
        """The document as the current version has it. The one that was given is used up."""
        if not 1 <= version < self.current:
            return document
        try:
            room.step(int(self._steps_left[version - 1]))
            for steps in self._steps[version - 1 :]:
                for step in steps:
                    document = step(document, room)
        except RecursionError:
            raise LensFailed("document becomes nested too deep") from None
        return document

    def weight(self, version: int) -> float:
        """What it takes to promote one small document, at worst, in steps of about ten nanoseconds."""
        return self._weights_left[version - 1] if 1 <= version < self.current else 0.0


def _left(values: Iterable[float]) -> list[float]:
    """Of each value the sum of it and all behind it."""
    return list(accumulate(reversed(list(values))))[::-1]


def _weight(lens: Lens) -> float:
    """By the length of its operations, as it costs to copy what they add; where every item of an array goes through
    some of them, each may be about something that others have added.
    """
    text = dumps(list(lens.ops))
    return len(text) * max(1.0, len(text) / _OP_BYTES) if b'"map"' in text else len(text)


def room_for(size: int) -> Room:
    """What promoting a stored document of this size may cost."""
    return Room(GROWTH * size + GROWTH_BYTES)
