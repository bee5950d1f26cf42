"""`python -m ops.bench.indexing --peers`: a full history until all of it is in companions, beside the other server.

Each side is told of the same stream. The other server as it comes is sent events until it has cut so many full
segments, all others as many. The time is from the first append until the status says that companions cover all that
was uploaded, and memory is the most that all processes of a side had in that time, shared pages counted once.
Companions are what is compared: the other server's lexicon and exact runs stop at multiples of sixteen segments.
"""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Any

from typing_extensions import override

from ops.bench import machine, peers, proc
from ops.bench.errors import BenchError
from ops.bench.events import Events
from ops.bench.options import ROOT
from ops.bench.runner import say
from ops.bench.servers import PRISMA_COMMAND, SQLITE_ACK, Server, ServerSpec
from ops.bench.wire import HOST, Client, client

STREAM = "history"
JSON = "application/json"
BATCH_EVENTS = 2000
LOOK_EVERY = 8  # batches between two looks at how many segments there are
PENDING_BYTES_MAX = 64 << 20  # two of its segments, which hold 26 MB of log events
STAYS_S = 3.0  # between two looks of its segmenter a server may seem to have sealed everything
LOOK_S = 0.25
COVERED_S_MAX = 3600.0
BUSY_S = 0.2
BUSY = (429, 503)
OURS = ".venv/bin/streams-node"
TUNED = {
    "DS_INGEST_FLUSH_MS": "1",
    "DS_INGEST_CONCURRENCY": "1024",
    "DS_ASYNC_INDEX_CONCURRENCY": "4",
    "DS_SEARCH_COMPANION_BATCH_SEGMENTS": "8",
    "DS_SEGMENTER_WORKERS": "2",
}
SIDES = ("prisma", "prisma-tuned", "ours")
HEAD = (
    "server",
    "MB",
    "segments",
    "ingest s",
    "to lag 0 s",
    "behind ingest s",
    "CPU s",
    "memory MiB",
    "others %",
    "lexicon",
    "exact",
)


def run(sides: Sequence[str], segments: int, batches: int | None, events: Callable[[], Events], folder: Path) -> None:
    """Measure sides one after the other, and print the table."""
    peers.ensure_installed()
    print("| " + " | ".join(HEAD) + " |\n|" + " --- |" * len(HEAD), flush=True)
    for side in sides:
        spec = _spec(side)
        server = Server(spec, folder / "side")
        try:
            server.start()
            cells, batches = measured(server, events(), segments, batches)
            print("| " + " | ".join((spec.title, *cells)) + " |", flush=True)
        except BenchError:
            say(server.last_words())
            raise
        finally:
            server.stop()
            server.empty_data()
    print(f"\n{batches} batches of {BATCH_EVENTS} events; ", end="")
    print(f"{machine.stamp(folder, 'pyspark', 'tantivy', 'pyarrow')}, other server {peers.prisma_version()}")


def measured(server: Server, events: Events, segments: int, batches: int | None) -> tuple[tuple[str, ...], int]:
    """The cells of a side, and how many batches it was sent: as many as that, else until there are enough segments."""
    bodies = _Bodies(events)
    with client(server.port) as connection:
        _good(connection, "PUT", STREAM)
        _good(connection, "POST", f"{STREAM}/_schema", json.dumps(events.declared()).encode())
        memory = Memory(server.pid)
        memory.start()
        mark, began = proc.cpu_mark(server.pid), time.monotonic()
        size, batches = _append(connection, bodies, segments, batches)
        if server.spec.ours:
            while _good(connection, "POST", f"{STREAM}/_flush") == 202:  # noqa: PLR2004 - it is under way
                time.sleep(LOOK_S)
        ended = time.monotonic()
        status, covered = _covered(connection)
        used = proc.cpu_mark(server.pid)
        memory.stop()
    tree, ours, whole = (used.tree - mark.tree, used.bench - mark.bench, used.machine - mark.machine)
    others = 100 * max(0.0, whole - tree - ours) / ((covered - began) * proc.CORES)
    cells = (
        f"{size / 1e6:.0f}",
        str(status["segments"]["uploaded_count"]),
        f"{ended - began - bodies.seconds:.1f}",
        f"{covered - began - bodies.seconds:.1f}",
        f"{covered - ended:.1f}",
        f"{tree:.0f}",
        f"{memory.most_mib:.0f}",
        f"{others:.0f}",
        _lag([status["routing_key_lexicon"]]),
        _lag(status["exact_indexes"]),
    )
    return cells, batches


def _lag(families: list[dict[str, Any]]) -> str:
    """How far other families are when companions are complete."""
    most = max(int(each["lag_segments"]) for each in families)
    return "complete" if not most else f"{most} segments behind"


