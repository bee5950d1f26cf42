"""Which stretches of a stream may hold what a read is after, as far as covers and the runs behind them know.

Keeps    a stretch is ruled out only by a whole run that covers it and was read, under the very configuration in which
         the read itself understands entries. Runs are asked as the read comes to what they cover, some at once, and for
         no longer than a moment in all.
"""

import asyncio
import hashlib
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from indexers.plan import Family
from search.language import AllOf, AnyOf, Compare, NotOf, Op, Plan, exact_text, necessary
from streams_node.answers.runs import UNUSABLE, Runs, filter_of, run_of
from streams_node.indexing import Covering
from streams_node.observe.logs import get_logger
from streams_node.schema.search_config import Kind

if TYPE_CHECKING:
    from indexers.exact import Exact
    from indexers.lexicon import Lexicon
    from indexers.runs import RunReader

log = get_logger(__name__)
_ALTERNATIVES_MAX = 32  # values of which one has to be there; to look up more takes longer than it saves
_PARTS_MAX = 8
_RUNS_AT_ONCE = 8
_SECONDS = 1.0  # that a read spends in asking indexes, in all
_KNOWN_MAX = 8192
_SHORT_CHARS = 64
Value = tuple[str, str]  # a field, and the spelling of a value in an exact index; for a routing key the field is empty
Part = frozenset[Value]  # of which one has to be there
CoversOf = Callable[[int, Family, str], Awaitable[Sequence[Covering]]]


class Want(NamedTuple):
    """What every entry that a read is after has: one of each part.

    `lenses_below`: an older entry that cannot be promoted is the read's to report, so covers that skipped some say
    nothing about entries before this one.
    """

    family: Family
    config: str
    parts: tuple[Part, ...]
    lenses_below: int = 0


def key_want(key: str, configs: Mapping[Family, str]) -> Want | None:
    """Of a read by routing key; None where keys are not indexed."""
    config = configs.get("lexicon")
    return None if config is None else Want("lexicon", config, (frozenset({("", key)}),))


def filter_want(plan: Plan, configs: Mapping[Family, str], lenses_below: int) -> Want | None:
    """Of a filtered read; None where an exact index has nothing to say about it."""
    config = configs.get("exact")
    if config is None:
        return None
    found = dict.fromkeys(filter(None, map(_alternatives, necessary(plan))))
    parts = tuple(sorted(found, key=len))[:_PARTS_MAX]
    return Want("exact", config, parts, lenses_below) if parts else None


def _alternatives(plan: Plan) -> Part | None:
    """Values of which every match has one; None when nothing can be said."""
    if isinstance(plan, Compare):
        field = plan.field
        if plan.op is not Op.EQ or not field.exact or field.kind is Kind.TEXT:
            return None
        return frozenset({(field.name, exact_text(field.kind, plan.value))})
    if isinstance(plan, AnyOf):
        parts = [_alternatives(part) for part in plan.parts]
        if not parts or None in parts:
            return None
        union = frozenset[Value]().union(*filter(None, parts))
        return union if len(union) <= _ALTERNATIVES_MAX else None
    if isinstance(plan, AllOf | NotOf):
        return min(filter(None, map(_alternatives, _unnested(plan))), key=len, default=None)
    return None


def _unnested(plan: AllOf | NotOf) -> Iterator[Plan]:
    for part in necessary(plan):
        if part is not plan:
            yield part


class Known:
    """What runs were found to hold: they never change, and pages of one read ask the same. The oldest leave first."""

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[str, int, str, str], frozenset[int]] = OrderedDict()

    def get(self, made: str, stream: int, value: Value) -> frozenset[int] | None:
        return self._found.get((made, stream, *_short(value)))

    def put(self, made: str, stream: int, value: Value, ordinals: frozenset[int]) -> None:
        self._found[made, stream, *_short(value)] = ordinals
        while len(self._found) > _KNOWN_MAX:
            self._found.popitem(last=False)


def _short(value: Value) -> Value:
    field, text = value
    if len(text) <= _SHORT_CHARS:
        return field, "=" + text
    return field, hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class Pruner:
    """For one read of one stream. Without `looks` filters say what they know, and no run is fetched."""

    def __init__(
        self, runs: Runs, known: Known, covers_of: CoversOf, stream: int, wants: Sequence[Want], *, looks: bool = True
    ) -> None:
        self._wanted = [_Wanted(runs, known, covers_of, stream, want, looks=looks) for want in wants]

    async def stretch(self, at: int, end: int) -> tuple[int, int]:
        """The first stretch from an entry on, before `end`, that may hold what is wanted; empty when none does."""
        while at < end:
            start, stop = at, end
            for wanted in self._wanted:
                first, until = await wanted.stretch(start, end)
                start, stop = first, min(stop, until)
            if start < stop:
                return start, stop
            at = start
        return end, end


