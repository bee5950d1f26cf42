"""Aggregations and searches of forks: what they share is in them, and is counted where it lies."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from streams_node.protocol.offsets import encode
from streams_node.testing.inprocess import InProcess
from tests.aggregate.test_oracle import forget, seq_of
from tests.aggregate.world import DECLARED, JSON, T0, aggregate
from tests.http.wire import ask
from tests.indexing.world import FakeDriver, append, create, indexed, on_loop, sealed
from tests.tiers.bucket import folder_bucket

_OWNER = tuple[str, int]  # who appended an entry, and as which
_ALL: dict[str, Any] = {"rollup": "all", "interval": "1m", "begin": T0, "to": T0 + 3_600_000}
_SUM: dict[str, Any] = {"aggs": {"ms": {"stats": {"field": "ms"}}}}


@dataclass
class Play:
    """Streams, each of entries by their owners, and where these lie: in which object, or in the log."""

    random: Random
    lives: dict[str, list[_OWNER]] = field(default_factory=dict)
    value: dict[_OWNER, int] = field(default_factory=dict)
    objects: dict[_OWNER, int] = field(default_factory=dict)
    covered: set[_OWNER] = field(default_factory=set)
    seals: int = 0

    async def step(self, node: InProcess) -> None:
        match self.random.choice(["append"] * 4 + ["fork"] * 2 + ["seal"] * 2 + ["index"]):
            case "append":
                await self.append(node, self.random.choice([*self.lives]))
            case "fork":
                await self.fork(node, self.random.choice([*self.lives]))
            case "seal":
                await self.seal(node)
            case "index":
                await self.index(node)

    async def index(self, node: InProcess) -> None:
        await FakeDriver(node).finish()
        self.covered = set(self.objects)

    async def append(self, node: InProcess, name: str) -> None:
        entries = self.lives[name]
        fresh = [(name, len(entries) + at) for at in range(self.random.randrange(1, 8))]
        self.value |= {owner: self.random.randrange(1000) for owner in fresh}
        records = [{"at": T0 + owner[1] * 1000, "ms": self.value[owner], "status": 200} for owner in fresh]
        await append(node, f"/v1/stream/{name}", records)
        entries += fresh

    async def fork(self, node: InProcess, source: str) -> None:
        name, at = f"f{len(self.lives)}", self.random.randint(0, len(self.lives[source]))
        headers = {**JSON, "stream-forked-from": f"/v1/stream/{source}", "stream-fork-offset": encode(0, at)}
        assert (await ask(node, "PUT", f"/v1/stream/{name}", headers)).status == 201
        self.lives[name] = self.lives[source][:at]

    async def seal(self, node: InProcess) -> None:
        await sealed(node)
        fresh = self.value.keys() - self.objects.keys()
        self.objects |= dict.fromkeys(fresh, self.seals)  # one pack has them all
        self.seals += 1

    async def check(self, node: InProcess, name: str, few: int | None) -> None:
        """`few`: only so many bytes may be looked at."""
        bytes_max = 1 << 30 if few is None else few
        node.context.aggregates.bound_scans(bytes_max)
        node.context.searches.scan_bytes = bytes_max
        if few is not None:
            forget(node)
        path, entries = f"/v1/stream/{name}", self.lives[name]
        rollup = json.loads((await aggregate(node, path, **_ALL)).body)
        counted = [entries[at] for at in self.claimed(name, rollup["coverage"], few)]
        groups = [group["measures"]["n"]["count"] for bucket in rollup["buckets"] for group in bucket["groups"]]
        assert sum(groups) == len(counted)
        tally = json.loads((await aggregate(node, path, **_SUM)).body)
        values = [self.value[entries[at]] for at in self.claimed(name, tally["coverage"], few)]
        shown = tally["aggs"]["ms"]
        assert (shown["count"], shown["sum"] or 0) == (len(values), sum(values))
        query = json.dumps({"q": "status:200", "size": 500}).encode()
        found = json.loads((await ask(node, "POST", f"{path}/_search", JSON, query)).body)
        missing = self.missing(name, found["coverage"])
        assert {seq_of(hit["offset"]) - 1 for hit in found["hits"]} == set(range(len(entries))) - missing

    def claimed(self, name: str, coverage: dict[str, Any], few: int | None) -> list[int]:
        """Which entries are in an answer, and that it says rightly where it looked for them."""
        entries, missing = self.lives[name], self.missing(name, coverage)
        assert few is not None or not missing
        claimed = [at for at in range(len(entries)) if at not in missing]
        used = self.covered if coverage["indexed_segments"] else set[_OWNER]()
        looked = [entries[at] for at in claimed if entries[at][0] != name or entries[at] not in used]
        assert coverage["scanned_segments"] == self.objects_of(looked)
        assert coverage["scanned_tail_docs"] == sum(owner not in self.objects for owner in looked)
        return claimed

    def missing(self, name: str, coverage: dict[str, Any]) -> set[int]:
        """What was left out, and that it is counted."""
        entries = self.lives[name]
        missing = {at for first, end in coverage["omitted"] for at in range(seq_of(first), seq_of(end))}
        owners = [entries[at] for at in missing]
        assert coverage["possible_missing_events_upper_bound"] == len(missing)
        assert coverage["possible_missing_uploaded_segments"] == self.objects_of(owners)
        assert coverage["possible_missing_wal_rows"] == sum(owner not in self.objects for owner in owners)
        return missing

    def objects_of(self, owners: list[_OWNER]) -> int:
        return len({self.objects[owner] for owner in owners if owner in self.objects})


@pytest.mark.parametrize("seed", range(2))
@on_loop
async def test_what_a_fork_shares_is_counted_where_it_lies(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    play = Play(random)
    async with indexed(tmp_path / "node", folder_bucket(tmp_path / "objects")) as node:
        await create(node, "/v1/stream/a", DECLARED)
        play.lives["a"] = []
        await play.append(node, "a")
        for _ in range(24):
            await play.step(node)
            await play.check(node, random.choice([*play.lives]), random.choice([None, None, 1, 200]))
        await play.seal(node)
        await play.index(node)
        for name in play.lives:
            await play.check(node, name, None)
            await play.check(node, name, 1)
    assert len(play.lives) > 3
    assert play.seals > 2
