"""Fifty random moments: the node is killed there, in five folders, ten times each, under changing settings."""

import asyncio
import math
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest

from tests.crash.folder import RARE, CrashedFolder

MOMENTS = 50
FOLDERS = 5
LEAST_S, MOST_S = 0.01, 1.5  # after the load began; short ones are more frequent, they cost less
START_S = 0.8  # about what a start takes
START_SHARE = 0.2
PROFILES: tuple[Mapping[str, object], ...] = (
    {},
    RARE,
    RARE | {"commit_rows_max": 4, "heads_flush_rows": 1, "heads_flush_ms": 10},
    {"commit_rows_max": 1, "heads_flush_rows": 100_000, "heads_flush_ms": 60_000},
    {"commit_bytes_max": 65536, "log_row_bytes_max": 4096, "sqlite_checkpoint_bytes": 65536},
)


@pytest.mark.parametrize("part", range(FOLDERS))
def test_nothing_is_lost_at_a_random_moment(part: int, tmp_path: Path, crash_seed: str) -> None:
    seed = f"{crash_seed}/{part}"
    asyncio.run(die_often(CrashedFolder(tmp_path / "data", seed), Random(f"{seed}/moments")))


async def die_often(folder: CrashedFolder, random: Random) -> None:
    """Ten deaths under load, and some while it starts."""
    for _ in range(MOMENTS // FOLDERS):
        folder.settings = random.choice(PROFILES)
        if random.random() < START_SHARE:
            await folder.die_starting(random.uniform(0, START_S))
        await folder.die_after(math.exp(random.uniform(math.log(LEAST_S), math.log(MOST_S))))
    assert folder.deaths >= MOMENTS // FOLDERS
    await folder.survive()
