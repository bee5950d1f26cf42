"""`python -m ops.bench.indexing`: what building indexes takes, with a real node and the driver beside it.

Starts a node on a folder, declares fields, a routing key and a rollup, and appends events: log events of 460 bytes with
13 fields, or with `--events archive` events as in the public archive of GitHub, with 18 fields. Then a flush until a
cold driver (no Java) has covered it; the bulk of the events; all of it built anew with nothing else to do; a flush of a
little at a time to a warm driver; and rest. Every number is of one run, and counts once the node says that all of it is
covered in every family.

    python -m ops.bench.indexing [--mib 512] [--flushes 20] [--events log|archive] [--work-dir DIR]

With `--peers`, the time until a full history is in all companions, and the memory of that, beside
`@prisma/streams-server`: see indexing_peers.py.

    python -m ops.bench.indexing --peers [--segments 32] [--events log|archive] [--only NAME] [--work-dir DIR]
"""

import argparse
import math
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
from typing_extensions import override

from ops.bench import indexing_peers, machine, proc
from ops.bench.errors import BenchError
from ops.bench.events import SETS, Events

MIB = 1 << 20
STREAM = "/v1/stream/logs"
JSON = {"content-type": "application/json"}
BATCH_EVENTS = 2000
WARM_EVENTS = 2500  # about 1.2 MB: enough for a stream to be indexed
READY_S = 60.0
COVERED_S = 1800.0
LOOK_S = 0.05
IDLE_S = 20.0
REST_S = 3.0  # so long without a claim: nothing is left to do


class Watch(threading.Thread):
    """The most memory that a tree of processes had, by kind, shared pages counted once."""

    def __init__(self, root: int) -> None:
        super().__init__(name="watch", daemon=True)
        self._root = root
        self._ended = threading.Event()
        self.most: dict[str, float] = {}
        self.rss_most = 0.0

    @override
    def run(self) -> None:
        while not self._ended.wait(0.25):
            seen, rss = indexing_memory(self._root)
            if sum(seen.values()) > sum(self.most.values()):
                self.most = seen
            self.rss_most = max(self.rss_most, rss)

    def stop(self) -> None:
        self._ended.set()
        self.join()


def indexing_memory(root: int) -> tuple[dict[str, float], float]:
    """MiB of the driver, its Java and its workers: by kind, shared pages counted once; and their resident sum."""
    found: dict[str, float] = {}
    rss = 0.0
    for pid in proc.tree_pids(root):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        except OSError:
            continue
        sizes = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines}
        kind = _kind(command)
        if kind:
            found[kind] = found.get(kind, 0.0) + sizes.get("Pss", 0.0)
            rss += sizes.get("Rss", 0.0)
    return found, rss


def _kind(command: bytes) -> str | None:
    if b"/java\0" in command:
        return "java"
    if b"pyspark.daemon" in command:
        return "workers"
    return "driver" if b"spark_index" in command else None


def indexing_cpu(root: int) -> float:
    """Seconds of processor time of the driver and all below it."""
    drivers = [pid for pid in proc.tree_pids(root) if _is_driver(pid)]
    return sum(proc.tree_cpu_seconds(pid) for pid in drivers[:1])


def _is_driver(pid: int) -> bool:
    try:
        return _kind(Path(f"/proc/{pid}/cmdline").read_bytes()) == "driver"
    except OSError:
        return False


