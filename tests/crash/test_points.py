"""Every named crash point kills a node at least three times in one folder, and nothing acknowledged suffers."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.crash.folder import CrashedFolder
from tests.crash.points import WAYS, Way, crowd, fill_disk, named_in_source
from tests.crash.tiers import points as tiers
from tests.subscriptions.kills import POINTS as SUBSCRIPTION_POINTS

HITS = 3
LOAD_S = 0.3


def test_every_point_in_the_code_has_a_way_to_it() -> None:
    assert named_in_source() == sorted(
        [*WAYS, *tiers.WAYS, *tiers.WORKER_WAYS, *tiers.BOOTSTRAP_POINTS, *tiers.INDEX_WAYS, *SUBSCRIPTION_POINTS]
    )


@pytest.mark.parametrize("name", sorted(WAYS))
def test_nothing_is_lost_at(
    name: str, tmp_path: Path, crash_seed: str, record_property: Callable[[str, object], None]
) -> None:
    way = WAYS[name]
    folder = CrashedFolder(tmp_path / "data", crash_seed, way.settings, crowd(crash_seed) if way.crowd else None)
    asyncio.run(hit(folder, name, way, Random(f"{crash_seed}/{name}")))
    record_property("crash_point", f"{name} x {folder.deaths}")
    assert folder.deaths >= HITS


async def hit(folder: CrashedFolder, name: str, way: Way, random: Random) -> None:
    """Die at the point until it is enough, then live."""
    if way.replaying:
        await folder.die_after(LOAD_S)
        folder.deaths = 0
    for _ in range(HITS):
        at = way.crash_at(name, random)
        assert await folder.die_at(at, way.act), f"the node did not die at {at}"
    await folder.survive()


def test_nothing_is_lost_in_the_replay_of_a_recovery(tmp_path: Path, crash_seed: str) -> None:
    """The second pass is that of the recovery: the first was the start's own replay."""
    way = WAYS["recover.before"]
    folder = CrashedFolder(tmp_path / "data", crash_seed, way.settings)

    async def scenario() -> None:
        await folder.die_after(LOAD_S)
        for _ in range(HITS):
            assert await folder.die_at("replay.inside:2", fill_disk)
        await folder.survive()

    asyncio.run(scenario())
