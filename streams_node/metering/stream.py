"""The stream of the node's own numbers: made when it is missing, and appended to once in an interval.

An interval in which no client stored or read anything is told later: with the next one that is not so, or after a
quarter of an hour. Rows of their own would have the log sealed and a generation published every minute, by a node that
has nothing to do.
"""

import asyncio
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from streams_node.errors import StreamsError
from streams_node.ingest.append import AppendRequest, store
from streams_node.ingest.batches import Batch
from streams_node.ingest.create import CreateRequest, create
from streams_node.ingest.declare import declare
from streams_node.ingest.ledger import Ledger
from streams_node.ingest.retain import retain
from streams_node.ingest.state import StreamState
from streams_node.meaning import Facts, Standing
from streams_node.metering.series import Labels, Reading, Snapshot, readings, records
from streams_node.objects import RequestCounts
from streams_node.observe.logs import get_logger
from streams_node.observe.metrics import Metrics
from streams_node.profiles import registries
from streams_node.profiles.values import encode
from streams_node.protocol.frames import Elements, cut_elements
from streams_node.protocol.times import SECOND_US
from streams_node.read.cold import ColdReader
from streams_node.read.since import seq_since
from streams_node.schema.registry import Registry, Update, evolved
from streams_node.wal.listing import DEFAULT_BUCKET
from streams_node.wal.lookup import Name

log = get_logger(__name__)
NAME = Name(DEFAULT_BUCKET, "__stream_metrics__")
PROFILE = "metrics"
_CREATE = CreateRequest("application/json", None, None, AppendRequest(b""), implicit_bucket=True)
_LIMITS = ("queue_bytes_max", "queue_appends_max", "backlog_bytes_max")
_STATM = Path("/proc/self/statm")
_PAGE_BYTES = 4096
_QUIET_US_MAX = 900 * SECOND_US  # so it can be seen that the node lives, for the price of a few requests an hour
_CLIENTS = frozenset(("streams_appends", "streams_read_bytes", "refused_overloaded"))
_TRIMS = 100  # in the time that an entry is kept: so exact that time is
_TRIM_US = 3600 * SECOND_US  # and at least so often


class Look(NamedTuple):
    """The numbers at a moment, by the clock of the node and by one that never goes back."""

    numbers: Snapshot
    at_us: int
    at_s: float


