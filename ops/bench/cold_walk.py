"""Fills a side with the history, walks through it, and proves that every byte was the one that was sent."""

import hashlib
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache

from ops.bench import payloads, proc
from ops.bench.cold_sides import JSON, STREAM, Side
from ops.bench.errors import BenchError
from ops.bench.reader import START, PageReader, Sink, Walk
from ops.bench.servers import Server
from ops.bench.wire import PREFIX, client

MEGABYTE = 1e6
BATCHES_PER_APPEND = 16  # 4.5 MB: below the largest body that each side accepts
VARIANTS = 64  # different batches; they come again after 18 MB, far outside what a compressor remembers
RETRY_STATUSES = {429, 503}  # the side asks to wait
RETRY_S = 0.5
ERROR = 300
PROBE_S = 0.01


@dataclass(frozen=True, slots=True)
class History:
    """What every side holds: so many appends of JSON events, and what a reader must get of them."""

    appends: int
    size: int  # of all entries, with a comma between two
    sha256: str


@dataclass(frozen=True, slots=True)
class Reading:
    """One walk through the history."""

    seconds: float
    first_page_s: float
    cpu_s: float  # of the side
    pages: int
    head_p99_s: float  # of small requests meanwhile
    rss_mib: float
    noise_percent: float


class TimedReader(PageReader):
    """Follows the history, and knows when the first page was there."""

    first_page_s = 0.0

    def walk(self, query: str, sink: Sink | None = None, page_end: Callable[[], None] | None = None) -> Walk:
        offset, size, pages = START, 0, 0
        began = time.perf_counter()
        while True:
            headers, page_size = self._page(f"{PREFIX}{STREAM}?offset={offset}{query}", sink)
            size, pages = size + page_size, pages + 1
            if pages == 1:
                self.first_page_s = time.perf_counter() - began
            if page_end is not None:
                page_end()
            if headers.get("stream-up-to-date", "").lower() == "true":
                return Walk(size, pages)
            if headers["stream-next-offset"] == offset:
                raise BenchError(f"a read at {offset} moved nowhere and was not up to date")
            offset = headers["stream-next-offset"]


def history_of(megabytes: int) -> History:
    """As much as that, in whole appends."""
    digest = hashlib.sha256()
    size, appends = 0, 0
    while size < megabytes * MEGABYTE:
        entries = body_of(appends)[1:-1]
        digest.update(b"," + entries if appends else entries)
        size += len(entries) + (appends > 0)
        appends += 1
    return History(appends, size, digest.hexdigest())


def body_of(append: int) -> bytes:
    first = append * BATCHES_PER_APPEND
    batches = (_batch((first + step) % VARIANTS) for step in range(BATCHES_PER_APPEND))
    return b"[" + b",".join(batches) + b"]"


@cache
def _batch(variant: int) -> bytes:
    return payloads.json_batch(variant)[1:-1]


def fill(side: Side, server: Server, history: History) -> None:
    """Append all of it, and wait until it is where it is to be read from."""
    with client(server.port) as connection:
        connection.create(STREAM, JSON)
        for append in range(history.appends):
            body = body_of(append)
            while (status := connection.request("POST", STREAM, body=body, content_type=JSON).status) in RETRY_STATUSES:
                time.sleep(RETRY_S)
            if status >= ERROR:
                raise BenchError(f"an append answered {status}")
    if side.settle is not None:
        side.settle(server)


def read(side: Side, server: Server, history: History) -> Reading:
    """Walk through all of it; the bytes are counted only."""
    start, began = proc.cpu_mark(server.pid), time.perf_counter()
    with _probing(server.port) as waits, closing(TimedReader(server.port)) as reader:
        walk = reader.walk(side.query)
        seconds, end = time.perf_counter() - began, proc.cpu_mark(server.pid)
    wanted = history.size + walk.pages * 2 - (walk.pages - 1)  # brackets, and commas that stand between two pages
    if walk.body_size != wanted:
        raise BenchError(f"{walk.body_size} bytes in {walk.pages} pages, and not {wanted}")
    return Reading(
        seconds=seconds,
        first_page_s=reader.first_page_s,
        cpu_s=end.tree - start.tree,
        pages=walk.pages,
        head_p99_s=statistics.quantiles(waits, n=100)[-1] if len(waits) > 1 else seconds,
        rss_mib=proc.tree_rss_mib(server.pid),
        noise_percent=proc.others_percent(start, end, seconds),
    )


def check(side: Side, server: Server, history: History) -> None:
    """Read it once more: what lies between the brackets of the pages must be what was sent, byte for byte."""
    digest = hashlib.sha256()
    page = bytearray()
    pages = 0

    def page_end() -> None:
        nonlocal pages
        digest.update(b"," + page[1:-1] if pages else page[1:-1])
        pages += 1
        page.clear()

    with closing(TimedReader(server.port)) as reader:
        reader.walk(side.query, page.extend, page_end)
    if digest.hexdigest() != history.sha256:
        raise BenchError("the bytes are not those that were sent")


@contextmanager
def _probing(port: int) -> Iterator[list[float]]:
    """How long a HEAD of the stream takes, over and over."""
    waits: list[float] = []
    over = threading.Event()

    def probe() -> None:
        with client(port) as connection:
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
