"""What the edge asks."""

import time
from collections.abc import Sequence
from pathlib import Path

from indexers.plan import Family
from streams_node.answers.keys import Remembered
from streams_node.answers.pruning import Known, Pruner, Want
from streams_node.answers.routing_keys import Asked, KeysPage, keys_page
from streams_node.answers.runs import Runs
from streams_node.answers.views import Views
from streams_node.cache import Cache
from streams_node.indexing import Covering
from streams_node.indexing.known import KnownCovers
from streams_node.ingest.state import StreamState
from streams_node.read.cold import ColdReader
from streams_node.wal.database import Database


class Indexes:
    """Made once a node. Its cache is of index objects alone, so that a scan of history drives out none."""

    def __init__(
        self, database: Database, covers: KnownCovers, cache: Cache, views: tuple[Path, int] | None = None
    ) -> None:
        """`views` says in which folder views of companions are, and how large they may be; None: there are none."""
        self._database = database
        self._covers = covers
        self._known = Known()
        self._remembered = Remembered()
        self.cache = cache
        self.runs = Runs(cache)
        self.views = None if views is None else Views(self.runs, *views)

    def pruner(self, stream: int, wants: Sequence[Want], *, looks: bool = True) -> Pruner:
        """For one read of a stream. Without `looks` it asks filters alone, which are small."""
        return Pruner(self.runs, self._known, self.covers, stream, wants, looks=looks)

    async def routing_keys(
        self, cold: ColdReader | None, state: StreamState, config: str | None, *, after: str | None, limit: int,
        seconds: float,
    ) -> KeysPage:  # fmt: skip
        """A page of the stream's keys; `config` is that of its lexicon, which is one for all streams that have any."""

        async def covers_of(stream: int) -> Sequence[Covering]:
            return [] if config is None else await self.covers(stream, "lexicon", config)

        asked = Asked(after, limit, time.monotonic() + seconds)
        return await keys_page(self._database, self.runs, self._remembered, cold, state, covers_of, asked)

    async def covers(self, stream: int, family: Family, config: str) -> Sequence[Covering]:
        """What covers a stream, under one configuration; maybe entries, too, that were trimmed since."""
        return await self._covers.of(stream, family, config)

    async def close(self) -> None:
        if self.views is not None:
            await self.views.close()
        await self.runs.close()
        await self.cache.close()
