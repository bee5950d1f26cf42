"""The loop of the compaction: `look → plan → fetch → build (in a worker) → hand on → rest`."""

import asyncio
import base64
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec

from streams_node.compactor.failures import Failures
from streams_node.compactor.jobs import Job, Limits
from streams_node.compactor.outlook import Outlook
from streams_node.compactor.plan import next_job
from streams_node.config.tiers import TierSettings
from streams_node.errors import ObjectDamaged, ObjectMissing, StoreCorrupt, StreamsError, WorkerFailed
from streams_node.objects.keys import parse
from streams_node.observe.logs import get_logger
from streams_node.placement.made import Made, ObjectFacts, Rewrite
from streams_node.testing.crashpoints import crash_point
from streams_node.wal.database import Database

log = get_logger(__name__)
_LOOK_S = 1.0  # between two looks whether the catalogue has moved
_LOOKS_MAX = 30  # time alone makes work, too: something is dead for too long, a failure may be tried again
_COUNT_S_MAX = 600.0  # between two counts of what is dead
_BACKOFF_S = 1.0
_BACKOFF_S_MAX = 60.0


class Copies(Protocol):
    """What the compaction needs of the cache."""

    def held(self, facts: ObjectFacts, *, at_leisure: bool) -> AbstractAsyncContextManager[Path]:
        """A local file of an object, for as long as the block runs; readers need not wait for its sake."""

    async def drop(self, made: str, *, damaged: bool = False) -> None:
        """Its copy is of no use."""


class Commands(Protocol):
    """What it needs of a worker."""

    async def run(self, command: str, arguments: dict[str, Any], timeout_s: float) -> dict[str, Any]: ...


@dataclass(slots=True)
class Counts:
    """Since the start of the node."""

    jobs: Counter[str] = field(default_factory=Counter)  # published, by kind
    inputs: int = 0
    outputs: int = 0
    payload_bytes: int = 0  # of inputs that were read
    refused: int = 0  # an input had left the catalogue meanwhile
    failures: int = 0
    damaged: int = 0
    seconds: float = 0.0  # of fetching and building
    problem: str | None = None  # the newest failure, until a job succeeds


