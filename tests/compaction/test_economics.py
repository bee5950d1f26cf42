"""What an hour of many quiet streams costs: requests and objects, by the plan and a clock that is moved."""

from dataclasses import dataclass, field

import pytest

from streams_node.compactor.jobs import Limits
from tests.compaction.world import World

FLUSHES = 60  # one a minute
BLOCK = 100  # streams that the model takes as one, with neighbouring ids: they append alike
LATEST_EVERY = 16
SNAPSHOT_EVERY = 64
SNAPSHOT_PARTS = 5
GRACE_FLUSHES = 10  # object_grace_ms, in minutes
PUTS_MAX = 300
OBJECTS_MAX = 400


@dataclass
class Hour:
    """Everything in the bucket and every put, minute by minute."""

    world: World
    puts: int = 0
    generations: int = 0
    kept_generations: int = 0
    snapshots: int = 0
    dying: list[int] = field(default_factory=list)  # objects that left the catalogue, by minute

    def minute(self, size: int) -> None:
        world = self.world
        before, live = world.puts, len(world.live)
        world.flush({BLOCK * block: (BLOCK, BLOCK * size) for block in range(1, 1001)})
        self._publish()
        for _ in range(world.settle()):
            self._publish()
        self.puts += world.puts - before
        self.dying.append(live + world.puts - before - len(world.live))

    def _publish(self) -> None:
        self.generations += 1
        self.kept_generations += 1
        self.puts += 1
        if self.generations % LATEST_EVERY == 0:
            self.puts += 1
        if self.generations % SNAPSHOT_EVERY == 0:
            self.puts += SNAPSHOT_PARTS
            self.snapshots += 1
            if self.snapshots > 1:  # generations from the older of the two newest snapshots on are kept
                self.kept_generations = SNAPSHOT_EVERY

    @property
    def objects(self) -> int:
        dying = sum(self.dying[-GRACE_FLUSHES:])
        return 2 + len(self.world.live) + dying + self.kept_generations + min(self.snapshots, 2) * SNAPSHOT_PARTS


@pytest.mark.parametrize("size", [10, 50, 100, 200, 300])
def test_an_hour_of_a_hundred_thousand_streams_is_cheap(size: int) -> None:
    usual = Limits()
    of_blocks = usual._replace(own_segment_bytes=BLOCK * usual.own_segment_bytes, run_bytes=BLOCK * usual.run_bytes)
    hour = Hour(World(of_blocks))
    for _ in range(FLUSHES):
        hour.minute(size)
    hour.world.check()
    told = (
        f"{size} bytes: {hour.puts} puts, {hour.objects} objects, {hour.world.jobs} jobs, {len(hour.world.packs)} packs"
    )
    print(told, f"{hour.world.rewritten / hour.world.flushed:.2f}x rewritten")  # noqa: T201
    assert hour.puts <= PUTS_MAX, told
    assert hour.objects <= OBJECTS_MAX, told
