"""What leaves the bucket, and above all what does not."""

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from streams_node.collector import Collector
from streams_node.compactor.stage import Compactor
from streams_node.errors import StoreUnavailable
from streams_node.manifest.records import INDEX_PART
from streams_node.objects import Fault, FaultPlan, Key, ObjectId, WriteId
from streams_node.objects.keys import Generation, generation_key, pack_key, parse, probe_key, snapshot_key
from streams_node.placement.made import Rewrite
from tests.compaction.node import SETTINGS, Node

Play = Callable[[Node, Collector], Awaitable[None]]
GRACE_S = SETTINGS.object_grace_ms / 1000


class Trust:
    """Whether the bucket is ours, and how often that was asked."""

    def __init__(self) -> None:
        self.given = True
        self.asked = 0

    async def __call__(self) -> bool:
        self.asked += 1
        return self.given


def play(folder: Path, scene: Play, *, trust: Trust | None = None, faults: FaultPlan | None = None) -> None:
    async def main() -> None:
        async with Node.open(folder / "node", faults) as node:
            collector = collector_of(node, trust or Trust())
            await scene(node, collector)
            await collector.close()

    asyncio.run(main())


def collector_of(node: Node, trust: Trust) -> Collector:
    async def no_sleep(_: float) -> None:
        await asyncio.sleep(0)

    return Collector(
        database=node.database,
        store=node.store,
        settings=SETTINGS,
        trusted=trust,
        in_flight=lambda: node.in_flight,
        deleted=None,
        now_us=node.clock,
        sleep=no_sleep,
    )


async def merged(node: Node) -> None:
    for at in range(3):
        await node.flush({1: [b"%d" % at], 2: [b"x" * 2500]})
    await node.settle()


def test_a_dead_object_leaves_after_its_grace(tmp_path: Path) -> None:
    async def scene(node: Node, collector: Collector) -> None:
        await merged(node)
        assert len(node.stored()) == 8
        node.clock.advance(GRACE_S - 1)
        assert await collector.collect_dead() == 0
        node.clock.advance(1)
        assert await collector.collect_dead() == 6
        live = {facts.made for facts in await node.check()}
        assert node.stored() == live
        assert await collector.collect_dead() == 0
        assert collector.counts.dead == 6
        rows = await node.database.readers.run(lambda db: db.execute("SELECT count(*) FROM directories").fetchone())
        assert rows == (1,)

    play(tmp_path, scene)


def test_a_delete_is_repeated_after_a_crash_and_after_an_error(tmp_path: Path) -> None:
    plan = FaultPlan(1, {})

    async def scene(node: Node, collector: Collector) -> None:
        await merged(node)
        node.clock.advance(GRACE_S)
        dead = node.stored() - {facts.made for facts in await node.live()}
        node.memory.delete(pack_key(ObjectId(min(dead))))  # deleted before the row was forgotten
        plan.chances = {Fault.LOST: 0.5, Fault.BUSY: 0.2}
        for _ in range(50):
            try:
                await collector.collect_dead()
            except StoreUnavailable:
                continue
        assert node.stored() == {facts.made for facts in await node.live()}
        assert await collector.collect_dead() == 0

    play(tmp_path, scene, faults=plan)


@pytest.mark.parametrize("what", ["dead", "orphans", "catalogue"])
def test_nothing_is_deleted_while_the_bucket_may_be_somebody_elses(tmp_path: Path, what: str) -> None:
    trust = Trust()
    trust.given = False

    async def scene(node: Node, collector: Collector) -> None:
        await merged(node)
        put_orphan(node)
        for generation in range(1, 200):
            put(node, generation_key(Generation(generation)))
        for generation in (64, 128, 192):
            put_snapshot(node, generation)
        await node.apply([], [])
        node.clock.advance(10 * GRACE_S)
        before = everything(node)
        await getattr(collector, f"collect_{what}")()
        assert everything(node) == before
        assert trust.asked == 1
        assert collector.counts.distrusted == 1

    play(tmp_path, scene, trust=trust)


