"""`python -m ops.bench.throughput`: what appends lose to the tiers, as fast as clients can send.

Two nodes in turn, one awake at a time: one with the settings that everybody gets, which seals, uploads, publishes,
merges and frees the log all the while; and one whose log only grows. Each measurement is checked as in `ops.bench`:
what was acknowledged must be what the tails grew by.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from ops.bench import load, machine
from ops.bench.appends import AppendCell, append_cells
from ops.bench.economics import AT_REST, spec_of
from ops.bench.errors import BenchError
from ops.bench.servers import SQLITE_ACK, Server
from streams_node.wal.folder import DATABASE

CELLS = ("append-1k-c64-s64", "append-200-c64-s64", "json-batch")
SHARE_MIN = 0.7
WARM_S = 3.0
WORK, REST = "at work", "at rest"
NOISE = "noise"
_Rates = dict[str, list[float]]


def measure(cell: AppendCell, folder: Path, rounds: int) -> _Rates:
    """Appends a second of both, round by round; each round begins with the other one."""
    servers = [Server(spec_of(WORK, {}), folder / "work"), Server(spec_of(REST, AT_REST), folder / "rest")]
    rates: _Rates = {WORK: [], REST: [], NOISE: []}
    try:
        for server in servers:
            server.start()
            cell.prepare(server)
            server.freeze()
        for number in range(rounds):
            for server in servers if number % 2 else servers[::-1]:
                with server.awake():
                    found = cell.measure(server, number)
                    rates[server.name].append(found["appends_s"])
                    rates[NOISE].append(found["others_percent"])
        _check(*servers)
    finally:
        for server in servers:
            server.stop()
    return rates


def _check(work: Server, rest: Server) -> None:
    """One has sealed, the other has not: otherwise nothing was compared."""
    sealed = {server.name: any((server.data / "objects").glob("*/**/*.parquet")) for server in (work, rest)}
    if sealed != {WORK: True, REST: False} or not (work.data / DATABASE).is_file():
        raise BenchError(f"objects there: {sealed}; measure for longer")


def row(cell: AppendCell, rates: _Rates) -> tuple[str, float]:
    """A line of the table, and the median of the shares."""
    shares = [work / rest for work, rest in zip(rates[WORK], rates[REST], strict=True)]
    share = statistics.median(shares)
    cells = [
        f"{statistics.median(rates[name]):,.0f} ({min(rates[name]):,.0f}-{max(rates[name]):,.0f})"
        for name in (WORK, REST, NOISE)
    ]
    shown = f"{share:.2f} ({min(shares):.2f}-{max(shares):.2f})"
    return f"| {cell.info.title} | {' | '.join([*cells[:2], shown, cells[2]])} |", share


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.bench.throughput", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", default=",".join(CELLS), help="names as `python -m ops.bench --list` shows them")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--dir", type=Path, help="where the folders are made; not on a memory file system")
    options = parser.parse_args()
    load.ensure_wrk()
    problems = []
    with tempfile.TemporaryDirectory(prefix="throughput-", dir=options.dir) as name:
        folder = Path(name)
        known = {
            cell.info.name: cell
            for cell in append_cells(seconds=options.seconds, warmup_seconds=WARM_S, body_folder=folder / "bodies")
        }
        print(f"| appends a second | tiers {WORK} | tiers {REST} | share, at least {SHARE_MIN} | noise % |")
        print("| --- | ---: | ---: | ---: | ---: |")
        for chosen in options.cells.split(","):
            line, share = row(known[chosen], measure(known[chosen], folder / chosen, options.rounds))
            print(line, flush=True)
            problems += [f"{chosen}: {share:.2f}"] if share < SHARE_MIN else []
        print(f"\nMedian (range) of {options.rounds} rounds of {options.seconds:g} s each.")
        print("`noise` is the share of the machine that went to neither node nor loader meanwhile.")
        print(f"{SQLITE_ACK}; objects in a folder, synced.")
        print(machine.stamp(folder, "pyarrow"))
    for problem in problems:
        print(f"missed: {problem}")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
