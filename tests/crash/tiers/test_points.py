"""Every crash point of the tiers kills a node, or its worker, three times in one folder; nothing acknowledged suffers.

Afterwards everything is published, no log is left, and the bucket holds what the catalogue names and nothing else.
"""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.crash.tiers.bucket import told
from tests.crash.tiers.folder import TieredFolder
from tests.crash.tiers.points import WAYS, WORKER_WAYS, Way

HITS = 3
_CHILD_S = 30.0
_GENERATIONS = 3  # that are published after the death


@pytest.mark.parametrize("name", sorted(WAYS))
def test_nothing_is_lost_at(
    name: str, tmp_path: Path, crash_seed: str, record_property: Callable[[str, object], None]
) -> None:
    folder = TieredFolder(tmp_path, crash_seed)
    asyncio.run(_hit(folder, name, WAYS[name], Random(f"{crash_seed}/{name}")))
    record_property("crash_point", f"{name} x {folder.deaths}")
    assert folder.deaths >= HITS


async def _hit(folder: TieredFolder, name: str, way: Way, random: Random) -> None:
    for _ in range(HITS):
        if way.fresh:
            shutil.rmtree(folder.data, ignore_errors=True)
            shutil.rmtree(folder.place, ignore_errors=True)
        at = way.crash_at(name, random)
        assert await folder.die_at(at), f"the node did not die at {at}"
    await folder.rest()


@pytest.mark.parametrize("name", sorted(WORKER_WAYS))
def test_the_node_goes_on_when_its_worker_dies_at(
    name: str, tmp_path: Path, crash_seed: str, record_property: Callable[[str, object], None]
) -> None:
    folder = TieredFolder(tmp_path, crash_seed)
    asyncio.run(_hit_worker(folder, name, WORKER_WAYS[name], Random(f"{crash_seed}/{name}")))
    record_property("crash_point", f"{name} x {folder.deaths}")
    assert folder.deaths >= HITS


async def _hit_worker(folder: TieredFolder, name: str, way: Way, random: Random) -> None:
    for _ in range(HITS):
        with folder.start(way.crash_at(name, random)) as node:
            await node.ready()
            await folder.judge(node)
            running = asyncio.ensure_future(folder.load.run(node.port))
            async with asyncio.timeout(_CHILD_S):
                while b"died, killed by signal 9" not in node.log_since_start():
                    assert not running.done(), node.log_tail()
                    await asyncio.sleep(0.05)
            folder.deaths += 1
            reached = told(folder.data / "streams.db").generation + _GENERATIONS
            async with asyncio.timeout(_CHILD_S):
                while told(folder.data / "streams.db").generation < reached:
                    assert not running.done(), node.log_tail()
                    await asyncio.sleep(0.05)
            node.kill()
            await running
    await folder.rest()
