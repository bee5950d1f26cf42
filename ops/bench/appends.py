"""The append cells: one size of body, a number of connections, one stream or many.

Keeps    an append is counted when it was acknowledged, and a measurement counts only when the stored number agrees.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path

from ops.bench import load, payloads, proc, verify
from ops.bench.cell import CellInfo, Column
from ops.bench.errors import BenchError
from ops.bench.servers import Server
from ops.bench.wire import client, settled_tails

OCTETS = "application/octet-stream"
JSON = "application/json"
MEGABYTE = 1e6
MICROSECONDS = 1e6
MANY_STREAMS = 64
BATCH_CONNECTIONS = 4

LATENCY = (Column("p50_ms", "p50 ms", 2, "lower"), Column("p99_ms", "p99 ms", 2, "lower"))
COST = (Column("cpu_us", "CPU µs/append", 1, "lower"), Column("rss_mib", "RSS MiB", 0, "lower"))
CHECKS = (Column("refused", "refused", 0, "lower"), Column("others_percent", "noise %", 0, "lower"))
RATE = Column("appends_s", "appends/s")
THROUGHPUT = Column("mb_s", "MB/s", 1)


@dataclass(slots=True)
class AppendCell:
    """Loads one server with appends of one kind."""

    info: CellInfo
    bodies: tuple[bytes, ...]
    content_type: str
    streams: int
    connections: int
    seconds: float
    warmup_seconds: float
    body_folder: Path
    declaration: bytes | None = None  # of the streams, before anything is appended
    _units: dict[str, int] = field(default_factory=dict)  # how far one append moves a tail, per server
    _paths: list[Path] = field(default_factory=list)

    def prepare(self, server: Server) -> None:
        self._paths = load.write_bodies(self.body_folder, self.bodies)
        with client(server.port) as connection:
            for name in ("calibration", "warm0", *self._names()):
                connection.create(name, self.content_type)
                if self.declaration is not None:
                    connection.declare(name, self.declaration)
            first, second, third = (
                connection.append("calibration", body, self.content_type) for body in (*self.bodies, *self.bodies)[:3]
            )
        if second - first != third - second:
            raise BenchError("two appends of equal length moved the tail by different amounts")
        self._units[server.name] = second - first
        self._run(server, "warm", streams=1, seconds=self.warmup_seconds)

    def measure(self, server: Server, round_index: int) -> dict[str, float]:
        before = settled_tails(server.port, self._names())
        start = proc.cpu_mark(server.pid)
        result = self._run(server, "stream", streams=self.streams, seconds=self.seconds)
        end = proc.cpu_mark(server.pid)
        memory = proc.tree_rss_mib(server.pid)
        after = settled_tails(server.port, self._names())
        stored = verify.appended(before, after, self._units[server.name])
        verify.check_counts(result, stored, self.connections)
        if round_index == 0 and self.content_type == OCTETS:
            of_first = (after["stream0"] - before["stream0"]) // self._units[server.name]
            verify.check_bytes(server.port, "stream0", self.bodies, of_first)
        return self._metrics(result, start, end, memory) | {"stored": float(stored)}

    def _metrics(
        self, result: load.LoadResult, start: proc.CpuMark, end: proc.CpuMark, memory: float
    ) -> dict[str, float]:
        count = result.acknowledged
        if count == 0:
            raise BenchError("no append was acknowledged")
        return {
            "appends_s": count / result.seconds,
            "mb_s": count * len(self.bodies[0]) / MEGABYTE / result.seconds,
            "p50_ms": result.p50_ms,
            "p99_ms": result.p99_ms,
            "cpu_us": (end.tree - start.tree) * MICROSECONDS / count,
            "rss_mib": memory,
            "refused": float(result.refused),
            "socket_errors": float(result.socket_errors),
            "acknowledged": float(count),
            "others_percent": proc.others_percent(start, end, result.seconds),
        }

    def _run(self, server: Server, prefix: str, *, streams: int, seconds: float) -> load.LoadResult:
        return load.append_load(
            server.port,
            prefix=prefix,
            streams=streams,
            content_type=self.content_type,
            bodies=self._paths,
            connections=self.connections,
            seconds=seconds,
        )

    def _names(self) -> list[str]:
        return [f"stream{index}" for index in range(self.streams)]


def append_cells(*, seconds: float, warmup_seconds: float, body_folder: Path) -> list[AppendCell]:
    """Make the nine byte cells and the two of JSON."""
    shapes = [(size, connections, 1) for size in (200, 1_024, 65_536) for connections in (16, 64)]
    shapes += [(size, 64, MANY_STREAMS) for size in (200, 1_024, 65_536)]
    cells = [
        AppendCell(
            info=_octet_info(size, connections, streams),
            bodies=payloads.bodies(size),
            content_type=OCTETS,
            streams=streams,
            connections=connections,
            seconds=seconds,
            warmup_seconds=warmup_seconds,
            body_folder=body_folder,
        )
        for size, connections, streams in sorted(shapes)
    ]
    batch = AppendCell(
        info=_batch_info(),
        bodies=payloads.batches(),
        content_type=JSON,
        streams=1,
        connections=BATCH_CONNECTIONS,
        seconds=seconds,
        warmup_seconds=warmup_seconds,
        body_folder=body_folder,
    )
    checked = replace(batch, info=_checked_info(), declaration=payloads.declaration())
    return [*cells, batch, checked]


def _octet_info(size: int, connections: int, streams: int) -> CellInfo:
    spelled = {200: "200 B", 1_024: "1 KB", 65_536: "64 KB"}[size]
    where = "one stream" if streams == 1 else f"{streams} streams"
    name = f"append-{spelled.replace(' ', '').removesuffix('B').lower()}-c{connections}"
    return CellInfo(
        name=name if streams == 1 else f"{name}-s{streams}",
        title=f"Append {spelled}, {connections} connections, {where}",
        columns=(RATE, *LATENCY, *COST, THROUGHPUT, *CHECKS),
    )


def _batch_info() -> CellInfo:
    return CellInfo(
        name="json-batch",
        title=f"Append JSON arrays of 1,000 objects (281 B each), {BATCH_CONNECTIONS} connections, one stream",
        columns=(THROUGHPUT, RATE, *LATENCY, *COST, *CHECKS),
    )


def _checked_info() -> CellInfo:
    return CellInfo(
        name="json-batch-checked",
        title=f"The same with a schema of its ten properties and a routing key, {BATCH_CONNECTIONS} connections",
        columns=(THROUGHPUT, RATE, *LATENCY, *COST, *CHECKS),
        absent=("reference",),
    )
