"""The crash points that the code names, and what must happen for a node to come by each of them.

The names are read from the source: a point that is in the code and not in the table below fails a test.
"""

import asyncio
import re
import resource
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from typing_extensions import override

import streams_node
from tests.crash.folder import RARE, Act
from tests.crash.load import Load, Writer
from tests.crash.model import Presence, Stream
from tests.support.node_process import NodeProcess
from tests.support.wire import Lost, Refused, Wire

_CALL = re.compile(r"""crash_point\(["']([^"']+)["']\)""")
_TINY_FILES = 4096  # bytes a file may have while the disk is "full"
_LOAD_S = 0.2


def named_in_source() -> list[str]:
    """Every name given to `crash_point` in the server."""
    root = Path(streams_node.__file__).parent
    texts = (path.read_text("utf-8") for path in root.rglob("*.py"))
    return sorted({name for text in texts for name in _CALL.findall(text)})


class Way(NamedTuple):
    """How to come by a point: at which pass it kills, under which settings, and what is done to the node."""

    least: int = 1
    most: int = 1
    settings: Mapping[str, object] = RARE
    act: Act | None = None
    empty: bool = False  # only a folder that has never been used comes by it
    crowd: bool = False  # only with many streams at once
    replaying: bool = False  # it is on the way of a start that has something to replay

    def crash_at(self, name: str, random: Random) -> str:
        return f"{name}:{random.randint(self.least, self.most)}"


async def terminate(node: NodeProcess) -> None:
    await asyncio.sleep(_LOAD_S)
    node.terminate()


async def fill_disk(node: NodeProcess) -> None:
    """Let no file grow: every commit fails from now on, and so does every line of the log."""
    with node.log.open("ab") as log:
        log.write(b"-" * _TINY_FILES + b"\n")
    await asyncio.sleep(_LOAD_S)
    _, most = resource.prlimit(node.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (_TINY_FILES, most))


async def fill_disk_for_a_while(node: NodeProcess) -> None:
    await fill_disk(node)
    async with Wire(node.port) as wire, asyncio.timeout(5):
        try:
            while (await wire.request("GET", "/readyz")).status == 200:  # noqa: ASYNC110 - a client can only ask
                await asyncio.sleep(0.01)
        except (Lost, Refused):
            return
    _, most = resource.prlimit(node.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (most, most))


_LAZY = RARE | {"heads_flush_rows": 100_000, "heads_flush_ms": 60_000}  # so that there is something to replay
WAYS: dict[str, Way] = {
    "commit.before": Way(20, 300),
    "commit.inside": Way(20, 200),
    "commit.heads": Way(1, 20),
    "commit.after": Way(20, 300),
    "heads.between": Way(1, 2, RARE | {"heads_flush_rows": 1500, "heads_flush_ms": 60_000}, crowd=True),
    "checkpoint.before": Way(1, 8),
    "checkpoint.after": Way(1, 8),
    "graves.inside": Way(1, 2),
    "graves.after": Way(1, 2),
    "replay.inside": Way(settings=_LAZY, replaying=True),
    "recover.before": Way(1, 2, _LAZY, fill_disk),
    "recover.after": Way(1, 1, _LAZY, fill_disk_for_a_while),
    "migrate.inside": Way(empty=True),
    "close.before": Way(act=terminate),
    "close.after": Way(act=terminate),
}


class Crowd(Writer):
    """Many streams with an entry now and then."""

    def __init__(self, name: str, seed: str, count: int) -> None:
        super().__init__(name, seed)
        self._streams = [Stream(f"/v1/stream/{name}/{at}", json=at % 2 == 0) for at in range(count)]

    @override
    def streams(self) -> Sequence[Stream]:
        return self._streams

    @override
    async def run(self, wire: Wire) -> None:
        while True:
            for stream in self.random.sample(self._streams, len(self._streams)):
                if stream.presence is not Presence.PRESENT:
                    await self.create(wire, stream, entries=self.entries(stream))
                else:
                    attempt = stream.attempt(self.name, self.entries(stream))
                    answer = await self.append(wire, stream, attempt)
                    self.expect(answer, {204}, "append")
                    stream.acknowledge(attempt, answer.next_offset)


def crowd(seed: str) -> Load:
    return Load([Crowd(f"crowd-{at}", seed, 180) for at in range(4)], seed)
