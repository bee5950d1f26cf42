"""A rare key and a rare value in a stream of many objects: what is fetched from the store, and what is answered."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pyarrow as pa
import pytest

from indexers.plan import plan_of
from search.language import filter_, matcher
from streams_node.answers import Indexes, Want, filter_want, key_want
from streams_node.cache import Cache, Limits
from streams_node.indexing.known import KnownCovers
from streams_node.objects import FaultyStore, RetryingStore, RetryPolicy
from streams_node.read.filtered import Filtered
from streams_node.read.keyed import Keyed, Pruner
from streams_node.read.scan import Bounds, Scanned, Sieve, read_matching
from streams_node.schema.registry import Registry, evolved, parse_update
from streams_node.segments.format import SCHEMA
from tests.pruning.indexed import Indexer, Row, Source
from tests.read.layers import Layers, Run, layers
from tests.selection.world import SEARCH

OBJECTS = 520
_QUICK = RetryPolicy(attempts_max=3, wait_ms=1, wait_ms_max=2, total_ms_max=1000)
BOUNDS = Bounds(1 << 20, 100 << 20, 60.0)


def keys_of(number: int) -> list[str | None]:
    """Of the entries of an object."""
    rare = "rare" if number in {3, 257, 511} else None
    return ["common", f"key-{number}", rare]


def registry() -> Registry:
    update = {"schema": True, "search": SEARCH, "routingKey": {"jsonPointer": "/k", "required": False}}
    return evolved(Registry("s"), parse_update(json.dumps(update).encode()), 0)


def sources(world: Layers, first: int, end: int) -> list[Source]:
    """An object each, as when they were indexed."""
    found: list[Source] = []
    for at in range(first, end):
        texts = world.entries[0][3 * at : 3 * at + 3]
        rows = [Row(key, json.loads(text)) for key, text in zip(keys_of(at), texts, strict=True)]
        found.append(Source(1, 3 * at, 3 * at + 3, rows))
    return found


async def many(world: Layers) -> None:
    """One object after the other, of three entries each."""

    def batches(run: Run) -> list[Any]:
        which, first, end = run
        found: list[str | None] = [key for at in range(first // 3, -(-end // 3)) for key in keys_of(at)]
        columns: list[Sequence[Any]] = [
            [which + 1] * (end - first), range(first, end), [1] * (end - first), [True] * (end - first),
            [1] * (end - first), found, world.entries[which][first:end],
        ]  # fmt: skip
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        return [pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)]

    world._batches = batches  # type: ignore[method-assign] # theirs have no keys
    await world.create("application/json")
    service = "service"
    await world.sealed(
        0,
        [
            [json.dumps({service: key or "none", "n": at, "pad": "x" * 200}).encode() for key in keys_of(at)]
            for at in range(OBJECTS)
        ],
    )


class Reads:
    """Reads of the stream from nothing but the bucket, and how often they asked it."""

    def __init__(self, world: Layers, indexes: Indexes) -> None:
        self.world = world
        self.indexes = indexes
        declared = registry()
        assert declared.search is not None
        self.search = declared.search
        self.configs = plan_of(declared, "generic", is_json=True).configs
        self._plan = filter_("service:rare n:>=0", declared.search)

    async def read(self, what: str, *, pruned: bool) -> tuple[Scanned, int]:
        world = self.world
        await world.evict()
        before = world.gets()
        sieve = self._keyed("rare", pruned=pruned) if what == "key" else self._filtered(pruned=pruned)
        found = await read_matching(world.database, world.cold, world.streams[0], 0, sieve, BOUNDS)
        return found, world.gets() - before

    async def nobody(self) -> Scanned:
        world, sieve = self.world, self._keyed("nobody", pruned=True)
        return await read_matching(world.database, world.cold, world.streams[0], 0, sieve, BOUNDS)

    def _keyed(self, key: str, *, pruned: bool) -> Sieve:
        return Keyed(key, None, self._pruner(key_want(key, self.configs), pruned=pruned))

    def _filtered(self, *, pruned: bool) -> Sieve:
        want = filter_want(self._plan, self.configs, 0)
        return Filtered(self._plan, matcher(self._plan, 1), pruner=self._pruner(want, pruned=pruned))

    def _pruner(self, want: Want | None, *, pruned: bool) -> Pruner | None:
        assert want is not None
        return self.indexes.pruner(1, [want]) if pruned else None


@pytest.mark.timeout(300)
def test_a_rare_key_or_value_opens_the_objects_that_hold_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with layers(tmp_path) as world:
            await many(world)
            assert len(world.living) == OBJECTS
            (tmp_path / "index").mkdir()
            source = RetryingStore(FaultyStore(world.bucket, world.faults), world.counts, _QUICK)
            covers = KnownCovers(world.database)
            indexes = Indexes(world.database, covers, await Cache.open(tmp_path / "index", source, Limits(1 << 30, 4)))
            await check(Reads(world, indexes), Indexer(world.bucket, covers, random.Random(5)))
            await indexes.close()

    anyio.run(main)


async def check(reads: Reads, indexer: Indexer) -> None:
    world, configs = reads.world, reads.configs
    plain = {what: await reads.read(what, pruned=False) for what in ("key", "filter")}
    for found, gets in plain.values():
        assert found.page.payload.count(b"rare") == 3
        assert gets >= OBJECTS
    runs: dict[str, list[Any]] = {"key": [], "filter": []}
    for first in range(0, OBJECTS, 130):
        some = sources(world, first, min(OBJECTS, first + 130))
        runs["key"].append(await indexer.lexicon(configs["lexicon"], some))
        runs["filter"].append(await indexer.exact(configs["exact"], some, reads.search, 1))
    for merged in (False, True):
        for what in ("key", "filter"):
            if merged:
                runs[what] = [await indexer.merged(runs[what])]
            # Each run and its filter once, and each object that holds it.
            for gets_max in (2 * len(runs[what]) + 3, 3):
                found, gets = await reads.read(what, pruned=True)
                assert found.page == plain[what][0].page
                assert gets <= gets_max
    await world.evict()
    before = world.gets()
    found = await reads.nobody()
    assert (found.page.payload, found.page.end, found.bytes) == (b"", 3 * OBJECTS, 0)
    assert world.gets() == before
