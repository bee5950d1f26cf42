"""What companions say of their fields before they are opened: which of them hold nothing that a query is after.

Keeps    a companion is ruled out only by its own directory, which has a checksum, or by the filters of exact
         indexes of the same entries. What cannot be asked in time is not ruled out.
Dies     holds nothing that is not stored elsewhere.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from search.language import AllOf, AnyOf, Compare, Op, Plan, clauses
from streams_node.answers.runs import UNUSABLE, run_of
from streams_node.cache import Cache
from streams_node.indexing import Covering
from streams_node.observe.logs import get_logger
from streams_node.read.keyed import Pruner
from streams_node.schema.search_config import Kind

if TYPE_CHECKING:
    from indexers.companion import Directory

log = get_logger(__name__)
_Number = int | float
Bounds = Mapping[str, tuple[_Number, _Number]]  # of a field: the least and the greatest of all values
_NUMBERS = frozenset({Kind.INTEGER, Kind.FLOAT, Kind.DATE})
BYTES_MIN = 256 << 10  # a smaller companion is fetched as quickly as what it says of itself
_BEGINNING_BYTES = 16 << 10  # the directory of most is shorter
_KNOWN_MAX = 8192
_AT_ONCE = 8


class Known(NamedTuple):
    """What is kept of a directory. `stream` is None when entries of several streams are in the companion."""

    bounds: Bounds
    stream: int | None


class Directories:
    """The bounds that companions name. On the event loop."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._known: OrderedDict[str, Known] = OrderedDict()

    def note(self, made: str, directory: "Directory") -> None:
        """It was read for another reason."""
        streams = {cover.stream for cover in directory.covers}
        self._known[made] = Known(_bounds(directory), streams.pop() if len(streams) == 1 else None)
        self._known.move_to_end(made)
        while len(self._known) > _KNOWN_MAX:
            self._known.popitem(last=False)

    def known(self, made: str) -> Known | None:
        """Without a look at it."""
        return self._known.get(made)

    async def ruled_out(
        self, covers: Sequence[Covering], plan: Plan, pruner: Pruner | None, seconds: float
    ) -> dict[Covering, Literal["col", "exact"]]:
        """Those of the covers that no match lies in, as far as that is known within some time; and what said so."""
        large = [cover for cover in covers if cover.bytes >= BYTES_MIN]
        found: dict[Covering, Literal["col", "exact"]] = {}
        try:
            async with asyncio.timeout(seconds):
                if any(isinstance(each, Compare) and each.field.kind in _NUMBERS for each in clauses(plan)):
                    await self._by_bounds(large, plan, lambda cover: found.setdefault(cover, "col"))
                if pruner is not None:
                    for cover in [cover for cover in large if cover not in found]:
                        start, end = await pruner.stretch(cover.first_seq, cover.end_seq)
                        if start >= end:
                            found[cover] = "exact"
        except TimeoutError:
            log.info("companions could not all be asked what they hold", count=len(large))
        return found

    async def _by_bounds(self, covers: Sequence[Covering], plan: Plan, found: Callable[[Covering], object]) -> None:
        some = asyncio.Semaphore(_AT_ONCE)

        async def ask(cover: Covering) -> None:
            async with some:
                bounds = await self._of(cover)
                if bounds is not None and impossible(plan, bounds):
                    found(cover)

        await asyncio.gather(*map(ask, covers))

    async def _of(self, cover: Covering) -> Bounds | None:
        known = self._known.get(cover.made)
        if known is not None:
            self._known.move_to_end(cover.made)
            return known.bounds
        try:
            directory = await self._read(cover)
        except UNUSABLE as problem:  # whoever opens it will say why
            log.info("a companion could not be asked what it holds", object=cover.made, error=repr(problem))
            return None
        if directory is None:
            return None
        self.note(cover.made, directory)
        return self._known[cover.made].bounds

    async def _read(self, cover: Covering) -> "Directory | None":
        from indexers.companion import directory_of  # noqa: PLC0415 - loads tantivy
        from indexers.runs import IndexDamaged  # noqa: PLC0415

        size, facts = _BEGINNING_BYTES, run_of(cover)
        try:
            found = directory_of(await self._cache.beginning(facts, size), cover.made)
            if isinstance(found, int):
                found = directory_of(await self._cache.beginning(facts, found), cover.made)
        except IndexDamaged as problem:
            log.info("the beginning of a companion cannot be read", object=cover.made, error=str(problem))
            return None
        return None if isinstance(found, int) else found


def _bounds(directory: "Directory") -> Bounds:
    return {
        each.name: (_number(each.least), _number(each.most))
        for each in directory.fields
        if each.least is not None and each.most is not None
    }


def _number(text: str) -> _Number:
    return int(text) if text.lstrip("-").isdecimal() else float(text)


def impossible(plan: Plan, bounds: Bounds) -> bool:
    """Whether no record whose values lie within the bounds matches. A field without bounds may hold anything."""
    match plan:
        case AllOf(parts):
            return any(impossible(part, bounds) for part in parts)
        case AnyOf(parts):
            return all(impossible(part, bounds) for part in parts)
        case Compare(field, op, value) if field.kind in _NUMBERS and field.name in bounds:
            least, most = bounds[field.name]
            return _outside(op, value, least, most)  # type: ignore[arg-type]
        case _:
            return False


def _outside(op: Op, value: _Number, least: _Number, most: _Number) -> bool:
    match op:
        case Op.EQ:
            return value < least or value > most
        case Op.LT:
            return least >= value
        case Op.LE:
            return least > value
        case Op.GT:
            return most <= value
        case Op.GE:
            return most < value
