"""The loop, with a real database and a store that fails."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from streams_node.compactor.stage import limits_of
from streams_node.config.tiers import TierSettings
from streams_node.errors import WorkerFailed
from streams_node.objects import Fault, FaultPlan
from streams_node.placement.made import Rewrite
from streams_node.worker.parent import Worker
from tests.compaction.node import SETTINGS, Node

Play = Callable[[Node], Awaitable[None]]


def play(folder: Path, scene: Play, faults: FaultPlan | None = None) -> None:
    async def main() -> None:
        async with Node.open(folder / "node", faults) as node:
            await scene(node)

    asyncio.run(main())


def test_quiet_streams_end_in_few_objects(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        for at in range(30):
            await node.flush({stream: [b"%d" % at] for stream in range(1, 20)})
            await node.settle()
            await node.check()
        assert len(await node.live()) <= 2 * 4
        assert list((node.folder / "making").iterdir()) == []
        assert node.compactor.counts.jobs["merge"] == 10 + 3 + 1

    play(tmp_path, scene)


@pytest.mark.parametrize("seed", range(4))
def test_histories_with_deletes_and_a_bad_store_lose_nothing(tmp_path: Path, seed: int) -> None:
    bad = {Fault.BUSY: 0.05, Fault.LOST: 0.1, Fault.DROPPED: 0.05, Fault.TRUNCATED: 0.1, Fault.CORRUPT: 0.1}
    plan = FaultPlan(seed, {})
    chance = random.Random(seed)

    async def append(node: Node, born: int) -> None:
        streams = chance.sample(sorted(node.entries), k=min(len(node.entries), 8))
        sizes = {stream: chance.choice([1, 20, 300, 2500]) for stream in [*streams, born]}
        await node.flush({stream: [b"x" * size] * chance.randint(1, 4) for stream, size in sizes.items()})
        if chance.random() < 0.3:
            await node.delete(chance.choice(sorted(node.entries)))

    async def compact(node: Node) -> None:
        plan.chances = dict(bad)
        for _ in range(chance.randint(0, 3)):
            try:
                await node.compactor.step()
            except Exception as problem:  # noqa: BLE001 - as `run` does
                node.compactor._failed(problem)
        plan.chances = {}
        if chance.random() < 0.2:
            node.compactor = node.new_compactor()
            await node.compactor.sweep()

    async def scene(node: Node) -> None:
        for born in range(1, 26):
            await append(node, born)
            await compact(node)
            await node.check()
        for _ in range(10):  # what was left alone has its turn again, and what is dead is counted
            node.clock.advance(7 * 3600)
            await node.compactor.count()
            await node.settle()
        await node.check(without_dead=True)
        assert sum(plan.hits.values()) > 10

    play(tmp_path, scene, plan)


def test_a_damaged_object_is_left_alone_and_its_neighbours_go_on(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        for at in range(4):
            await node.flush({stream: [b"%d" % at] for stream in (1, 2)})
        bad = (await node.live())[1]
        _break(node, bad.key())
        for at in range(12):
            await node.flush({stream: [b"%d" % at] for stream in (1, 2)})
            await node.settle()
        assert bad.made in node.cache.dropped
        assert bad.made in {facts.made for facts in await node.live()}
        assert len(await node.live()) < 9
        assert node.compactor.counts.damaged
        assert node.compactor.counts.failures == node.compactor.counts.damaged
        tries = node.compactor.counts.damaged
        assert await node.settle() == 0
        node.clock.advance(61)
        await node.settle()
        assert node.compactor.counts.damaged == tries + 1, "it is tried again after a while, and not before"

    play(tmp_path, scene)


def test_a_dead_worker_is_asked_again_later(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        for _ in range(3):
            await node.flush({1: [b"x"]})
        real = node.worker.run

        async def dies(*_: object) -> dict[str, object]:
            (node.folder / "making" / "half").write_bytes(b"left behind")
            raise WorkerFailed("worker `compactor` died, killed by signal 9")

        await node.compactor.sweep()
        node.worker.run = dies  # type: ignore[method-assign,assignment]
        assert await node.compactor.step()
        assert list((node.folder / "making").iterdir()) == []
        node.worker.run = real  # type: ignore[method-assign]
        assert not await node.compactor.step(), "not at once"
        node.clock.advance(2)
        assert await node.settle() == 1
        await node.check()

    play(tmp_path, scene)


def test_a_refused_rewrite_leaves_no_file_and_changes_nothing(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        for _ in range(3):
            await node.flush({1: [b"x"]})
        node.refuse = True
        assert await node.compactor.step()
        assert node.compactor.counts.refused == 1
        assert len(await node.check()) == 3
        assert list((node.folder / "making").iterdir()) == []

    play(tmp_path, scene)


def test_an_input_that_dies_meanwhile_refuses_the_rewrite(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        for _ in range(3):
            await node.flush({1: [b"x" * 2500]})
        await node.flush({2: [b"x"]})
        first = (await node.live())[0]

        async def put(rewrite: Rewrite) -> bool:
            await node.apply([first.made], [])
            return await node.put(rewrite)

        node.compactor._put = put
        assert await node.compactor.step()
        assert node.compactor.counts.refused == 1
        assert await node.settle() == 0

    play(tmp_path, scene)


def test_what_is_gone_leaves_the_objects(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        await node.flush({1: [b"x" * 2500], **{stream: [b"y"] for stream in range(2, 12)}})
        await node.settle()
        await node.delete(1)
        await node.delete(2)
        node.clock.advance(31)
        assert await node.settle() == 1, "a segment of a stream that is gone is dropped"
        assert node.worker.asked == []
        await node.compactor.count()
        assert await node.settle() == 0, "a tenth is dead, and not for long"
        node.clock.advance(61)
        assert await node.settle() == 1
        await node.check(without_dead=True)
        for stream in range(3, 9):
            await node.delete(stream)
        await node.compactor.count()
        assert await node.settle() == 1, "half is dead"
        await node.check(without_dead=True)
        for stream in range(9, 12):
            await node.delete(stream)
        await node.compactor.count()
        asked = len(node.worker.asked)
        assert await node.settle() == 1
        assert len(node.worker.asked) == asked, "all is dead: nothing is read"
        assert await node.live() == []

    play(tmp_path, scene)


def test_dead_entries_do_not_get_young_again_with_a_restart(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        await node.flush({stream: [b"y"] for stream in range(2, 12)})
        await node.delete(2)
        await node.compactor.count()
        for _ in range(3):
            node.clock.advance(25)
            node.compactor = node.new_compactor()
            await node.compactor.step()
            await node.compactor.count()
        await node.settle()
        await node.check(without_dead=True)

    play(tmp_path, scene)


def test_a_directory_that_nobody_has_is_taken_from_the_object_and_kept(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        for _ in range(2):
            await node.flush({stream: [b"y"] for stream in range(2, 12)}, directory=False)
        for stream in range(2, 9):
            await node.delete(stream)
        await node.settle()
        await node.compactor.count()
        assert await node.settle() == 1, "one a round"
        await node.compactor.count()
        assert await node.settle() == 1
        await node.check(without_dead=True)

    play(tmp_path, scene)


def test_small_segments_are_joined_also_those_of_before_a_start(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        for _ in range(3):
            await node.flush({1: [b"x" * 2500], 2: [b"y" * 2500]})
        node.compactor = node.new_compactor()
        assert await node.settle() == 1, "of both streams in one job"
        assert len(await node.check()) == 2
        for _ in range(40):
            await node.flush({1: [b"x" * 2500]})
            await node.settle()
        segments = [facts for facts in await node.check() if facts.stream == 1]
        assert len(segments) <= 43 / (SETTINGS.segment_entries / 2) + 2 * SETTINGS.compaction_packs

    play(tmp_path, scene)


def test_the_loop_works_in_a_process_of_its_own_and_rests(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        worker = Worker("compactor")
        node.worker = worker  # type: ignore[assignment]
        node.compactor = node.new_compactor()
        (node.folder / "making").mkdir()
        (node.folder / "making" / "of-before").write_bytes(b"x")
        for at in range(9):
            await node.flush({stream: [b"%d" % at] for stream in range(1, 9)})
        running = asyncio.create_task(node.compactor.run())
        async with asyncio.timeout(60):
            while node.compactor.counts.jobs["merge"] < 4:  # noqa: ASYNC110 - nobody rings when a job is done
                await asyncio.sleep(0.02)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await worker.stop()
        assert len(await node.check()) == 1
        assert node.compactor.counts.failures == 0
        assert list((node.folder / "making").iterdir()) == []

    play(tmp_path, scene)


def test_limits_follow_the_settings() -> None:
    limits = limits_of(TierSettings(pack_bytes=1 << 28, compaction_packs=5))
    assert (limits.packs, limits.pack_bytes, limits.job_bytes) == (5, 1 << 28, 1 << 29)
    assert limits_of(TierSettings()).job_bytes == 128 << 20


def _break(node: Node, key: str) -> None:
    """Flip a bit in the store, which then says that this is right."""
    data = bytearray(node.memory.get(key).data)  # type: ignore[arg-type]
    data[len(data) // 3] ^= 1
    node.memory.delete(key)  # type: ignore[arg-type]
    node.memory.put(key, bytes(data), write_id="broken")  # type: ignore[arg-type]
