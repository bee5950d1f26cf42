"""`python -m ops.bench.routing_keys`: pages of routing keys out of lexicons of a stream with very many of them.

Builds the lexicons of a stream of distinct keys (mixed case, punctuation, beyond the basic plane), puts them into a
folder store, and walks through all pages as a client would: every page is held to the sorted list. Then pages at random
places. Everything below HTTP is in the time; the first page fetches and checks the lexicons.

    python -m ops.bench.routing_keys [--keys 2000000] [--runs 20] [--limit 500]
"""

import argparse
import asyncio
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from typing_extensions import override

from indexers import lexicon
from indexers.plan import Family
from ops.bench.errors import BenchError
from streams_node.answers import Indexes, KeysPage
from streams_node.cache import Cache, Limits
from streams_node.indexing import Covering
from streams_node.indexing.known import KnownCovers
from streams_node.ingest.state import StreamState
from streams_node.objects import FolderStore, RequestCounts, RetryingStore
from streams_node.objects.keys import ObjectId, index_key
from streams_node.objects.protocol import WriteId
from streams_node.wal.database import Database
from streams_node.wal.lookup import Configured, Head, Name
from streams_node.wal.tails import LogEnd

STREAM = 7
SEED = 20_260
MS = 1000
_LETTERS = "abcdefXYZ0123456789-_./: éß\ue000\uffff\U00010000\U0001f600"
_CACHE_BYTES = 4 << 30
_RANDOM_PAGES = 300
_SOURCES = 5  # of each run


class Walked(NamedTuple):
    """Seconds of each page, and of processor time for all of them."""

    pages: list[float]
    cpu_s: float
    keys: int


def some_keys(count: int) -> list[str]:
    """Distinct ones, in no order."""
    chance = random.Random(SEED)  # noqa: S311 - the same keys each time
    found: set[str] = set()
    while len(found) < count:
        kind = chance.randrange(3)
        if kind == 0:
            found.add(f"user:{chance.getrandbits(40):x}")
        elif kind == 1:
            found.add("".join(chance.choices(_LETTERS, k=12)))
        else:
            found.add(
                f"/Api/v{chance.randrange(3)}/{chance.choice(('Orders', 'orders', 'users'))}/{chance.getrandbits(32)}"
            )
    keys = list(found)
    chance.shuffle(keys)
    return keys


class Covered(Indexes):
    """Of one stream, whose covers are not in any table."""

    known: Sequence[Covering] = ()

    @override
    async def covers(self, stream: int, family: Family, config: str) -> list[Covering]:
        return list(self.known)


def build(store: RetryingStore, folder: Path, keys: Sequence[str], runs: int) -> list[Covering]:
    """Runs of neighbouring entries, each of a few sources."""
    covers: list[Covering] = []
    share = -(-len(keys) // runs)
    for number, first in enumerate(range(0, len(keys), share)):
        part = keys[first : first + share]
        step = -(-len(part) // _SOURCES)
        stretches = [(at, min(at + step, len(part))) for at in range(0, len(part), step)]
        made, file = f"{number:032x}", folder / f"{number}.parquet"
        sources = [(f"{number:016x}{at:016x}", [_table(part[begin:end])]) for at, (begin, end) in enumerate(stretches)]
        written = lexicon.build(sources, file)
        store.put(index_key("lexicon", ObjectId(made)), file, write_id=WriteId(made))
        file.unlink()
        for ordinal, (begin, end) in enumerate(stretches):
            covers.append(
                Covering(
                    family="lexicon", config="c", first_seq=first + begin, end_seq=first + end, ordinal=ordinal,
                    entries=end - begin, payload_bytes=0, min_ts=0, max_ts=0, skipped=0, made=made, level=0,
                    bytes=written.size, sum=written.xxh128, rows=written.rows, filter_bytes=0, filter_sum="", made_us=0,
                )
            )  # fmt: skip
    return covers


def _table(keys: Sequence[str]) -> object:
    return pa.table({"stream": pa.array([STREAM] * len(keys), pa.int64()), "key": pa.array(keys, pa.string())})


def state_of(entries: int) -> StreamState:
    """A stream of which nothing is in the log."""
    config = Configured(STREAM, "application/json", 0, None, None, None, 0, 1, "generic", 0, 0, 0)
    fields: dict[str, Any] = dict.fromkeys(Head._fields, 0) | {"closed_by": None, "stream_seq": None}
    state = StreamState(Name("bench", "keys"), 1, config, Head(**fields), {}, [])
    state.tail = LogEnd(0, 0, 0, entries)
    return state


async def walk(folder: Path, keys: Sequence[str], runs: int, limit: int) -> tuple[Walked, Walked]:
    """All pages in order, and pages at random places; BenchError where one is wrong."""
    (folder / "bucket").mkdir()
    (folder / "cache").mkdir()
    store = RetryingStore(FolderStore.open(folder / "bucket"), RequestCounts())
    covers = build(store, folder, keys, runs)
    database, _ = await Database.open(folder / "streams.db", cache_bytes=8 << 20, reader_threads=2, read_queue_max=99)
    cache = await Cache.open(folder / "cache", store, Limits(_CACHE_BYTES, 4), local=folder / "bucket")
    indexes = Covered(database, KnownCovers(database), cache)
    indexes.known = covers
    state, truth = state_of(len(keys)), sorted(keys)

    async def page(after: str | None) -> tuple[KeysPage, float]:
        began = time.monotonic()
        found = await indexes.routing_keys(None, state, "c", after=after, limit=limit, seconds=60)
        return found, time.monotonic() - began

    try:
        cpu, times, at, after = time.process_time(), list[float](), 0, None
        while True:
            found, seconds = await page(after)
            times.append(seconds)
            if not found.complete or list(found.keys) != truth[at : at + limit]:
                raise BenchError(f"the page after key {at} is not what was put in")
            at, after = at + len(found.keys), found.next_after
            if after is None:
                break
        if at != len(truth):
            raise BenchError(f"the walk ends after {at} of {len(truth)} keys")
        in_order = Walked(times, time.process_time() - cpu, at)
        cpu, times = time.process_time(), []
        for place in _places(len(truth)):
            found, seconds = await page(truth[place])
            times.append(seconds)
            if list(found.keys) != truth[place + 1 : place + 1 + limit]:
                raise BenchError(f"the page after key {place} is not what was put in")
        return in_order, Walked(times, time.process_time() - cpu, _RANDOM_PAGES * limit)
    finally:
        await indexes.close()
        await database.close()


def _places(count: int) -> Iterator[int]:
    chance = random.Random(SEED)  # noqa: S311
    return (chance.randrange(count) for _ in range(_RANDOM_PAGES))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.bench.routing_keys", description="Pages of routing keys.")
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--limit", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        in_order, at_random = asyncio.run(walk(Path(folder), some_keys(options.keys), options.runs, options.limit))
    print(f"{options.keys:,} keys in {options.runs} lexicons, {options.limit} a page; every page was as it should be")
    print(f"first page       {in_order.pages[0] * MS:8.1f} ms  (lexicons are fetched, checked and opened)")
    for title, walked in (("pages in order", in_order), ("pages at random", at_random)):
        times = sorted(walked.pages[1:])
        median, late = statistics.median(times) * MS, times[len(times) * 99 // 100] * MS
        cpu = walked.cpu_s / len(walked.pages) * MS
        print(f"{title:15}  {median:8.1f} ms median, {late:.1f} ms p99, {cpu:.1f} ms of processor time a page")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"memory at most   {peak:8.0f} MiB, the list of keys included")
    return 0


if __name__ == "__main__":
    sys.exit(main())
