"""A node under the lists of forks that dies again and again, each time at another stage of sealing.

Owns     one data folder, one bucket, and the process that runs on them at the moment.
Keeps    the lists see one node that never dies: a request whose answer was lost is asked for again, unless it can be
         seen to be stored; and nobody else asks for anything, so it can.
"""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.crash.tiers.points import TIERS
from tests.support.node_process import NodeDied, NodeProcess
from tests.support.wire import Answer, Lost, Refused, Wire

_STORED = {"PUT": 201, "POST": 204, "DELETE": 204}
_BUSY = {429, 503}  # entries were on their way from the log to an object, or the like: to be asked for again
_BUSY_MAX = 100
_BUSY_S = 0.02


class DyingNode:
    """The next life begins as one ends, with the next point to die at; after the last of them it lives on."""

    def __init__(self, folder: Path, deaths: Iterable[str]) -> None:
        self.data, self.place = folder / "data", folder / "bucket"
        self.settings = {**TIERS, "object_store_folder": self.place}
        self.deaths_left = list(deaths)
        self._runner = asyncio.Runner()
        self._node = self._start()
        self._wire = Wire(0)
        self._runner.run(self._ready())

    def ask(self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Answer:
        return self._runner.run(self._settled(method, path, headers or {}, body))

    def end(self) -> None:
        self._wire.close()
        self._node.kill()
        self._node.process.wait()
        self._runner.close()

    # --- one request ---

    async def _settled(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """The answer, or what it would have said."""
        if method not in _STORED:
            return await self._again(method, path, headers, body)
        before = await self._again("HEAD", path)
        while True:
            try:
                return await self._patiently(method, path, headers, body)
            except (Lost, Refused):
                await self._born_again()
            after = await self._again("HEAD", path)
            if _shown(after) != _shown(before):
                return Answer(_STORED[method], after.headers, b"")

    async def _again(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Answer:
        """Something that may be asked twice."""
        while True:
            try:
                return await self._patiently(method, path, headers or {}, body)
            except (Lost, Refused):
                await self._born_again()

    async def _patiently(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        answer = await self._wire.request(method, path, headers, body)
        for _ in range(_BUSY_MAX):
            if answer.status not in _BUSY:
                return answer
            await asyncio.sleep(_BUSY_S)
            answer = await self._wire.request(method, path, headers, body)
        raise AssertionError(f"{method} {path}: {answer.status} {answer.body[:200]!r}")

    # --- its lives ---

    def _start(self) -> NodeProcess:
        crash_at = self.deaths_left[0] if self.deaths_left else None
        return NodeProcess(self.data, crash_at=crash_at, settings=self.settings)

    async def _born_again(self) -> None:
        self._wire.close()
        await self._node.ended()
        self._died()
        await self._ready()

    async def _ready(self) -> None:
        """Wait until it is; it may die of what it does before."""
        while True:
            try:
                await self._node.ready()
                self._wire = Wire(self._node.port)
                return
            except NodeDied:
                self._died()

    def _died(self) -> None:
        assert self.deaths_left, self._node.log_tail()
        assert self._node.process.returncode == -9, self._node.log_tail()
        del self.deaths_left[0]
        self._node = self._start()


def _shown(answer: Answer) -> tuple[int, str | None, str | None]:
    """What every change of a stream changes."""
    headers = answer.headers
    return answer.status, headers.get("stream-next-offset"), headers.get("stream-closed")
