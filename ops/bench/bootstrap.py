"""`python -m ops.bench.bootstrap`: how long a new machine needs until it serves a million small streams of a bucket.

A node in this process creates the streams on SeaweedFS, appends an entry to each, publishes all of it and ends. Then
`serve --bootstrap-from-store` begins an empty folder with the bucket: the time runs from its start until it answers.
Some streams are read, each for the first time, and compared with what was sent.
"""

import argparse
import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from ops.bench import economics, machine, proc
from ops.bench.errors import BenchError
from ops.bench.servers import Server
from ops.bench.wire import client
from streams_node.objects.s3 import S3Address
from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import in_process
from streams_node.wal.lookup import Name
from tests.store import servers

STREAMS = 1_000_000
SECONDS_MAX = 300.0
READS = 200
_STATE_BYTES = 1 << 30


class Filled(NamedTuple):
    """What the bucket holds."""

    seconds: float
    packs: int
    generations: int


class Begun(NamedTuple):
    """What it took."""

    seconds: float
    reads_ms: list[float]
    rss_mib: float


def settings_of(address: S3Address) -> dict[str, Any]:
    return {
        "object_store": "s3",
        "s3_bucket": address.bucket,
        "s3_prefix": "bootstrap",
        "s3_endpoint": address.endpoint,
        "s3_region": address.region,
        "s3_path_style": True,
        "s3_access_key_id": servers.KEYS.access_key_id,
        "s3_secret_access_key": servers.KEYS.secret_access_key,
    }


def name_of(number: int) -> Name:
    return Name("_default", f"sensor-{number:07d}")


async def fill(folder: Path, settings: Mapping[str, Any], streams: int) -> Filled:
    began = time.perf_counter()
    unhurried: dict[str, Any] = {
        "append_wait_ms_max": 600_000,
        "request_ms_max": 601_000,
        "state_cache_bytes_max": _STATE_BYTES,
    }
    async with in_process(folder, tiers=True, **unhurried, **settings) as node:
        ledger, clock = node.context.ledger, FakeClock()
        names = [name_of(number) for number in range(streams)]
        await economics.create_all(ledger, names)
        await economics.append_to_all(ledger, names, clock)
        await node.context.tiers.flush(ledger.committer.committed_through)
        totals = node.context.tiers.counts.totals()
        puts = {artifact: tally.requests for (artifact, op), tally in totals.items() if op == "put"}
    return Filled(time.perf_counter() - began, puts.get("pack", 0), puts.get("generation", 0))


def begin(folder: Path, settings: Mapping[str, Any], streams: int) -> Begun:
    server = Server(economics.spec_of("bootstrap", {**settings, "bootstrap_from_store": True}), folder)
    try:
        seconds = server.start(2 * SECONDS_MAX)
        waits = _read(server.port, streams)
        return Begun(seconds, waits, proc.tree_rss_mib(server.pid))
    finally:
        server.stop()


def _read(port: int, streams: int) -> list[float]:
    waits = []
    with client(port) as connection:
        for number in Random(1).sample(range(streams), min(READS, streams)):  # noqa: S311 - which ones, and no secret
            name, began = name_of(number).stream, time.perf_counter()
            answer = connection.request("GET", f"{name}?offset=-1")
            waits.append((time.perf_counter() - began) * 1000)
            if answer.status != 200 or f'"sensor":"{name}"'.encode() not in answer.body:  # noqa: PLR2004
                raise BenchError(f"`{name}` answers {answer.status} and {answer.body[:100]!r}")
    return waits


def table(streams: int, filled: Filled, begun: Begun) -> Iterator[str]:
    reads = sorted(begun.reads_ms)
    rows = (
        ("streams, with an entry each", f"{streams:,}"),
        ("to create, fill and publish them", f"{filled.seconds:.0f} s"),
        ("packs and generations of the catalogue", f"{filled.packs}, {filled.generations}"),
        (f"from the start to the first answer, at most {SECONDS_MAX:.0f} s", f"{begun.seconds:.1f} s"),
        ("memory of the node then", f"{begun.rss_mib:.0f} MiB"),
        ("the very first read", f"{begun.reads_ms[0]:.0f} ms"),
        (f"{len(reads)} streams, each read for the first time: median", f"{statistics.median(reads):.1f} ms"),
        ("and the longest", f"{reads[-1]:.0f} ms"),
    )
    yield "| | |"
    yield "| --- | ---: |"
    yield from (f"| {name} | {value} |" for name, value in rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.bench.bootstrap", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--streams", type=int, default=STREAMS)
    parser.add_argument("--dir", type=Path, help="where the folders are made; not on a memory file system")
    options = parser.parse_args()
    with contextlib.ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="bootstrap-", dir=options.dir)))
        (folder / "weed").mkdir()
        settings = settings_of(opened.enter_context(servers.seaweedfs(folder / "weed")))
        filled = asyncio.run(fill(folder / "first", settings, options.streams))
        begun = begin(folder / "second", settings, options.streams)
        print("\n".join(table(options.streams, filled, begun)))
        print("\nSeaweedFS on this machine, with its files on the same disk.")
        print(machine.stamp(folder, "pyarrow"))
    return begun.seconds > SECONDS_MAX


if __name__ == "__main__":
    sys.exit(main())
