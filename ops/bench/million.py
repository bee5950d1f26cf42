"""The million-streams cell: random streams out of a million against 64 streams, on one node with a prepared folder.

Pulls    a data folder that holds streams `m0000000` to `m0999999`, each with one 200 B entry; `preload` makes it.
Keeps    the order of the random streams is a fixed sequence that this file and `lua/numbered.lua` both compute, so the
         first appends of every measurement can be looked up stream by stream.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from ops.bench import load, proc, verify
from ops.bench.appends import MANY_STREAMS, OCTETS
from ops.bench.cell import CellInfo, Column
from ops.bench.errors import BenchError
from ops.bench.payloads import bodies
from ops.bench.servers import Server
from ops.bench.wire import client, settled_tails

STREAM_COUNT = 1_000_000
PREFIX = "m"
MULTIPLIER, INCREMENT, MODULUS = 1_664_525, 1_013_904_223, 1_048_576
BODY_SIZE = 200
CONNECTIONS = 64
SAMPLE_COUNT = 500  # appends per measurement that are looked up
PRELOAD_SLICE_SECONDS = 10.0
MICROSECONDS = 1e6
COLUMNS = (
    Column("ratio", "random / 64 streams", 2),
    Column("random_s", "random, appends/s"),
    Column("hot_s", "64 streams, appends/s"),
    Column("random_p99_ms", "random, p99 ms", 2, "lower"),
    Column("hot_p99_ms", "64 streams, p99 ms", 2, "lower"),
    Column("random_cpu_us", "random, CPU µs/append", 1, "lower"),
    Column("rss_mib", "RSS MiB", 0, "lower"),
)


@dataclass(slots=True)
class MillionCell:
    info: CellInfo
    seconds: float
    body_folder: Path
    preload: bool
    warm: bool
    _paths: list[Path] = field(default_factory=list)
    _state: int = 1  # where the random sequence goes on

    def prepare(self, server: Server) -> None:
        self._paths = load.write_bodies(self.body_folder, bodies(BODY_SIZE))
        if self.preload:
            self._through_all(server, "PUT")
        with client(server.port) as connection:
            for name in (stream_name(0), stream_name(STREAM_COUNT - 1)):
                connection.tail(name)  # refuses a folder that was not prepared
            for index in range(MANY_STREAMS):
                connection.create(f"hot{index}", OCTETS)
        if self.warm:
            self._through_all(server, "POST")

    def measure(self, server: Server, round_index: int) -> dict[str, float]:  # noqa: ARG002 -- rounds are alike here
        random, random_cpu = self._load_random(server)
        hot = self._load_hot(server)
        random_s, hot_s = random.acknowledged / random.seconds, hot.acknowledged / hot.seconds
        return {
            "ratio": random_s / hot_s,
            "random_s": random_s,
            "hot_s": hot_s,
            "random_p99_ms": random.p99_ms,
            "hot_p99_ms": hot.p99_ms,
            "random_cpu_us": random_cpu * MICROSECONDS / random.acknowledged,
            "rss_mib": proc.tree_rss_mib(server.pid),
        }

    def _load_random(self, server: Server) -> tuple[load.LoadResult, float]:
        """Append to random streams; look up the first ones before and after, each must have grown by one."""
        visited = sequence(self._state)
        sample = [stream_name(state) for state in islice(visited, SAMPLE_COUNT)]
        before = settled_tails(server.port, sample)
        cpu = proc.tree_cpu_seconds(server.pid)
        result = self._numbered(server, "POST", "random", self._state, self.seconds)
        cpu = proc.tree_cpu_seconds(server.pid) - cpu
        if not SAMPLE_COUNT + CONNECTIONS < result.acknowledged < STREAM_COUNT:
            raise BenchError(f"{result.acknowledged} appends in one measurement cannot be looked up")
        after = settled_tails(server.port, sample)
        lost = [name for name in sample if after[name] != before[name] + 1]
        if lost or result.refused:
            raise BenchError(f"{len(lost)} of {SAMPLE_COUNT} appends are not stored, {result.refused} were refused")
        sent_max = result.requests + CONNECTIONS + result.socket_errors
        self._state = next(islice(sequence(self._state), sent_max, None))
        return result, cpu

    def _load_hot(self, server: Server) -> load.LoadResult:
        names = [f"hot{index}" for index in range(MANY_STREAMS)]
        before = settled_tails(server.port, names)
        result = load.append_load(
            server.port, prefix="hot", streams=MANY_STREAMS, content_type=OCTETS, bodies=self._paths,
            connections=CONNECTIONS, seconds=self.seconds,
        )  # fmt: skip
        stored = verify.appended(before, settled_tails(server.port, names), units=1)
        verify.check_counts(result, stored, CONNECTIONS)
        return result

    def _through_all(self, server: Server, method: str) -> None:
        """Ask all streams in order; a slice goes on behind the answers of the one before, repeats are harmless."""
        done = 0
        while done < STREAM_COUNT:
            result = self._numbered(server, method, "in-order", done, PRELOAD_SLICE_SECONDS)
            if result.refused or not result.acknowledged:
                raise BenchError(f"{result.refused} of {method} were refused")
            done += result.acknowledged

    def _numbered(self, server: Server, method: str, order: str, state: int, seconds: float) -> load.LoadResult:
        arguments = [method, f"/v1/stream/{PREFIX}", str(STREAM_COUNT), order, str(state), OCTETS, str(self._paths[0])]
        return load.run_wrk(server.port, "numbered.lua", arguments, connections=CONNECTIONS, seconds=seconds)


def million_cell(*, data: Path, preload: bool, warm: bool, seconds: float, body_folder: Path) -> MillionCell:
    title = f"{STREAM_COUNT:,} streams: 200 B to random ones, against {MANY_STREAMS} streams; {CONNECTIONS} connections"
    if warm:
        title += "; each was appended to once before"
    info = CellInfo("million", title, COLUMNS, ours_only=True, data_dir=data)
    return MillionCell(info, seconds, body_folder, preload, warm)


def stream_name(index: int) -> str:
    return f"{PREFIX}{index:07d}"


def sequence(state: int) -> Iterator[int]:
    """Visit every stream once per period, as `lua/numbered.lua` does."""
    while True:
        state = (MULTIPLIER * state + INCREMENT) % MODULUS
        if state < STREAM_COUNT:
            yield state
