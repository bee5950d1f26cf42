"""Has the entries of a stream counted when its turn comes; and once more if some were trimmed meanwhile."""

import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from streams_node.errors import Gone, StreamsError, Unavailable
from streams_node.ingest.state import StreamState
from streams_node.read.pages import deleted
from streams_node.searching.turns import Turns

T_co = TypeVar("T_co", covariant=True)
_LOOKS_MAX = 3


class Count(Protocol[T_co]):
    """A count that begins with an entry."""

    first: int

    async def found(self) -> T_co: ...


async def counted(turns: Turns, state: StreamState, until: float, begin: Callable[[], Count[T_co]]) -> T_co:
    """Of the stream as it is when its turn comes. Overloaded when too many wait."""
    async with turns.turn(state.id, max(0.0, until - time.monotonic())):  # without one the answer says so
        for _ in range(_LOOKS_MAX):
            one = begin()
            try:
                found = await one.found()
            except StreamsError as problem:
                if state.gone:
                    raise deleted(state) from None
                if not isinstance(problem, Gone) or state.earliest_seq == one.first:
                    raise
                continue
            if state.gone:
                raise deleted(state)
            if state.earliest_seq == one.first:
                return found
    raise Unavailable("entries were trimmed while they were counted; try again")
