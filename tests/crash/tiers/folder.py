"""A data folder with its bucket, over many lives of its node."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from streams_node.config import Settings
from tests.crash.appenders import Plain, Producer, Tailer
from tests.crash.folder import CrashedFolder
from tests.crash.lifecycles import BucketKeeper, Churner, Closer, Toucher
from tests.crash.load import Load, Writer
from tests.crash.model import Stream
from tests.crash.tiers.bucket import Bucket
from tests.crash.tiers.points import TIERS

_REST_S = 20.0  # after the load: publish, merge, collect, and look twice
_LAST_S = 0.3


def somebody(seed: str) -> Load:
    """A writer of every kind, and no more: the tiers want their share of the processor, too."""
    lines, arrays, sure = Stream("/v1/stream/lines"), Stream("/v1/stream/arrays", json=True), Stream("/v1/stream/sure")
    locks = {stream.path: asyncio.Lock() for stream in (lines, arrays, sure)}
    writers: list[Writer] = [
        Plain("plain", seed, lines, locks[lines.path]),
        Plain("arrays", seed, arrays, locks[arrays.path]),
        *(Producer(f"sure-{at}", seed, sure, locks[sure.path]) for at in range(2)),
        Closer("closer", seed, json=False),
        Churner("churn", seed, json=True),
        BucketKeeper("keeper", seed),
        Toucher("toucher", seed),
        Tailer("tail", seed, arrays),
    ]
    return Load(writers, seed)


class TieredFolder(CrashedFolder):
    """As its parent; its end is that everything is published and nothing is left lying about.

    `settings` name another store than a folder.
    """

    def __init__(
        self, folder: Path, seed: str, *, settings: Mapping[str, object] | None = None, load: Load | None = None
    ) -> None:
        self.place = folder / "bucket"
        place = settings or {"object_store_folder": self.place}
        super().__init__(folder / "data", seed, {**TIERS, **place}, load or somebody(seed))
        self.bucket = Bucket(Settings(data=self.data, no_auth=True, **self.settings))  # type: ignore[arg-type]

    async def rest(self) -> None:
        """A life in which everything comes to rest, and one more that reads it all back."""
        with self.start() as node:
            await node.ready()
            await self.judge(node)
            running = asyncio.ensure_future(self.load.run(node.port))
            await asyncio.wait({running}, timeout=_LAST_S)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await self.bucket.quiet(self.data / "streams.db", _REST_S)
            await self.load.settle(node.port)
            node.terminate()
            assert await node.ended() == 0, node.log_tail()
        with self.start() as node:
            await node.ready()
            await self.judge(node)
