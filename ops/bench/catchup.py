"""The catch-up cells: a client without the stream's past reads all of it, page by page, alone or eight at once."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

from ops.bench import payloads, proc, verify
from ops.bench.cell import CellInfo, Column
from ops.bench.errors import BenchError
from ops.bench.reader import PageReader, Walk
from ops.bench.servers import Server
from ops.bench.wire import client

STREAM = "history"
JSON = "application/json"
MEGABYTE = 1e6
COLUMNS = (
    Column("mb_s", "MB/s", 0),
    Column("cpu_ms_per_mb", "CPU ms/MB", 2, "lower"),
    Column("client_cpu_percent", "client CPU %", 0, "lower"),
    Column("page_kb", "KB/page", 0),
    Column("rss_mib", "RSS MiB", 0, "lower"),
    Column("others_percent", "noise %", 0, "lower"),
)


@dataclass(slots=True)
class CatchupCell:
    """Preloads one JSON stream, checks every object of it once, then reads it again and again."""

    info: CellInfo
    batch_count: int
    readers: int
    seconds: float
    settle_seconds_max: float

    def prepare(self, server: Server) -> None:
        with client(server.port) as connection:
            connection.create(STREAM, JSON)
            for index in range(self.batch_count):
                connection.append(STREAM, payloads.json_batch(index), JSON)
        server.wait_until_quiet(self.settle_seconds_max)
        verify.check_numbered_objects(server.port, STREAM, self.batch_count * payloads.OBJECTS_PER_BATCH)

    def measure(self, server: Server, round_index: int) -> dict[str, float]:  # noqa: ARG002 -- rounds are alike here
        start, began = proc.cpu_mark(server.pid), time.perf_counter()
        with ThreadPoolExecutor(self.readers) as pool:  # receiving gives up the interpreter lock: threads are enough
            walks = [walk for walks in pool.map(self._read, [server.port] * self.readers) for walk in walks]
        seconds, end = time.perf_counter() - began, proc.cpu_mark(server.pid)
        self._check(walks)
        megabytes = sum(walk.body_size for walk in walks) / MEGABYTE
        return {
            "mb_s": megabytes / seconds,
            "cpu_ms_per_mb": (end.tree - start.tree) * 1_000 / megabytes,
            "client_cpu_percent": 100 * (end.bench - start.bench) / seconds,
            "page_kb": megabytes * 1_000 / sum(walk.pages for walk in walks),
            "rss_mib": proc.tree_rss_mib(server.pid),
            "others_percent": proc.others_percent(start, end, seconds),
        }

    def _read(self, port: int) -> list[Walk]:
        """Read the whole stream until the time is over, at least once; the last pass is always finished."""
        deadline = time.perf_counter() + self.seconds
        walks: list[Walk] = []
        with closing(PageReader(port)) as reader:
            while not walks or time.perf_counter() < deadline:
                walks.append(reader.follow(STREAM))
        return walks

    def _check(self, walks: list[Walk]) -> None:
        """Compare sizes only: contents were checked at the start. Brackets and commas differ with the page size."""
        least = self.batch_count * payloads.OBJECTS_PER_BATCH * payloads.OBJECT_SIZE
        if min(walk.body_size for walk in walks) < least:
            raise BenchError("a reader was told that it is up to date before it had everything")


def catchup_cells(*, megabytes: int, seconds: float, settle_seconds_max: float) -> list[CatchupCell]:
    batch_count = max(1, round(megabytes * MEGABYTE / payloads.BATCH_SIZE))
    return [
        CatchupCell(
            info=CellInfo(name, f"Catch-up of {megabytes} MB of JSON, {title}", COLUMNS),
            batch_count=batch_count,
            readers=readers,
            seconds=seconds,
            settle_seconds_max=settle_seconds_max,
        )
        for name, title, readers in (("catchup", "one reader", 1), ("catchup-8", "8 readers at once", 8))
    ]