class _Bodies:
    """Batches, and the time that drawing them took: it is nobody's."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self.seconds = 0.0

    def next(self) -> bytes:
        began = time.monotonic()
        body = self._events.batch(BATCH_EVENTS)
        self.seconds += time.monotonic() - began
        return body


def _append(connection: Client, bodies: _Bodies, segments: int, batches: int | None) -> tuple[int, int]:
    """So many batches, or until there are so many segments; how many, and their bytes."""
    size = count = 0
    while batches is None or count < batches:
        body = bodies.next()
        _good(connection, "POST", STREAM, body)
        size, count = size + len(body), count + 1
        if batches is None and count % LOOK_EVERY == 0 and _has_cut(connection, segments):
            break
    return size, count


def _has_cut(connection: Client, segments: int) -> bool:
    """Whether there are as many segments; waits while there is enough for some more of them."""
    while True:
        stream = json.loads(connection.request("GET", f"{STREAM}/_details").body)["stream"]
        if int(stream["segment_count"]) >= segments:
            return True
        if int(stream["pending_bytes"]) < PENDING_BYTES_MAX:
            return False
        time.sleep(LOOK_S)


def _covered(connection: Client) -> tuple[dict[str, Any], float]:
    """The status once companions cover all that is sealed, and since when they do: it has to stay so for a while."""
    deadline = time.monotonic() + COVERED_S_MAX
    known, since = -1, 0.0
    while (now := time.monotonic()) < deadline:
        status = _status(connection)
        count = status["segments"]["uploaded_count"]
        whole = status["bundled_companions"]["fully_indexed_uploaded_segments"]
        if not whole or count != status["segments"]["total_count"] or not count:
            known = -1
        elif count != known:
            known, since = count, now
        elif now - since > STAYS_S:
            return status, since
        time.sleep(LOOK_S)
    raise BenchError("companions did not cover everything in time")


def _status(connection: Client) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(connection.request("GET", f"{STREAM}/_index_status").body)
    return found


def _good(connection: Client, method: str, target: str, body: bytes = b"") -> int:
    """Ask until it is taken: a server that is busy says so."""
    while True:
        answer = connection.request(method, target, body=body, content_type=JSON)
        if answer.status not in BUSY:
            break
        time.sleep(BUSY_S)
    if not 200 <= answer.status < 300:  # noqa: PLR2004
        raise BenchError(f"{method} {target}: {answer.status} {answer.body[:200]!r}")
    return answer.status


class Memory(Thread):
    """The most memory that a tree of processes had, shared pages counted once."""

    def __init__(self, root: int) -> None:
        super().__init__(name="memory", daemon=True)
        self._root = root
        self._ended = Event()
        self.most_mib = 0.0

    @override
    def run(self) -> None:
        while not self._ended.wait(LOOK_S):
            self.most_mib = max(self.most_mib, sum(map(_pss_mib, proc.tree_pids(self._root))))

    def stop(self) -> None:
        self._ended.set()
        self.join()


def _pss_mib(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended
        return 0.0
    return next((int(line.split()[1]) / proc.KIB_PER_MIB for line in lines if line.startswith("Pss:")), 0.0)


def _spec(side: str) -> ServerSpec:
    match side:
        case "prisma":
            return _prisma({}, "as it comes")
        case "prisma-tuned":
            return _prisma(TUNED, "tuned")
        case _:
            return _ours()


def _prisma(settings: dict[str, str], title: str) -> ServerSpec:
    """Its store is a folder here: by default it would be its own memory."""
    return ServerSpec(
        name="prisma",
        title=f"@prisma/streams-server, {title}",
        command=lambda _data, _port: [*PRISMA_COMMAND, "--object-store", "local", "--no-auth"],
        version=peers.prisma_version,
        settings=" ".join(f"{name}={value}" for name, value in settings.items()),
        durability=f"{SQLITE_ACK}; its store `local` is a folder here, whose files are not synced",
        environment=lambda data, port: {
            "DS_ROOT": str(data),
            "PORT": str(port),
            "DS_MOCK_R2_MAX_INMEM_BYTES": "1",
            "DS_MOCK_R2_SPILL_DIR": str(data / "objects"),
            **settings,
        },
    )


def _ours() -> ServerSpec:
    flags = ["--host", HOST, "--no-auth", "--index-due-bytes", "0", "--index-due-ms", "0"]
    return ServerSpec(
        name="ours",
        title="Streams Node",
        command=lambda data, port: [str(ROOT / OURS), "serve", "--data", str(data), "--port", str(port), *flags],
        version=lambda: peers.program_version([str(ROOT / OURS), "--version"]),
        settings="index-due-bytes=0 index-due-ms=0",
        durability=SQLITE_ACK,
    )
