"""A worker against real child processes, on both event loops."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
import structlog
import uvloop

from streams_node.errors import InvariantBroken, ObjectDamaged, StoreUnavailable, WorkerFailed
from streams_node.worker import parent
from streams_node.worker.commands import COMMANDS, function_of
from streams_node.worker.messages import LINE_BYTES_MAX
from streams_node.worker.parent import Worker
from tests.segments.commands import TABLE

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")
TIMEOUT_S = 20.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[], Awaitable[None]]], None]:
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def runner(test: Callable[[], Awaitable[None]]) -> None:
        with asyncio.Runner(loop_factory=factory) as loop:
            loop.run(test())  # type: ignore[arg-type]

    return runner


Run = Callable[[Callable[[], Awaitable[None]]], None]


@asynccontextmanager
async def working(**options: Any) -> AsyncIterator[Worker]:
    worker = Worker("test", table=TABLE, **options)
    try:
        yield worker
    finally:
        await worker.stop()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def gone(pid: int, seconds: float = 5.0) -> None:
    await until(lambda: not alive(pid), seconds)


async def there(path: Path, seconds: float = 10.0) -> str:
    return await until(lambda: path.read_text() if path.exists() else "", seconds)


async def until(look: Callable[[], T], seconds: float) -> T:
    """What other processes do rings no bell."""
    async with asyncio.timeout(seconds):
        while not (seen := look()):  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.005)
    return seen


def test_commands_are_answered_in_their_order_by_one_child(run: Run) -> None:
    async def test() -> None:
        async with working() as worker:
            assert worker.pid is None  # nothing is started before there is something to do
            answers = await asyncio.gather(*(worker.run("echo", {"n": n, "ä": "\n"}, TIMEOUT_S) for n in range(20)))
            assert [answer["n"] for answer in answers] == list(range(20))
            assert {answer["pid"] for answer in answers} == {worker.pid}
            assert answers[0]["ä"] == "\n"
        assert not alive(answers[0]["pid"])

    run(test)


def test_the_child_is_out_of_the_way(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMS_CRASH_AT", "nowhere")

    async def test() -> None:
        async with working() as worker:
            facts = await worker.run("facts", {}, TIMEOUT_S)
            assert facts["nice"] >= 5
            assert facts["group"] == facts["pid"] != os.getpgid(0)
            assert facts["session"] == os.getsid(0), "else its session may count as much as the node's"
            assert all(facts["ignored"] >> (number - 1) & 1 for number in SIGNALS)
            assert int(facts["oom"]) >= 500
            assert facts["crash_at"] == "nowhere"
            with pytest.raises(WorkerFailed):
                await worker.run("die", {"status": 3}, TIMEOUT_S)
            facts = await worker.run("facts", {}, TIMEOUT_S)
            assert facts["crash_at"] is None  # a point that kills a child does not kill every child

    run(test)


@pytest.mark.parametrize(
    ("command", "arguments", "said"),
    [
        ("die", {"status": 3}, "exit status 3"),
        ("nonsense", {}, "no answer"),
        ("unended", {}, "died"),
        ("other_number", {}, "something else"),
        ("huge", {"size": LINE_BYTES_MAX + 10}, "no answer"),
    ],
)
def test_a_child_that_fails_is_replaced(run: Run, command: str, arguments: dict[str, Any], said: str) -> None:
    async def test() -> None:
        async with working() as worker:
            before = await worker.run("echo", {}, TIMEOUT_S)
            with pytest.raises(WorkerFailed, match=said):
                await worker.run(command, arguments, TIMEOUT_S)
            assert not alive(before["pid"])
            after = await worker.run("echo", {}, TIMEOUT_S)
            assert after["pid"] != before["pid"]
            assert (worker.starts, worker.failures) == (2, 0)

    run(test)


def test_a_child_that_is_killed_is_replaced_at_the_next_command(run: Run) -> None:
    async def test() -> None:
        async with working() as worker:
            for _ in range(3):
                pid = (await worker.run("echo", {}, TIMEOUT_S))["pid"]
                os.kill(pid, signal.SIGKILL)
                await gone(pid)
                with contextlib.suppress(WorkerFailed):  # whether its end was noticed before the command is a race
                    await worker.run("echo", {}, TIMEOUT_S)
            assert await worker.run("echo", {"n": 1}, TIMEOUT_S)

    run(test)


def test_a_child_that_is_killed_in_a_command_fails_it_and_says_how(run: Run, tmp_path: Path) -> None:
    async def test() -> None:
        async with working() as worker:
            asked = asyncio.create_task(worker.run("sleep", {"seconds": 60, "begun": str(tmp_path / "a")}, TIMEOUT_S))
            os.kill(int(await there(tmp_path / "a")), signal.SIGKILL)
            with pytest.raises(WorkerFailed, match="killed by signal 9"):
                await asked

    run(test)


def test_a_command_that_takes_too_long_is_killed(run: Run, tmp_path: Path) -> None:
    async def test() -> None:
        async with working() as worker:
            await worker.run("echo", {}, TIMEOUT_S)
            pid = worker.pid or 0
            with pytest.raises(WorkerFailed, match=r"longer than 0\.2 s"):
                await worker.run("sleep", {"seconds": 60, "begun": str(tmp_path / "a")}, 0.2)
            assert not alive(pid)
            assert (await worker.run("echo", {"n": 5}, TIMEOUT_S))["n"] == 5

    run(test)


def test_a_command_that_nobody_waits_for_ends_its_child(run: Run, tmp_path: Path) -> None:
    async def test() -> None:
        async with working() as worker:
            asked = asyncio.create_task(worker.run("sleep", {"seconds": 60, "begun": str(tmp_path / "a")}, TIMEOUT_S))
            pid = int(await there(tmp_path / "a"))
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            assert not alive(pid)
            assert (await worker.run("echo", {"n": 6}, TIMEOUT_S))["n"] == 6

    run(test)


def test_stopping_ends_a_command_and_refuses_the_next(run: Run, tmp_path: Path) -> None:
    async def test() -> None:
        async with working() as worker:
            asked = asyncio.create_task(worker.run("sleep", {"seconds": 60, "begun": str(tmp_path / "a")}, TIMEOUT_S))
            pid = int(await there(tmp_path / "a"))
            await worker.stop()
            assert not alive(pid)
            with pytest.raises(WorkerFailed):
                await asked
            with pytest.raises(WorkerFailed, match="stopped"):
                await worker.run("echo", {}, TIMEOUT_S)

    run(test)


def test_starts_after_failures_wait_longer_each_time_and_stopping_does_not(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parent, "_BACKOFF_S", 0.2)

    async def test() -> None:
        async with working() as worker:
            for failures in (1, 2):
                with pytest.raises(WorkerFailed):
                    await worker.run("die", {"status": 1}, TIMEOUT_S)
                assert worker.failures == failures
            began = time.monotonic()
            await worker.run("echo", {}, TIMEOUT_S)
            assert time.monotonic() - began >= 0.35
            monkeypatch.setattr(parent, "_BACKOFF_S", 60.0)
            with pytest.raises(WorkerFailed):
                await worker.run("die", {"status": 1}, TIMEOUT_S)
            asked = asyncio.create_task(worker.run("echo", {}, TIMEOUT_S))
            await asyncio.sleep(0.05)
            async with asyncio.timeout(5):
                await worker.stop()
            with pytest.raises(WorkerFailed, match="stopped"):
                await asked

    run(test)


def test_an_idle_child_ends_and_comes_back(run: Run) -> None:
    async def test() -> None:
        async with working(idle_s=0.05) as worker:
            pid = (await worker.run("echo", {}, TIMEOUT_S))["pid"]
            await gone(pid)
            assert (await worker.run("echo", {}, TIMEOUT_S))["pid"] != pid
            assert worker.failures == 0

    run(test)


def test_an_error_of_ours_comes_back_as_the_same_class_with_its_facts(run: Run) -> None:
    async def test() -> None:
        async with working() as worker:
            with pytest.raises(ObjectDamaged, match="it is torn") as damaged:
                await worker.run("damaged", {}, TIMEOUT_S)
            assert damaged.value.facts == {"object": "ab"}
            with pytest.raises(StoreUnavailable) as away:
                await worker.run("away", {}, TIMEOUT_S)
            assert (away.value.outcome_unknown, away.value.retry_after_ms) == (True, 5)
            assert away.value.message == str(away.value) == "the store is away"
            with pytest.raises(InvariantBroken):
                await worker.run("broken", {}, TIMEOUT_S)
            with pytest.raises(WorkerFailed, match="ZeroDivisionError: by nothing"):
                await worker.run("wrong", {}, TIMEOUT_S)
            for command in ("missing", "nameless", "unheard_of"):
                with pytest.raises(WorkerFailed, match=command):
                    await worker.run(command, {}, TIMEOUT_S)
            assert worker.starts == 1  # none of this is the child's fault

    run(test)


def test_large_answers_come_whole(run: Run) -> None:
    async def test() -> None:
        async with working() as worker:
            answer = await worker.run("huge", {"size": 5 << 20}, TIMEOUT_S)
            assert len(answer["text"]) == 5 << 20

    run(test)


def test_what_a_child_logs_and_prints_is_in_the_log_of_the_node(run: Run) -> None:
    async def test() -> None:
        with structlog.testing.capture_logs() as lines:
            async with working() as worker:
                assert await worker.run("talk", {}, TIMEOUT_S) == {"ok": True}
        assert {"event": "something is odd", "log_level": "warning", "rows": 7, "worker": "test"}.items() <= next(
            line for line in lines if line["event"] == "something is odd"
        ).items()
        assert any(line.get("line") == "printed by a library" for line in lines)

    run(test)


def test_no_child_outlives_a_node_that_is_killed(tmp_path: Path) -> None:
    """Neither one that waits, nor one in the middle of a command."""
    for command in ("echo", "sleep"):
        begun = tmp_path / command
        script = f"""
import asyncio, pathlib
from streams_node.worker.parent import Worker

async def main():
    worker = Worker("test", table={TABLE!r})
    answer = await worker.run("echo", {{}}, 20)
    if {command!r} == "sleep":
        asyncio.create_task(worker.run("sleep", {{"seconds": 600, "begun": {str(begun)!r}}}, 600))
    else:
        pathlib.Path({str(begun)!r}).write_text(str(answer["pid"]))
    await asyncio.sleep(600)

asyncio.run(main())
"""
        with _node(script) as node:
            child = int(asyncio.run(there(begun)))
            assert alive(child)
            node.send_signal(signal.SIGKILL)
            node.wait()
            asyncio.run(gone(child))


@contextlib.contextmanager
def _node(script: str) -> Iterator["subprocess.Popen[bytes]"]:
    node = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT)
    try:
        yield node
    finally:
        node.kill()
        node.wait()


def test_every_command_is_a_name_that_is_looked_up_when_it_is_called() -> None:
    assert set(COMMANDS) == {"seal", "compact", "snapshot", "mirror"}
    assert function_of(TABLE, "echo")({"n": 1})["n"] == 1