class _Wanted:
    """One want, and what is known of it so far."""

    def __init__(self, runs: Runs, known: Known, covers_of: CoversOf, stream: int, want: Want, *, looks: bool) -> None:
        self._runs = runs
        self._known = known
        self._covers_of = covers_of
        self._stream = stream
        self._want = want
        self._looks = looks
        self._seconds = _SECONDS  # left for asking
        self._covers: Sequence[Covering] | None = None
        self._starts: list[int] = []
        self._holding: dict[str, frozenset[int] | None] = {}  # by object: ordinals; None: it does not say

    async def stretch(self, at: int, end: int) -> tuple[int, int]:
        """As a pruner's; what is not covered may hold anything."""
        covers = await self._loaded()
        number = bisect_right(self._starts, at) - 1
        if number < 0 or covers[number].end_seq <= at:
            number += 1  # the first that begins behind it
            if number == len(covers):
                return at, end
            if covers[number].first_seq > at:
                return at, min(end, covers[number].first_seq)
        while number < len(covers) and at < end:
            cover = covers[number]
            if cover.first_seq > at:  # a gap
                return at, min(end, cover.first_seq)
            await self._ask(number)
            if self._may_hold(cover):
                return at, min(end, self._until(number))
            at, number = max(at, cover.end_seq), number + 1
        return min(at, end), end

    def _until(self, number: int) -> int:
        """Where a stretch that begins in a cover ends: before the next cover that is ruled out, or not asked yet."""
        covers = self._covers or ()
        end = covers[number].end_seq
        for cover in covers[number + 1 :]:
            if cover.first_seq != end or cover.made not in self._holding or not self._may_hold(cover):
                break
            end = cover.end_seq
        return end

    def _may_hold(self, cover: Covering) -> bool:
        ordinals = self._holding.get(cover.made)
        if ordinals is None or (cover.skipped and cover.first_seq < self._want.lenses_below):
            return True
        return cover.ordinal in ordinals

    async def _loaded(self) -> Sequence[Covering]:
        if self._covers is None:
            try:
                covers = await self._covers_of(self._stream, self._want.family, self._want.config)
            except UNUSABLE as problem:
                log.info("covers could not be read", stream=self._stream, error=repr(problem))
                covers = ()
            self._covers = covers
            self._starts = [cover.first_seq for cover in covers]
        return self._covers

    async def _ask(self, number: int) -> None:
        """Ask the object of a cover, and those of some that follow."""
        covers = self._covers or ()
        if covers[number].made in self._holding:
            return
        asked: dict[str, Covering] = {}
        for cover in covers[number:]:
            if cover.made not in self._holding:
                asked.setdefault(cover.made, cover)
                if len(asked) == _RUNS_AT_ONCE:
                    break
        self._holding.update(dict.fromkeys(asked))
        if self._seconds <= 0:
            return
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._seconds):
                await asyncio.gather(*map(self._ask_one, asked.values()))
        except TimeoutError:
            log.info("indexes took too long, and were left aside", stream=self._stream)
        self._seconds -= time.monotonic() - began

    async def _ask_one(self, cover: Covering) -> None:
        try:
            self._holding[cover.made] = await self._sources(cover)
        except UNUSABLE as problem:
            log.info("an index was left aside", object=cover.made, error=repr(problem))

    async def _sources(self, cover: Covering) -> frozenset[int] | None:
        """Which sources of an object hold one of each part; None when it cannot be read."""
        values = sorted(set().union(*self._want.parts))
        found = {value: self._known.get(cover.made, self._stream, value) for value in values}
        missing = [value for value in values if found[value] is None]
        if missing and self._want.family == "exact" and cover.filter_bytes:
            missing = await self._filtered(cover, missing, found)
        if missing and not self._looks:
            return None
        if missing:
            looked = await self._look(cover, missing)
            if looked is None:
                return None
            for value, ordinals in looked.items():
                found[value] = ordinals
                self._known.put(cover.made, self._stream, value, ordinals)
        sets = cast("dict[Value, frozenset[int]]", found)
        return frozenset.intersection(*(_any_of(sets, part) for part in self._want.parts))

    async def _filtered(
        self, cover: Covering, values: list[Value], found: dict[Value, frozenset[int] | None]
    ) -> list[Value]:
        """Those that have to be looked up: none, if the filter beside the run rules out a whole part."""
        from indexers.exact import may_hold  # noqa: PLC0415 - loads pyarrow

        beside = await self._runs.filter(filter_of(cover))
        if beside is None:
            return values
        left = [value for value in values if may_hold(beside, self._stream, *value)]
        found.update((value, frozenset()) for value in values if value not in left)
        if all(any(found[value] != frozenset() for value in part) for part in self._want.parts):
            return left
        found.update((value, frozenset()) for value in left)  # whatever they are: the part that is not there decides
        return []

    async def _look(self, cover: Covering, values: Sequence[Value]) -> dict[Value, frozenset[int]] | None:
        """The ordinals of the sources that hold each value; None when the run cannot be read."""
        stream, family = self._stream, self._want.family

        def work(readers: "Mapping[str, RunReader]") -> dict[Value, frozenset[int]] | None:
            reader = readers.get(cover.made)
            if reader is None:
                return None
            # By ordinal: a run that was merged may name one source twice, each time for other entries.
            if family == "lexicon":
                keys = cast("Lexicon", reader)
                return {value: frozenset(keys.ordinals_of(stream, value[1])) for value in values}
            exact = cast("Exact", reader)
            return {value: frozenset(exact.ordinals_of(stream, *value)) for value in values}

        found, _ = await self._runs.read([run_of(cover)], family, work)
        return found


def _any_of(sets: Mapping[Value, frozenset[int]], part: Part) -> frozenset[int]:
    return frozenset[int]().union(*(sets[value] for value in part))
