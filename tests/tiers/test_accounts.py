"""Requests to the store, kept for each stream and for the node: over restarts, and no longer than the stream."""

import asyncio
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from streams_node.objects import RequestCounts
from streams_node.uploader.accounts import keep
from streams_node.wal.folder import DATABASE
from tests.http.wire import ask
from tests.tiers.bucket import Bucket, memory_bucket
from tests.tiers.node import append, create, evict, publish, tiered, tiers_of, value, walk

S = "/v1/stream/s"
LARGE = "x" * 2000  # so that it gets objects of its own, whose requests are its own
OWN: dict[str, Any] = {"own_segment_bytes": 1000, "object_grace_ms": 600_000, "compaction_packs": 1000}
Account = Counter[tuple[str, str]]


def kept(folder: Path) -> dict[int, Account]:
    """What lies in the database of a node that has ended: requests by artifact and operation, of each account."""
    found: dict[int, Account] = {}
    with closing(sqlite3.connect(folder / DATABASE)) as db:
        for stream, artifact, op, requests in db.execute("SELECT stream, artifact, op, requests FROM store_requests"):
            found.setdefault(stream, Counter())[artifact, op] = requests
    return found


def made(counts: RequestCounts) -> Account:
    """Every request of one life."""
    return Counter({name: tally.requests for name, tally in counts.totals().items()})


def test_every_request_of_every_life_is_in_one_account(tmp_path: Path) -> None:
    """A life that ends in order keeps all of it, however short it was."""
    bucket = memory_bucket()

    async def life(entry: int) -> tuple[int, RequestCounts]:
        async with tiered(tmp_path, bucket, **OWN) as node:
            if entry == 0:
                await create(node, S)
            await append(node, S, entry, LARGE)
            await publish(node)
            await evict(node)
            assert (await walk(node, S))[::2] == list(range(entry + 1))
            return int(await value(node, "SELECT id FROM streams WHERE name = 's'")), tiers_of(node).counts

    lives = [asyncio.run(life(entry)) for entry in range(3)]
    accounts = kept(tmp_path)
    mine = lives[0][0]
    assert set(accounts) == {0, mine}
    assert sum(accounts.values(), Account()) == sum((made(counts) for _, counts in lives), Account())
    assert accounts[mine]["segment", "put"] == 3
    assert accounts[mine]["segment", "get"] == 1 + 2 + 3  # each life fetched what there was by then
    assert accounts[0]["generation", "put"] >= 3


def test_the_account_of_a_stream_goes_to_the_node_when_it_dies(tmp_path: Path) -> None:
    """Also what is asked for it afterwards: its objects are deleted long after it."""
    bucket = memory_bucket()

    async def run() -> tuple[int, dict[int, Account]]:
        async with tiered(tmp_path, bucket, **OWN) as node:
            await create(node, S)
            await append(node, S, LARGE)
            await publish(node)
            mine = int(await value(node, "SELECT id FROM streams WHERE name = 's'"))
            database, counts = node.context.database, tiers_of(node).counts
            await keep(database, counts)
            before = kept(tmp_path)
            assert (await ask(node, "DELETE", S)).status == 204
            await node.context.ledger.committer.settled()
            assert set(kept(tmp_path)) == {0}
            await _late(bucket, node, mine)
            return mine, before

    mine, before = asyncio.run(run())
    after = kept(tmp_path)
    assert set(after) == {0}
    assert after[0]["segment", "put"] == before[mine]["segment", "put"] == 1
    assert after[0]["segment", "delete"] == 1


async def _late(bucket: Bucket, node: Any, stream: int) -> None:
    """What the collector does, once its time has come."""
    store = tiers_of(node)._store
    assert store is not None
    (key,) = [key for key in bucket.all_keys() if key.startswith("segments/")]
    await asyncio.to_thread(store.delete, key, owner=stream)  # type: ignore[arg-type]
