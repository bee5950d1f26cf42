"""A node with its tiers in this process, an index driver without Spark, and what a scan says of both."""

import asyncio
import json
import secrets
import sqlite3
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import msgspec
from typing_extensions import override

from indexers.build import Builder
from indexers.lexicon import Lexicon
from indexers.merge import merge
from indexers.messages import (
    Build,
    Claim,
    ClaimRequest,
    CommitRequest,
    Cover,
    Failed,
    IndexObject,
    Merge,
    RenewRequest,
)
from indexers.sealed import sealed_rows
from streams_node.errors import ObjectMissing
from streams_node.indexing import Covering, covers_of
from streams_node.indexing.desk import Desk
from streams_node.objects import FolderStore, RequestCounts, RetryingStore, WriteId
from streams_node.objects.keys import Key, ObjectId, index_filter_key, index_key
from streams_node.testing.inprocess import InProcess
from tests.http.wire import Reply, ask
from tests.support.wire import Wire
from tests.tiers.bucket import Bucket, folder_bucket
from tests.tiers.node import publish, tiered, tiers_of

JSON = {"content-type": "application/json"}
KEYED: dict[str, Any] = {
    "schema": {"type": "object"},
    "routingKey": {"jsonPointer": "/k", "required": False},
}
SEARCH: dict[str, Any] = {
    "primaryTimestampField": "at",
    "fields": {
        "at": {"kind": "date", "bindings": [{"version": 1, "jsonPointer": "/at"}], "column": True, "exists": True},
        "k": {"kind": "keyword", "bindings": [{"version": 1, "jsonPointer": "/k"}], "exact": True, "prefix": True},
        "text": {
            "kind": "text",
            "bindings": [{"version": 1, "jsonPointer": "/text"}],
            "positions": True,
            "analyzer": "unicode_word_v1",
        },
    },
}
EAGER: dict[str, Any] = {
    "index_driver": "off",
    "index_stream_entries": 1,
    "index_stream_bytes": 1 << 40,
    "compaction_packs": 1000,
}


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that runs on a loop of its own."""

    @wraps(test)
    def run(*args: Any, **given: Any) -> None:
        asyncio.run(test(*args, **given))

    return run


@asynccontextmanager
async def indexed(folder: Path, bucket: Bucket | None = None, **settings: Any) -> AsyncIterator[InProcess]:
    bucket = folder_bucket(folder.parent / "objects") if bucket is None else bucket
    async with tiered(folder, bucket, **(EAGER | settings)) as node:
        await _opened(node)
        yield node


async def _opened(node: InProcess) -> None:
    uploader = tiers_of(node).uploader
    assert uploader is not None
    async with asyncio.timeout(30):
        await uploader.opened.wait()


def desk_of(node: InProcess) -> Desk:
    desk = tiers_of(node).desk
    assert desk is not None
    return desk


async def create(node: InProcess, path: str, declared: dict[str, Any] | None = KEYED) -> None:
    assert (await ask(node, "PUT", path, JSON)).status in {200, 201}
    if declared is not None:
        await declare(node, path, declared)


async def declare(node: InProcess, path: str, declared: dict[str, Any]) -> None:
    reply = await ask(node, "POST", f"{path}/_schema", JSON, json.dumps(declared).encode())
    assert reply.status == 200, reply


async def append(node: InProcess, path: str, entries: list[Any]) -> None:
    reply = await ask(node, "POST", path, JSON, json.dumps(entries).encode())
    assert reply.status == 204, reply


async def sealed(node: InProcess) -> None:
    """Everything is in the bucket, and the desk has heard of it."""
    await publish(node)
    indexing = tiers_of(node).indexing
    assert indexing is not None
    await asyncio.gather(*indexing._news)


async def stream_id(node: InProcess, path: str) -> int:
    name = path.rpartition("/")[2]

    def look(db: sqlite3.Connection) -> int:
        return int(db.execute("SELECT id FROM streams WHERE name = ?", (name,)).fetchone()[0])

    await node.context.ledger.committer.settled()
    return await node.context.database.readers.run(look)


async def covered(node: InProcess, path: str) -> list[Covering]:
    stream = await stream_id(node, path)
    return await node.context.database.readers.run(covers_of, stream)


async def rows(node: InProcess, statement: str) -> list[tuple[Any, ...]]:
    return await node.context.database.readers.run(lambda db: db.execute(statement).fetchall())


class FakeDriver:
    """Claims, builds and commits over HTTP, one step at a time; the store is the node's."""

    def __init__(self, node: InProcess, name: str = "fake") -> None:
        self.node = node
        self.name = name

    @property
    def store(self) -> RetryingStore:
        store = tiers_of(self.node)._store
        assert store is not None
        return store

    async def post(self, what: str, body: Any) -> Reply:
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return await ask(self.node, "POST", f"/v1/server/_index/{what}", JSON, raw)

    async def claim(self, **asked: Any) -> Claim | None:
        reply = await self.post("claim", ClaimRequest(driver=self.name, **asked))
        if reply.status == 204:
            return None
        assert reply.status == 200, reply
        return self.claim_in(reply.body)

    @staticmethod
    def claim_in(body: bytes) -> Claim:
        return msgspec.json.decode(body, type=Claim)

    async def renew(self, claim: Claim, done: int = 0) -> Reply:
        return await self.post("renew", RenewRequest(claim=claim.claim, fence=claim.fence, done=done))

    def built(self, claim: Claim) -> CommitRequest:
        """The objects of a claim, in the bucket."""
        objects: list[IndexObject] = []
        merged: list[list[str]] = []
        failed: list[Failed] = []
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with Builder(claim.meanings, folder) as builder:
                for each in claim.work:
                    if isinstance(each, Build):
                        try:
                            data = self.store.get(Key(each.source.key)).data
                        except ObjectMissing as problem:  # merged and collected meanwhile
                            failed.append(Failed(made=each.source.made, reason=problem.message))
                            continue
                        builder.add(each, sealed_rows(data, each))
                for made in builder.finish(new_id):
                    self._put(made)
                    objects.append(made.object)
            for order in claim.work:
                if isinstance(order, Merge):
                    one = self._merged(order, folder)
                    merged.append([one.made, *(each.made for each in order.inputs)])
                    objects.append(one)
        return CommitRequest(claim=claim.claim, fence=claim.fence, objects=objects, merged=merged, failed=failed)

    def _merged(self, order: Merge, folder: Path) -> IndexObject:
        paths = {}
        for each in order.inputs:
            paths[each.made] = folder / each.made
            paths[each.made].write_bytes(self.store.get(index_key(each.family, ObjectId(each.made))).data)
        made = merge(order, paths, folder, new_id())
        self._put(made)
        return made.object

    def _put(self, made: Any) -> None:
        number = ObjectId(made.object.made)
        if made.filter is not None:
            self.store.put(index_filter_key(number), made.filter.read_bytes(), write_id=WriteId(f"{number}-f"))
        self.store.put(index_key(made.object.family, number), made.path.read_bytes(), write_id=WriteId(number))

    async def commit(self, request: CommitRequest) -> Reply:
        return await self.post("commit", request)

    async def round(self) -> bool:
        """One claim, all the way; whether there was one."""
        claim = await self.claim()
        if claim is None:
            return False
        reply = await self.commit(self.built(claim))
        assert reply.status == 200, reply
        return True

    async def finish(self) -> int:
        """Until there is nothing to do."""
        count = 0
        while await self.round():
            count += 1
            assert count < 200
        return count


