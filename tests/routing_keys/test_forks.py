"""Routing keys of forks against plain lists: whatever is shared, indexed, sealed or in the log, whoever was deleted."""

import json
import random
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from streams_node.ingest.state import StreamState
from streams_node.protocol.offsets import encode
from streams_node.wal.lookup import Name
from tests.http.wire import ask
from tests.pruning.indexed import Row, Source, cut
from tests.routing_keys.test_pages import run
from tests.routing_keys.world import JSON, TRICKY, KeyWorld
from tests.tiers.node import until


@dataclass
class Life:
    """A stream: the key of each entry, up to where they are sealed, and up to where its own ones are covered."""

    name: str
    keys: list[str | None] = field(default_factory=list)
    sealed: int = 0
    covered: int = 0

    @property
    def path(self) -> str:
        return f"/v1/stream/{self.name}"

    async def state(self, world: KeyWorld) -> StreamState:
        return await world.node.context.ledger.readable(Name("_default", self.name))


async def append(world: KeyWorld, life: Life, keys: list[str | None]) -> None:
    entries = [{} if key is None else {"k": key} for key in keys]
    reply = await ask(world.node, "POST", life.path, JSON, json.dumps(entries).encode())
    assert reply.status == 204, reply.body
    life.keys += keys


async def forked(world: KeyWorld, source: Life, seq: int, name: str) -> Life:
    """A fork of the entries before one, which may be in the middle of an append."""
    headers = {**JSON, "stream-forked-from": source.path, "stream-fork-offset": encode(0, seq)}
    reply = await ask(world.node, "PUT", f"/v1/stream/{name}", headers)
    assert reply.status == 201, reply.body
    return Life(name, source.keys[:seq], seq, seq)


async def released(world: KeyWorld, lives: list[Life]) -> None:
    """Everything is in the bucket, and has left the log."""
    await world.seal()

    def look(db: sqlite3.Connection) -> int:
        found: int = db.execute("SELECT count(*) FROM log").fetchone()[0]
        return found

    async def gone() -> bool:
        return not await world.node.context.database.readers.run(look)

    await until(gone, "the log is released")
    for life in lives:
        life.sealed = len(life.keys)


async def indexed(world: KeyWorld, life: Life, end: int, chance: random.Random) -> None:
    """A run that covers what a stream has of its own up to an entry, in some parts."""
    if life.covered < end:
        stream = (await life.state(world)).id
        found = [
            Source(stream, first, last, [Row(key, None) for key in life.keys[first:last]])
            for first, last in cut(life.covered, end, chance, 3)
        ]
        await world.indexer.lexicon(await world.config(), found)
        life.covered = end


async def check(world: KeyWorld, life: Life, chance: random.Random) -> bool:
    """What is listed is there and in order; if nothing is said to be missing, nothing is. Whether that is said."""
    truth = sorted({key for key in life.keys if key is not None}, key=lambda key: key.encode())
    found, after, complete, limit = list[str](), None, True, chance.choice((2, 7, 500))
    while True:
        page = await world.page(after=after, limit=limit, path=life.path)
        coverage, after = page["coverage"], page["next_after"]
        found += page["keys"]
        complete = complete and coverage["complete"]
        assert coverage["complete"] == (coverage["possible_missing_uploaded_segments"] == 0)
        if after is None:
            break
    assert found == sorted(set(found), key=lambda key: key.encode())
    assert set(found) <= set(truth), life
    assert not complete or found == truth, life
    return bool(complete)


async def lived(world: KeyWorld, lives: list[Life], chance: random.Random, step: int) -> None:
    """Appends, perhaps a fork, a flush, and a run of some of it."""
    for life in chance.sample(lives, min(2, len(lives))):
        keys = [chance.choice([*TRICKY, None, f"{life.name}{chance.randrange(40)}"]) for _ in range(4)]
        await append(world, life, keys)
    source = chance.choice(lives)
    if chance.random() < 0.5:
        lives.append(await forked(world, source, chance.randint(0, len(source.keys)), f"f{step}"))
    if chance.random() < 0.3:
        await released(world, lives)
    life = chance.choice(lives)
    if life.covered < life.sealed:
        await indexed(world, life, chance.randint(life.covered + 1, life.sealed), chance)


@pytest.mark.parametrize("own_bytes", [200, 1 << 20])
def test_a_fork_has_the_keys_of_what_it_shares_at_every_stage(tmp_path: Path, own_bytes: int) -> None:
    async def test(world: KeyWorld, chance: random.Random) -> None:
        lives = [Life("s")]
        for step in range(12):
            await lived(world, lives, chance, step)
            for life in chance.sample(lives, min(3, len(lives))):
                await check(world, life, chance)
        lives.append(await forked(world, lives[0], len(lives[0].keys) - 1, "last"))
        await released(world, lives)
        for life in lives:
            await indexed(world, life, life.sealed, chance)
        for life in lives[:2]:  # their forks keep what they share
            assert (await ask(world.node, "DELETE", life.path)).status == 204
        for life in lives[2:]:
            assert await check(world, life, chance), life

    run(tmp_path, test, own_segment_bytes=own_bytes)


def test_of_a_lexicon_that_goes_on_behind_the_fork_point_only_what_is_shared_is_listed(tmp_path: Path) -> None:
    async def test(world: KeyWorld, chance: random.Random) -> None:
        source = Life("s")
        for keys in (["a", "b"], ["c", "d"], ["e"]):
            await append(world, source, [*keys])
        fork = await forked(world, source, 3, "f")
        await append(world, fork, ["z"])
        page = await world.page(path=fork.path)
        assert (page["keys"], page["coverage"]["complete"]) == (["a", "b", "c", "z"], True)
        assert page["coverage"]["scanned_wal_rows"] == 4
        await released(world, [source, fork])
        await indexed(world, source, 5, random.Random(1))
        await indexed(world, fork, 4, chance)
        assert (await world.page())["keys"] == ["a", "b", "c", "d", "e"]
        page = await world.page(path=fork.path)
        assert (page["keys"], page["coverage"]["complete"], page["next_after"]) == (["a", "b", "c", "z"], True, None)
        assert page["coverage"]["scanned_wal_rows"] == 0
        assert page["coverage"]["indexed_segments"] + page["coverage"]["scanned_uploaded_segments"] >= 2

    run(tmp_path, test)
