"""Every option of a run, from the command line."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OURS_COMMAND = ".venv/bin/streams-node serve --data {data} --host 127.0.0.1 --port {port} --no-auth"
SERVER_NAMES = ("ours", "prisma", "prisma-tuned", "reference")
FULL_ROUNDS = 5
FULL_SECONDS = 5.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Options:
    rounds: int
    seconds: float
    warmup_seconds: float
    settle_seconds_max: float
    cells: tuple[str, ...]
    servers: tuple[str, ...]
    ours_command: str
    catchup_mb: int
    sse_readers: int
    sse_events: int
    idle_readers: int
    million_data: Path | None
    million_preload: bool
    million_warm: bool
    work_dir: Path
    out_dir: Path
    report_only: bool
    list_cells: bool


def parse(arguments: list[str]) -> Options:
    raw = _parser().parse_args(arguments)
    quick = raw.quick
    return Options(
        rounds=_or(raw.rounds, 1 if quick else FULL_ROUNDS),
        seconds=_or(raw.seconds, 1.0 if quick else FULL_SECONDS),
        warmup_seconds=0.5 if quick else 2.0,
        settle_seconds_max=5.0 if quick else 60.0,
        cells=_names(raw.cells) or ("*",),
        servers=_servers(raw.servers),
        ours_command=raw.ours_cmd,
        catchup_mb=_or(raw.catchup_mb, 5 if quick else 100),
        sse_readers=_or(raw.sse_readers, 100 if quick else 1_000),
        sse_events=10 if quick else 30,
        idle_readers=_or(raw.idle_readers, 500 if quick else 10_000),
        million_data=raw.million_data,
        million_preload=raw.million_preload,
        million_warm=raw.million_warm,
        work_dir=raw.work_dir,
        out_dir=raw.out or (HERE / "quick" if quick else HERE),
        report_only=raw.report_only,
        list_cells=raw.list,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ops.bench", description="Compare the node with two peers.")
    add = parser.add_argument
    add("--quick", action="store_true", help="one short round, small data; results go to ops/bench/quick/")
    add("--rounds", type=int, help=f"rounds per cell ({FULL_ROUNDS})")
    add("--seconds", type=float, help=f"seconds per measurement ({FULL_SECONDS:g})")
    add("--cells", action="append", help="names or patterns, comma-separated, such as append-200-*,sse (all)")
    add("--servers", action="append", help=f"comma-separated, of {','.join(SERVER_NAMES)} (all)")
    add("--ours-cmd", default=OURS_COMMAND, help="how to start the node; {data} and {port} are filled in")
    add("--catchup-mb", type=int, help="megabytes to catch up with (100)")
    add("--sse-readers", type=int, help="live readers of the SSE cell (1000)")
    add("--idle-readers", type=int, help="live readers of the idle cell (10000)")
    add("--million-data", type=Path, metavar="DIR", help="data folder of the million-streams cell; it is written to")
    add("--million-preload", action="store_true", help="fill the folder of --million-data first")
    add("--million-warm", action="store_true", help="append to each of the million streams once before")
    add("--work-dir", type=Path, default=HERE / ".work", help="where data folders are made; must be a real disk")
    add("--out", type=Path, metavar="DIR", help="where RESULTS.md and results.json go (ops/bench)")
    add("--report-only", action="store_true", help="write RESULTS.md again from results.json")
    add("--list", action="store_true", help="name the cells and stop")
    return parser


def _servers(given: list[str] | None) -> tuple[str, ...]:
    names = _names(given) or SERVER_NAMES
    unknown = sorted(set(names) - set(SERVER_NAMES))
    if unknown:
        raise SystemExit(f"unknown server {', '.join(unknown)}; known are {', '.join(SERVER_NAMES)}")
    return names


def _names(given: list[str] | None) -> tuple[str, ...]:
    return tuple(name.strip() for text in given or () for name in text.split(",") if name.strip())


def _or(value: T | None, default: T) -> T:
    return default if value is None else value