def test_an_orphan_leaves_when_it_is_old_by_the_stores_clock(tmp_path: Path) -> None:
    async def scene(node: Node, collector: Collector) -> None:
        await merged(node)
        known = node.stored()
        orphans = {put_orphan(node), put_orphan(node, segment=True)}
        node.clock.advance(GRACE_S - 1)
        assert await collector.collect_orphans() == 0
        node.clock.advance(1)
        assert await collector.collect_orphans() == 2
        assert node.stored() == known
        assert not orphans & node.stored()
        assert node.memory.list("probe/").objects == ()  # type: ignore[arg-type]

    play(tmp_path, scene)


def test_what_is_in_flight_or_foreign_stays(tmp_path: Path) -> None:
    async def scene(node: Node, collector: Collector) -> None:
        flying = put_orphan(node)
        node.in_flight.add(flying)
        strange = ["packs/readme.txt", "packs/" + "0" * 32 + ".parquet.bak", "segments/x/y", "mine/of-somebody"]
        for key in strange:
            put(node, Key(key))
        node.clock.advance(100 * GRACE_S)
        assert await collector.collect_orphans() == 0
        assert {listed.key for listed in node.memory.list("").objects} == {  # type: ignore[arg-type]
            *strange,
            pack_key(ObjectId(flying)),
        }

    play(tmp_path, scene)


def test_what_is_published_between_the_listing_and_the_look_stays(tmp_path: Path) -> None:
    async def scene(node: Node, collector: Collector) -> None:
        for _ in range(3):
            await node.flush({1: [b"x"]})
        waiting = asyncio.Event()
        go_on = asyncio.Event()

        async def put(rewrite: Rewrite) -> bool:
            await node.upload(rewrite.outputs)
            waiting.set()
            await go_on.wait()
            await node.apply(rewrite.inputs, rewrite.outputs)
            return True

        node.compactor._put = put
        job = asyncio.create_task(node.compactor.step())
        await waiting.wait()
        node.clock.advance(100 * GRACE_S)
        assert await collector.collect_orphans() == 0
        go_on.set()
        await job
        assert await collector.collect_orphans() == 0
        await node.check()

    play(tmp_path, scene)


def test_many_pages_of_orphans_leave(tmp_path: Path) -> None:
    async def scene(node: Node, collector: Collector) -> None:
        await node.flush({1: [b"x"]})
        for _ in range(2500):
            put_orphan(node)
        node.clock.advance(GRACE_S)
        assert await collector.collect_orphans() == 2500
        await node.check()

    play(tmp_path, scene)


def test_a_forgotten_probe_leaves(tmp_path: Path) -> None:
    async def scene(node: Node, collector: Collector) -> None:
        put(node, probe_key(ObjectId("0" * 32), "left"))
        await collector.collect_orphans()
        assert len(everything(node)) == 1
        node.clock.advance(GRACE_S)
        await collector.collect_orphans()
        assert everything(node) == set()

    play(tmp_path, scene)


def test_the_catalogue_keeps_two_whole_snapshots_and_what_follows(tmp_path: Path) -> None:
    async def scene(node: Node, collector: Collector) -> None:
        node.generation = 299
        await node.apply([], [])
        for generation in range(1, 301):
            put(node, generation_key(Generation(generation)))
        for generation in (64, 128, 192, 256):
            put_snapshot(node, generation)
        put(node, snapshot_key(Generation(100), 0))  # never became whole
        put(node, snapshot_key(Generation(290), 0))  # in the making
        assert await collector.collect_catalogue() == 191 + 2 * 3 + 1
        kept = {int(place.generation or 0) for key in everything(node) if (place := parse(key))}
        assert kept == set(range(192, 301))
        assert await collector.collect_catalogue() == 0

    play(tmp_path, scene)


