"""What was measured of searches, on disk, and as a page: tables, and what was to be reached beside what was."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ops.bench.search_cells import CLIENTS, COLD, EMPTIED, WARM, Cell
from ops.bench.search_queries import READ_NAME

OURS, BARE = "ours", "tantivy"
PEERS = ("prisma", "prisma-tuned")
TITLES = {OURS: "Streams Node", BARE: "Tantivy alone", "prisma": "peer, as it comes", "prisma-tuned": "peer, tuned"}
SLOW_MS = 20.0  # a peer that takes so long is to be beaten by far
TIMES_FASTER = {1: 5.0, 8: 10.0}
BARE_TIMES, BARE_MS = 2.0, 3.0
HEAD = """# What searches take

`python -m ops.bench.search` made this page; [README.md](README.md) says how, and what is done to be fair.

- Times are milliseconds of one answer, or of one page where several are asked for, as clients in Python on the same two
  cores see them; p50 / p95 / p99.
- All sides of a table are filled first, and asked in turns; whoever does not have the turn is stopped. A cell is the
  median of its turns, usually five. A side that takes 200 ms or more in its first turn gets no other.
- *Tantivy alone* is one merged index in the process of the client: no HTTP, no records of hits, nobody else.
- Only what was measured on one machine is compared; what each side was measured on stands at the end.
- *Peer* is `@prisma/streams-server`, fully indexed; *not 200* counts its answers with another status or without
  complete coverage, whose times are those of what it did instead. Where none was complete, nothing is compared: nobody
  knows how long a whole answer would take.
- A load average far above the number of clients says that others used the machine, too. Then times are upper bounds,
  and of what was missed only that with a large margin means something; processor time does not have this weakness.
- *Emptied*: the first question of a server whose copies of objects were deleted, and whose files the system has
  forgotten as far as it can: what either server has open or in its memory stays there, so it is no start. *Cold*: the
  same, and started again. The peer would not find its store then, of which it has the list in its memory.
- *Nothing found* and *a page read, no search* are no questions but yardsticks: what HTTP, clients and the interpreter
  take before anything is looked for, and for an answer as long as a page of hits.
"""


class Line(NamedTuple):
    """Something that was measured beside appends; `met` says whether it is within the bound, if it has one."""

    events: str
    size: int
    name: str
    said: str
    bound: str
    met: bool | None


class Verdict(NamedTuple):
    """Medians are judged. `turns` are what each turn took of the bound that is made of the other's same turn."""

    cell: Cell
    against: str
    bound_ms: float
    turns: Sequence[float]

    @property
    def met(self) -> bool:
        return self.cell.p50_ms <= self.bound_ms

    @property
    def beyond(self) -> int:
        return sum(each > 1 for each in self.turns)


