"""Documents of older versions made into documents of the current one: the chain of lenses, compiled once."""

from collections.abc import Mapping
from typing import Any

from streams_node.schema.errors import LensFailed
from streams_node.schema.lens import Lens, Op, Room

GROWTH = 4  # a document may become so many times as large as it is stored,
GROWTH_BYTES = 64 << 10  # and by this much larger


class Promoter:
    """Knows the way from every version to the current one."""

    __slots__ = ("_chains", "current")

    def __init__(self, lenses: Mapping[int, Lens], current: int) -> None:
        self.current = current
        chains: dict[int, tuple[Op, ...]] = {current: ()}
        for version in range(current - 1, 0, -1):
            chains[version] = (*lenses[version].steps, *chains[version + 1]) if version in lenses else ()
        self._chains = chains

    def promote(self, document: Any, version: int, room: Room) -> Any:
        """The document as the current version has it. The one that was given is used up."""
        steps = self._chains.get(version, ())
        try:
            room.step(len(steps))
            for step in steps:
                document = step(document, room)
        except RecursionError:
            raise LensFailed("document becomes nested too deep") from None
        return document


def room_for(size: int) -> Room:
    """What promoting a stored document of this size may cost."""
    return Room(GROWTH * size + GROWTH_BYTES)