@pytest.mark.parametrize("damage", ["index", "part", "other part"])
def test_a_snapshot_that_is_not_whole_does_not_count(tmp_path: Path, damage: str) -> None:
    async def scene(node: Node, collector: Collector) -> None:
        node.generation = 299
        await node.apply([], [])
        for generation in range(1, 301):
            put(node, generation_key(Generation(generation)))
        for generation in (64, 128, 192, 256):
            put_snapshot(node, generation)
        key = snapshot_key(Generation(192), INDEX_PART if damage == "index" else 1)
        node.memory.delete(key)
        if damage == "other part":
            put(node, key, b"something else")
        await collector.collect_catalogue()
        kept = {int(place.generation or 0) for key in everything(node) if (place := parse(key))}
        assert kept == set(range(128, 301)), "the two newest whole ones are 256 and 128"

    play(tmp_path, scene)


def test_one_snapshot_is_not_enough_to_delete_anything(tmp_path: Path) -> None:
    async def scene(node: Node, collector: Collector) -> None:
        for generation in range(1, 100):
            put(node, generation_key(Generation(generation)))
        put_snapshot(node, 64)
        assert await collector.collect_catalogue() == 0
        assert len(everything(node)) == 99 + 3

    play(tmp_path, scene)


def test_the_loop_collects_by_itself_and_goes_on_after_trouble(tmp_path: Path) -> None:
    plan = FaultPlan(1, {})

    async def scene(node: Node, collector: Collector) -> None:
        await merged(node)
        node.clock.advance(GRACE_S)
        plan.away = True
        collector._scan_at = 0
        running = asyncio.create_task(collector.run())
        async with asyncio.timeout(30):
            while not collector.counts.problem:  # noqa: ASYNC110 - nobody rings
                await asyncio.sleep(0.01)
            plan.away = False
            while node.stored() != {facts.made for facts in await node.live()}:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    play(tmp_path, scene, faults=plan)


def test_no_orphan_of_a_killed_compaction_outlives_the_collector(tmp_path: Path) -> None:
    async def scene(node: Node, collector: Collector) -> None:
        for _ in range(3):
            await node.flush({1: [b"x"]})

        async def killed(rewrite: Rewrite) -> bool:
            await node.upload(rewrite.outputs)
            raise asyncio.CancelledError

        node.compactor._put = killed
        with pytest.raises(asyncio.CancelledError):
            await node.compactor.step()
        node.in_flight.clear()  # a new process knows of none
        node.compactor = restarted(node)
        await node.compactor.sweep()
        assert await node.settle() == 1
        node.clock.advance(GRACE_S)
        assert await collector.collect_orphans() == 1
        await collector.collect_dead()
        assert node.stored() == {facts.made for facts in await node.check()}

    play(tmp_path, scene)


def restarted(node: Node) -> Compactor:
    return node.new_compactor()


def put(node: Node, key: Key, data: bytes = b"x") -> None:
    node.memory.put(key, data, write_id=WriteId(secrets.token_hex(8)))


def put_orphan(node: Node, *, segment: bool = False) -> str:
    made = secrets.token_hex(16)
    put(node, Key(f"segments/{7:019d}/{0:019d}-{made}.parquet") if segment else pack_key(ObjectId(made)))
    return made


def put_snapshot(node: Node, generation: int) -> None:
    parts = []
    for part in (0, 1):
        data = b"part %d of %d" % (part, generation)
        put(node, snapshot_key(Generation(generation), part), data)
        parts.append({"part": part, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data), "records": 1})
    index = {
        "t": "index", "format": 1, "generation": generation, "sum": "0" * 64, "records": 2, "parts": parts
    }  # fmt: skip
    line = pa.compress(msgspec.json.encode(index) + b"\n", "zstd", asbytes=True)
    put(node, snapshot_key(Generation(generation), INDEX_PART), line)


def everything(node: Node) -> set[Key]:
    found: set[Key] = set()
    after = None
    while True:
        page = node.memory.list("", after)  # type: ignore[arg-type]
        found |= {listed.key for listed in page.objects}
        if page.next_after is None:
            return found
        after = page.next_after
