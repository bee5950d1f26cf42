"""How quickly history is read that has left the log: one stream, page by page at `max_bytes`, over the loopback.

Writes the stream through a node with default settings and a folder store, flushes it, waits until the log is empty, and
starts the node again for each case, so that nothing is in its memory:

    adopted     copies of the objects lie in `cache/`; each is read through once, as after every start
    cached      the same process once more
    uncached    `cache/` was emptied: copies come from the store first, by hard link

    python -m ops.bench.cold [--mb 1000] [--dir DIR]

With `--peers`, one table of the node's log, folder and S3 store beside `@prisma/streams-server`: see cold_peers.py.

    python -m ops.bench.cold --peers [--mb 500] [--dir DIR] [--out FILE]
"""

import argparse
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import sql
from ops.bench import cold_peers, machine, payloads, proc
from ops.bench.errors import BenchError
from ops.bench.options import ROOT
from ops.bench.reader import START, PageReader, Walk
from ops.bench.wire import PREFIX, Client, client

PORT = 4871
STREAM = "history"
JSON = "application/json"
MEGABYTE = 1e6
BATCHES_PER_APPEND = 16
VARIANTS = 64
PAGE_BYTES = 8 << 20
ALONE_MB, PEERS_MB = 1000, 500
READY_S_MAX = 60.0
RELEASED_S_MAX = 300.0
PROBE_S = 0.01


class SizedReader(PageReader):
    """Asks for pages of a size."""

    def walk(self, stream: str, page_bytes: int) -> Walk:
        offset, size, pages = START, 0, 0
        while True:
            headers, page_size = self._page(f"{PREFIX}{stream}?offset={offset}&max_bytes={page_bytes}", None)
            size, pages, offset = size + page_size, pages + 1, headers["stream-next-offset"]
            if "stream-up-to-date" in headers:
                return Walk(size, pages)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.bench.cold", description="Read history that left the log.")
    parser.add_argument("--mb", type=int, help=f"megabytes of history ({ALONE_MB}, with --peers {PEERS_MB})")
    parser.add_argument("--dir", type=Path, help="where the data folder is made")
    parser.add_argument("--peers", action="store_true", help="one table: log, folder, SeaweedFS, and the peer's")
    parser.add_argument("--out", type=Path, metavar="FILE", help="with --peers: where the report goes, too")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="cold-", dir=options.dir))
    try:
        if options.peers:
            cold_peers.run(options.mb or PEERS_MB, folder, options.out)
            return 0
        size = fill(folder, options.mb or ALONE_MB)
        with node(folder) as pid:
            measure("adopted", pid, size)
            for _ in range(3):
                measure("cached", pid, size)
        shutil.rmtree(folder / "cache")
        with node(folder) as pid:
            measure("uncached", pid, size)
            measure("cached", pid, size, readers=4)
        print("adopted: copies are read through once; cached: once more; uncached: copies come from the store first")
        print("probes: HEAD requests meanwhile; objects were synced before the log let go of them")
        print(machine.stamp(folder, "pyarrow"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def fill(folder: Path, megabytes: int) -> int:
    """Write the stream and wait until objects alone hold it; returns the bytes of its entries with their commas."""
    batches = [payloads.json_batch(index)[1:-1] for index in range(VARIANTS)]
    size = 0
    began = time.perf_counter()
    with node(folder), client(PORT) as connection:
        connection.create(STREAM, JSON)
        at = 0
        while size < megabytes * MEGABYTE:
            body = b",".join(batches[(at + step) % VARIANTS] for step in range(BATCHES_PER_APPEND))
            append(connection, body)
            at, size = at + BATCHES_PER_APPEND, size + len(body) + 1
        print(f"written   {size / MEGABYTE / (time.perf_counter() - began):6.0f} MB/s", flush=True)
        connection.request("POST", f"{STREAM}/_flush")
        wait_until_released(folder)
    return size - 1


def append(connection: Client, body: bytes) -> None:
    """Again while the node asks to wait."""
    while True:
        answer = connection.request("POST", STREAM, body=b"[" + body + b"]", content_type=JSON)
        if answer.status not in {429, 503}:
            break
        time.sleep(1)
    if answer.status >= 300:  # noqa: PLR2004 - not a success
        raise BenchError(f"an append answered {answer.status}")


def wait_until_released(folder: Path) -> None:
    deadline = time.monotonic() + RELEASED_S_MAX
    with closing(sqlite3.connect(f"file:{folder}/streams.db?mode=ro", uri=True)) as db:
        while db.execute(sql.queries("log").log_size).fetchone()[0]:
            if time.monotonic() > deadline:
                raise BenchError("the log was not released")
            time.sleep(0.2)


def measure(case: str, pid: int, size: int, *, readers: int = 1) -> None:
    """Walk through the stream, and meanwhile see how soon a small request is answered."""
    start, began = proc.cpu_mark(pid), time.perf_counter()
    walks: list[Walk] = []
    threads = [threading.Thread(target=lambda: walks.append(walked())) for _ in range(readers)]
    with probing() as waits:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    seconds, end = time.perf_counter() - began, proc.cpu_mark(pid)
    for walk in walks:
        if walk.body_size != size + walk.pages * 2 - (walk.pages - 1):  # brackets, and commas between pages
            raise BenchError(f"{walk.body_size} bytes in {walk.pages} pages are not the stream's {size}")
    if len(walks) != readers:
        raise BenchError("a walk failed")
    megabytes = readers * size / MEGABYTE
    waits.sort()
    print(
        f"{case:9} {megabytes / seconds:6.0f} MB/s  {1000 * (end.tree - start.tree) / megabytes:5.2f} CPU ms/MB  "
        f"{len(waits)} probes: median {1000 * statistics.median(waits):.1f} ms, "
        f"p99 {1000 * waits[len(waits) * 99 // 100]:.1f} ms  "
        f"RSS {proc.tree_rss_mib(pid):.0f} MiB  {readers} reader(s), "
        f"others {proc.others_percent(start, end, seconds):.0f} % of the machine",
        flush=True,
    )


def walked() -> Walk:
    with closing(SizedReader(PORT)) as reader:
        return reader.walk(STREAM, PAGE_BYTES)


@contextmanager
def probing() -> Iterator[list[float]]:
    """How long a HEAD of the stream takes, over and over."""
    waits, over = [], threading.Event()

    def probe() -> None:
        with client(PORT) as connection:
            while not over.wait(PROBE_S):
                began = time.perf_counter()
                connection.request("HEAD", STREAM)
                waits.append(time.perf_counter() - began)

    thread = threading.Thread(target=probe)
    thread.start()
    try:
        yield waits
    finally:
        over.set()
        thread.join()


@contextmanager
def node(folder: Path) -> Iterator[int]:
    """A node on the folder; its process id."""
    command = [str(ROOT / ".venv/bin/streams-node"), "serve", "--data", str(folder), "--port", str(PORT), "--no-auth"]
    command += ["--index-driver", "off"]  # reads are measured, without the indexes that would spare some of them
    process = subprocess.Popen(command, stdout=sys.stderr)
    try:
        wait_until_ready(process)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def wait_until_ready(process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + READY_S_MAX
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise BenchError(f"the node ended with status {process.returncode}")
        try:
            with client(PORT) as connection:
                connection.request("HEAD", STREAM)
                return
        except OSError:
            time.sleep(0.05)
    raise BenchError("the node did not become ready")


if __name__ == "__main__":
    sys.exit(main())
