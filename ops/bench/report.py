"""Writes what was measured: `results.json` with every sample, `RESULTS.md` for people."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from ops.bench.cell import CellInfo, Column, Sample
from ops.bench.options import FULL_ROUNDS, FULL_SECONDS
from ops.bench.stats import Spread, spread
from ops.bench.targets import Verdict, by_round, ratio_spread, verdicts

METHOD = """\
One run, all sides in it. For each cell every server is started with an empty data folder on a disk, warmed up,
and then measured in turn, round after round; each round begins with another server. A server that is not being
measured is stopped by signal, so it takes nothing from the one that is, and pays for its background work (sealing,
uploading, collecting garbage) in its own time. Everything is on one machine over loopback, and the loader shares the
cores with the server: compare within a table, never with numbers from elsewhere.

An append counts when its answer is 2xx. After every measurement the tails of all its streams are looked up: the growth
must equal the acknowledged appends, plus at most one per connection whose answer nobody read. The first round is read
back and compared with what was sent. Before a catch-up is measured, every object is read once and its number checked.
A measurement that fails such a check is void, and listed at the end.

Each cell says median [lower quartile – upper quartile] (lowest – highest) over the rounds; the other columns are
medians. Ratios are ours / peer, divided round by round. CPU is user and system time of the whole process tree of the
server. Noise is the share of the machine that went to neither server nor loader while they were measured."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run: how, where, and what came out."""

    rounds: int
    seconds: float
    machine: dict[str, str]
    servers: dict[str, dict[str, str]]  # by name: title, version, settings, durability
    samples: list[Sample]


def save(run: Run, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(asdict(run), indent=1, ensure_ascii=False) + "\n")


def load(folder: Path) -> Run:
    raw = json.loads((folder / "results.json").read_text())
    return Run(**(raw | {"samples": [Sample(**sample) for sample in raw["samples"]]}))


def write_markdown(run: Run, cells: Iterable[CellInfo], folder: Path) -> None:
    measured = {sample.cell for sample in run.samples}
    shown = [info for info in cells if info.name in measured]
    parts = [_head(run), _targets(run, shown), _sides(run), *(_cell(run, info) for info in shown), _voids(run)]
    (folder / "RESULTS.md").write_text("\n\n".join(part for part in parts if part) + "\n")


def _head(run: Run) -> str:
    lines = ["# Results", "", "Made by `python -m ops.bench`; how to run it and to read this is in `README.md`.", ""]
    if run.rounds < FULL_ROUNDS or run.seconds < FULL_SECONDS:
        lines += [
            f"**A short run ({run.rounds} × {run.seconds:g} s): it shows that the cells work, not who is fast.**",
            "",
        ]
    lines += [METHOD, "", "## Machine", "", f"Rounds: {run.rounds}; seconds per measurement: {run.seconds:g}.", ""]
    return "\n".join(lines + _table(("fact", "value"), run.machine.items()))


def _sides(run: Run) -> str:
    rows = [
        (name, side["title"], side["version"], side["settings"], side["durability"])
        for name, side in run.servers.items()
    ]
    return "\n".join(["## Servers", "", *_table(("name", "server", "version", "settings", "durability"), rows)])


def _targets(run: Run, shown: list[CellInfo]) -> str:
    """Judge the targets of the cells that were run."""
    infos = {info.name: info for info in shown}
    judged = [verdict for verdict in verdicts(run.samples) if verdict.target.cell in infos]
    if not judged or "ours" not in run.servers:
        return ""
    rows = [_verdict_row(verdict, infos[verdict.target.cell]) for verdict in judged]
    met = sum(verdict.met for verdict in judged)
    intro = (
        f"{met} of {len(judged)} met. The better quartile of the rounds decides; the last column is the stricter\n"
        "reading, by the median. Noise can spoil a round of either side, so where the two differ, run it again."
    )
    heading = ("cell", "number", "against", "target", "better quartile", "median", "met", "by the median")
    return "\n".join(["## Targets", "", intro, "", *_table(heading, rows)])


def _verdict_row(verdict: Verdict, info: CellInfo) -> tuple[str, ...]:
    target, ratios = verdict.target, verdict.ratios
    label = next(column.label for column in info.columns if column.key == target.key)
    bound = f"{'≥' if target.better == 'higher' else '≤'} {target.bound:g}×"
    if ratios is None:
        return (info.name, label, target.peer, bound, "–", "–", "**not measured**", "–")
    best = ratios.better_quartile(target.better)
    met, by_median = ("yes" if flag else "**no**" for flag in (verdict.met, verdict.met_by_median))
    return (info.name, label, target.peer, bound, f"{best:.2f}×", f"{ratios.median:.2f}×", met, by_median)


def _cell(run: Run, info: CellInfo) -> str:
    names = [name for name in run.servers if any(_valid(run, info, name, column) for column in info.columns)]
    if not names:
        return f"## `{info.name}`: {info.title}\n\nNo valid measurement."
    main, *others = info.columns
    heading = ("server", main.label, *(column.label for column in others))
    rows = [
        (name, _full(spread(_valid(run, info, name, main)), main), *(_median(run, info, name, each) for each in others))
        for name in names
    ]
    lines = [f"## `{info.name}`: {info.title}", "", *_table(heading, rows)]
    peers = [name for name in names if name != "ours"]
    if "ours" in names and peers:
        lines += ["", *_ratios(run, info, peers)]
    return "\n".join(lines)


def _ratios(run: Run, info: CellInfo, peers: list[str]) -> list[str]:
    """Divide what a user feels: the main number, and latencies where the cell has them."""
    judged = [column for column in info.columns if column is info.main or column.key in ("p50_ms", "p99_ms", "cpu_us")]
    rows = []
    for peer in peers:
        spreads = [ratio_spread(run.samples, info.name, column.key, peer) for column in judged]
        rows.append((f"ours / {peer}", *(_full_ratio(each) for each in spreads)))
    return _table(("ratio", *(column.label for column in judged)), rows)


def _voids(run: Run) -> str:
    rows = [
        (sample.cell, sample.server, str(sample.round_index + 1) if sample.round_index >= 0 else "–", sample.void)
        for sample in run.samples
        if sample.void
    ]
    if not rows:
        return "## Void measurements\n\nNone: every measurement passed its checks."
    return "\n".join(["## Void measurements", "", *_table(("cell", "server", "round", "reason"), rows)])


def _valid(run: Run, info: CellInfo, server: str, column: Column) -> list[float]:
    return list(by_round(run.samples, info.name, server, column.key).values())


def _full(numbers: Spread | None, column: Column) -> str:
    if numbers is None:
        return "–"
    low, lower, median, upper, high = (
        f"{value:,.{column.digits}f}"
        for value in (numbers.lowest, numbers.lower_quartile, numbers.median, numbers.upper_quartile, numbers.highest)
    )
    return f"**{median}** [{lower} – {upper}] ({low} – {high})"


def _full_ratio(numbers: Spread | None) -> str:
    return "–" if numbers is None else _full(numbers, Column("ratio", "", 2)).replace("**", "", 1).replace("**", "×", 1)


def _median(run: Run, info: CellInfo, server: str, column: Column) -> str:
    numbers = spread(_valid(run, info, server, column))
    return "–" if numbers is None else f"{numbers.median:,.{column.digits}f}"


def _table(heading: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [_row(heading), _row(("---",) * len(heading)), *(_row(row) for row in rows)]


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
