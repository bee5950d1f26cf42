"""`python -m ops.bench.economics`: what the tiers cost, in requests, objects, memory and time.

`hour` lets a node in this process live through an hour of a hundred thousand quiet streams, by a clock that is moved:
every stage is real, and so are SQLite, the workers and the folder store; only the waiting is left out. `hot` drives two
nodes in turn with 20 MB/s into one stream beside the quiet ones, with the tiers at work and at rest, and compares what
an append of the hot stream waits. The quiet ones are those of the hour: each gets an entry a minute.
"""

import argparse
import asyncio
import contextlib
import itertools
import os
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import NamedTuple, cast

from ops.bench import load, machine, payloads
from ops.bench.errors import BenchError
from ops.bench.options import ROOT
from ops.bench.servers import SQLITE_ACK, Server, ServerSpec
from ops.bench.stats import percentile
from ops.bench.wire import PREFIX, Client, client
from streams_node.collector import stage as collector
from streams_node.compactor import stage as compactor
from streams_node.compactor.outlook import Outlook
from streams_node.compactor.plan import next_job
from streams_node.ingest.append import AppendRequest, decide
from streams_node.ingest.create import CreateRequest, create
from streams_node.ingest.ledger import Ledger
from streams_node.objects import RetryingStore, connect
from streams_node.objects.keys import EVERYTHING
from streams_node.segmenter import stage as segmenter
from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess, in_process
from streams_node.tiering import Tiering
from streams_node.wal.lookup import Name

STREAMS = 100_000
MINUTES = 60
PUTS_MAX = 300
OBJECTS_MAX = 400
P99_RATIO_MAX = 1.3
RSS_GROWTH_MAX = 1.5  # from the first half of the hour to the second
ENTRY_BYTES = 100
_SLICES = 10  # of a minute: appends come all the time, and not at once
_AT_ONCE = 1000
_REST_S = 120.0
_LOOK = "_LOOK_S"  # how stages call the time between two looks
_MIB = 1 << 20
_HOT = "hot"
_HOT_BYTES = 100_000
_HOT_CONNECTIONS = 4
_HOT_RATE = 50  # appends a second of each: 20 MB/s in all
_QUIET = "sensor-"
_QUIET_DIGITS = 6
_QUIET_CONNECTIONS = 50
_QUIET_MS = _QUIET_CONNECTIONS * 60_000 // STREAMS  # between two appends of a connection: one a minute and stream
_WARM_S = 2.0  # of each round: the other server was asleep, and has some clocks to catch up with
_NEVER_MS = 86_400_000
AT_REST = {
    "flush_bytes": 1 << 40,
    "flush_bytes_max": 1 << 40,
    "flush_ms_max": _NEVER_MS,
    "publish_metadata_ms": _NEVER_MS,
    "backlog_bytes_max": 1 << 40,
}  # the log only grows


# --- an hour of quiet streams ---------------------------------------------------------------------------------------


class _Measured(NamedTuple):
    streams: int
    appends: int
    node_mib: list[int]
    workers_mib: int
    seconds: float


