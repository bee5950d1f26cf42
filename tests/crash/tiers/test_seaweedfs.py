"""The same with a real S3 server: deaths where a request is under way or was just answered, and a wipe."""

import asyncio
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

import pytest

from tests.crash.tiers.folder import TieredFolder
from tests.crash.tiers.points import WAYS
from tests.crash.tiers.test_wiped import Lives
from tests.store import servers

# As many requests as the folder store would take at once is more than this server has threads for.
_CALMER = {"object_store": "s3", "flush_ms_max": 200, "publish_metadata_ms": 200, "compaction_packs": 3}
_POINTS = ("upload.between", "publish.put", "collect.after")


@pytest.fixture(name="s3", scope="module")
def _s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, object]]:
    with servers.seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as address:
        yield {
            **_CALMER,
            "s3_bucket": address.bucket,
            "s3_endpoint": address.endpoint,
            "s3_region": address.region,
            "s3_path_style": True,
            "s3_access_key_id": servers.KEYS.access_key_id,
            "s3_secret_access_key": servers.KEYS.secret_access_key,
        }


def test_nothing_is_lost_between_a_request_and_what_follows(
    s3: Mapping[str, object], tmp_path: Path, crash_seed: str
) -> None:
    random = Random(f"{crash_seed}/s3")
    folder = TieredFolder(tmp_path, crash_seed, settings={**s3, "s3_prefix": "points"})

    async def scenario() -> None:
        for name in _POINTS:
            at = WAYS[name].crash_at(name, random)
            assert await folder.die_at(at), f"the node did not die at {at}"
        await folder.rest()
        shutil.rmtree(folder.data / "cache")  # what it uploaded itself was there already
        assert await folder.die_at("cache.filled:1"), "nothing was fetched"
        await folder.die_after(0.1)

    asyncio.run(scenario())


def test_no_offset_is_used_twice(s3: Mapping[str, object], tmp_path: Path, crash_seed: str) -> None:
    async def scenario() -> None:
        lives = Lives(tmp_path, crash_seed, {**s3, "s3_prefix": "wiped"})
        await lives.live()
        await lives.live()
        await lives.die_beginning("owner.claimed")
        await lives.die_beginning("restore.inside:2")
        await lives.live()

    asyncio.run(scenario())
