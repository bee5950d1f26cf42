"""Keyed, timed and filtered reads while everything under them moves: the log is sealed and freed, objects are merged,
evicted and deleted, entries are let go, and appends come in. Each page is a plain list's, from its offset to its next.

That it finds mistakes was tried: an end that is one entry too far, in an object or in the log, keys of the next row of
an object, and a time found in the log although older entries have left it each fail within seconds.
"""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from streams_node.ingest.retain import retain
from streams_node.protocol.offsets import decode, encode
from streams_node.wal import tails
from streams_node.wal.lookup import Name
from tests.http.wire import Reply, ask
from tests.selection.test_reads import FILTERS
from tests.selection.world import JSON, KEYS, PATH, Entry, World, record, worlds
from tests.tiers.bucket import MILD, WILD

NEIGHBOURS = [f"/v1/stream/n{at}" for at in range(6)]
PATIENCE_S = 60.0
ENOUGH = {
    "pages": 400,
    "times": 50,
    "appends": 50,
    "evict": 10,
    "trim": 10,
    "generations": 5,
    "merges": 2,
    "deletions": 2,
}
CACHE_BYTES = 6 << 10
TROUBLE = {500, 503}  # what a reader may be told while the store fails; it asks again
NAME = Name("_default", "s")


class Life:
    """One node, what moves in it, and what its readers must be shown."""

    def __init__(self, world: World, chance: random.Random, *, failing: bool) -> None:
        self.world = world
        self.chance = chance
        self.failing = failing
        self.over = False
        self.earliest = 0  # what may be gone: asked for, and perhaps not stored yet
        self.done: Counter[str] = Counter()

    # --- what moves ---

    async def appends(self) -> None:
        chance, world = self.chance, self.world
        while not self.over:
            world.clock.advance(chance.choice((0, 0, 1, 3)))
            key = chance.choice(KEYS)
            texts = [record(chance) for _ in range(chance.choice((1, 1, 2, 7)))]
            headers = JSON if key is None else JSON | {"stream-key": key.encode().decode("latin-1")}
            world.entries += [Entry(text, key, world.clock()) for text in texts]  # a reader may see them at once
            reply = await ask(world.node, "POST", PATH, headers, b"[%b]" % b",".join(texts))
            assert reply.status == 204, reply
            self.done["appends"] += 1
            await asyncio.sleep(chance.choice((0, 0.001, 0.01)))

    async def neighbours(self) -> None:
        """Others in the same packs; some die, so that packs are written anew without them."""
        chance = self.chance
        while not self.over:
            path = chance.choice(NEIGHBOURS)
            if chance.random() < 0.2:
                await ask(self.world.node, "DELETE", path)
            else:
                await ask(self.world.node, "PUT", path, JSON)
                await ask(self.world.node, "POST", path, JSON, b"[%b]" % record(chance))
            await asyncio.sleep(chance.choice((0.001, 0.01, 0.03)))

    async def moves(self) -> None:
        chance, world = self.chance, self.world
        while not self.over:
            what = chance.choice(("seal", "seal", "evict", "forget", "trim", "states", "fail"))
            self.done[what] += 1
            if what == "seal" and world.tiers.segmenter is not None:
                world.tiers.segmenter.demand()
            elif what == "evict":
                await world.evict()
            elif what == "forget":
                reader = world.tiers.reader
                assert reader is not None
                for made in list(reader.directories._known):
                    reader.directories.forget(made)
            elif what == "trim" and chance.random() < 0.3:
                await self._trim()
            elif what == "states":
                world.node.context.ledger.committer.flush_heads()
            elif what == "fail" and self.failing:
                world.bucket.plan.chances = chance.choice((MILD, WILD, {}))
            await asyncio.sleep(chance.choice((0, 0.005, 0.03)))

    async def _trim(self) -> None:
        ledger = self.world.node.context.ledger
        state = await ledger.readable(NAME)
        seq = self.chance.randint(state.earliest_seq, max(state.tail.seq // 3, state.earliest_seq))
        self.earliest = max(self.earliest, seq)
        await retain(ledger, state, self.earliest)

    async def until_enough(self) -> None:
        """Until each of the things has happened that readers should not notice."""
        ends, lacking = time.monotonic() + PATIENCE_S, {"all": 1}
        while lacking:
            assert time.monotonic() < ends, lacking
            await asyncio.sleep(0.05)
            tiers = self.world.tiers
            if tiers.compactor is None or tiers.collector is None:
                continue
            happened = self.done + Counter(
                generations=tiers.generation,
                merges=tiers.compactor.counts.jobs.total(),
                deletions=tiers.collector.counts.dead + tiers.collector.counts.catalogue,
            )
            lacking = {what: happened[what] for what, least in ENOUGH.items() if happened[what] < least}

    # --- readers ---

    async def reads(self, seed: int) -> None:
        chance = random.Random(seed)
        while not self.over:
            await chance.choice((self._by_key, self._by_filter, self._by_time))(chance)

    async def _by_key(self, chance: random.Random) -> None:
        key = chance.choice(KEYS[1:])
        assert key is not None
        await self._walk(chance, f"key={quote(key, safe='')}", lambda one: one.key == key)

    async def _by_filter(self, chance: random.Random) -> None:
        text, matches = chance.choice(list(FILTERS.items()))
        key = chance.choice(KEYS)
        query = f"filter={quote(text)}&key={quote(key or '', safe='')}"
        await self._walk(chance, query, lambda one: (key is None or one.key == key) and matches(one.record))

    async def _by_time(self, chance: random.Random) -> None:
        entries = self.world.entries
        us = chance.choice(entries).us + chance.choice((-1, 0, 1))
        first = next((at for at, one in enumerate(entries) if one.us >= us), len(entries))
        state = await self.world.node.context.ledger.readable(NAME)
        before, tail = state.earliest_seq, state.tail.seq
        reply = await self._get(f"since={us * 1000}&max_bytes=700")
        # It begins at the first entry that is not older; where none is stored, at the end as it was at that moment.
        starts = [max(first, seq) for seq in range(before, self.earliest + 1)]
        if first >= tail:
            starts += range(tail, first)
        shown = json.loads(reply.body)
        end = seq_of(reply)
        assert shown in [[one.record for one in entries[start:end]] for start in starts if start <= end], (
            us,
            first,
            end,
        )
        self.done["times"] += 1

    async def _walk(self, chance: random.Random, query: str, wanted: Callable[[Entry], bool]) -> None:
        """Some pages on from somewhere, as far as the stream goes; a page from what is gone says so."""
        at = chance.randint(self.earliest, max(self.earliest, len(self.world.entries) - 1))
        at = min(at, (await self.world.node.context.ledger.readable(NAME)).tail.seq)
        size = chance.choice((1, 300, 5000, 1 << 20))
        raw = chance.choice(("", "&format=raw"))
        for _ in range(chance.choice((1, 3, 50))):
            reply = await self._get(f"offset={encode(0, at)}&max_bytes={size}{raw}&{query}")
            if reply.status == 410:
                assert at < self.earliest, (at, self.earliest)
                return
            end = seq_of(reply)
            texts = [one.text for one in self.world.entries[at:end] if wanted(one)]
            body = b"".join(texts) if raw else b"[%b]" % b",".join(texts)
            assert reply.body == body, (query, at, end)
            assert at < end or "stream-up-to-date" in reply.headers, (query, at, end)
            self.done["pages"] += 1
            at = end
            if self.over or "stream-up-to-date" in reply.headers:
                return

    async def _get(self, query: str) -> Reply:
        while True:
            reply = await self.world.get(query)
            if reply.status in {200, 410}:
                return reply
            assert reply.status in TROUBLE, reply
            error = json.loads(reply.body)["error"]
            assert self.failing or "moved while they were read" in error["message"], reply
            self.done[f"told {error['code']}"] += 1
            self.world.bucket.calm()
            reader = self.world.tiers.reader
            assert reader is not None
            reader._damaged.clear()
            await asyncio.sleep(0.01)


def seq_of(reply: Reply) -> int:
    assert reply.status == 200, reply
    position = decode(reply.headers["stream-next-offset"])
    assert position is not None
    return position.seq


@pytest.mark.parametrize("failing", [False, True])
def test_reads_of_some_entries_while_all_of_it_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, failing: bool
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - to run it again
    chance = random.Random(seed)
    if chance.random() < 0.5:  # rows of the log of any size are looked at by their keys first
        monkeypatch.setattr(tails, "_SPLIT_BYTES", 0)

    async def main() -> None:
        settings: dict[str, Any] = {
            "object_grace_ms": 1000,
            "filter_scan_bytes_max": chance.choice((2048, 100 << 20)),
            "append_wait_ms_max": 50_000,  # disks stand still for seconds where tests run
            "request_ms_max": 60_000,
        }
        async with worlds(tmp_path / "world", **settings) as (world, _):
            await world.create()
            await world.append(chance, 5)
            tiers, life = world.tiers, Life(world, chance, failing=failing)
            assert tiers.cache is not None
            tiers.cache._shelf._bytes_max = CACHE_BYTES
            movers: list[Awaitable[None]] = [life.appends(), life.neighbours(), life.moves()]
            readers = [life.reads(chance.randrange(1 << 32)) for _ in range(4)]
            watch = life.until_enough()
            tasks = [asyncio.ensure_future(each) for each in (*movers, *readers, watch)]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            life.over = True
            world.bucket.calm()
            await asyncio.gather(*tasks)
            await world.seal()

    asyncio.run(main())