@contextmanager
def running(folder: Path) -> Iterator[tuple[str, int]]:
    """A node whose driver starts as soon as anything waits."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        str(Path(sys.executable).with_name("streams-node")),
        "serve",
        "--no-auth",
        "--data",
        str(folder / "data"),
    ]
    command += ["--port", str(port), "--index-due-bytes", "0", "--index-due-ms", "0"]
    with (folder / "node.log").open("wb") as log:
        node = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        _until(lambda: _ready(url), READY_S, "the node is ready")
        yield url, node.pid
    finally:
        node.terminate()
        node.wait(60)


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", trust_env=False).is_success
    except httpx.HTTPError:
        return False


def _until(holds: Any, seconds: float, what: str) -> None:
    ends = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > ends:
            raise BenchError(f"not within {seconds:.0f} s: {what}")
        time.sleep(LOOK_S)


class Run:
    def __init__(self, http: httpx.Client, node: int, events: Events) -> None:
        self._http = http
        self._node = node
        self._events = events
        self.raw = 0
        self.entries = 0

    def declare(self) -> None:
        _good(self._http.put(STREAM, headers=JSON))
        _good(self._http.post(f"{STREAM}/_schema", json=self._events.declared()))

    def append(self, count: int) -> None:
        for first in range(0, count, BATCH_EVENTS):
            body = self._events.batch(min(BATCH_EVENTS, count - first))
            _good(self._http.post(STREAM, content=body, headers=JSON))
            self.raw += len(body)
        self.entries += count

    def flush(self) -> None:
        _until(
            lambda: _good(self._http.post(f"{STREAM}/_flush")).status_code != HTTPStatus.ACCEPTED, COVERED_S, "flushed"
        )

    def covered(self) -> None:
        """Wait until every entry is in an index of every family."""
        _until(self._is_covered, COVERED_S, "everything is covered")

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = _good(self._http.get(f"{STREAM}/_index_status")).json()
        return found

    def _is_covered(self) -> bool:
        status = self.status()
        families = [status["routing_key_lexicon"], *status["exact_indexes"], *status["search_families"]]
        return all(each["fully_indexed_uploaded_segments"] for each in families)

    def timed(self) -> tuple[float, float]:
        """Seconds until a flush is covered: since it was asked for, and since it was done."""
        asked = time.monotonic()
        self.flush()
        done = time.monotonic()
        self.covered()
        covered = time.monotonic()
        return covered - asked, covered - done

    def rebuilt(self) -> float:
        """Seconds until all is covered anew."""
        asked = time.monotonic()
        _good(self._http.post(f"{STREAM}/_index/rebuild", json={"anew": True}))
        self.covered()
        return time.monotonic() - asked

    def rested(self) -> float:
        """Seconds until nothing is built or merged any more, which takes a little longer to be seen."""
        began = busy = time.monotonic()
        while time.monotonic() - busy < REST_S:
            seen = self._overview()
            if seen["claims"] or seen["due_entries"]:
                busy = time.monotonic()
            time.sleep(LOOK_S)
        return busy - began

    def _overview(self) -> dict[str, Any]:
        found: dict[str, Any] = _good(self._http.get("/v1/server/_index")).json()
        return found


def measure(run: Run, node: int, mib: int, flushes: int) -> Iterator[tuple[str, str]]:
    """Rows of the table, as they come."""
    run.declare()
    run.append(WARM_EVENTS)
    entry_bytes = run.raw / run.entries
    yield (
        "flush to covered, driver cold (no Java yet)",
        "{:.1f} s since it was asked for, {:.1f} s since it was done".format(*run.timed()),
    )
    watch = Watch(node)
    watch.start()
    before, cpu = run.raw, indexing_cpu(node)
    run.append(round(mib * MIB / entry_bytes))
    _, seconds = run.timed()
    covered_cpu, raw = indexing_cpu(node) - cpu, (run.raw - before) / 1e6
    later = run.rested()
    cpu = indexing_cpu(node) - cpu
    yield "bulk", f"{raw:.0f} MB of {entry_bytes:.0f} B events, indexed as they come"
    yield "bulk, from the last flush to covered", f"{seconds:.1f} s, to all merges {seconds + later:.1f} s"
    yield "bulk, processor time to covered", f"{covered_cpu:.1f} s: {raw / covered_cpu:.1f} MB a second of one core"
    yield (
        f"bulk, processor time with all merges (then objects: {_index_objects(run.status())})",
        f"{cpu:.1f} s: {raw / cpu:.1f} MB a second of one core",
    )
    mark, began = proc.cpu_mark(node), time.monotonic()
    seconds, raw = run.rebuilt(), run.raw / 1e6
    noise = proc.others_percent(mark, proc.cpu_mark(node), time.monotonic() - began)
    yield f"all {raw:.0f} MB anew, to covered", f"{seconds:.1f} s: {raw / seconds:.1f} MB/s, noise {noise:.0f} %"
    run.rested()
    watch.stop()
    yield "memory, resident sum, most", f"{watch.rss_most:.0f} MiB"
    parts = ", ".join(f"{kind} {size:.0f}" for kind, size in sorted(watch.most.items()))
    yield "memory, shared pages once, most", f"{sum(watch.most.values()):.0f} MiB ({parts})"
    times = []
    mark, began = proc.cpu_mark(node), time.monotonic()
    for _ in range(flushes):
        run.append(WARM_EVENTS)
        times.append(run.timed())
    noise = proc.others_percent(mark, proc.cpu_mark(node), time.monotonic() - began)
    for at, since in enumerate(("asked for", "done")):
        took = sorted(each[at] for each in times)
        p95 = took[math.ceil(0.95 * len(took)) - 1]
        yield (
            f"flush of 1.2 MB to covered, driver warm, {flushes} times, since it was {since}",
            f"p50 {statistics.median(took):.2f} s, p95 {p95:.2f} s, most {took[-1]:.2f} s, noise {noise:.0f} %",
        )
    cpu, begun = indexing_cpu(node), time.monotonic()
    time.sleep(IDLE_S)
    share = 100 * (indexing_cpu(node) - cpu) / (time.monotonic() - begun)
    yield "processor time of the idle driver", f"{share:.2f} % of one core"
    yield "index bytes of raw bytes", f"{_index_bytes(run.status()) / run.raw:.3f}"


def _index_objects(status: dict[str, Any]) -> str:
    """Few of them, for how much was indexed: they were merged."""
    found = {"lexicon": status["routing_key_lexicon"], "companion": status["bundled_companions"]}
    return ", ".join(f"{each['object_count']} of {name}" for name, each in found.items())


def _index_bytes(status: dict[str, Any]) -> int:
    families = [status["routing_key_lexicon"], *status["search_families"]]
    return sum(int(each["bytes_at_rest"]) for each in families)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.bench.indexing", description="What building indexes takes.")
    parser.add_argument("--mib", type=int, default=512, help="of the bulk")
    parser.add_argument("--flushes", type=int, default=20, help="of a little, to a warm driver")
    parser.add_argument("--work-dir", type=Path, help="on a disk; a temporary folder of it is used")
    parser.add_argument("--events", choices=sorted(SETS), default="log", help="what is appended")
    parser.add_argument("--peers", action="store_true", help="beside @prisma/streams-server")
    parser.add_argument("--segments", type=int, default=32, help="with --peers: full segments of it")
    parser.add_argument("--only", choices=indexing_peers.SIDES, action="append", help="with --peers: this side")
    parser.add_argument(
        "--batches", type=int, help="with --peers: so much, as a run before has said, not so many segments"
    )
    options = parser.parse_args()
    machine.ensure_linux()
    with tempfile.TemporaryDirectory(dir=options.work_dir) as name:
        folder = Path(name)
        machine.ensure_real_disk(folder)
        if options.peers:
            sides = options.only or indexing_peers.SIDES
            indexing_peers.run(sides, options.segments, options.batches, SETS[options.events], folder)
            return 0
        with running(folder) as (url, node), httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
            run = Run(http, node, SETS[options.events]())
            print("| what | measured |\n| --- | --- |", flush=True)
            for row, value in measure(run, node, options.mib, options.flushes):
                print(f"| {row} | {value} |", flush=True)
        print(f"\n{machine.stamp(folder, 'pyspark', 'tantivy', 'pyarrow')}")
    return 0


def _good(answer: httpx.Response) -> httpx.Response:
    if not answer.is_success:
        raise BenchError(f"{answer.request.method} {answer.request.url.path}: {answer.status_code} {answer.text[:200]}")
    return answer


if __name__ == "__main__":
    sys.exit(main())