class Hour(NamedTuple):
    """What it came to. Memory is that of the node, which this process is, minute by minute, and of its workers."""

    streams: int
    appends: int
    node_mib: list[int]
    workers_mib: int
    seconds: float
    puts: int
    other_requests: int
    objects: int
    backlog_bytes: int

    @property
    def problems(self) -> list[str]:
        found = [f"{self.puts} puts, {PUTS_MAX} are allowed"] if self.puts > PUTS_MAX else []
        found += [f"{self.objects} objects, {OBJECTS_MAX} are allowed"] if self.objects > OBJECTS_MAX else []
        found += [f"{self.backlog_bytes} bytes are not in the bucket"] if self.backlog_bytes else []
        early, late = max(self.node_mib[: len(self.node_mib) // 2]), max(self.node_mib[len(self.node_mib) // 2 :])
        if late > early * RSS_GROWTH_MAX:
            found.append(f"the node had {early} MiB in the first half and {late} MiB in the second")
        return found


async def hour(
    folder: Path, streams: int = STREAMS, minutes: int = MINUTES, tell: Callable[[str], None] = lambda _: None
) -> Hour:
    """Each stream gets one entry a minute."""
    clock = FakeClock()
    began = time.perf_counter()
    node_mib: list[int] = []
    workers_mib = 0
    with _no_pauses():
        async with _node(folder, clock) as node:
            names = [Name("_default", f"sensors/{number:06d}") for number in range(streams)]
            await create_all(node.context.ledger, names)
            Random(1).shuffle(names)  # noqa: S311 - an order, and no secret
            await node.context.tiers.flush(0)
            await _until(lambda: _tiers(node).compactor is not None)
            rest = _Rest(node, clock)
            for _ in range(minutes):
                for at in range(_SLICES):
                    some = names[at * streams // _SLICES : (at + 1) * streams // _SLICES]
                    await append_to_all(node.context.ledger, some, clock)
                    clock.advance(60 / _SLICES)
                    await rest.reached()
                node_mib.append(_rss_mib(os.getpid()))
                tell(f"minute {len(node_mib)} of {minutes}, {time.perf_counter() - began:.0f} s, {node_mib[-1]} MiB")
                workers_mib = max(workers_mib, sum(map(_rss_mib, _children())))
            await node.context.tiers.flush(node.context.ledger.committer.committed_through)
            await rest.reached()
            measured = _Measured(streams, streams * minutes, node_mib, workers_mib, time.perf_counter() - began)
            return await _outcome(node, measured)


@contextlib.contextmanager
def _no_pauses() -> Iterator[None]:
    """Stages look for work by the real clock: with the hour in minutes, they have to look more often."""
    waits = {segmenter: 0.01, compactor: 0.02, collector: 0.5}
    before = {room: vars(room)[_LOOK] for room in waits}
    for room, seconds in waits.items():
        setattr(room, _LOOK, seconds)
    try:
        yield
    finally:
        for room, seconds in before.items():
            setattr(room, _LOOK, seconds)


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(_REST_S):
        while not holds():  # noqa: ASYNC110 - stages have no bell for it
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def _node(folder: Path, clock: FakeClock) -> AsyncIterator[InProcess]:
    """With the settings that everybody gets, but for pauses in real time, which nobody waits for here."""
    async with in_process(
        folder / "data",
        clock=clock,
        tiers=True,
        object_store_folder=folder / "bucket",
        publish_ms_min=0,
        compaction_pause_ms=0,
        append_wait_ms_max=60_000,
        request_ms_max=61_000,
        state_cache_bytes_max=256 * _MIB,
        sqlite_wal_grown_bytes=64 * _MIB,
    ) as node:
        yield node


async def create_all(ledger: Ledger, names: list[Name]) -> None:
    for at in range(0, len(names), _AT_ONCE):
        nothing = CreateRequest("text/plain", None, None, AppendRequest(b""), implicit_bucket=True)
        made = await asyncio.gather(*(create(ledger, name, nothing) for name in names[at : at + _AT_ONCE]))
        await asyncio.gather(*{each.batch.settling for each in made if each.batch is not None})


async def append_to_all(ledger: Ledger, names: list[Name], clock: Callable[[], int]) -> None:
    """One entry each. No sockets: what an append costs is measured elsewhere."""
    batches = set()
    for at, name in enumerate(names):
        state = ledger.states.peek(name)
        if state is None:
            state = await ledger.living(name)
        body = (
            f'{{"at":{clock()},"sensor":"{name.stream}","value":{zlib.crc32(name.stream.encode()) % 100_000}}}'.encode()
        )
        batches.add(decide(ledger, state, AppendRequest(body.ljust(ENTRY_BYTES), "text/plain")).batch)
        if at % _AT_ONCE == 0:
            await asyncio.gather(*(batch.settling for batch in batches if batch is not None))
            batches.clear()
    await asyncio.gather(*(batch.settling for batch in batches if batch is not None))


def _tiers(node: InProcess) -> Tiering:
    return cast("Tiering", node.context.tiers)


class _Rest:
    """Knows when the stages have done what is due at a moment."""

    def __init__(self, node: InProcess, clock: FakeClock) -> None:
        merging = _tiers(node).compactor
        if merging is None:
            raise BenchError("the compaction has not begun")
        self._node = node
        self._clock = clock
        self._limits = merging.limits
        self._outlook = Outlook(node.context.database, self._limits, now_us=clock, clock=time.monotonic)

    async def reached(self) -> None:
        async with asyncio.timeout(_REST_S):
            while self._sealing() or await self._compacting():  # noqa: ASYNC110 - stages have no bell for it
                await asyncio.sleep(0.01)

    def _sealing(self) -> bool:
        tiers, settings = _tiers(self._node), self._node.context.settings
        return tiers.pressure.unsealed_s() * 1000 >= settings.flush_ms_max or bool(tiers.outbox.waiting)

    async def _compacting(self) -> bool:
        backlog = await self._outlook.look()
        return next_job(backlog, frozenset(), self._limits, now_us=self._clock(), turn=0) is not None


async def _outcome(node: InProcess, measured: "_Measured") -> Hour:
    tiers = _tiers(node)
    requests = tiers.counts.totals()
    with contextlib.closing(connect(node.context.settings)) as store:
        objects = await asyncio.to_thread(_count_objects, store)
    return Hour(
        puts=sum(tally.requests for (_, op), tally in requests.items() if op == "put"),
        other_requests=sum(tally.requests for (_, op), tally in requests.items() if op != "put"),
        objects=objects,
        backlog_bytes=tiers.pressure.bytes,
        **measured._asdict(),
    )


def _count_objects(store: RetryingStore) -> int:
    total, after = 0, None
    while True:
        page = store.list(EVERYTHING, after)
        total += len(page.objects)
        if page.next_after is None:
            return total
        after = page.next_after


def _children() -> list[int]:
    found = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text("ascii")
    return [int(pid) for pid in found.split()]


def _rss_mib(pid: int) -> int:
    """Resident memory; 0 for a process that has just ended."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE") // _MIB


# --- one hot stream -------------------------------------------------------------------------------------------------


class Round(NamedTuple):
    """Milliseconds that appends of the hot stream took, from the moment at which they were due."""

    waits_ms: list[float]
    megabytes_s: float
    quiet_s: float  # appends to the others, a second

    def p(self, share: float) -> float:
        return percentile(self.waits_ms, share)


def hot(folder: Path, rounds: int, seconds: float) -> list[dict[str, Round]]:
    """Both nodes in turn; only one is awake."""
    servers = [Server(spec_of("at work", {}), folder / "work"), Server(spec_of("at rest", AT_REST), folder / "rest")]
    found = []
    try:
        for server in servers:
            asyncio.run(_prepare(server.data))
            server.start()
            server.freeze()
        for number in range(rounds):
            taken = {}
            for server in servers if number % 2 else servers[::-1]:
                with server.awake():
                    taken[server.name] = _drive(server.port, seconds)
            found.append(taken)
            print(f"round {number + 1}: {_told(taken)}", flush=True)
    finally:
        for server in servers:
            server.stop()
    return found


def spec_of(name: str, settings: Mapping[str, object]) -> ServerSpec:
    program = str(ROOT / ".venv/bin/streams-node")
    given = {f"STREAMS_{key.upper()}": str(value) for key, value in settings.items()}
    return ServerSpec(
        name=name,
        title=name,
        command=lambda data, port: [program, "serve", "--data", str(data), "--port", str(port), "--no-auth"],
        version=lambda: "",
        settings=" ".join(f"{key}={value}" for key, value in settings.items()) or "defaults",
        durability="",
        environment=lambda _data, _port: given,
    )


async def _prepare(data: Path) -> None:
    """The streams, made in this process: over HTTP it would take minutes."""
    names = [Name("_default", f"{_QUIET}{number:0{_QUIET_DIGITS}d}") for number in range(STREAMS)]
    async with in_process(data, append_wait_ms_max=60_000, request_ms_max=61_000) as node:
        await create_all(node.context.ledger, [Name("_default", _HOT), *names])


def _drive(port: int, seconds: float) -> Round:
    waits: list[list[float]] = [[] for _ in range(_HOT_CONNECTIONS)]
    text = b"".join(payloads.json_batch(index) for index in range(4))
    bodies = [text[at : at + _HOT_BYTES] for at in range(0, len(text) - _HOT_BYTES, _HOT_BYTES)]
    ends = time.perf_counter() + _WARM_S + seconds

    def pace(rate: float, send: Callable[[Client, int], None], note: list[float]) -> None:
        with client(port) as connection:
            began = due = time.perf_counter()
            for number in itertools.count():
                time.sleep(max(0.0, due - time.perf_counter()))
                if due >= ends:
                    return
                send(connection, number)
                if due - began >= _WARM_S:
                    note.append((time.perf_counter() - due) * 1000)
                due += 1 / rate

    def to_hot(connection: Client, number: int) -> None:
        connection.append(_HOT, bodies[number % len(bodies)], "text/plain")

    quiet: list[load.LoadResult] = []

    def to_quiet() -> None:
        """In a process of its own: what it takes must not make the others late."""
        arguments = [PREFIX + _QUIET, str(_QUIET_DIGITS), str(STREAMS), str(_QUIET_MS), "x" * ENTRY_BYTES]
        connections = _QUIET_CONNECTIONS
        quiet.append(load.run_wrk(port, "quiet.lua", arguments, connections=connections, seconds=_WARM_S + seconds))

    threads = [threading.Thread(target=pace, args=(_HOT_RATE, to_hot, note)) for note in waits]
    threads.append(threading.Thread(target=to_quiet))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    all_waits = [wait for each in waits for wait in each]
    if not quiet or quiet[0].refused or quiet[0].socket_errors:
        raise BenchError(f"the quiet streams were not all taken: {quiet}")
    return Round(all_waits, len(all_waits) * _HOT_BYTES / seconds / 1e6, quiet[0].acknowledged / quiet[0].seconds)


def _told(taken: Mapping[str, Round]) -> str:
    parts = [
        f"{name}: {one.megabytes_s:.1f} MB/s, p50 {one.p(0.5):.1f} ms, p99 {one.p(0.99):.1f} ms, "
        f"beside {one.quiet_s:.0f} quiet appends/s"
        for name, one in sorted(taken.items())
    ]
    return f"{'; '.join(parts)}; p99 ratio {_ratio(taken):.2f}"


def _ratio(taken: Mapping[str, Round]) -> float:
    return taken["at work"].p(0.99) / taken["at rest"].p(0.99)


# --- the command ----------------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.bench.economics", description="What the tiers cost.")
    parser.add_argument("what", choices=("hour", "hot"), nargs="*", default=["hour", "hot"])
    parser.add_argument("--streams", type=int, default=STREAMS)
    parser.add_argument("--minutes", type=int, default=MINUTES)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--dir", type=Path, help="where the folders are made; not on a memory file system")
    options = parser.parse_args()
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="economics-", dir=options.dir) as folder:
        if "hour" in options.what:
            outcome = asyncio.run(hour(Path(folder), options.streams, options.minutes, print))
            print_hour(outcome)
            problems += outcome.problems
        if "hot" in options.what:
            ratios = [_ratio(taken) for taken in hot(Path(folder), options.rounds, options.seconds)]
            low, middle, high = (percentile(ratios, share) for share in (0.25, 0.5, 0.75))
            print(f"p99 at work / at rest: {middle:.2f} ({low:.2f} to {high:.2f}); <= {P99_RATIO_MAX}")
            if middle > P99_RATIO_MAX:
                problems.append(f"the p99 of the hot stream is {middle:.2f} times that without tiers")
        print(f"durable as by default: {SQLITE_ACK}; objects in a folder, synced")
        print(machine.stamp(Path(folder), "pyarrow"))
    for problem in problems:
        print(f"missed: {problem}")
    return bool(problems)


def print_hour(outcome: Hour) -> None:
    quarters = [outcome.node_mib[len(outcome.node_mib) * part // 4 - 1] for part in range(1, 5)]
    rows = (
        ("streams, with an entry a minute", f"{outcome.streams:,}", ""),
        ("entries", f"{outcome.appends:,}", ""),
        ("PUT requests", f"{outcome.puts}", f"<= {PUTS_MAX}"),
        ("other requests", f"{outcome.other_requests}", ""),
        ("objects in the bucket at the end", f"{outcome.objects}", f"<= {OBJECTS_MAX}"),
        ("bytes that are not in the bucket", f"{outcome.backlog_bytes}", "0"),
        ("memory of the node after each quarter", f"{quarters} MiB", f"<= {RSS_GROWTH_MAX}x"),
        ("memory of its workers at most", f"{outcome.workers_mib} MiB", ""),
        ("time that the hour took", f"{outcome.seconds:.0f} s", ""),
    )
    for name, value, target in rows:
        print(f"{name:<40} {value:>24}  {target}")


if __name__ == "__main__":
    sys.exit(main())
