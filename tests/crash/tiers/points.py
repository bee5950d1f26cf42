"""The crash points of the tiers, and how a node comes by each of them."""

from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from tests.crash.folder import RARE

TIERS: Mapping[str, object] = RARE | {
    "flush_bytes": 65536,
    "flush_ms_max": 60,
    "publish_ms_min": 0,
    "publish_metadata_ms": 60,
    "own_segment_bytes": 20_000,
    "segment_entries": 300,
    "snapshot_generations": 3,
    "release_rows": 100,
    "compaction_packs": 2,
    "compaction_pause_ms": 0,
    "dead_data_ms_max": 1000,
    "object_grace_ms": 200,
    "orphan_grace_ms": 1000,
    "orphan_scan_ms": 1000,
    "collect_deletes_per_s": 1000,
}  # everything often, and in small pieces


class Way(NamedTuple):
    """At which pass a point kills; `fresh`: only a node that never asked the bucket comes by it."""

    least: int = 1
    most: int = 3
    fresh: bool = False

    def crash_at(self, name: str, random: Random) -> str:
        return f"{name}:{random.randint(self.least, self.most)}"


WAYS: Mapping[str, Way] = {
    "flush.planned": Way(),
    "flush.built": Way(),
    "upload.before": Way(1, 6),
    "upload.between": Way(1, 6),
    "upload.after": Way(1, 6),
    "publish.before": Way(),
    "publish.put": Way(),
    "publish.inside": Way(),
    "publish.after": Way(),
    "release.inside": Way(),
    "release.after": Way(),
    "compact.planned": Way(),
    "compact.built": Way(),
    "collect.before": Way(),
    "collect.after": Way(),
    "cache.filled": Way(1, 2),
    "owner.claimed": Way(1, 1, fresh=True),
    # Of the folder store, after the five puts and the delete with which a start looks whether it can be used.
    "folder.written": Way(7, 20),
    "folder.noted": Way(7, 20),
    "folder.visible": Way(7, 20),
    "folder.deleted": Way(3, 12),
}
WORKER_WAYS: Mapping[str, Way] = {
    "worker.seal.inside": Way(),
    "worker.seal.after": Way(),
    "worker.compact.inside": Way(1, 2),
    "worker.mirror.inside": Way(1, 2),
}  # the child dies, and the node goes on
BOOTSTRAP_POINTS = ("restore.inside", "restore.after")  # see test_wiped
INDEX_WAYS = (
    "index.claim",
    "index.commit.before",
    "index.commit.inside",
    "index.commit.after",
)  # see test_index_points
INDEX_POINTS = (*INDEX_WAYS, "publish.put", "publish.inside", "publish.after", "collect.after")