class Compactor:
    """One job at a time. `step` is for tests, and for whoever wants the work done now."""

    def __init__(
        self,
        *,
        database: Database,
        folder: Path,
        worker: Commands,
        settings: TierSettings,
        cache: Copies,
        put: Callable[[Rewrite], Awaitable[bool]],
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`put` hands a rewrite on, and waits until it is published (True) or refused. `folder` is emptied."""
        self.counts = Counts()
        self.failures = Failures(clock)
        self.limits = limits_of(settings)
        self._outlook = Outlook(database, self.limits, now_us=now_us, clock=clock)
        self._database = database
        self._folder = folder
        self._worker = worker
        self._settings = settings
        self._cache = cache
        self._put = put
        self._now_us = now_us
        self._clock = clock
        self._turn = 0
        self._count_at = clock()

    async def run(self) -> None:
        """Compact for ever; a failure is logged and counted, and what failed is left alone for a while."""
        await self.sweep()
        wait_s = _BACKOFF_S
        while True:
            try:
                generation = await self._outlook.generation()
                await self._count_when_due()
                worked = await self.step()
                wait_s = _BACKOFF_S
            except Exception as problem:  # noqa: BLE001 - the objects stay as they are; nothing is lost but time
                self._failed(problem)
                log.warning("compaction failed", error=self.counts.problem, again_in_s=wait_s)
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, _BACKOFF_S_MAX)
            else:
                await (self._rest() if worked else self._until_moved(generation))

    async def step(self) -> bool:
        """Plan a job and do it; False if nothing is due."""
        backlog = await self._outlook.look()
        self.failures.keep(self._outlook.packs)
        job = await asyncio.to_thread(
            next_job, backlog, self.failures.blocked(), self.limits, now_us=self._now_us(), turn=self._turn
        )
        if job is None:
            return False
        self._turn += 1
        crash_point("compact.planned")
        try:
            await self._do(job)
        except (ObjectDamaged, ObjectMissing, StoreCorrupt, WorkerFailed) as problem:
            await self._leave(job, problem)
        finally:
            self._outlook.done(job)
        return True

    async def count(self) -> None:
        """Count what is dead in the packs that were counted longest ago."""
        packs = self._outlook.to_count()
        if not packs:
            return
        asked = [{"made": pack.facts.made} for pack in packs]
        answer = await self._ask({"kind": "count", "database": self._path(), "packs": asked})
        await self._outlook.counted(answer["dead"], {})
        # Nobody has needed these directories yet. One object a round: after a recovery all of them are missing.
        missing = [pack.facts for pack in packs if pack.facts.made in answer["missing"]]
        for facts in missing:
            self._outlook.skipped(facts.made)
        blocked = self.failures.blocked()
        for facts in [facts for facts in missing if facts.made not in blocked][:1]:
            await self._count_in_object(facts)

    async def sweep(self) -> None:
        """Empty the folder: a job that ended has handed its files on, and nobody wants those of one that failed."""
        try:
            await asyncio.to_thread(_sweep, self._folder)
        except OSError as problem:  # they take room, and are harmless
            log.warning("files of the compaction could not be removed", error=repr(problem))

    # --- a job ---

    async def _do(self, job: Job) -> None:
        began = self._clock()
        try:
            outputs = await self._built(job) if job.kind != "drop" else []
            self.counts.seconds += self._clock() - began
            crash_point("compact.built")
            published = await self._put(Rewrite([facts.made for facts in job.inputs], outputs))
        except Exception:
            await self.sweep()
            raise
        await self.sweep()
        self.failures.forget(facts.made for facts in job.inputs)
        self._count(job, outputs, published=published)

    async def _built(self, job: Job) -> list[Made]:
        async with AsyncExitStack() as pinned:
            files = [await pinned.enter_async_context(self._cache.held(facts, at_leisure=True)) for facts in job.inputs]
            answer = await self._ask(
                {
                    "kind": job.kind,
                    "inputs": [
                        {"facts": msgspec.to_builtins(facts), "file": str(file.absolute())}
                        for facts, file in zip(job.inputs, files, strict=True)
                    ],
                    "folder": str(self._folder.absolute()),
                    "database": self._path(),
                    "level": job.level,
                    "first_row": job.first_row,
                    "last_row": job.last_row,
                    "cuts": list(job.cuts),
                    "limits": msgspec.to_builtins(self.limits),
                }
            )
        return [_made(output) for output in answer["outputs"]]

    async def _ask(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return await self._worker.run("compact", arguments, self._settings.worker_command_ms_max / 1000)

    def _path(self) -> str:
        return str(self._database.path.absolute())

    def _count(self, job: Job, outputs: list[Made], *, published: bool) -> None:
        counts = self.counts
        if not published:
            counts.refused += 1
            return
        counts.problem = None
        counts.jobs[job.kind] += 1
        counts.inputs += len(job.inputs)
        counts.outputs += len(outputs)
        counts.payload_bytes += job.payload_bytes if job.kind != "drop" else 0

    # --- failures ---

    async def _leave(self, job: Job, problem: StreamsError) -> None:
        """Leave alone what is to blame, so that the others go on; if that is not known, all that took part."""
        self._failed(problem)
        culprit = _culprit(problem)
        made = [facts.made for facts in job.inputs if culprit in (None, facts.made)]
        if isinstance(problem, ObjectDamaged):
            for each in made:
                await self._cache.drop(each, damaged=True)  # perhaps it is only the copy
        self.counts.damaged += culprit is not None
        wait_s = self.failures.note(made, damaged=culprit is not None)
        log.error(
            "objects could not be rewritten", kind=job.kind, objects=made[:3], error=problem.message, again_in_s=wait_s
        )

    def _failed(self, problem: Exception) -> None:
        self.counts.failures += 1
        self.counts.problem = problem.message if isinstance(problem, StreamsError) else repr(problem)

    # --- dead entries ---

    async def _count_when_due(self) -> None:
        every_s = min(_COUNT_S_MAX, max(1.0, self._settings.dead_data_ms_max / 1000 / 24))
        if self._clock() - self._count_at >= every_s:
            self._count_at = self._clock()
            await self.count()

    async def _count_in_object(self, facts: ObjectFacts) -> None:
        try:
            async with self._cache.held(facts, at_leisure=True) as file:
                packs = [{"made": facts.made, "file": str(file.absolute())}]
                answer = await self._ask({"kind": "count", "database": self._path(), "packs": packs})
        except (ObjectDamaged, ObjectMissing, StoreCorrupt) as problem:
            self._failed(problem)
            self.failures.note([facts.made], damaged=True)
            log.warning("a pack has no directory that can be read", object=facts.made, error=problem.message)
            return
        found = {made: base64.b64decode(blob) for made, blob in answer["found"].items()}
        await self._outlook.counted(answer["dead"], found)

    # --- waiting ---

    async def _rest(self) -> None:
        await asyncio.sleep(self._settings.compaction_pause_ms / 1000)

    async def _until_moved(self, generation: int) -> None:
        """Until the catalogue moves, or time has passed."""
        for _ in range(_LOOKS_MAX):
            await asyncio.sleep(_LOOK_S)
            if await self._outlook.generation() != generation:
                return


def limits_of(settings: TierSettings) -> Limits:
    """What the plan and the builder need of the settings."""
    return Limits(
        packs=settings.compaction_packs,
        own_segment_bytes=settings.own_segment_bytes,
        segment_bytes=settings.segment_bytes,
        segment_entries=settings.segment_entries,
        pack_bytes=settings.pack_bytes,
        job_bytes=max(Limits().job_bytes, 2 * settings.pack_bytes),
        dead_us_max=settings.dead_data_ms_max * 1000,
    )


def _made(output: dict[str, Any]) -> Made:
    blob = output["directory"]
    return Made(
        msgspec.convert(output["facts"], ObjectFacts),
        Path(output["file"]),
        None if blob is None else base64.b64decode(blob),
    )


def _culprit(problem: StreamsError) -> str | None:
    """The object that a failure names, if it does."""
    made = problem.facts.get("object")
    if made is None and (place := parse(str(problem.facts.get("key", "")))):
        made = place.made
    return None if made is None else str(made)


def _sweep(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
