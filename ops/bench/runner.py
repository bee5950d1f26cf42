"""Runs the cells: all servers of a cell are started, and then measured in turn, one awake at a time.

Keeps    every round measures every server once, and starts with the next one, so that nobody is always first;
         what a server does in the background, it does in its own time: while another is measured it is frozen.
Dies     the `finally` ends every server of the cell and deletes its data.
"""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ops.bench.cell import Cell, Sample
from ops.bench.errors import BenchError
from ops.bench.options import Options
from ops.bench.servers import Server, ServerSpec


def run_cells(cells: list[Cell], specs: list[ServerSpec], options: Options) -> Iterator[list[Sample]]:
    """Give the samples of one cell after the other."""
    for cell in cells:
        taking_part = [spec for spec in specs if _takes_part(spec, cell)]
        if taking_part:
            say(f"\n{cell.info.name}: {cell.info.title}")
            yield _run_cell(cell, taking_part, options)


def _takes_part(spec: ServerSpec, cell: Cell) -> bool:
    return spec.ours or not (cell.info.ours_only or spec.name in cell.info.absent)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _run_cell(cell: Cell, specs: list[ServerSpec], options: Options) -> list[Sample]:
    folder = options.work_dir / f"{cell.info.name}-{os.getpid()}-{time.monotonic_ns()}"
    servers = [Server(spec, folder / spec.name, cell.info.data_dir) for spec in specs]
    samples: list[Sample] = []
    try:
        ready = [server for server in servers if _prepared(cell, server, samples)]
        for round_index in range(options.rounds):
            for server in _rotated(ready, round_index):
                samples.append(_measure(cell, server, round_index))
                say(f"  round {round_index + 1} {_described(cell, samples[-1])}")
    finally:
        _end_all(servers, folder)
    return samples


def _prepared(cell: Cell, server: Server, samples: list[Sample]) -> bool:
    """Start and prepare one server; one that fails is void for the cell, the others go on."""
    try:
        if cell.info.starts_servers:
            cell.prepare(server)
            return True
        server.start()
        server.freeze()
        with server.awake():
            cell.prepare(server)
    except (BenchError, OSError, LookupError) as error:
        samples.append(Sample(cell.info.name, server.name, -1, void=f"could not be prepared: {error}"))
        say(f"  {_described(cell, samples[-1])}\n{server.last_words()}")
        return False
    return True


def _measure(cell: Cell, server: Server, round_index: int) -> Sample:
    try:
        if cell.info.starts_servers:
            metrics = cell.measure(server, round_index)
        else:
            with server.awake():
                os.sync()  # nobody measures the write-back of the server before
                metrics = cell.measure(server, round_index)
    except (BenchError, OSError, LookupError) as error:
        return Sample(cell.info.name, server.name, round_index, void=str(error) or type(error).__name__)
    return Sample(cell.info.name, server.name, round_index, metrics)


def _rotated(servers: list[Server], by: int) -> list[Server]:
    start = by % len(servers) if servers else 0
    return servers[start:] + servers[:start]


def _end_all(servers: list[Server], folder: Path) -> None:
    for server in servers:
        server.stop()
    shutil.rmtree(folder, ignore_errors=True)


def _described(cell: Cell, sample: Sample) -> str:
    if sample.void:
        return f"{sample.server}: VOID, {sample.void}"
    shown = cell.info.columns[:4]
    numbers = ", ".join(f"{column.label} {sample.metrics[column.key]:,.{column.digits}f}" for column in shown)
    return f"{sample.server}: {numbers}"