class RemoteDriver(FakeDriver):
    """Over a socket, and with a store of its own, as a real one."""

    def __init__(self, wire: Wire, objects: Path) -> None:
        self.wire = wire
        self.name = "remote"
        self._store = RetryingStore(FolderStore.open(objects), RequestCounts())

    @property
    @override
    def store(self) -> RetryingStore:
        return self._store

    @override
    async def post(self, what: str, body: Any) -> Any:
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return await self.wire.request("POST", f"/v1/server/_index/{what}", JSON, raw)


def told(reply: Reply) -> Any:
    return json.loads(reply.body)


def new_id() -> str:
    return secrets.token_hex(16)


async def keys_by_index(node: InProcess, path: str, config: str | None = None) -> Counter[str]:
    """Routing keys with their numbers, as the lexicon of a stream has them."""
    stream = await stream_id(node, path)
    covers = await node.context.database.readers.run(covers_of, stream, "lexicon", config)
    store = tiers_of(node)._store
    assert store is not None
    found: Counter[str] = Counter()
    for made in {each.made for each in covers}:
        data = store.get(index_key("lexicon", ObjectId(made))).data
        with Lexicon(data, name=made) as lexicon:
            for row in lexicon.keys(stream, None):
                found[str(row)] += 1
    return found


def spans(covers: list[Covering], family: str = "lexicon") -> list[tuple[int, int]]:
    """What is covered, joined; it fails when two covers have an entry in common."""
    ordered = sorted((each.first_seq, each.end_seq) for each in covers if each.family == family)
    joined: list[tuple[int, int]] = []
    for first, end in ordered:
        assert not joined or first >= joined[-1][1], "two covers overlap"
        if joined and first == joined[-1][1]:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((first, end))
    return joined


def cover(stream: int, first: int, end: int, config: str, **other: Any) -> Cover:
    given = {"ordinal": 0, "payload_bytes": 1, "min_ts": 1, "max_ts": 1, "entries": end - first}
    return Cover(stream=stream, first_seq=first, end_seq=end, config=config, **(given | other))
