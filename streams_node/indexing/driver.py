"""Starts an index driver beside the node when there is enough to do, and ends it when there is not.

Owns     the child process: `python -m spark_index`, or what stands in for it.
Keeps    one child at most. It gets the keys of node and store by its environment, never by its command
         line. It ends with the node, however that ends: its standard input is a pipe from here. One that fails is
         started again, later each time. It takes the processor only when the node does not need it.
Dies     with its leases: what it was at is claimable again.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Mapping, Sequence

import msgspec

from streams_node.errors import StreamsError
from streams_node.indexing.desk import Desk
from streams_node.indexing.priority import step_back
from streams_node.observe.logs import get_logger

log = get_logger(__name__)
COMMAND = (sys.executable, "-m", "spark_index")
TOKEN = "STREAMS_TOKEN"  # noqa: S105 - a name of the environment
_LOOK_S = 2.0
_IDLE_S = 300.0  # without a claim that was granted: then the child ends, and gives its memory back
_GRACE_S = 10.0
_BACKOFF_S = 5.0
_BACKOFF_S_MAX = 600.0
_WELL_S = 60.0  # a child that ran for so long has not failed at its start
_LINE_BYTES = 64 << 10
_LEVELS = ("debug", "info", "warning", "error")


class Driver:
    """A loop for the life of a node."""

    def __init__(
        self,
        desk: Desk,
        url: str,
        secrets: Mapping[str, str],
        *,
        command: Sequence[str] = COMMAND,
        idle_s: float = _IDLE_S,
        look_s: float = _LOOK_S,
        backoff_s: float = _BACKOFF_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._desk = desk
        self._url = url
        self._secrets = secrets
        self._command = command
        self._idle_s = idle_s
        self._look_s = look_s
        self._backoff_s = backoff_s
        self._clock = clock
        self._child: Process | None = None
        self._held = self._ending = False
        self.starts = 0
        self.failures = 0  # in a row
        self.problem: str | None = None

    def hold(self, *, hold: bool, end: bool) -> None:
        """Start none for now, or again; end the one that runs. What it was at is claimable again."""
        self._held, self._ending = hold, end

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    async def run(self) -> None:
        """Until the node ends."""
        try:
            while True:
                try:
                    await self._desk.tend()
                    if self._desk.wanted and not self._held:
                        await self._serve()
                except Exception as failure:  # noqa: BLE001 - indexes are late, and everything else goes on
                    self.problem = failure.message if isinstance(failure, StreamsError) else repr(failure)
                    log.warning("the index driver cannot be tended", error=self.problem)
                await asyncio.sleep(self._look_s)
        finally:
            await self._end()

    async def _serve(self) -> None:
        """One life of the child."""
        began = self._clock()
        await self._start()
        child = self._child
        if child is None:
            return
        logs = asyncio.get_running_loop().create_task(_forward(child), name="index-driver-log")
        ended = asyncio.get_running_loop().create_task(child.wait(), name="index-driver")
        granted, at = self._desk.counts["claims"], began
        try:
            while not ended.done():
                await asyncio.wait([ended], timeout=self._look_s)
                await self._desk.tend()
                if self._ending:
                    log.info("the index driver is ended, as memory is nearly used up")
                    await self._end()
                elif self._desk.counts["claims"] != granted or len(self._desk.leases):
                    granted, at = self._desk.counts["claims"], self._clock()
                elif self._clock() - at > self._idle_s:
                    log.info("the index driver has nothing to do, and is ended")
                    await self._end()
        finally:
            if not ended.done():
                await self._end()
            await asyncio.gather(ended, return_exceptions=True)
            logs.cancel()
            await asyncio.gather(logs, return_exceptions=True)
            self._child = None
            self._desk.died(child.pid)
        await self._settle(child.returncode or 0, self._clock() - began)

    async def _start(self) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("STREAMS_")}
        environment |= self._secrets
        self.starts += 1
        try:
            self._child = await self._spawned(environment)
        except OSError as problem:
            self.failures += 1
            self.problem = f"`{self._command[0]}` cannot be started: {problem.strerror}"
            wait_s = min(self._backoff_s * 2 ** (self.failures - 1), _BACKOFF_S_MAX)
            log.warning("the index driver cannot be started", error=self.problem, again_in_s=wait_s)
            await asyncio.sleep(wait_s)
            return
        step_back(self._child.pid)
        outlook = self._desk.outlook()
        log.info("index driver started", pid=self._child.pid, streams=outlook.streams, bytes=outlook.bytes)

    async def _spawned(self, environment: dict[str, str]) -> Process:
        return await asyncio.create_subprocess_exec(
            *self._command,
            "--node",
            self._url,
            env=environment,
            stdin=PIPE,
            stdout=DEVNULL,
            stderr=PIPE,
            limit=_LINE_BYTES,
        )

    async def _settle(self, status: int, seconds: float) -> None:
        """A child that fails again and again gets longer and longer rests."""
        if status in {0, -signal.SIGTERM} or seconds > _WELL_S:
            self.failures, self.problem = 0, None
            # It ended by itself while there was something to do: that may be work that it cannot do.
            wait_s = self._backoff_s if self._desk.wanted else 0.0
        else:
            self.failures += 1
            self.problem = f"the index driver ended with status {status}"
            wait_s = min(self._backoff_s * 2 ** (self.failures - 1), _BACKOFF_S_MAX)
            log.warning("the index driver failed", status=status, again_in_s=wait_s)
        await asyncio.sleep(wait_s)

    async def _end(self) -> None:
        """Ask it to end; a moment later it has to."""
        child = self._child
        if child is None or child.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            child.terminate()
        try:
            async with asyncio.timeout(_GRACE_S):
                await child.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # it makes a group of its own, so its workers, too
            with contextlib.suppress(ProcessLookupError):
                child.kill()  # before it had made one
            await child.wait()


async def _forward(child: Process) -> None:
    """Lines of the child's log become lines of ours."""
    assert child.stderr is not None  # noqa: S101 - it was started with a pipe
    while True:
        try:
            line = await child.stderr.readline()
        except ValueError:  # longer than a line may be: it is left out
            continue
        if not line:
            return
        _say(line.decode("utf-8", "replace").rstrip())


def _say(line: str) -> None:
    try:
        fields = msgspec.json.decode(line)
    except msgspec.DecodeError:
        fields = None
    if not isinstance(fields, dict):
        log.info("index driver", line=line)
        return
    level = fields.pop("level", "info")
    rest = {f"driver_{name}": value for name, value in fields.items()}
    getattr(log, level if level in _LEVELS else "info")("index driver", **rest)
