"""The SSE cells: how long until all live readers have an append, and what an idle reader costs."""

import resource
import time
from dataclasses import dataclass

from ops.bench import proc
from ops.bench.cell import CellInfo, Column
from ops.bench.errors import BenchError
from ops.bench.payloads import bodies
from ops.bench.servers import Server
from ops.bench.stats import percentile
from ops.bench.subscribers import Subscribers
from ops.bench.wire import client

STREAM = "live"
TEXT = "text/plain"  # neither base64 nor JSON: every server sends the text as it is
EVENT_SIZE = 200
EVENT_INTERVAL_SECONDS = 0.1
EVENT_SECONDS_MAX = 30.0
IDLE_SECONDS = 5.0
MILLISECONDS = 1_000.0
KIB_PER_MIB = 1_024.0
SPARE_FILES = 200

SSE_COLUMNS = (
    Column("p50_ms", "all have it, p50 ms", 1, "lower"),
    Column("p99_ms", "p99 ms", 1, "lower"),
    Column("cpu_s", "CPU s", 2, "lower"),
    Column("connect_cpu_s", "CPU s to connect", 2, "lower"),
    Column("client_cpu_s", "client CPU s", 2, "lower"),
    Column("rss_mib", "RSS MiB", 0, "lower"),
    Column("others_percent", "noise %", 0, "lower"),
)
IDLE_COLUMNS = (
    Column("kib_per_reader", "KiB/reader", 1, "lower"),
    Column("rss_mib", "RSS MiB", 0, "lower"),
    Column("connect_us", "CPU µs to connect", 0, "lower"),
    Column("idle_cpu_percent", "idle CPU %", 1, "lower"),
)


@dataclass(slots=True)
class SseCell:
    """Appends one event each 100 ms to a crowd; waits for the crowd first when that takes longer."""

    info: CellInfo
    readers: int
    events: int

    def prepare(self, server: Server) -> None:
        allow_open_files(self.readers)
        with client(server.port) as connection:
            connection.create(STREAM, TEXT)

    def measure(self, server: Server, round_index: int) -> dict[str, float]:
        with Subscribers(server.port, STREAM, TEXT, self.readers) as crowd:
            start = proc.cpu_mark(server.pid)
            crowd.connect()
            _deliver(crowd, round_index, 0)  # proves that all are subscribed; not counted
            connected, began = proc.cpu_mark(server.pid), time.perf_counter()
            delays = [_deliver(crowd, round_index, number) for number in range(1, self.events + 1)]
            seconds, end = time.perf_counter() - began, proc.cpu_mark(server.pid)
            return {
                "p50_ms": percentile(delays, 0.5) * MILLISECONDS,
                "p99_ms": percentile(delays, 0.99) * MILLISECONDS,
                "cpu_s": end.tree - connected.tree,
                "connect_cpu_s": connected.tree - start.tree,
                "client_cpu_s": end.bench - connected.bench,
                "rss_mib": proc.tree_rss_mib(server.pid),
                "others_percent": proc.others_percent(connected, end, seconds),
            }


@dataclass(slots=True)
class IdleCell:
    """Holds thousands of readers of one quiet stream and weighs the server before and after."""

    info: CellInfo
    readers: int

    def prepare(self, server: Server) -> None:
        allow_open_files(self.readers)
        with client(server.port) as connection:
            connection.create(STREAM, TEXT)

    def measure(self, server: Server, round_index: int) -> dict[str, float]:  # noqa: ARG002 -- rounds are alike here
        memory_before, start = proc.tree_rss_mib(server.pid), proc.tree_cpu_seconds(server.pid)
        with Subscribers(server.port, STREAM, TEXT, self.readers) as crowd:
            crowd.connect()
            connected, memory = proc.tree_cpu_seconds(server.pid), proc.tree_rss_mib(server.pid)
            crowd.drain(IDLE_SECONDS)
            idle = proc.tree_cpu_seconds(server.pid) - connected
        return {
            "kib_per_reader": (memory - memory_before) * KIB_PER_MIB / self.readers,
            "rss_mib": memory,
            "connect_us": (connected - start) * 1e6 / self.readers,
            "idle_cpu_percent": 100 * idle / IDLE_SECONDS,
        }


def sse_cells(*, readers: int, events: int, idle_readers: int) -> tuple[SseCell, IdleCell]:
    live = CellInfo("sse", f"SSE to {readers:,} readers, {EVENT_SIZE} B each 100 ms, {events} events", SSE_COLUMNS)
    idle = CellInfo("sse-idle", f"{idle_readers:,} idle SSE readers", IDLE_COLUMNS, ours_only=True)
    return SseCell(live, readers, events), IdleCell(idle, idle_readers)


def allow_open_files(readers: int) -> None:
    needed = readers + SPARE_FILES
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise BenchError(f"{readers} readers need {needed} open files, the limit is {hard} (ulimit -Hn)")


def raise_open_files() -> None:
    """Lift the soft limit to the hard one, for this process and the servers that inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _deliver(crowd: Subscribers, round_index: int, number: int) -> float:
    """Send one event, then wait for the next tick unless it has passed already."""
    delay = crowd.send(_event(round_index, number), _mark(round_index, number), EVENT_SECONDS_MAX)
    crowd.drain(EVENT_INTERVAL_SECONDS - delay)
    return delay


def _mark(round_index: int, number: int) -> bytes:
    return f"#{round_index:03d}-{number:05d}#".encode()


def _event(round_index: int, number: int) -> bytes:
    mark = _mark(round_index, number)
    return bodies(EVENT_SIZE)[number % len(bodies(EVENT_SIZE))].replace(b"\n", b" ")[: EVENT_SIZE - len(mark)] + mark
