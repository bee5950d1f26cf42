"""A driver, with its worker in it, is killed at every step of its work: what is committed is whole, and there once."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import xxhash

import spark_index
from indexers.messages import Build, Merge
from streams_node.objects import ObjectId
from streams_node.objects.keys import index_filter_key, index_key
from tests.indexers.world import meaning
from tests.spark.bucket import Bucket, Entry, entries
from tests.spark.fake_node import TOKEN, FakeNode, served
from tests.spark.work import counted, keys_of, put, store_at

HITS = 3
STEPS = sorted(
    {
        name
        for path in Path(spark_index.__file__).parent.rglob("*.py")
        for name in re.findall(r'crash_point\("([^"]+)"\)', path.read_text())
    }
)
BUILT = ("lexicon", "exact")
KILLED = -9
REGISTRY: dict[str, Any] = {
    "apiVersion": "durable.streams/schema-registry/v1", "schema": "s", "currentVersion": 1,
    "boundaries": [{"offset": 0, "version": 1}], "schemas": {"1": {}}, "lenses": {},
    "routingKey": {"jsonPointer": "/of", "required": False},
    "search": {
        "primaryTimestampField": "at",
        "fields": {
            "at": {"kind": "date", "bindings": [{"version": 1, "jsonPointer": "/at"}], "column": True},
            "of": {"kind": "keyword", "bindings": [{"version": 1, "jsonPointer": "/of"}], "exact": True},
        },
    },
}  # fmt: skip
Ends = Callable[[str, int], int]


@pytest.fixture
def node(bucket: Bucket) -> Iterator[FakeNode]:
    with served(FakeNode(store_at(bucket), [meaning(REGISTRY)])) as node:
        yield node


@pytest.fixture
def drive(node: FakeNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ends]:
    """Runs a driver that is to be killed at a pass of a step, and says how it ended."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    command = [sys.executable, "-m", "tests.spark.nursery", node.url, TOKEN]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True) as nursery,
    ):
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        asks, answers = nursery.stdin, nursery.stdout

        def run(step: str, count: int) -> int:
            asks.write(f"{step} {count}\n")
            asks.flush()
            ended = answers.readline()
            assert ended, (tmp_path / "log").read_text()
            return int(ended)

        yield run
        asks.close()


def build_of(bucket: Bucket, held: dict[int, list[Entry]]) -> Build:
    found = put(bucket, held)
    stretches = [msgspec.structs.replace(each, families=list(BUILT)) for each in found.stretches]
    return msgspec.structs.replace(found, stretches=stretches)


def test_a_driver_that_is_killed_at_any_step_leaves_nothing_half_and_nothing_twice(
    bucket: Bucket, node: FakeNode, drive: Ends, tmp_path: Path
) -> None:
    seeds = [{1: entries(at * 10, at * 10 + 10)} for at in range(2)]
    for seed in seeds:
        node.give(build_of(bucket, seed))
    assert drive("none", 1) == 0
    merge = Merge(family="lexicon", level=1, inputs=[each for each in node.objects if each.family == "lexicon"])
    given, merges = [*seeds], 0
    for step in STEPS:
        for hit in range(HITS):
            for _ in range(2):  # claims
                number = len(given)
                some = [{number: entries(0, 9)}, {number + 1: entries(4, 20), 1: entries(number * 10, number * 10 + 8)}]
                node.give(*(build_of(bucket, each) for each in some), merge)
                given, merges = [*given, *some], merges + 1
            assert drive(step, 1 + hit // 2) == KILLED, f"{step} was not come by, or had no effect"
            for lease in node.leases.values():
                lease.ends = 0.0
            assert drive("none", 1) == 0
        assert (len(node.covered()), node.refused) == (len(wanted(given)), []), step
    assert len(STEPS) == 8
    check(bucket, node, given, merges, merge, tmp_path)


def wanted(given: list[dict[int, list[Entry]]]) -> list[tuple[str, int, int]]:
    """Every entry in every family, once."""
    return sorted(
        (family, stream, entry.seq)
        for held in given
        for stream, found in held.items()
        for entry in found
        for family in BUILT
    )


def check(
    bucket: Bucket, node: FakeNode, given: list[dict[int, list[Entry]]], merges: int, merge: Merge, folder: Path
) -> None:
    """Everything is covered once by objects that are there as they were committed, and says what the entries say."""
    assert [each for commit in node.commits for each in commit.failed] == []
    assert node.covered() == wanted(given)
    for each in node.objects:
        data = bucket.store.get(index_key(each.family, ObjectId(each.made))).data
        assert (len(data), xxhash.xxh3_128_hexdigest(data)) == (each.bytes, each.sum)
        if each.family == "exact":
            beside = bucket.store.get(index_filter_key(ObjectId(each.made))).data
            assert (len(beside), xxhash.xxh3_128_hexdigest(beside)) == (each.filter_bytes, each.filter_sum)
    built = [each for each in node.objects if each.family == "lexicon" and each.level == 0]
    assert keys_of(bucket.store, built, folder) == counted(*given)
    merged = [made for commit in node.commits for made in commit.merged]
    assert [inputs for _, *inputs in merged] == [[each.made for each in merge.inputs]] * merges
    for each in node.objects:
        if each.level:
            assert keys_of(bucket.store, [each], folder) == counted(*given[:2])
