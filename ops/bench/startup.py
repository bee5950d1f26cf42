"""The start-up cell: from the start of an empty server to its first answer, and what it weighs then."""

import time
from dataclasses import dataclass

from ops.bench import proc
from ops.bench.cell import CellInfo, Column
from ops.bench.servers import Server

REST_SECONDS = 1.0  # let start-up work end before weighing
INFO = CellInfo(
    name="startup",
    title="Start of an empty server",
    columns=(Column("start_ms", "first answer ms", 0, "lower"), Column("rss_mib", "RSS MiB", 0, "lower")),
    starts_servers=True,
)


@dataclass(frozen=True, slots=True)
class StartupCell:
    info: CellInfo = INFO

    def prepare(self, server: Server) -> None:
        """Start once without measuring, so that every program file is in the page cache."""
        self._start_and_stop(server)

    def measure(self, server: Server, round_index: int) -> dict[str, float]:  # noqa: ARG002 -- rounds are alike here
        return self._start_and_stop(server)

    @staticmethod
    def _start_and_stop(server: Server) -> dict[str, float]:
        server.empty_data()
        try:
            seconds = server.start()
            time.sleep(REST_SECONDS)
            return {"start_ms": seconds * 1_000, "rss_mib": proc.tree_rss_mib(server.pid)}
        finally:
            server.stop()
