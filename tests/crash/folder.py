"""One data folder over many lives of its node: load, death, start, judgement, and on it goes.

Owns     the folder, the writers, the count of deaths.
Keeps    every start is followed by a complete read-back before new load begins; now and then by a look into the tables.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from random import Random

from tests.crash.appenders import Plain, Producer, Sequenced, Tailer
from tests.crash.lifecycles import BucketKeeper, Churner, Closer, Toucher
from tests.crash.load import Load, Writer
from tests.crash.model import Stream
from tests.support.node_process import NodeDied, NodeProcess
from tests.support.tables import check_tables
from tests.support.wire import Lost, Refused

CRASH_S = 10.0
Act = Callable[[NodeProcess], Awaitable[None]]
RARE = {
    "heads_flush_rows": 50,
    "heads_flush_ms": 50,
    "sqlite_checkpoint_bytes": 65536,
    "sqlite_wal_grown_bytes": 65536,
    "log_row_bytes_max": 4096,
    "expiry_sweep_ms": 100,
}  # bounds at their least, so that what is rare comes often


def everybody(seed: str) -> Load:
    """Writers of every kind."""
    lines, more, arrays = (
        Stream("/v1/stream/lines"),
        Stream("/v1/stream/more/lines"),
        Stream("/v1/stream/arrays", json=True),
    )
    sure, mixed = Stream("/v1/stream/sure"), Stream("/v1/stream/sure-arrays", json=True)
    locks = {stream.path: asyncio.Lock() for stream in (lines, more, arrays, sure, mixed)}
    writers: list[Writer] = [
        *(Plain(f"plain-{at}", seed, stream, locks[stream.path]) for at, stream in enumerate((lines, lines, more))),
        *(Plain(f"arrays-{at}", seed, arrays, locks[arrays.path]) for at in range(2)),
        Plain("guest", seed, sure, locks[sure.path]),
        *(Producer(f"sure-{at}", seed, stream, locks[stream.path]) for at, stream in enumerate((sure, sure, mixed))),
        Sequenced("sequenced", seed, Stream("/v1/stream/sequenced")),
        Closer("closer-lines", seed, json=False),
        Closer("closer-arrays", seed, json=True),
        Churner("churn-lines", seed, json=False),
        Churner("churn/arrays", seed, json=True),
        BucketKeeper("keeper", seed),
        Toucher("toucher", seed),
        Tailer("tail-lines", seed, lines),
        Tailer("tail-arrays", seed, arrays),
    ]
    return Load(writers, seed)


class CrashedFolder:
    """A data folder whose node dies again and again."""

    def __init__(
        self,
        data: Path,
        seed: str,
        settings: Mapping[str, object] | None = None,
        load: Load | None = None,
    ) -> None:
        self.data = data
        self.load = load or everybody(seed)
        self.random = Random(f"{seed}/folder")
        self.settings = RARE if settings is None else settings
        self.deaths = 0

    def start(self, crash_at: str | None = None) -> NodeProcess:
        return NodeProcess(self.data, crash_at=crash_at, settings=self.settings)

    async def die_at(self, crash_at: str, act: Act | None = None) -> bool:
        """Start, judge, and write until the node has killed itself there; whether it did, in time."""
        with self.start(crash_at) as node:
            try:
                await node.ready()
                await self.judge(node)
            except (NodeDied, Lost, Refused):
                return self._died(node)
            running = asyncio.ensure_future(self.load.run(node.port))
            try:
                if act is not None:
                    await act(node)
                await node.ended(CRASH_S)
            except TimeoutError:
                node.kill()
                await running
                return False
            await running
            return self._died(node)

    async def die_after(self, seconds: float) -> None:
        """Start, judge, and write for so long; then kill."""
        with self.start() as node:
            await node.ready()
            await self.judge(node)
            running = asyncio.ensure_future(self.load.run(node.port))
            await asyncio.wait({running}, timeout=seconds)
            node.kill()
            await running
            self.deaths += 1

    async def die_starting(self, seconds: float) -> None:
        """Start, and kill before it may be ready."""
        with self.start() as node:
            await asyncio.sleep(seconds)
            node.kill()
            self.deaths += 1

    async def survive(self) -> None:
        """A last start: judge, write a little, end it properly, and look into the tables."""
        with self.start() as node:
            await node.ready()
            await self.judge(node)
            running = asyncio.ensure_future(self.load.run(node.port))
            await asyncio.wait({running}, timeout=0.2)
            node.terminate()
            await running
            status = await node.ended()
            assert status == 0, node.log_tail()
        facts = check_tables(self.data / "streams.db")
        assert facts.unreplayed == 0
        with self.start() as node:
            await node.ready()
            await self.judge(node)

    async def judge(self, node: NodeProcess) -> None:
        facts = check_tables(self.data / "streams.db")
        assert facts.unreplayed == 0, f"{facts.unreplayed} rows were left out of the replay"
        try:
            await self.load.settle(node.port)
        except Exception as problem:
            problem.add_note(node.log_tail())
            raise

    def _died(self, node: NodeProcess) -> bool:
        died = node.process.wait() == -signal.SIGKILL
        self.deaths += died
        return died
