"""One page of a stream's distinct routing keys: what lexicons cover, one sealed object that they do not, and the log.

A fork has the keys of the entries that it shares, too. They are read as their owners', whose lexicons cover them.

Keeps    keys come in the order of their UTF-8, each once, and none of entries that are trimmed. `complete` says that
         none is missing up to the last one of the page, or at all on the last page; else `missing` says how many sealed
         objects nobody has looked into.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, cast

from streams_node.answers.keys import Collected, Remembered, Stretch, sealed_keys
from streams_node.answers.ranges import Range, uncovered, within
from streams_node.answers.runs import UNUSABLE, IndexFacts, Runs, run_of
from streams_node.errors import StreamsError, Unavailable
from streams_node.indexing import Covering
from streams_node.ingest.state import StreamState
from streams_node.observe.logs import get_logger
from streams_node.read.cold import ColdReader
from streams_node.read.lineage import lives_of
from streams_node.read.pages import deleted
from streams_node.wal.database import Database
from streams_node.wal.keys import log_start, read_keys
from streams_node.wal.tails import LogEnd, LogMoved, NotInLog

if TYPE_CHECKING:
    from indexers.lexicon import Lexicon
    from indexers.runs import RunReader

log = get_logger(__name__)
_PLACES_AT_ONCE = 512
_OBJECTS_MAX = 4096  # that are counted as missing: beyond it the number is a lower bound
_LOOKS_MAX = 3


@dataclass(slots=True)
class Timing:
    """Seconds, but for the number of runs."""

    get: float = 0.0
    decode: float = 0.0
    enumerate: float = 0.0
    merge: float = 0.0
    fallback: float = 0.0
    fallback_get: float = 0.0
    fallback_log: float = 0.0
    runs: int = 0


@dataclass(slots=True)
class KeysPage:
    """`keys` are some at most; `more` are known behind them."""

    keys: Sequence[str] = ()
    more: bool = False
    complete: bool = True
    indexed: int = 0  # covers that the answer rests on
    scanned: int = 0  # sealed objects whose keys were read
    log_rows: int = 0
    missing: int = 0
    timing: Timing = field(default_factory=Timing)

    @property
    def next_after(self) -> str | None:
        """Where the next page begins, if there may be one."""
        return self.keys[-1] if self.keys and (self.more or not self.complete) else None


class Asked(NamedTuple):
    """A page as it was asked for. `until` is a moment of the monotonic clock."""

    after: str | None
    limit: int
    until: float


class Share(NamedTuple):
    """The entries [first, end) of a stream that one incarnation has: its own, or those of a stream it was forked from.

    `tail` is an end of that incarnation's that is not before them.
    """

    id: int
    first: int
    end: int
    tail: LogEnd
    shared: bool


CoversOf = Callable[[int], Awaitable[Sequence[Covering]]]


async def keys_page(
    database: Database, runs: Runs, remembered: Remembered, cold: ColdReader | None, state: StreamState,
    covers_of: CoversOf, asked: Asked,
) -> KeysPage:  # fmt: skip
    """The page, of the stream as it is now; `covers_of` gives the covers of an incarnation's lexicon."""
    try:
        return await _Page(database, runs, remembered, cold, state, asked).made(covers_of)
    except StreamsError:
        if state.gone:
            raise deleted(state) from None
        raise


