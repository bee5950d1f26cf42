"""A node with its tiers, a stream whose schema has a routing key, and a plain list of its keys."""

import json
import random
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from indexers.plan import plan_of
from streams_node.answers import Indexes
from streams_node.ingest.state import StreamState
from streams_node.testing.inprocess import InProcess, in_process
from streams_node.tiering import Tiering
from streams_node.wal.lookup import Name
from tests.http.wire import ask
from tests.pruning.indexed import Indexer, Row, Source, cut
from tests.tiers.bucket import Bucket, memory_bucket
from tests.tiers.driver import TINY

JSON = {"content-type": "application/json"}
PATH = "/v1/stream/s"
SCHEMA = b'{"schema":true,"routingKey":{"jsonPointer":"/k","required":false}}'
# Mixed case, punctuation, both sides of the surrogates, NUL, the blank key, shared beginnings, long ones.
TRICKY = ["", "a", "A", "b", "B", "a-", "a_", "a.", "a/", "aa", "\0", "é", "e\u0301", "\uffff", "\ue000", "\U0001f600",
          "\U00010000", "z\U0001f600", "z\uffff", "ß", "user:1", "user:10", "user:2", "%2F", "+", " ",
          "k" * 900]  # fmt: skip


@dataclass
class KeyWorld:
    node: InProcess
    indexer: Indexer
    bucket: Bucket
    keys: list[str | None] = field(default_factory=list)
    covered: list[tuple[int, int]] = field(default_factory=list)

    @property
    def tiers(self) -> Tiering:
        return cast("Tiering", self.node.context.tiers)

    @property
    def indexes(self) -> Indexes:
        found = self.tiers.indexes
        assert found is not None
        return found

    async def state(self) -> StreamState:
        return await self.node.context.ledger.readable(Name("_default", "s"))

    async def append(self, keys: Sequence[str | None]) -> None:
        """One append of these."""
        entries = [{"n": at} if key is None else {"k": key} for at, key in enumerate(keys, len(self.keys))]
        reply = await ask(self.node, "POST", PATH, JSON, json.dumps(entries).encode())
        assert reply.status == 204, reply.body
        self.keys += keys

    async def seal(self) -> None:
        committer = self.node.context.ledger.committer
        await committer.settled()
        await self.tiers.flush(committer.committed_through)

    async def sealed_end(self) -> int:
        """Where what has left the log ends."""
        state = await self.state()

        def look(db: sqlite3.Connection) -> int | None:
            found: int | None = db.execute("SELECT min(seq) FROM log WHERE stream = ?", (state.id,)).fetchone()[0]
            return found

        first = await self.node.context.database.readers.run(look)
        return len(self.keys) if first is None else first

    async def config(self) -> str:
        meaning = (await self.state()).tail_meaning
        assert meaning is not None
        return plan_of(meaning.registry, "generic", is_json=True).configs["lexicon"]

    async def index(self, stretches: Sequence[tuple[int, int]]) -> None:
        """One run that covers these stretches."""
        state = await self.state()
        sources = [
            Source(state.id, first, end, [Row(key, None) for key in self.keys[first:end]]) for first, end in stretches
        ]
        await self.indexer.lexicon(await self.config(), sources)
        self.covered = sorted([*self.covered, *stretches])

    async def index_rest(self, end: int, chance: random.Random, parts_max: int = 3) -> None:
        """Whatever is not covered below an entry, of what is not trimmed."""
        at = (await self.state()).earliest_seq
        missing: list[tuple[int, int]] = []
        for first, until in [*self.covered, (end, end)]:
            if at < min(first, end):
                missing += cut(at, min(first, end), chance, parts_max)
            at = max(at, until)
        if missing:
            await self.index(missing)

    async def trim(self, seq: int) -> None:
        """As retention will do it."""
        state = await self.state()
        await self.node.context.database.writer.run(
            lambda db: db.execute("UPDATE streams SET earliest_seq = ? WHERE id = ?", (seq, state.id))
        )
        state.earliest_seq = seq
        self.covered = [(first, end) for first, end in self.covered if end > seq]

    async def evict(self) -> None:
        """Nothing of the bucket is on this node."""
        tiers = self.tiers
        assert tiers.cache is not None
        assert tiers.reader is not None
        for made in list(tiers.cache._shelf._copies):
            await tiers.cache.drop(made)
            tiers.reader.groups.drop(made)
        for made in list(self.indexes.cache._shelf._copies):
            await self.indexes.cache.drop(made)

    async def truth(self) -> list[str]:
        earliest = (await self.state()).earliest_seq
        return sorted({key for key in self.keys[earliest:] if key is not None}, key=lambda key: key.encode())

    async def page(self, *, after: str | None = None, limit: int | None = None, path: str = PATH) -> dict[str, Any]:
        asked = [] if limit is None else [f"limit={limit}"]
        asked += [] if after is None else [f"after={quote(after, safe='')}"]
        reply = await ask(self.node, "GET", f"{path}/_routing_keys?{'&'.join(asked)}")
        assert reply.status == 200, reply.body
        found: dict[str, Any] = json.loads(reply.body)
        return found

    async def walk(self, limit: int | None = None) -> tuple[list[str], bool]:
        """All pages; and whether each of them said that it was complete."""
        found: list[str] = []
        after, complete = None, True
        while True:
            page = await self.page(after=after, limit=limit)
            keys, coverage = page["keys"], page["coverage"]
            assert len(keys) <= (limit or 100)
            found += keys
            complete = complete and coverage["complete"]
            missing = coverage["possible_missing_uploaded_segments"]
            assert coverage["complete"] == (missing == 0)
            assert coverage["scanned_uploaded_segments"] <= 1 or (await self.state()).earliest_seq
            after = page["next_after"]
            if after is None:
                return found, complete
            assert after == keys[-1]


@asynccontextmanager
async def key_world(folder: Path, chance: random.Random, **settings: Any) -> AsyncIterator[KeyWorld]:
    bucket = memory_bucket()
    chosen: dict[str, Any] = TINY | {"flush_ms_max": 3_600_000, "own_segment_bytes": 400} | bucket.settings | settings
    async with in_process(folder, tiers=True, store=bucket.connect, **chosen) as node:
        assert node.context.tiers.indexes is not None
        indexer = Indexer(bucket.open_bare(), node.context.tiers.indexes._covers, chance)
        world = KeyWorld(node, indexer, bucket)
        assert (await ask(node, "PUT", PATH, JSON)).status == 201
        made = await ask(node, "POST", f"{PATH}/_schema", JSON, SCHEMA)
        assert made.status == 200, made.body
        yield world