class Report:
    def __init__(self, cells: Iterable[Cell], lines: Iterable[Line], stamps: Mapping[str, str]) -> None:
        self.cells = {each.key: each for each in cells}
        self.lines = {each[:3]: each for each in lines}
        self.stamps = dict(stamps)
        self._new: set[str] = set()

    @classmethod
    def read(cls, folder: Path | None) -> "Report":
        if folder is None or not (folder / "search.json").exists():
            return cls((), (), {})
        raw = json.loads((folder / "search.json").read_text())
        return cls((Cell(*each) for each in raw["cells"]), (Line(*each) for each in raw["lines"]), raw["stamps"])

    def add(self, cell: Cell) -> None:
        self.cells[cell.key] = cell
        self._new.add(_about(cell))

    def add_line(self, line: Line) -> None:
        self.lines[line[:3]] = line
        what = "processor time" if line.name.startswith("processor") else "beside appends"
        self._new.add(f"{line.size} {line.events}, {what}")

    def write(self, folder: Path | None, stamp: str) -> None:
        """The load says whether others had the machine meanwhile: each client and each thread of a server is one."""
        if folder is None or not self._new:
            return
        stamp = f"{stamp}; load average {os.getloadavg()[0]:.1f}"
        self.stamps |= dict.fromkeys(self._new, stamp)
        rows = ",\n".join(json.dumps(each) for each in self.cells.values())
        lines = ",\n".join(json.dumps(each) for each in self.lines.values())
        stamps = json.dumps(self.stamps, indent=1, sort_keys=True)
        (folder / "search.json").write_text(
            f'{{"cells": [\n{rows}\n],\n"lines": [\n{lines}\n],\n"stamps": {stamps}}}\n'
        )
        (folder / "SEARCH.md").write_text("\n".join(self.page()) + "\n")

    # --- the page ---

    def page(self) -> Iterator[str]:
        yield HEAD
        yield from self._targets()
        for events, count in sorted({each[:2] for each in self.cells}):
            yield from self._table(str(events), int(str(count)))
        yield from self._beside()
        yield "\n## When and where\n"
        for name, stamp in sorted(self.stamps.items()):
            yield f"- {name}: {stamp}"

    def _targets(self) -> Iterator[str]:
        verdicts = [each for cell in self.cells.values() for each in self.verdicts(cell)]
        yield "## What was to be reached\n"
        yield "| target | cells | met | single turns beyond it |\n| --- | --- | --- | --- |"
        for against in dict.fromkeys(each.against for each in verdicts):
            some = [each for each in verdicts if each.against == against]
            single = f"{sum(each.beyond for each in some)} of {sum(len(each.turns) for each in some)}"
            yield f"| {against} | {len(some)} | {sum(each.met for each in some)} | {single} |"
        failing = [cell for cell in self.cells.values() if cell.side == OURS]
        yield f"| every answer is 200 and complete | {len(failing)} | {sum(not cell.failed for cell in failing)} | |"
        for name in PEERS:
            void = sum(each.side == name and each.state == WARM and _is_void(each) for each in self.cells.values())
            if void:
                yield f"| no answer of the {TITLES[name]} was complete: not compared | {void} | - | |"
        alike = list(self._alike())
        yield f"| the same is shown as by others, where there is one order | {len(alike)} | {sum(alike)} | |"
        bound = [line for line in self.lines.values() if line.met is not None]
        for line in bound:
            yield f"| {line.name}, {line.size} {line.events}: {line.bound} | 1 | {int(bool(line.met))} | |"
        yield from self._judged("Missed", [each for each in verdicts if not each.met])
        sometimes = [each for each in verdicts if each.met and each.beyond]
        yield from self._judged("Reached by the median, but not in every turn", sometimes)

    def _judged(self, title: str, verdicts: Sequence[Verdict]) -> Iterator[str]:
        if verdicts:
            yield (
                f"\n{title}; the last column is what a page takes that is read, without any search:\n\n"
                "| events | query | clients | p50 ms | at most | turns, each beside its bound | target | "
                f"a page read, ms |\n{'| --- ' * 8}|"
            )
        for each in verdicts:
            cell = each.cell
            read = self.cells.get((*cell.key[:2], OURS, READ_NAME, WARM, cell.clients))
            yield (
                f"| {cell.size} {cell.events} | {cell.query} | {cell.clients} | {cell.p50_ms:.2f} | "
                f"{each.bound_ms:.2f} | {' '.join(format(turn, '.0%') for turn in each.turns)} | {each.against} | "
                f"{'-' if read is None else format(read.p50_ms, '.2f')} |"
            )

    def verdicts(self, cell: Cell) -> Iterator[Verdict]:
        """What one cell of this node is judged by."""
        if cell.side != OURS or cell.state != WARM:
            return
        bare = self._beside_it(cell, BARE)
        if bare is not None:
            against = f"p50 within 2x of Tantivy alone and 3 ms; clients: {cell.clients}"
            yield _verdict(cell, bare, against, lambda took: BARE_TIMES * took + BARE_MS)
        for name in PEERS:
            theirs = self._beside_it(cell, name)
            if theirs is None or _is_void(theirs):
                continue
            if theirs.p50_ms >= SLOW_MS:
                times = TIMES_FASTER[cell.clients]
                against = (
                    f"{times:.0f}x faster than the {TITLES[name]} that takes 20 ms or more, {cell.clients} clients"
                )
                yield _verdict(cell, theirs, against, lambda took, times=times: took / times)  # type: ignore[misc]
            else:
                yield _verdict(cell, theirs, f"never slower than the {TITLES[name]}", lambda took: took)

    def _beside_it(self, cell: Cell, side: str) -> Cell | None:
        """The same of another side, on the same machine."""
        other = self.cells.get((*cell.key[:2], side, *cell.key[3:]))
        return other if other is not None and self._machine(cell) == self._machine(other) else None

    def _machine(self, cell: Cell) -> str:
        stamp = self.stamps.get(_about(cell))
        return "" if stamp is None else stamp.split("; ")[1]

    def _alike(self) -> Iterator[bool]:
        for cell in self.cells.values():
            if cell.side != OURS:
                continue
            for side in (BARE, *PEERS):
                other = self.cells.get((*cell.key[:2], side, *cell.key[3:]))
                numbers = set() if other is None else cell.same.keys() & other.same.keys()
                if other is not None and numbers:
                    yield all(cell.same[each] == other.same[each] for each in numbers)

    def _table(self, events: str, count: int) -> Iterator[str]:
        some = [cell for cell in self.cells.values() if (cell.events, cell.size) == (events, count)]
        sides = [side for side in TITLES if any(cell.side == side for cell in some)]
        yield f"\n## {count:,} events of the set `{events}`\n"
        yield f"| query | clients | {' | '.join(TITLES[side] for side in sides)} |\n{'| --- ' * (len(sides) + 2)}|"
        for name in dict.fromkeys(cell.query for cell in some):
            for state, clients in (*((WARM, each) for each in CLIENTS), (EMPTIED, 1), (COLD, 1)):
                found = [self.cells.get((events, count, side, name, state, clients)) for side in sides]
                if any(found):
                    label = str(clients) if state == WARM else f"{clients}, {state}"
                    yield f"| {name} | {label} | {' | '.join(map(_shown, found))} |"

    def _beside(self) -> Iterator[str]:
        if not self.lines:
            return
        yield (
            "\n## Beside appends, beside searches, and processor time\n\n| events | what | measured | bound | met |\n"
            + "| --- " * 5
            + "|"
        )
        for line in self.lines.values():
            met = "" if line.met is None else ("yes" if line.met else "no")
            yield f"| {line.size} {line.events} | {line.name} | {line.said} | {line.bound} | {met} |"


def _about(cell: Cell) -> str:
    return f"{cell.size} {cell.events}, {TITLES[cell.side]}"


def _verdict(cell: Cell, other: Cell, against: str, bound: Callable[[float], float]) -> Verdict:
    """The other may have had one turn only."""
    theirs = other.p50s_ms if len(other.p50s_ms) == len(cell.p50s_ms) else [other.p50_ms] * len(cell.p50s_ms)
    turns = [mine / bound(beside) for mine, beside in zip(cell.p50s_ms, theirs, strict=True)]
    return Verdict(cell, against, bound(other.p50_ms), turns)


def _is_void(cell: Cell) -> bool:
    return cell.failed == cell.asked


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    failed = f"; {cell.failed} of {cell.asked} not 200" if cell.failed else ""
    return f"{cell.p50_ms:.2f} / {cell.p95_ms:.2f} / {cell.p99_ms:.2f}{failed}"
