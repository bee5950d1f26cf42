"""Makes a snapshot of the catalogue every so many generations, beside the publishing: a start reads few objects."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import sql
from streams_node.errors import WorkerFailed
from streams_node.manifest import PART_BYTES, Chain, feed, keep, parts_of, put_snapshot
from streams_node.objects.threads import Threads
from streams_node.observe.logs import get_logger
from streams_node.uploader.publisher import Standing
from streams_node.wal.database import Database
from streams_node.worker.parent import Worker

log = get_logger(__name__)
_PLACEMENT = sql.queries("placement")
_POINT_EVERY = 16  # generations between two moves of `latest`, which costs two requests and only saves some
_FAILED_S = 60.0


class Snapshots:
    """One at a time. A failure costs nothing but a longer list of generations; the next generation tries again."""

    def __init__(
        self, database: Database, folder: Path, worker: Worker, threads: Threads, *, every: int, timeout_s: float
    ) -> None:
        self._database = database
        self._folder = folder
        self._worker = worker
        self._threads = threads
        self._every = every
        self._timeout_s = timeout_s
        self._making: asyncio.Task[None] | None = None
        self._not_before = 0.0
        self.newest: int | None = None
        self.failures = 0

    async def after(self, chain: Chain, standing: Standing, data: bytes) -> None:
        """A generation has been published; its bytes need not be fetched for the mirror again."""
        with contextlib.suppress(OSError):
            await self._threads.run(keep, self._folder, standing.generation, data)
        if standing.generation % _POINT_EVERY == 0:
            await self._threads.run(chain.point, standing.generation)
        if self.newest is None:
            self.newest = await self._database.looks.run(_newest)
        idle = self._making is None or self._making.done()
        loop = asyncio.get_running_loop()
        if standing.generation - self.newest >= self._every and idle and loop.time() >= self._not_before:
            self._making = loop.create_task(self._make(chain, standing), name="snapshot")

    async def stop(self) -> None:
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)

    async def _make(self, chain: Chain, standing: Standing) -> None:
        try:
            await self._mirrored(chain, standing)
            asked = {"folder": str(self._folder), "part_bytes": PART_BYTES}
            made = parts_of(await self._worker.run("snapshot", asked, self._timeout_s))
            await self._threads.run(put_snapshot, chain.store, *made)
            for part in made.parts:
                part.file.unlink(missing_ok=True)
            await self._database.writer.run(_made, standing.generation)
            self.newest = standing.generation
            await self._threads.run(chain.point, standing.generation)
            log.info("snapshot of the catalogue made", generation=standing.generation, parts=len(made.parts))
        except Exception as failure:  # noqa: BLE001 - generations stay until there is a snapshot of them
            self.failures += 1
            self._not_before = asyncio.get_running_loop().time() + _FAILED_S
            log.warning("no snapshot of the catalogue could be made", error=repr(failure))

    async def _mirrored(self, chain: Chain, standing: Standing) -> None:
        """Bring the mirror to a generation; from nothing, if it is in a doubtful state."""
        answer: dict[str, Any] = {}
        for anew in (False, True):
            arguments = await self._threads.run(feed, chain, self._folder, standing.generation, standing.sum, anew=anew)
            answer = await self._worker.run("mirror", arguments, self._timeout_s)
            if "broken" not in answer:
                return
            log.info("the mirror of the catalogue does not fit", reason=answer["broken"])
        raise WorkerFailed(f"the mirror of the catalogue cannot be made: {answer['broken']}")


def _newest(db: sqlite3.Connection) -> int:
    found: int = db.execute(_PLACEMENT.node_value, ("snapshot",)).fetchone()[0]
    return found


def _made(db: sqlite3.Connection, generation: int) -> None:
    db.execute(_PLACEMENT.set_node_value, (generation, "snapshot"))
