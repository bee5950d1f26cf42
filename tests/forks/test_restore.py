"""Forks out of the bucket: counted anew, and no longer than what they share."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import sql
from streams_node.manifest import Chain, bootstrap
from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess
from tests.catalogue.world import NOW_US, RIVAL, World, retrying
from tests.http.wire import ask
from tests.tiers.bucket import memory_bucket
from tests.tiers.node import JSON, append, create, publish, tiered, walk

SOURCE, FORK = "/v1/stream/source", "/v1/stream/fork"


def test_forks_come_back_as_far_as_their_source_was_published(tmp_path: Path) -> None:
    world = World(retrying(), tmp_path / "catalogue")
    world.bucket("b")
    bucket = world.db.execute("SELECT id FROM buckets").fetchone()[0]
    source = world.create(bucket, "source", soft_deleted=1, ttl_s=60)
    world.append(source, 6)
    whole = world.create(bucket, "whole", source=source, fork_seq=4, fork_sub=0)
    cut = world.create(bucket, "cut", source=source, fork_seq=9, fork_sub=2, epoch_count=2)
    world.db.execute("INSERT INTO epochs (stream, epoch, first_seq) VALUES (?, 5, 9)", (cut,))
    again = world.create(bucket, "again", source=cut, fork_seq=8, fork_sub=0)
    within = world.create(bucket, "within", source=cut, fork_seq=5, fork_sub=0)
    alone = world.create(bucket, "alone")
    world.publish()
    world.db.close()
    bootstrap(world.chain, tmp_path / "new", RIVAL, "there", NOW_US)
    with closing(sqlite3.connect(tmp_path / "new" / "streams.db")) as db:
        rows = db.execute(
            "SELECT s.id, s.fork_seq, h.next_seq, s.forks, s.dies_us IS NULL FROM streams AS s"
            " JOIN heads AS h ON h.stream = s.id ORDER BY s.id"
        ).fetchall()
        epochs = db.execute("SELECT stream, epoch, first_seq FROM epochs").fetchall()
    assert rows == [
        (source, None, 6, 2, 1),  # it is kept, and its window is over for good
        (whole, 4, 4, 0, 1),
        (cut, 6, 6, 2, 1),
        (again, 6, 6, 0, 1),
        (within, 5, 5, 0, 1),
        (alone, None, 0, 0, 1),
    ]
    assert epochs == [(cut, 5, 6)]


def test_a_fork_is_published_with_the_time_of_what_it_shares_also_before_its_own_entries_are(tmp_path: Path) -> None:
    async def whole() -> None:
        clock = FakeClock()
        async with tiered(tmp_path / "node", memory_bucket(), clock=clock) as node:
            await create(node, SOURCE)
            ahead = clock() + 200_000_000
            reply = await ask(node, "POST", SOURCE, {**JSON, "stream-timestamp": str(ahead * 1000)}, b"[1]")
            assert reply.status == 204
            assert (await ask(node, "PUT", FORK, {"stream-forked-from": SOURCE})).status == 201
            await append(node, FORK, 2)
            committer = node.context.ledger.committer
            committer.flush_heads()
            await committer.settled()
            lines = sql.queries("catalogue").changed_streams
            rows = await node.context.database.readers.run(
                lambda db: db.execute(lines, {"through": 1 << 60}).fetchall()
            )
            assert [row[-1] >= ahead for row in rows if row[2] == "fork"] == [True]

    asyncio.run(whole())


def test_times_of_a_fork_that_wrote_nothing_yet_are_not_before_those_that_it_shares(tmp_path: Path) -> None:
    """An entry may be stamped minutes ahead; what a fork of it writes is later than that, also out of the bucket."""
    bucket, clock = memory_bucket(), FakeClock()

    async def last_write_ms(node: InProcess) -> int:
        page = json.loads((await ask(node, "GET", "/_default/streams")).body)
        return int(next(line["last_write_at_ms"] for line in page["streams"] if line["stream_id"] == "fork"))

    async def first() -> int:
        async with tiered(tmp_path / "first", bucket, clock=clock) as node:
            await create(node, SOURCE)
            ahead = {**JSON, "stream-timestamp": str((clock() + 200_000_000) * 1000)}
            assert (await ask(node, "POST", SOURCE, ahead, b"[1]")).status == 204
            assert (await ask(node, "PUT", FORK, {"stream-forked-from": SOURCE})).status == 201
            clock.advance(1000)
            await append(node, SOURCE, 2)  # this one it does not share
            await publish(node)
            return await last_write_ms(node)

    async def second(before: int) -> None:
        async with tiered(tmp_path / "second", bucket, clock=clock) as node:
            assert await last_write_ms(node) == before
            await append(node, FORK, 3)
            assert await walk(node, FORK) == [1, 3]

    before = asyncio.run(first())
    assert before == (clock() - 800_000_000) // 1000
    bootstrap(Chain(bucket.direct()), tmp_path / "second", RIVAL, "there", clock())
    asyncio.run(second(before))
