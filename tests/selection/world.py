import json
import random
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from streams_node.manifest import Chain
from streams_node.manifest.restore import bootstrap
from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess, in_process
from streams_node.tiering import Tiering
from tests.http.wire import Reply, ask
from tests.tiers.bucket import Bucket, memory_bucket
from tests.tiers.driver import TINY

JSON = {"content-type": "application/json"}
KEYS = (None, "a", "b/c", "ä ..", "rare")
SERVICES = ("api", "web", 'quo"te', "sla/sh", "back\\slash", "ünï", "")
SEARCH: dict[str, Any] = {
    "primaryTimestampField": "at",
    "fields": {
        "at": {"kind": "date", "bindings": [{"version": 1, "jsonPointer": "/at"}], "column": True},
        "service": {"kind": "keyword", "bindings": [{"version": 1, "jsonPointer": "/service"}], "exact": True},
        "low": {
            "kind": "keyword", "bindings": [{"version": 1, "jsonPointer": "/service"}], "exact": True,
            "normalizer": "lowercase_v1",
        },
        "n": {"kind": "integer", "bindings": [{"version": 1, "jsonPointer": "/n"}], "column": True, "exact": True},
        "ok": {"kind": "bool", "bindings": [{"version": 1, "jsonPointer": "/ok"}], "exact": True},
    },
}  # fmt: skip
PATH = "/v1/stream/s"


@dataclass
class Entry:
    """What a plain list remembers of an entry."""

    text: bytes
    key: str | None
    us: int

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.text)
        return found


@dataclass
class World:
    """A node with its tiers, and a plain list of one stream's entries."""

    node: InProcess
    clock: FakeClock
    bucket: Bucket
    entries: list[Entry] = field(default_factory=list)

    @property
    def tiers(self) -> Tiering:
        return cast("Tiering", self.node.context.tiers)

    async def get(self, query: str, path: str = PATH) -> Reply:
        return await ask(self.node, "GET", f"{path}?{query}")

    async def create(self) -> None:
        assert (await ask(self.node, "PUT", PATH, JSON)).status == 201
        body = json.dumps({"schema": {"type": "object"}, "search": SEARCH}).encode()
        made = await ask(self.node, "POST", f"{PATH}/_schema", JSON, body)
        assert made.status == 200, made.body

    async def append(self, chance: random.Random, count: int) -> None:
        """Some appends of a few entries each, every one with its key and its time."""
        for _ in range(count):
            self.clock.advance(seconds=chance.choice((0, 1, 7)))
            key, number = chance.choices(KEYS, (4, 4, 4, 4, 1))[0], chance.choice((1, 1, 2, 6))
            texts = [record(chance) for _ in range(number)]
            headers = JSON if key is None else JSON | {"stream-key": key.encode().decode("latin-1")}
            reply = await ask(self.node, "POST", PATH, headers, b"[%b]" % b",".join(texts))
            assert reply.status == 204, reply.body
            self.entries += [Entry(text, key, self.clock()) for text in texts]

    async def seal(self) -> None:
        """All of it is in the bucket; rows leave the log, and packs are merged, as the stages like."""
        committer = self.node.context.ledger.committer
        await committer.settled()
        await self.tiers.flush(committer.committed_through)

    async def evict(self) -> None:
        cache, reader = self.tiers.cache, self.tiers.reader
        assert cache is not None
        assert reader is not None
        for made in list(cache._shelf._copies):
            await cache.drop(made)
            reader.groups.drop(made)


def record(chance: random.Random) -> bytes:
    """A record in one of several spellings."""
    service = chance.choice(SERVICES)
    found: dict[str, Any] = {
        "service": service,
        "n": chance.choice((1, 2, 3, "2", None)),
        "ok": chance.choice((True, False, "true")),
    }
    if chance.random() < 0.2:
        del found[chance.choice(("service", "n", "ok"))]
    if chance.random() < 0.2:
        found["service"] = [service, "other"]
    if chance.random() < 0.1:
        found["pad"] = "x" * chance.choice((100, 3000))
    spelled = json.dumps(found, ensure_ascii=chance.random() < 0.5)
    if chance.random() < 0.2:
        spelled = spelled.replace("api", "\\u0061pi")
    if chance.random() < 0.2:
        spelled = spelled.replace("sla/sh", "sla\\/sh")
    return spelled.encode()


@asynccontextmanager
async def worlds(folder: Path, **settings: Any) -> AsyncIterator[tuple[World, Callable[[], Any]]]:
    """A world, and a way to begin it anew from its bucket alone."""
    clock = FakeClock()
    bucket = memory_bucket(clock)
    world = World(cast("InProcess", None), clock, bucket)
    opened: list[Any] = []

    async def begin(name: str) -> None:
        context = in_process(
            folder / name, clock=clock, tiers=True, store=bucket.connect, **(TINY | bucket.settings | settings)
        )
        opened.append(context)
        world.node = await context.__aenter__()

    async def anew() -> None:
        await opened.pop().__aexit__(None, None, None)
        (folder / "again").mkdir()
        store = bucket.direct()
        bootstrap(Chain(store), folder / "again", "0" * 32, "test", clock())
        store.close()
        await begin("again")

    await begin("first")
    try:
        yield world, anew
    finally:
        await opened.pop().__aexit__(None, None, None)
        shutil.rmtree(folder, ignore_errors=True)
