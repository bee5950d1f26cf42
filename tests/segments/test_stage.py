"""The segmenter with a real log and real child processes."""

import asyncio
import itertools
import os
import signal
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from streams_node.config import Settings
from streams_node.errors import WorkerFailed
from streams_node.placement.made import Seal
from streams_node.segmenter import stage
from streams_node.segmenter.plan import Situation, backoff_s, is_due
from streams_node.segmenter.stage import Segmenter
from streams_node.worker import parent
from streams_node.worker.parent import Worker
from tests.segments.entries import Entry
from tests.segments.logs import PLACEMENT, Log
from tests.segments.test_build import contents, lines

WAIT_S = 30.0


@dataclass(slots=True)
class View:
    """The log as the node counts it: here by asking it."""

    log: Log
    age_s: float = 0.0
    sealed_row: int = 0

    def committed_row(self) -> int:
        return self.log.row

    def unsealed_bytes(self) -> int:
        found: int = self.log.db.execute(PLACEMENT.log_bytes_above, (self.sealed_row,)).fetchone()[0]
        return found

    def unsealed_s(self) -> float:
        return self.age_s

    def sealed(self, through_row: int, log_bytes: int) -> None:
        assert log_bytes >= 0
        self.sealed_row = through_row


@dataclass(slots=True)
class Bench:
    """A segmenter at work, and what it handed on."""

    log: Log
    folder: Path
    view: View
    worker: Worker
    seals: list[Seal] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    waits: asyncio.Event = field(default_factory=asyncio.Event)
    room: asyncio.Event = field(default_factory=asyncio.Event)
    more: asyncio.Event = field(default_factory=asyncio.Event)
    segmenter: Segmenter = None  # type: ignore[assignment]

    async def put(self, seal: Seal) -> None:
        self.events.append("waits")
        self.waits.set()
        await self.room.wait()
        self.seals.append(seal)
        self.events.append("put")
        self.more.set()

    async def stick(self, stuck: list[tuple[int, str]]) -> None:
        self.events.append("stuck")
        for stream, reason in stuck:
            self.log.db.execute(PLACEMENT.stick, (stream, reason, 0))

    async def until(self, row: int) -> None:
        """Wait for a seal that goes up to a row."""
        async with asyncio.timeout(WAIT_S):
            while not (self.seals and self.seals[-1].through_row >= row):
                self.more.clear()
                await self.more.wait()

    def found(self) -> dict[int, list[Entry]]:
        found: dict[int, list[Entry]] = defaultdict(list)
        for seal, entries in itertools.chain.from_iterable(
            ((seal, each) for each in contents(seal).items()) for seal in self.seals
        ):
            found[entries[0]] += entries[1]
            assert seal.log_bytes > 0
        return found


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    opened = Log.open(tmp_path)
    yield opened
    opened.close()


@asynccontextmanager
async def bench(log: Log, **values: Any) -> AsyncIterator[Bench]:
    settings = Settings(no_auth=True, **({"flush_bytes": 64 << 10, "flush_ms_max": 60_000} | values))
    folder = log.path.parent / "sealing"
    view, worker = View(log), Worker("segmenter")
    made = Bench(log, folder, view, worker)
    made.room.set()
    made.segmenter = Segmenter(
        database=log.path, folder=folder, worker=worker, settings=settings, log=view, put=made.put, stick=made.stick,
        sealed_row=0,
    )  # fmt: skip
    task = asyncio.create_task(made.segmenter.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await worker.stop()


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("now", "due"),
    [
        (Situation(5, 5, 0, 0, 0.0), False),
        (Situation(5, 5, 9, 1 << 30, 1e9), False),  # nothing is there
        (Situation(6, 5, 0, 99, 0.9), False),
        (Situation(6, 5, 5, 99, 0.9), False),
        (Situation(6, 5, 6, 99, 0.9), True),
        (Situation(6, 5, 0, 100, 0.0), True),
        (Situation(6, 5, 0, 0, 1.0), True),
    ],
)
def test_a_seal_is_due_by_size_by_age_and_on_demand(now: Situation, *, due: bool) -> None:
    assert is_due(now, flush_bytes=100, flush_ms_max=1000) is due


