"""What the database knows, as the plan wants it; looked at in slices, and not again while nothing has changed."""

import sqlite3
from collections.abc import Callable, Iterable

import sql
from streams_node.compactor.jobs import DROPS_MAX, Backlog, Job, Limits
from streams_node.placement.backlog import Pack, SmallSegments, gone_segments, live_packs, small_segments_after
from streams_node.placement.backlog import small_segments as small_segments_of
from streams_node.placement.dead import keep_counts
from streams_node.placement.directories import keep_directories
from streams_node.placement.made import ObjectFacts
from streams_node.wal.database import Database

_PLACEMENT = sql.queries("placement")
_SLICE = 2000  # new segments looked at in one go
_SLICES_MAX = 10  # and so many goes before the plan has its turn
_GONE_S = 30.0  # between two looks for segments of streams that are gone, as each goes through all segments
_COUNT_STREAMS = 1_000_000  # streams of packs in one count: half a second of a worker


class Outlook:
    """Kept between two jobs. What is dead since when is in memory: of older deaths a start knows only the latest."""

    def __init__(
        self, database: Database, limits: Limits, *, now_us: Callable[[], int], clock: Callable[[], float]
    ) -> None:
        self.packs: dict[str, Pack] = {}
        self._database = database
        self._limits = limits
        self._now_us = now_us
        self._clock = clock
        self._small: dict[int, list[ObjectFacts]] = {}
        self._stale: set[int] = set()
        self._through = 0
        self._gone: list[ObjectFacts] = []
        self._gone_at = -_GONE_S
        self._counted: dict[str, float] = {}
        self._dead_since: dict[str, int] = {}
        self._first: frozenset[str] | None = None  # packs that were there at the start

    async def generation(self) -> int:
        """Moves whenever the catalogue does."""
        return int(await self._database.looks.run(_generation))

    async def look(self) -> Backlog:
        """What there is to do now."""
        packs = await self._database.looks.run(live_packs)
        if self._first is None:
            self._first = frozenset(pack.facts.made for pack in packs)
        self.packs = {pack.facts.made: self._dated(pack) for pack in packs}
        self._counted = {made: at for made, at in self._counted.items() if made in self.packs}
        self._dead_since = {made: at for made, at in self._dead_since.items() if made in self.packs}
        await self._look_at_segments()
        if self._clock() - self._gone_at >= _GONE_S:
            self._gone = await self._database.looks.run(gone_segments, DROPS_MAX)
            self._gone_at = self._clock() - (_GONE_S if len(self._gone) == DROPS_MAX else 0)
        return Backlog(list(self.packs.values()), self._small, self._gone)

    def done(self, job: Job) -> None:
        """The inputs of a job are gone, or are not what was thought."""
        made = {facts.made for facts in job.inputs}
        self._stale.update(facts.stream for facts in job.inputs if facts.stream is not None)
        self._gone = [facts for facts in self._gone if facts.made not in made]

    def to_count(self) -> list[Pack]:
        """The packs that were counted longest ago, as many as one count takes."""
        chosen: list[Pack] = []
        left = _COUNT_STREAMS
        for pack in sorted(self.packs.values(), key=lambda pack: self._counted.get(pack.facts.made, -1.0)):
            if chosen and pack.facts.streams > left:
                break
            chosen.append(pack)
            left -= pack.facts.streams
        return chosen

    async def counted(self, dead: dict[str, int], found: dict[str, bytes]) -> None:
        """What a count has found; and directories that it had to take out of objects."""
        for made in dead:
            self._counted[made] = self._clock()
        changed = [(m, count) for m, count in dead.items() if m in self.packs and self.packs[m].dead_entries != count]
        for made, count in changed:
            if count:
                self._died(self.packs[made].facts)
        if changed:
            await self._database.writer.run(keep_counts, changed)
        if found:
            await self._database.writer.run(keep_directories, list(found.items()))

    def skipped(self, made: str) -> None:
        """A pack that could not be counted waits for its next turn."""
        self._counted[made] = self._clock()

    def _dated(self, pack: Pack) -> Pack:
        if pack.dead_entries:
            self._died(pack.facts)
        return pack._replace(dead_since_us=self._dead_since.get(pack.facts.made, 0))

    def _died(self, facts: ObjectFacts) -> None:
        """A stream dies after the newest entry of a pack that holds it was written.

        What a pack of before the start has dead in it is taken to be as old as that: it leaves too early, not too late.
        """
        old = self._first is not None and facts.made in self._first
        self._dead_since.setdefault(facts.made, facts.max_ts if old else self._now_us())

    async def _look_at_segments(self) -> None:
        bounds = {
            "payload_bytes": (self._limits.segment_bytes + 1) // 2,
            "entries": (self._limits.segment_entries + 1) // 2,
        }
        for _ in range(_SLICES_MAX):
            found: SmallSegments = await self._database.looks.run(small_segments_after, self._through, _SLICE, **bounds)
            self._replace(found.streams, found.by_stream)
            if found.through == self._through:
                break
            self._through = found.through
        if self._stale:
            streams = sorted(self._stale)
            self._stale = set()
            self._replace(streams, await self._database.looks.run(small_segments_of, streams, **bounds))

    def _replace(self, streams: Iterable[int], found: dict[int, list[ObjectFacts]]) -> None:
        for stream in streams:
            self._small.pop(stream, None)
            if len(found.get(stream, ())) > 1:  # one alone has no neighbour
                self._small[stream] = found[stream]


def _generation(db: sqlite3.Connection) -> int:
    return int(db.execute(_PLACEMENT.node_value, ("generation",)).fetchone()[0])
