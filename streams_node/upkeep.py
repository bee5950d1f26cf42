"""What the node does on its own: ends streams, frees dead rows, checkpoints, writes heads, watches disk and loop.

Each duty is a loop of its own, named, with its errors counted and logged, so that none stops another.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from streams_node.errors import Unavailable
from streams_node.http.connections import Connections
from streams_node.http.context import Context
from streams_node.ingest.remove import end_streams
from streams_node.observe.logs import get_logger
from streams_node.observe.vitals import LOOK_S
from streams_node.wal.folder import DataFolder

log = get_logger(__name__)
_SWEEP_STREAMS = 200
_FREE_ROWS = 500  # a slice of dead rows holds the writer for a few milliseconds
_LOOP_PROBE_S = 0.1
_CHECKPOINT_S = 0.1
_DISK_S = 1.0
_GRAVES_S = 1.0
_STRETCHES_S = 2.0
_IDLE_S = 2.0
_QUIET_S = 1.0  # without an append: then heads are written at once
_BACKOFF_S = 1.0


class Upkeep:
    """The duties of one node."""

    def __init__(self, context: Context, connections: Connections, folder: DataFolder) -> None:
        self._context = context
        self._connections = connections
        self._folder = folder
        self._stored_bytes = 0
        self._heads_at = time.monotonic()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        settings = self._context.settings
        duties: list[tuple[str, float, Callable[[], Awaitable[bool]]]] = [
            ("end-streams", settings.expiry_sweep_ms / 1000, self._end_streams),
            ("free-rows", _GRAVES_S, self._free_rows),
            ("tend-stretches", _STRETCHES_S, self._tend_stretches),
            ("checkpoint", _CHECKPOINT_S, self._checkpoint),
            ("write-heads", _QUIET_S, self._write_heads),
            ("watch-disk", _DISK_S, self._watch_disk),
            ("watch-loop", 0.0, self._watch_loop),
            ("watch-vitals", LOOK_S, self._watch_vitals),
            ("sweep-idle", _IDLE_S, self._sweep),
        ]
        self._tasks = [
            asyncio.create_task(self._repeat(name, every_s, duty), name=name) for name, every_s, duty in duties
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _repeat(self, name: str, every_s: float, duty: Callable[[], Awaitable[bool]]) -> None:
        while True:
            try:
                more = await duty()
            except Exception as problem:  # noqa: BLE001 - one duty's failure is logged, counted, and tried again
                log.warning("upkeep failed", duty=name, error=repr(problem))
                await asyncio.sleep(_BACKOFF_S)
            else:
                await asyncio.sleep(0.01 if more else every_s)

    async def _end_streams(self) -> bool:
        """Windows that are held are stored as such before they are over: lists and a restart go by what is stored."""
        for state in self._context.live.held():
            self._context.ledger.touch(state)
        return await end_streams(self._context.ledger, _SWEEP_STREAMS) == _SWEEP_STREAMS

    async def _free_rows(self) -> bool:
        if self._context.ledger.broken:
            return False
        return await self._context.database.free_some(_FREE_ROWS) >= _FREE_ROWS

    async def _tend_stretches(self) -> bool:
        if self._context.ledger.refusals:
            return False
        return await self._context.database.tend_stretches()

    async def _checkpoint(self) -> bool:
        committer = self._context.ledger.committer
        bytes_max = self._context.settings.sqlite_checkpoint_bytes
        outcome = await self._context.database.checkpoint(bytes_max, lambda: committer.stored_bytes)
        if outcome.ran:
            self._context.metrics.fsync_seconds.observe(outcome.seconds)
        return outcome.ran

    async def _write_heads(self) -> bool:
        """An idle node writes its heads too, so that a start has nothing to replay; a busy one now and then."""
        committer = self._context.ledger.committer
        quiet = committer.stored_bytes == self._stored_bytes and not committer.queued_appends
        self._stored_bytes = committer.stored_bytes
        late = time.monotonic() - self._heads_at > self._context.settings.heads_flush_ms / 1000
        behind = committer.dirty_count or committer.rows_behind
        if (quiet or late) and behind and not self._context.ledger.refusals:
            self._heads_at = time.monotonic()
            committer.flush_heads()
        return False

    async def _watch_disk(self) -> bool:
        """Below the floor writes are refused while reads go on; above it they come back by themselves."""
        refusals, floor = self._context.ledger.refusals, self._context.settings.disk_floor_bytes
        free = self._folder.free_bytes()
        if free < floor:
            refusals["disk_low"] = Unavailable(f"the disk has {free} bytes left, below the floor of {floor}")
        else:
            refusals.pop("disk_low", None)
        return False

    async def _watch_vitals(self) -> bool:
        self._context.vitals.look()
        return False

    async def _watch_loop(self) -> bool:
        """A timer that runs late has waited for something: whatever held the loop while the timer was due is seen."""
        began = time.perf_counter()
        await asyncio.sleep(_LOOP_PROBE_S)
        self._context.metrics.loop_lag_seconds.observe(max(0.0, time.perf_counter() - began - _LOOP_PROBE_S))
        return False

    async def _sweep(self) -> bool:
        self._context.live.sweep(time.monotonic())
        self._connections.sweep(asyncio.get_running_loop().time())
        return False
