"""Drawn lives of a stream: one tag is one visible state, waiters hear of each other one, and no read moves it."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams_node.ingest.retain import retain
from streams_node.testing.inprocess import InProcess
from streams_node.wal.lookup import Name
from tests.details.test_details import A, details
from tests.http.wire import ask
from tests.indexing.world import KEYED, SEARCH, FakeDriver, append, create, declare, indexed, sealed
from tests.tiers.node import tiers_of, until

JSON = {"content-type": "application/json"}
SUBSCRIPTIONS = "/v1/stream/__ds/subscriptions"
READS = [
    A, f"{A}?offset=now", f"{A}/_schema", f"{A}/_index_status", f"{A}/_details", f"{A}/_routing_keys", "/v1/streams",
    "/v1/server/_details", f"{A}?offset=now&live=long-poll&timeout_ms=1",
]  # fmt: skip
# What no tag tells of: counts of requests, copies on disk, the database of all streams.
UNTOLD = {"sqlite_shared_total_bytes", "segment_cache_bytes", "exact_index_cache_bytes", "lexicon_index_cache_bytes",
          "companion_cache_bytes", "total_bytes"}  # fmt: skip


class Life:
    """What may happen to a stream, and beside it."""

    def __init__(self, node: InProcess) -> None:
        self.node = node
        self.driver = FakeDriver(node)
        self.number = 0
        self.trimmed = 0
        self.produced = 0
        self.closed = False
        self.changes: dict[str, Callable[[], Awaitable[object]]] = {
            "append": self.append,
            "publish": lambda: sealed(node),
            "index": self.driver.finish,
            "search": lambda: declare(node, A, {"search": SEARCH}),
            "no search": lambda: declare(node, A, {"search": None}),
            "trim": self.trim,
            "subscribe": lambda: self.subscribe({"pattern": "**"}),
            "subscribe elsewhere": lambda: self.subscribe({"pattern": "other/*"}),
            "subscribe by name": lambda: self.subscribe({"streams": ["a"]}),
            "unsubscribe": self.unsubscribe,
            "other": lambda: append(node, "/v1/stream/other", [{"k": "y"}]),
            "produce": self.produce,
            "repeat": self.repeat,
            "number": self.numbered,
            "fork": self.fork,
            "close": self.close,
        }

    async def append(self) -> None:
        if not self.closed:
            await append(self.node, A, [{"k": "x"}] * 3)

    async def close(self) -> None:
        self.closed = True
        assert (await ask(self.node, "POST", A, {"stream-closed": "true"})).status == 204

    async def produce(self) -> None:
        self.produced += 1
        await self.repeat()

    async def repeat(self) -> None:
        """What a producer has sent already is not stored again, and nothing has changed."""
        if self.produced:
            said = {"producer-id": "p", "producer-epoch": "0", "producer-seq": str(self.produced - 1)}
            await ask(self.node, "POST", A, JSON | said, b'[{"k":"x"}]')

    async def numbered(self) -> None:
        self.number += 1
        await ask(self.node, "POST", A, JSON | {"stream-seq": f"{self.number:09d}"}, b'[{"k":"x"}]')

    async def fork(self) -> None:
        """It shares what there is, and is nothing that the stream itself tells of."""
        self.number += 1
        reply = await ask(self.node, "PUT", f"/v1/stream/fork{self.number}", JSON | {"stream-forked-from": A})
        assert reply.status == 201, reply

    async def trim(self) -> None:
        state = await self.node.context.ledger.living(Name("_default", "a"))
        self.trimmed = min(self.trimmed + 2, state.tail.seq)
        await retain(self.node.context.ledger, state, self.trimmed)

    async def subscribe(self, what: dict[str, Any]) -> None:
        self.number += 1
        body = {"type": "pull-wake", "wake_stream": f"wakes/{self.number}"} | what
        reply = await ask(self.node, "PUT", f"{SUBSCRIPTIONS}/s{self.number}", JSON, json.dumps(body).encode())
        assert reply.status == 201, reply

    async def unsubscribe(self) -> None:
        if self.number:
            await ask(self.node, "DELETE", f"{SUBSCRIPTIONS}/s{self.number}")

    async def settled(self) -> None:
        await self.node.context.ledger.committer.settled()
        indexing = tiers_of(self.node).indexing
        assert indexing is not None
        await asyncio.gather(*indexing._news)

    async def seen(self) -> tuple[str, str]:
        """The tag, and all that it stands for."""
        reply = await details(self.node)
        assert reply.status == 200
        body = json.loads(reply.body)
        del body["object_store_requests"]
        for name in UNTOLD:
            body["storage"]["local_storage"].pop(name)
        return reply.headers["etag"], json.dumps(body, sort_keys=True)

    async def indexes(self) -> tuple[str, str]:
        """The same of `_index_status`."""
        reply = await ask(self.node, "GET", f"{A}/_index_status")
        assert reply.status == 200
        return reply.headers["etag"], reply.body.decode()

    async def read(self) -> bool:
        """Whether everybody may read without moving the tag; what the stages do by themselves may move it once."""
        for _ in range(3):
            before = (await self.seen())[0]
            for path in READS:
                assert (await ask(self.node, "GET", path)).status in {200, 204, 400}, path
            if (await self.seen())[0] == before:
                return True
        return False


async def live(folder: Path, steps: list[str]) -> None:
    async with indexed(folder / "node", long_poll_ms_max=30_000, request_ms_max=60_000) as node:
        life = Life(node)
        await create(node, A, KEYED)
        await create(node, "/v1/stream/other")
        known: dict[str, str] = {}
        for step in steps:
            tag, before = await life.seen()
            assert known.setdefault(tag, before) == before
            query = "?live=long-poll&timeout_ms=30000"
            waiting = asyncio.ensure_future(details(node, query=query, tag=tag))
            await until(lambda: node.context.details.waiting == 1, "it waits")
            if step == "delete":
                assert (await ask(node, "DELETE", A)).status == 204
                assert (await waiting).status in {404, 410}
                return
            await life.changes[step]()
            await life.settled()
            after, state = await life.seen()
            assert known.setdefault(after, state) == state, step
            assert (after == tag) == (state == before), step
            status, indexed_so_far = await life.indexes()
            assert known.setdefault(status, indexed_so_far) == indexed_so_far, step
            if after == tag:
                assert not waiting.done(), step
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
                await until(lambda: node.context.details.waiting == 0, "it has left")
            else:
                reply = await waiting
                assert (reply.status, reply.headers["etag"] != tag) == (200, True), step
            assert await life.read(), step


STEPS = [
    "append", "publish", "index", "search", "no search", "trim", "subscribe", "subscribe elsewhere",
    "subscribe by name", "unsubscribe", "other", "produce", "repeat", "number", "fork", "close",
]  # fmt: skip


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(STEPS), min_size=1, max_size=8))
def test_one_tag_is_one_state_and_waiters_hear_of_every_other(steps: list[str]) -> None:
    with TemporaryDirectory() as folder:
        asyncio.run(live(Path(folder), ["append", *steps]))


def test_each_kind_of_change_in_one_life(tmp_path: Path) -> None:
    asyncio.run(live(tmp_path, [*STEPS, "repeat", "append", "publish", "index", "unsubscribe", "delete"]))
