"""What a cell of the benchmark is, and what a measurement of it gives."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from ops.bench.servers import Server

Better = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class Column:
    """One number of a cell: its key in a sample, its heading with the unit, and how many digits are worth printing."""

    key: str
    label: str
    digits: int = 0
    better: Better = "higher"


@dataclass(frozen=True, slots=True)
class CellInfo:
    """How a cell is named and shown. The first column is the one that the cell is about."""

    name: str
    title: str
    columns: tuple[Column, ...]
    ours_only: bool = False
    absent: tuple[str, ...] = ()  # servers that do not have what it measures
    starts_servers: bool = False  # the cell starts and ends its servers itself
    data_dir: Path | None = None  # a prepared data folder, instead of a fresh one

    @property
    def main(self) -> Column:
        return self.columns[0]


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement of one server in one round. `void` says why its numbers must not be used."""

    cell: str
    server: str
    round_index: int
    metrics: dict[str, float] = field(default_factory=dict)
    void: str = ""


class Cell(Protocol):
    @property
    def info(self) -> CellInfo: ...

    def prepare(self, server: Server) -> None:
        """Do once per server what must not be measured: streams, preloaded data, warm-up."""
        ...

    def measure(self, server: Server, round_index: int) -> dict[str, float]:
        """Measure once; raise `BenchError` (errors.py) when the numbers must not be used."""
        ...