def test_pauses_grow_up_to_a_bound() -> None:
    pauses = [backoff_s(failures) for failures in (1, 2, 3, 100)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == backoff_s(10**6) <= 30


def test_a_log_is_sealed_by_its_size_and_the_rest_on_demand(log: Log) -> None:
    async def test() -> None:
        async with bench(log) as it:
            for at in range(70):
                log.append(at % 3, [b"x" * 1000])
            await it.until(1)
            log.append(9, [b"late"])
            row = it.segmenter.demand()
            assert row == log.row
            await it.until(row)
            assert it.found() == log.entries
            assert it.segmenter.sealed_row == it.view.sealed_row == row
            assert it.segmenter.counts.rows == log.row
            assert it.segmenter.counts.bytes == sum(seal.log_bytes for seal in it.seals)
            assert [seal.after_row for seal in it.seals[1:]] == [seal.through_row for seal in it.seals[:-1]]

    run(test)


def test_a_log_is_sealed_by_its_age(log: Log) -> None:
    async def test() -> None:
        async with bench(log) as it:
            log.append(1, [b"x"])
            it.view.age_s = 60.0
            await it.until(log.row)

    run(test)


def test_a_demand_with_nothing_to_seal_makes_no_seal(log: Log) -> None:
    async def test() -> None:
        async with bench(log) as it:
            log.append(1, [b"x"])
            row = it.segmenter.demand()
            await it.until(row)
            assert it.segmenter.demand() == row
            await asyncio.sleep(3 * stage._LOOK_S)
            assert len(it.seals) == 1

    run(test)


def test_a_demand_goes_on_until_its_row_however_little_a_flush_may_take(log: Log) -> None:
    async def test() -> None:
        async with bench(log, flush_bytes_max=64 << 10) as it:
            for _ in range(200):
                log.append(1, [b"x" * 1000])
            row = it.segmenter.demand()
            await it.until(row)
            assert len(it.seals) == 4
            assert it.found() == log.entries

    run(test)


def test_what_lies_in_the_folder_at_the_start_is_removed(log: Log) -> None:
    folder = log.path.parent / "sealing"
    folder.mkdir()
    (folder / "left.parquet").write_bytes(b"half a file")

    async def test() -> None:
        async with bench(log) as it:
            log.append(1, [b"x"])
            it.segmenter.demand()
            await it.until(log.row)
            assert {path.suffix for path in folder.iterdir()} == {".parquet", ".ends"}
            assert len(list(folder.iterdir())) == 2

    run(test)


@pytest.mark.parametrize("point", ["worker.seal.inside", "worker.seal.after"])
def test_a_child_that_dies_at_a_crash_point_costs_time_and_nothing_else(
    log: Log, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    monkeypatch.setenv("STREAMS_CRASH_AT", point)

    async def test() -> None:
        async with bench(log) as it:
            for at in range(10):
                log.append(at % 3, [b"x" * 100])
            it.segmenter.demand()
            await it.until(log.row)
            assert it.segmenter.counts.failures == 1
            assert it.found() == log.entries
            needed = {made.file for seal in it.seals for made in seal.objects} | {seal.ends for seal in it.seals}
            assert set(it.folder.iterdir()) == needed  # nothing is left of the attempt

    run(test)


def test_a_child_that_is_killed_again_and_again_loses_nothing(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parent, "_BACKOFF_S", 0.01)
    monkeypatch.setattr(parent, "_BACKOFF_S_MAX", 0.05)
    monkeypatch.setattr(stage, "backoff_s", lambda _: 0.01)

    async def test() -> None:
        async with bench(log, flush_bytes_max=64 << 10) as it:
            kills = 0
            for at in range(400):
                log.append(at % 7, [b"x" * 500, b"y" * at])
            it.segmenter.demand()
            while kills < 8:
                await asyncio.sleep(0.12)
                if it.worker.pid is not None:
                    os.kill(it.worker.pid, signal.SIGKILL)
                    kills += 1
            await it.until(log.row)
            assert it.segmenter.counts.failures >= 1
            assert it.found() == log.entries

    run(test)


def test_a_full_outbox_holds_the_segmenter_back(log: Log) -> None:
    async def test() -> None:
        async with bench(log) as it:
            it.room.clear()
            log.append(1, [b"x"])
            it.segmenter.demand()
            async with asyncio.timeout(WAIT_S):
                await it.waits.wait()
            log.append(1, [b"y"])
            it.segmenter.demand()
            await asyncio.sleep(3 * stage._LOOK_S)
            assert it.events == ["waits"]  # the next seal is not even begun
            assert it.segmenter.counts.seals == 1
            it.room.set()
            await it.until(log.row)
            assert it.found() == log.entries

    run(test)


def test_a_stuck_stream_is_on_disk_as_such_before_its_seal_is_handed_on(log: Log) -> None:
    async def test() -> None:
        async with bench(log) as it:
            log.append(1, [b"one"])
            log.append(2, [b"a", b"b"])
            log.change(2, lens=None)
            await it.until(it.segmenter.demand())
            assert it.events == ["stuck", "waits", "put"]
            assert it.segmenter.counts.stuck == 1
            log.append(2, [b"c"])
            log.append(1, [b"two"])
            await it.until(it.segmenter.demand())
            assert it.events == ["stuck", "waits", "put", "waits", "put"]
            assert it.found() == {1: log.entries[1]}
            assert {line["id"] for seal in it.seals for line in lines(seal)} == {1}

    run(test)


def test_failures_are_counted_named_and_forgotten_after_a_success(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "backoff_s", lambda _: 0.01)

    async def test() -> None:
        async with bench(log) as it:
            real = it.worker.run
            failures: list[Any] = [WorkerFailed("it died"), OSError("full"), {"nonsense": 1}]
            answers = iter(failures)

            async def ask(*arguments: Any) -> dict[str, Any]:
                answer: Any = next(answers, None)
                if isinstance(answer, Exception):
                    seen.append(it.segmenter.counts.problem)
                    raise answer
                seen.append(it.segmenter.counts.problem)
                return await real(*arguments) if answer is None else answer

            seen: list[str | None] = []
            monkeypatch.setattr(it.worker, "run", ask)
            log.append(1, [b"x"])
            await it.until(it.segmenter.demand())
            assert seen[:3] == [None, "it died", "OSError('full')"]
            assert "cannot be understood" in str(seen[3])
            counts = it.segmenter.counts
            assert (counts.failures, counts.failures_in_a_row, counts.problem) == (3, 0, None)

    run(test)


def test_a_seal_that_is_not_what_was_ordered_is_refused(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "backoff_s", lambda _: 0.01)

    async def test() -> None:
        async with bench(log) as it:
            real = it.worker.run
            wrong = iter([{"through_row": 0}, {"through_row": 99}, {"after_row": 1}])

            async def ask(*arguments: Any) -> dict[str, Any]:
                return await real(*arguments) | next(wrong, {})

            monkeypatch.setattr(it.worker, "run", ask)
            log.append(1, [b"x"])
            await it.until(it.segmenter.demand())
            assert it.segmenter.counts.failures == 3
            assert it.found() == log.entries

    run(test)
