"""The loop of the segmenter, in the node: `wait → order → build (in the child) → mark what is stuck → hand on`."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from streams_node.config.tiers import TierSettings
from streams_node.errors import StreamsError, WorkerFailed, invariant
from streams_node.observe.logs import get_logger
from streams_node.placement.made import Seal
from streams_node.segmenter.messages import Order, seal_of
from streams_node.segmenter.plan import Situation, backoff_s, is_due
from streams_node.testing.crashpoints import crash_point
from streams_node.worker.parent import Worker

log = get_logger(__name__)
_LOOK_S = 0.1  # how late a seal may begin: a tenth of a second of the fastest log is less than half a flush


class LogView(Protocol):
    """What the segmenter sees of the log. All of it is asked ten times a second, so it is counted and not looked up."""

    def committed_row(self) -> int:
        """The newest row on disk; an append's last one."""

    def unsealed_bytes(self) -> int:
        """Payload of the rows that no seal has taken."""

    def unsealed_s(self) -> float:
        """Age of the oldest of them, by the clock of the node; 0 when there is none."""

    def sealed(self, through_row: int, log_bytes: int) -> None:
        """A seal has taken the rows up to one; told before it is handed on."""


@dataclass(slots=True)
class Counts:
    """Since the start of the node."""

    seals: int = 0
    rows: int = 0
    bytes: int = 0  # of log
    objects: int = 0
    stuck: int = 0
    failures: int = 0
    failures_in_a_row: int = 0
    seconds: float = 0.0  # of building
    problem: str | None = None  # the newest failure, until a seal succeeds


class Segmenter:
    """One seal at a time. `sealed_row` is how far the log is in seals, handed on or published."""

    def __init__(
        self,
        *,
        database: Path,
        folder: Path,
        worker: Worker,
        settings: TierSettings,
        log: LogView,
        put: Callable[[Seal], Awaitable[None]],
        stick: Callable[[list[tuple[int, str]]], Awaitable[None]],
        sealed_row: int,
    ) -> None:
        """`put` hands a seal on, and waits while too many wait. `stick` returns once the stuck streams are on disk.

        `sealed_row` is where the log has been released to. `folder` is the segmenter's own, and is emptied.
        """
        self.counts = Counts()
        self.observe: Callable[[str, float], None] = lambda _stage, _seconds: None
        self.sealed_row = sealed_row
        self._database = database
        self._folder = folder
        self._worker = worker
        self._settings = settings
        self._log = log
        self._put = put
        self._stick = stick
        self._demanded_row = 0
        self._bell = asyncio.Event()
        # One waits in `put`, one was just taken out: files of older seals are not needed any more.
        self._handed_on: deque[set[Path]] = deque(maxlen=settings.seals_waiting_max + 2)

    def demand(self) -> int:
        """Have everything sealed that is on disk by now; returns the row up to which that is."""
        self._demanded_row = max(self._demanded_row, self._log.committed_row())
        self._bell.set()
        return self._demanded_row

    async def run(self) -> None:
        """Seal for ever. A failure is logged and counted, and tried again: later each time."""
        await self._swept()
        while True:
            try:
                await self._until_due()
                await self._seal()
            except Exception as problem:  # noqa: BLE001 - the log stays, so nothing is lost but time
                await self._failed(problem)

    async def _until_due(self) -> None:
        while not self._due():
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._bell.wait()
            self._bell.clear()

    def _due(self) -> bool:
        view, settings = self._log, self._settings
        now = Situation(
            view.committed_row(), self.sealed_row, self._demanded_row, view.unsealed_bytes(), view.unsealed_s()
        )
        return is_due(now, flush_bytes=settings.flush_bytes, flush_ms_max=settings.flush_ms_max)

    async def _seal(self) -> None:
        began = time.perf_counter()
        order = self._order()
        crash_point("flush.planned")
        seal = await self._built(order)
        crash_point("flush.built")
        if seal.stuck:  # first: what is published is released, and a stuck stream's rows must stay
            await self._stick(seal.stuck)
            log.warning("streams cannot be sealed", count=len(seal.stuck), first=seal.stuck[0][0], why=seal.stuck[0][1])
        self._count(seal, time.perf_counter() - began)
        self._handed_on.append(_files(seal))
        self.sealed_row = seal.through_row
        self._log.sealed(seal.through_row, seal.log_bytes)
        await self._put(seal)

    def _order(self) -> Order:
        settings = self._settings
        return Order(
            database=str(self._database.absolute()),
            folder=str(self._folder.absolute()),
            after_row=self.sealed_row,
            through_row=self._log.committed_row(),
            flush_bytes_max=settings.flush_bytes_max,
            own_segment_bytes=settings.own_segment_bytes,
            segment_bytes=settings.segment_bytes,
            segment_entries=settings.segment_entries,
        )

    async def _built(self, order: Order) -> Seal:
        timeout_s = self._settings.worker_command_ms_max / 1000
        answer = await self._worker.run("seal", msgspec.structs.asdict(order), timeout_s)
        seal = seal_of(answer)
        invariant(
            order.after_row == seal.after_row < seal.through_row <= order.through_row,
            "a seal takes what was ordered, and something",
            order=order,
            through_row=seal.through_row,
        )
        return seal

    def _count(self, seal: Seal, seconds: float) -> None:
        counts = self.counts
        counts.seals += 1
        counts.rows += seal.rows
        counts.bytes += seal.log_bytes
        counts.objects += len(seal.objects)
        counts.stuck += len(seal.stuck)
        counts.seconds += seconds
        self.observe("seal", seconds)
        counts.failures_in_a_row = 0
        counts.problem = None

    async def _failed(self, problem: Exception) -> None:
        counts = self.counts
        counts.failures += 1
        counts.failures_in_a_row += 1
        counts.problem = problem.message if isinstance(problem, StreamsError) else repr(problem)
        pause_s = backoff_s(counts.failures_in_a_row)
        write = log.warning if isinstance(problem, WorkerFailed) else log.error
        write("the log could not be sealed; it will be tried again", error=counts.problem, pause_s=pause_s)
        await asyncio.sleep(pause_s)
        await self._swept()

    async def _swept(self) -> None:
        """Nobody knows of files that no seal was handed on with: an attempt failed, or a node ended."""
        try:
            await asyncio.to_thread(_sweep, self._folder, set().union(*self._handed_on))
        except OSError as problem:  # they take room, and are harmless
            log.warning("files of an attempt to seal could not be removed", error=repr(problem))


def _sweep(folder: Path, needed: set[Path]) -> None:
    folder.mkdir(exist_ok=True)
    for path in folder.absolute().iterdir():
        if path not in needed:
            path.unlink()


def _files(seal: Seal) -> set[Path]:
    found = {made.file for made in seal.objects}
    return found if seal.ends is None else found | {seal.ends}
