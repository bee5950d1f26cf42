"""`python -m ops.bench.cold --peers`: how quickly one client catches up with old history, by where that lies.

Each side is given the same stream of JSON events, waits until all of it is where it is to be read from, and is read by
one client page after page, with pages of 8 MiB on every side. Then every byte is read again and hashed, and must be
what was sent. A run of 500 MB takes a few minutes on a machine of two cores that has nothing else to do.
"""

import statistics
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from ops.bench import machine, peers
from ops.bench.cold_sides import (
    Side,
    ours_in_folder,
    ours_in_log,
    ours_in_seaweedfs,
    prisma_in_folder,
    prisma_in_log,
    seaweedfs,
    seaweedfs_version,
)
from ops.bench.cold_walk import MEGABYTE, History, Reading, check, fill, history_of, read
from ops.bench.errors import BenchError
from ops.bench.runner import say
from ops.bench.servers import Server

AGAIN = 3
SIDES_HEAD = ("server", "history in", "version", "settings", "durability")
TABLE_HEAD = (
    "server",
    "history in",
    "state",
    "MB/s",
    "CPU ms/MB",
    "MB/page",
    "first page, ms",
    "HEAD p99, ms",
    "RSS MiB",
    "noise %",
)
LEGEND = (
    "- `log`: nothing is sealed; pages are slices of a database file that the system has in memory.",
    "- `cold`: sealed; what the server keeps of its store was deleted, and the system was told to forget all files.",
    f"- `warm`: the same process again, the median of {AGAIN} walks: objects lie on its disk, in memory mostly.",
    "- `MB/s` is of the entries' bytes; `CPU` is of all processes of the server, without SeaweedFS's.",
    "- `HEAD` is a small request, sent every 10 ms meanwhile.",
    "- `noise` is the share of the machine that went to neither side nor client; SeaweedFS's work is in it.",
    "- Where noise is above a few percent, only CPU can be compared: the rest waited for somebody else's work.",
    "- SeaweedFS runs on this machine, with its files on the same disk: a store that is further away is slower.",
)


def run(megabytes: int, folder: Path, out: Path | None) -> None:
    """Measure all sides one after the other, and print the report; `out` gets a copy."""
    machine.ensure_linux()
    machine.ensure_real_disk(folder)
    peers.ensure_installed()
    history = history_of(megabytes)
    with seaweedfs(folder / "seaweedfs") as address:
        sides = [
            ours_in_log(),
            ours_in_folder(),
            ours_in_seaweedfs(address, folder / "seaweedfs"),
            prisma_in_log(),
            prisma_in_folder(),
        ]
        rows = [cells for side in sides for cells in measured(side, Server(side.spec, folder / "side"), history)]
    text = "\n".join(report(history, rows, sides, machine.facts(folder)))
    print(text)
    if out is not None:
        out.write_text(text + "\n")


def measured(side: Side, server: Server, history: History) -> list[tuple[str, ...]]:
    """The lines of one side; its folder is emptied behind it."""
    say(f"{side.spec.title}, {side.where}: writes {history.size / MEGABYTE:.0f} MB")
    rows = []
    try:
        server.start()
        fill(side, server, history)
        if side.forget is not None:
            side.forget(server)
            rows.append(row(side, "cold", [read(side, server, history)], history))
        again = [read(side, server, history) for _ in range(AGAIN)]
        rows.append(row(side, "log" if side.forget is None else "warm", again, history))
        check(side, server, history)
    except BenchError:
        say(server.last_words())
        raise
    finally:
        server.stop()
        server.empty_data()
    return rows


def row(side: Side, state: str, readings: list[Reading], history: History) -> tuple[str, ...]:
    """The walk of median speed."""
    seconds = statistics.median_low([each.seconds for each in readings])
    reading = next(each for each in readings if each.seconds == seconds)
    megabytes = history.size / MEGABYTE
    found = (
        side.spec.title,
        side.where,
        state,
        f"{megabytes / reading.seconds:.0f}",
        f"{reading.cpu_s * 1000 / megabytes:.2f}",
        f"{megabytes / reading.pages:.1f}",
        f"{reading.first_page_s * 1000:.0f}",
        f"{reading.head_p99_s * 1000:.1f}",
        f"{reading.rss_mib:.0f}",
        f"{reading.noise_percent:.0f}",
    )
    say("  " + ", ".join(found[2:4]) + " MB/s")
    return found


def report(
    history: History, rows: Iterable[tuple[str, ...]], sides: list[Side], facts: dict[str, str]
) -> Iterator[str]:
    """The lines of a page that can be read without this file."""
    yield f"# Catching up with {history.size / MEGABYTE:.0f} MB of history, one client"
    yield ""
    yield f"`python -m ops.bench.cold --peers`, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC."
    yield ""
    yield from _table(TABLE_HEAD, rows)
    yield ""
    yield from LEGEND
    yield ""
    specs = [(side.spec, side.where) for side in sides]
    yield from _table(
        SIDES_HEAD, [(spec.title, where, spec.version(), spec.settings, spec.durability) for spec, where in specs]
    )
    yield ""
    yield from _table(("fact", "value"), [*facts.items(), ("SeaweedFS", seaweedfs_version())])


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterable[str]:
    for cells in (head, ("---",) * len(head), *rows):
        yield f"| {' | '.join(cells)} |"
