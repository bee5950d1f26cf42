"""A real node as a child process that may be killed at any moment and started again on the same folder.

Owns     the child, its port, and `node.log` beside the data folder; the log goes on over all starts.
Keeps    a child of its own environment: no STREAMS_ variable of the caller reaches it.
Dies     with the block that opened it: whatever is still running then is killed.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from tests.support.wire import HOST, Lost, Refused, Wire

READY_S = 30.0
POLL_S = 0.01
EXIT_S = 30.0
LOG_TAIL_LINES = 30


class NodeDied(Exception):
    """The process ended before it was ready."""


class NodeProcess:
    """One start of `streams-node serve`."""

    def __init__(
        self, data: Path, *, crash_at: str | None = None, settings: Mapping[str, object] | None = None,
        before: tuple[str, ...] = (), port: int = 0, key: str | None = None,
    ) -> None:  # fmt: skip
        self.data = data
        self.port = 0
        self.log = data.with_name("node.log")
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        environment = {name: value for name, value in os.environ.items() if not name.startswith("STREAMS_")}
        chosen = {"log_format": "json", "stream_metrics_ms": 0, **(settings or {})}
        environment |= {f"STREAMS_{name.upper()}": str(value) for name, value in chosen.items()}
        if crash_at is not None:
            environment["STREAMS_CRASH_AT"] = crash_at
        command = [*before, str(Path(sys.executable).with_name("streams-node")), "serve", "--data", str(data)]
        command += ["--host", HOST, "--port", str(port), *(["--no-auth"] if key is None else [])]
        if key is not None:
            environment["STREAMS_API_KEY"] = key
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                command, env=environment, cwd=data.parent, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.process.wait()

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        """As the kernel or an operator would: no clean-up runs."""
        if self.process.poll() is None:
            self.process.kill()

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    async def ready(self) -> Self:
        """Wait until it takes reads and writes. Its own log says where, so no other node can answer in its place."""
        async with asyncio.timeout(READY_S):
            while not (self._found_port() and await self.answers("/readyz")):
                if self.process.poll() is not None:
                    raise NodeDied(f"exit status {self.process.returncode}\n{self.log_tail()}")
                await asyncio.sleep(POLL_S)
        return self

    def _found_port(self) -> int:
        if not self.port:
            lines = [line for line in self.log_since_start().splitlines() if b'"ready"' in line and line.endswith(b"}")]
            if lines:
                self.port = urlsplit(json.loads(lines[0])["url"]).port or 0
        return self.port

    async def answers(self, path: str) -> bool:
        """Whether a GET of this path is 200 just now."""
        async with Wire(self.port) as wire:
            try:
                return (await wire.request("GET", path)).status == 200
            except (Lost, Refused):
                return False

    async def ended(self, seconds: float = EXIT_S) -> int:
        """Wait for the end of the process; its exit status, negative when a signal ended it."""
        async with asyncio.timeout(seconds):
            return await asyncio.to_thread(self.process.wait)

    def log_since_start(self) -> bytes:
        """What this one start has written so far."""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read()

    def log_tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])
