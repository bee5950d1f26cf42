"""The node's side of a worker: starts the child when there is something to do, and asks it."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from streams_node.errors import WorkerFailed
from streams_node.observe.logs import get_logger
from streams_node.worker.commands import TABLE
from streams_node.worker.messages import LINE_BYTES_MAX, Answer, Request, error_of, line_of, read_answer

log = get_logger(__name__)
_BACKOFF_S = 0.1  # before the second start after a failure, doubled with each one more
_BACKOFF_S_MAX = 30.0
_END_S = 2.0  # a child whose pipe has ended ends at once, unless something holds the interpreter's lock
_LARGE_BYTES = 64 << 10  # decoding more than this takes the loop a good part of a millisecond
_LOG_LINE_BYTES_MAX = 64 << 10
_LEVELS = ("debug", "info", "warning", "error")


class Worker:
    """One child process at most. `pid` and `starts` are for those who watch it."""

    def __init__(self, name: str, *, idle_s: float = 60.0, table: str = TABLE) -> None:
        self.name = name
        self.starts = 0
        self.failures = 0  # in a row
        self._idle_s = idle_s
        self._table = table
        self._lock = asyncio.Lock()
        self._child: Process | None = None
        self._logs: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._failed_once = False
        self._not_before = 0.0
        self._number = 0
        self._stopped = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """Of the child, while there is one."""
        return None if self._child is None else self._child.pid

    async def run(self, command: str, arguments: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """What the command returns. A child that dies, talks nonsense or takes too long is killed: `WorkerFailed`."""
        async with self._lock:
            self._stay()
            try:
                answer = await self._ask(command, arguments, timeout_s)
            except WorkerFailed:
                self._failed()
                await self._end(kill=True)
                raise
            except BaseException:  # nobody waits for the answer any more; it must not become the next command's
                self._kill()
                await self._end(kill=True)
                raise
            self.failures = 0
            self._idle = asyncio.get_running_loop().call_later(self._idle_s, self._rest)
        if answer.error is not None:
            raise error_of(answer.error)
        return answer.result or {}

    async def stop(self) -> None:
        """End the child, now and for good; a command under way fails."""
        self._stopped.set()
        self._stay()
        self._kill()
        async with self._lock:
            await self._end(kill=True)
        await asyncio.gather(*self._ending, return_exceptions=True)

    async def _ask(self, command: str, arguments: dict[str, Any], timeout_s: float) -> Answer:
        self._number += 1
        request = line_of(Request(self._number, command, arguments))
        if len(request) > LINE_BYTES_MAX:
            raise WorkerFailed(f"the command `{command}` has {len(request)} bytes, more than a worker is told")
        child = await self._started()
        try:
            async with asyncio.timeout(timeout_s):
                line = await self._exchange(child, request)
                answer = await asyncio.to_thread(read_answer, line) if len(line) > _LARGE_BYTES else read_answer(line)
        except TimeoutError:
            raise WorkerFailed(f"worker `{self.name}` took longer than {timeout_s:g} s for `{command}`") from None
        except (OSError, ValueError, msgspec.DecodeError) as problem:
            raise WorkerFailed(f"worker `{self.name}` gave no answer to `{command}`: {problem}") from problem
        if answer.number != self._number:
            raise WorkerFailed(f"worker `{self.name}` gave an answer to something else than `{command}`")
        return answer

    async def _exchange(self, child: Process, request: bytes) -> bytes:
        assert child.stdin is not None  # noqa: S101 - for the type checker: they are pipes
        assert child.stdout is not None  # noqa: S101
        with suppress(OSError, RuntimeError):  # it is dead (uvloop says the latter): how it died is the better message
            child.stdin.write(request)
            await child.stdin.drain()
        line = await child.stdout.readline()
        if not line.endswith(b"\n"):
            status = await child.wait()
            raise WorkerFailed(f"worker `{self.name}` died, {_way(status)}", status=status)
        return line

    async def _started(self) -> Process:
        """The child, started if there is none; after failures not at once."""
        if self._child is not None and self._child.returncode is None:
            return self._child
        await self._end(kill=True)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._not_before):
                await self._stopped.wait()
        if self._stopped.is_set():
            raise WorkerFailed(f"worker `{self.name}` is stopped")
        try:
            # It leaves the node's group by itself: a terminal's signals go to the node, which ends it in its own time.
            self._child = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "streams_node.worker.child", self._table,
                stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=LINE_BYTES_MAX,
                env=self._environment(),
            )  # fmt: skip
        except OSError as problem:
            raise WorkerFailed(f"worker `{self.name}` cannot be started: {problem}") from problem
        self.starts += 1
        self._logs = asyncio.create_task(self._pass_on_logs(self._child), name=f"worker-logs-{self.name}")
        return self._child

    def _environment(self) -> dict[str, str]:
        """The child imports what the node does, from wherever that was found."""
        paths = [path or str(Path.cwd()) for path in sys.path]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        if self._failed_once:  # a test that lets a child die at a crash point means one child
            environment.pop("STREAMS_CRASH_AT", None)
        return environment

    def _failed(self) -> None:
        self._failed_once = True
        self.failures += 1
        pause_s = min(_BACKOFF_S_MAX, _BACKOFF_S * 2.0 ** min(self.failures - 1, 16))
        self._not_before = asyncio.get_running_loop().time() + pause_s

    def _stay(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _rest(self) -> None:
        """It has had nothing to do for a while: its memory is worth more than its start."""
        task = asyncio.get_running_loop().create_task(self._end_idle(), name=f"worker-end-{self.name}")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end_idle(self) -> None:
        if self._lock.locked():
            return
        async with self._lock:
            await self._end(kill=False)

    async def _end(self, *, kill: bool) -> None:
        """No child afterwards, and nothing left of it."""
        child, self._child = self._child, None
        logs, self._logs = self._logs, None
        if child is None:
            return
        if kill:
            _kill(child)
        assert child.stdin is not None  # noqa: S101 - see above
        child.stdin.close()
        try:
            async with asyncio.timeout(_END_S):
                await child.wait()
        except TimeoutError:
            _kill(child)
            await child.wait()
        if logs is not None:
            await asyncio.wait([logs], timeout=_END_S)  # its last words
            logs.cancel()

    def _kill(self) -> None:
        if self._child is not None:
            _kill(self._child)

    async def _pass_on_logs(self, child: Process) -> None:
        """The child's lines, as lines of the node."""
        assert child.stderr is not None  # noqa: S101 - see above
        while True:
            try:
                line = await child.stderr.readline()
            except ValueError:  # a line without an end
                continue
            if not line:
                return
            self._log(line[:_LOG_LINE_BYTES_MAX])

    def _log(self, line: bytes) -> None:
        try:
            facts = msgspec.json.decode(line, type=dict[str, Any])
            level, event = str(facts.pop("level", "info")), str(facts.pop("event", ""))
        except msgspec.DecodeError:
            log.warning("a worker wrote", worker=self.name, line=line.decode("utf-8", "replace").rstrip())
            return
        facts.pop("timestamp", None)
        write: Callable[..., Any] = getattr(log, level if level in _LEVELS else "info")
        write(event, **(facts | {"worker": self.name}))


def _kill(child: Process) -> None:
    if child.returncode is None:
        with suppress(ProcessLookupError):
            child.kill()


def _way(status: int) -> str:
    return f"killed by signal {-status}" if status < 0 else f"with exit status {status}"
