"""How long a million small streams take: publish, mirror, snapshot, bootstrap. Not a test; numbers for people.

python -m tests.catalogue.scale [streams] [folder|seaweedfs]
"""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from streams_node.manifest import Chain, bootstrap, claim, compose, feed, parts_of, put_snapshot
from streams_node.manifest.mirror import command_apply, command_snapshot
from streams_node.manifest.records import Bucket, End, Record, Stream, encode_all
from streams_node.objects import FolderStore, ObjectStore, RequestCounts, RetryingStore
from streams_node.objects.s3 import S3Store
from tests.catalogue.world import NODE, NOW_US, RIVAL, header
from tests.store import servers

_SLICE = 50_000


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    kind = sys.argv[2] if len(sys.argv) > 2 else "folder"
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        bare: ObjectStore = FolderStore.open(folder / "objects")
        if kind == "seaweedfs":
            address = opened.enter_context(servers.seaweedfs(folder))
            bare = S3Store(address, servers.KEYS, attempt_s=30.0)
        run(RetryingStore(bare, RequestCounts()), folder, count)


def run(store: RetryingStore, folder: Path, count: int) -> None:
    chain, mirror = Chain(store), folder / "catalogue"
    mirror.mkdir()
    claim(store, NODE, "here", NOW_US)
    sums = [""]
    with timed("publish", count):
        for first in range(0, count, _SLICE):
            some = range(first, min(first + _SLICE, count))
            made = header(len(sums), sums[-1], next_stream=count + 1, next_bucket=2)
            records: list[Record] = [Bucket(id=1, name="b", created_us=1, alive=True), *streams(some)]
            sums.append(chain.commit(made, compose(made, records, encode_all(ends(some, 1)))))
    with timed("mirror", count):
        applied(chain, mirror, sums)
    made = header(len(sums), sums[-1], next_stream=count + 1, next_bucket=2)
    sums.append(chain.commit(made, compose(made, [], encode_all(ends(range(0, count, max(1, count // 100_000)), 2)))))
    with timed("mirror_100k_ends", min(count, 100_000)):
        applied(chain, mirror, sums)
    with timed("snapshot", count):
        put_snapshot(store, *parts_of(command_snapshot({"folder": str(mirror)})))
    with timed("bootstrap", count):
        done = bootstrap(chain, folder / "new", RIVAL, "there", NOW_US)
    assert done.streams == count


def applied(chain: Chain, mirror: Path, sums: list[str]) -> None:
    answer = command_apply(feed(chain, mirror, len(sums) - 1, sums[-1]))
    assert "broken" not in answer, answer


def streams(some: range) -> Iterator[Stream]:
    for each in some:
        yield Stream(
            id=each + 1, bucket=1, name=f"device-{each * 7919 % 1_000_003:07d}-{each}", content_type="application/json",
            created_us=NOW_US + each, first_epoch=0, profile="generic",
        )  # fmt: skip


def ends(some: range, entries: int) -> Iterator[End]:
    for each in some:
        yield End(
            id=each + 1, next_seq=entries, ordinal=entries, position=200 * entries, ts=NOW_US + each, schema_version=0
        )


@contextmanager
def timed(what: str, count: int) -> Iterator[None]:
    start, busy = time.monotonic(), time.process_time()
    yield
    seconds, cpu_s = time.monotonic() - start, time.process_time() - busy
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    facts = {
        "what": what,
        "streams": count,
        "seconds": round(seconds, 2),
        "cpu_s": round(cpu_s, 2),
        "peak_rss_mib": peak_mib,
    }
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