class _Page:
    """A page in the making."""

    def __init__(
        self, database: Database, runs: Runs, remembered: Remembered, cold: ColdReader | None, state: StreamState,
        asked: Asked,
    ) -> None:  # fmt: skip
        self._database = database
        self._runs = runs
        self._remembered = remembered
        self._cold = cold
        self._state = state
        self._asked = asked
        self._cut: dict[int, list[Covering]] = {}  # covers of which a part is not the stream's, by incarnation
        self._lost = 0  # gaps that nobody was found to have
        self._page = KeysPage()

    async def made(self, covers_of: CoversOf) -> KeysPage:
        """Ask the lexicons, then look into what they do not cover."""
        page, asked = self._page, self._asked
        parts, gaps = list[Sequence[str]](), list[tuple[Share, list[Range]]]()
        for share in await self._shares():
            found, covers = await self._from_lexicons(share, await covers_of(share.id))
            log_keys, left = await self._from_log(share, uncovered(covers, share.first, share.end))
            parts += [found, log_keys]
            gaps.append((share, left))
            page.indexed += len(covers)
        parts += await self._from_objects(gaps)
        began = time.monotonic()
        some = [part for part in parts if part]
        merged = some[0] if len(some) == 1 else sorted(set().union(*some))  # each is in order, and has no key twice
        page.keys, page.more = merged[: asked.limit], len(merged) > asked.limit
        page.timing.merge = time.monotonic() - began
        return page

    async def _shares(self) -> list[Share]:
        """Whose entries these are, the oldest first."""
        state, tail = self._state, self._state.tail  # one moment
        first, own = state.earliest_seq, 0 if state.lineage is None else state.lineage.fork_seq
        found = [
            Share(life.id, max(first, life.first), life.end, life.tail, shared=True)
            for life in reversed(await lives_of(self._database, state))
            if life.end > first
        ]
        return [*found, Share(state.id, max(first, own), tail.seq, tail, shared=False)]

    # --- what is indexed ---

    async def _from_lexicons(self, share: Share, covers: Sequence[Covering]) -> tuple[list[str], list[Covering]]:
        """The first keys of all runs; and the covers that could be used.

        A cover of which a part is trimmed, or lies behind a fork point, is none: which of its keys are the stream's
        only the entries know.
        """
        covers = [cover for cover in covers if cover.end_seq > share.first and cover.first_seq < share.end]
        usable = [cover for cover in covers if cover.first_seq >= share.first and cover.end_seq <= share.end]
        self._cut[share.id] = [cover for cover in covers if cover not in usable]
        if not usable:
            return [], []
        objects: dict[str, IndexFacts] = {}
        ordinals: dict[str, set[int]] = {}
        for cover in usable:
            objects.setdefault(cover.made, run_of(cover))
            ordinals.setdefault(cover.made, set()).add(cover.ordinal)
        stream, asked, timing = share.id, self._asked, self._page.timing
        some = share.shared or share.first > 0  # an object may have more covers of the stream than these

        def work(readers: "Mapping[str, RunReader]") -> tuple[list[str], set[str], float]:
            from indexers.lexicon import first_keys  # noqa: PLC0415 - whoever has an open run has loaded it

            began = time.monotonic()
            found = [
                cast("Lexicon", reader).blocks(stream, asked.after, among=frozenset(ordinals[made]) if some else None)
                for made, reader in readers.items()
            ]
            return first_keys(found, asked.limit + 1), set(readers), time.monotonic() - began

        try:
            (keys, read, seconds), taken = await self._runs.read(list(objects.values()), "lexicon", work)
        except UNUSABLE as problem:
            log.info("lexicons were left aside", stream=stream, error=repr(problem))
            return [], []
        timing.get, timing.decode = timing.get + taken.get_s, timing.decode + taken.open_s
        timing.enumerate, timing.runs = timing.enumerate + seconds, timing.runs + len(read)
        return keys, [cover for cover in usable if cover.made in read]

    # --- what is in the log ---

    async def _from_log(self, share: Share, gaps: list[Range]) -> tuple[Sequence[str], list[Range]]:
        """The first keys of what the log has from the first gap on; and the gaps that it has not."""
        if not gaps:
            return (), []
        began = time.monotonic()
        low = await self._database.readers.run(log_start, share.tail, gaps[0].first)
        start = next((max(gap.first, low) for gap in gaps if gap.end > low), share.end)
        known = None if share.shared else self._remembered.get(share.id)  # the owner has more behind a fork point
        if known is None or not share.first <= known.range.first <= start <= known.range.end:
            known = Stretch(Range(start, start), (), 0)
        # What was read when it was in the log need not be read again when it has left it.
        start = max(known.range.first, gaps[0].first)
        sealed, keys = within(gaps, 0, start), known.keys
        if known.range.end < share.end:
            keys, left = await self._grown(share, known)
            sealed += within(gaps, left.first, left.end)
        self._page.log_rows += share.end - start
        self._page.timing.fallback_log += time.monotonic() - began
        return Stretch(known.range, keys, 0).behind(self._asked.after, self._asked.limit + 1), sealed

    async def _grown(self, share: Share, known: Stretch) -> tuple[Sequence[str], Range]:
        """The keys of a stretch that goes on to the end of the share; and what has left the log meanwhile."""
        asked, tail, end = self._asked, share.tail, share.end
        collected = Collected(asked.after, asked.limit + 1, known.keys)
        at, left = known.range.end, Range(0, 0)
        while at < end:
            if time.monotonic() > asked.until:
                self._page.complete = False
                return collected.sorted(), left
            try:
                at = await self._database.readers.run(read_keys, share.id, tail, Range(at, end), collected.take)
            except NotInLog as missing:
                if self._state.gone:
                    raise deleted(self._state) from None
                stop = min(end, missing.first_seq or end)
                left = Range(left.first if left.end else at, stop)
                at = stop
            except LogMoved:
                raise Unavailable("the entries were moved while their keys were read; try again") from None
        if share.shared:
            return collected.sorted(), left
        if not collected.whole or left.end:
            self._remembered.forget(share.id)
            return collected.sorted(), left
        grown = await self._runs.run(collected.stretch, Range(known.range.first, end))
        self._remembered.put(share.id, grown)
        return grown.keys, left

    # --- what is sealed, and not indexed ---

    async def _from_objects(self, gaps: list[tuple[Share, list[Range]]]) -> list[Sequence[str]]:
        """The first keys of one object that nothing covers; and of what is left of covers that were cut."""
        gaps = [(share, left) for share, left in gaps if left]
        if not gaps:
            return []
        cold = self._cold
        if cold is None:
            raise Unavailable("the entries are not in the log, and sealed ones cannot be read yet; try again")
        places = [(share.id, place) for share, left in gaps for place in await self._places(cold, share.id, left)]
        page = self._page
        chosen = [each for each in places if self._is_cut(*each)] + places[-1:]
        page.missing = self._lost + len(places)
        found = list[Sequence[str]]()
        for stream, place in dict.fromkeys(chosen):
            try:
                async with asyncio.timeout(max(0.0, self._asked.until - time.monotonic())):
                    found.append(await self._scanned(cold, stream, place))
            except UNUSABLE as problem:
                if self._state.gone:
                    raise deleted(self._state) from None
                log.info("keys of a sealed object were left out", stream=self._state.id, error=repr(problem))
            else:
                page.scanned += 1
                page.missing -= 1
        page.complete = page.complete and not page.missing
        return found

    def _is_cut(self, stream: int, place: Range) -> bool:
        """Whether no lexicon will ever say which keys these entries have: there may be two of each incarnation."""
        return any(cover.first_seq < place.end and place.first < cover.end_seq for cover in self._cut[stream])

    async def _scanned(self, cold: ColdReader, stream: int, wanted: Range) -> Sequence[str]:
        """The first keys of sealed entries."""
        asked, timing = self._asked, self._page.timing
        known = self._remembered.get(stream, wanted.first)
        if known is None or known.range != wanted:
            collected = Collected(asked.after, asked.limit + 1)
            began = time.monotonic()
            await sealed_keys(cold, stream, wanted, collected)
            timing.fallback += collected.seconds
            timing.fallback_get += time.monotonic() - began - collected.seconds
            known = await self._runs.run(collected.stretch, wanted)
            if collected.whole:
                self._remembered.put(stream, known, wanted.first)
        return known.behind(asked.after, asked.limit + 1)

    async def _places(self, cold: ColdReader, stream: int, gaps: list[Range]) -> list[Range]:
        """What of the gaps each sealed object has, in order."""
        found: dict[str, Range] = {}
        for gap in gaps:
            at, looks = gap.first, 0
            while at < gap.end and len(found) < _OBJECTS_MAX:
                try:
                    chain = await cold.located(stream, at, _PLACES_AT_ONCE)
                except UNUSABLE as problem:  # the directory of a pack that is not here, and the store is away
                    log.info("sealed objects could not be found", stream=self._state.id, error=repr(problem))
                    self._lost += 1
                    break
                for place in chain:
                    if place.first_seq < gap.end:
                        first = found[place.facts.made].first if place.facts.made in found else at
                        at = min(gap.end, place.end_seq)
                        found[place.facts.made] = Range(first, at)
                looks = 0 if chain else looks + 1
                if looks == _LOOKS_MAX:  # moved again and again, or it has just been deleted
                    self._lost += 1
                    break
        if self._lost and self._state.gone:
            raise deleted(self._state)
        return list(found.values())