class Metering:
    """One task, which looks at the numbers at the end of each interval."""

    def __init__(
        self,
        ledger: Ledger,
        metrics: Metrics,
        counts: RequestCounts,
        *,
        instance: str,
        cold: Callable[[], ColdReader | None] = lambda: None,
    ) -> None:
        self._ledger = ledger
        self._cold = cold
        self._metrics = metrics
        self._counts = counts
        self._instance = instance
        self._every_s = ledger.settings.stream_metrics_ms / 1000
        self._task: asyncio.Task[None] | None = None
        self._trim_at_us = 0
        self._told = Look({}, 0, 0.0)  # what came before it is told
        self._quiet: Look | None = None  # nothing that would have to be told came between that and this
        self._first = True

    def begin(self) -> None:
        """Begin the first interval."""
        self._told = self._look()

    def start(self) -> None:
        """Do so, and end it and others in a task, unless there are to be none."""
        self.begin()
        if self._every_s:
            self._task = asyncio.create_task(self._run(), name="stream-metrics")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self.tick()
            except StreamsError as problem:
                log.debug("the node's own numbers were not stored", error=problem.message)
            except Exception as problem:  # noqa: BLE001 - nothing of the node depends on this stream
                log.warning("the node's own numbers were not stored", error=repr(problem))

    async def tick(self) -> None:
        """End the interval. A quiet one only becomes longer."""
        now = self._look()
        quiet = _same_for_clients((self._quiet or self._told).numbers, now.numbers)
        if quiet and not self._first and 0 <= now.at_us - self._told.at_us < _QUIET_US_MAX:
            self._quiet = now
            return
        if quiet:  # to its end
            self._quiet = None
        await self.tell()
        await self.trim()

    async def tell(self) -> None:
        """Append what happened since that was told last: quiet intervals as one, and what came after them."""
        if self._ledger.refusals:
            return
        await self._ensured()
        state = await self._ledger.living(NAME)  # decided and appended without waiting from here on
        if state.closed or not state.is_json or state.profile != PROFILE or self._ledger.refusals:
            return
        looks = [self._told, *([] if self._quiet is None else [self._quiet]), self._look()]
        found = [
            each
            for before, after in pairwise(looks)
            for each in records(
                before.numbers,
                after.numbers,
                start_ms=before.at_us // 1000,
                end_ms=after.at_us // 1000,
                interval_ms=round((after.at_s - before.at_s) * 1000),
                instance=self._instance,
            )
        ]
        self._told, self._quiet, self._first = looks[-1], None, False
        batch = self._append(state, found)
        if batch is not None:
            await batch.settling

    async def trim(self) -> None:
        """Let go of what is older than it is to be kept, now and then."""
        kept_us = self._ledger.settings.stream_metrics_kept_ms * 1000
        now_us = self._ledger.now_us()
        if not kept_us or now_us < self._trim_at_us or self._ledger.refusals:
            return
        self._trim_at_us = now_us + min(kept_us // _TRIMS, _TRIM_US)
        state = await self._ledger.readable(NAME)
        await retain(self._ledger, state, await seq_since(self._ledger.database, self._cold(), state, now_us - kept_us))

    def _append(self, state: StreamState, found: list[dict[str, Any]]) -> Batch | None:
        """Past admission: what is told of an overload must not be refused because of it. It is a small append."""
        texts = [encode(each) for each in found]
        pieces = cut_elements(Elements.of(texts), self._ledger.settings.log_row_bytes_max)
        return store(self._ledger, state, pieces, AppendRequest(b",".join(texts))).batch

    async def _ensured(self) -> None:
        """The stream with its schema. A crash between the two leaves one that is empty, and is given it here."""
        created = await create(self._ledger, NAME, _CREATE)
        if created.fresh or (created.state.next_seq == 0 and created.state.meaning is None):
            declared = await declare(self._ledger, NAME, _lean)
            if declared.batch is not None:
                await declared.batch.settling

    def _look(self) -> Look:
        """The numbers as they are now."""
        found = readings(self._metrics.collect())
        found |= {(name, ()): Reading(float(getattr(self._ledger.settings, name))) for name in _LIMITS}
        found |= _requests(self._counts)
        found["refused_overloaded", ()] = found.get(_OVERLOADED, Reading(0.0))
        if (resident := _resident()) is not None:
            found["process_resident_memory_bytes", ()] = Reading(resident)
        return Look(found, self._ledger.now_us(), time.monotonic())


_OVERLOADED: tuple[str, Labels] = ("streams_refusals", (("code", "overloaded"),))


def _same_for_clients(before: Snapshot, after: Snapshot) -> bool:
    nothing = Reading(0.0)
    return all(now == before.get(name, nothing) for name, now in after.items() if name[0] in _CLIENTS)


def _lean(before: Standing, facts: Facts) -> Standing:
    """The schema of intervals, and neither a routing key nor anything to search."""
    if not facts.empty or before.registry.current_version:
        return before
    return Standing(evolved(Registry(before.registry.name), Update(registries.metrics_schema()), 0), PROFILE)


def _requests(counts: RequestCounts) -> dict[tuple[str, Labels], Reading]:
    found: dict[tuple[str, Labels], Reading] = {}
    for (artifact, op), tally in counts.totals().items():
        labels: Labels = (("artifact", str(artifact)),)
        found[f"store_{op}_seconds", labels] = Reading(tally.seconds)
        found[f"store_{op}_requests", labels] = Reading(tally.requests)
    return found


def _resident() -> float | None:
    """Memory of the process, where the kernel says it."""
    try:
        return float(_STATM.read_text().split()[1]) * _PAGE_BYTES
    except OSError:
        return None
