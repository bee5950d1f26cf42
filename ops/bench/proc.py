"""Reads from /proc what a process tree used, and signals all of it."""

import os
import resource
import signal
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
CORES = os.cpu_count() or 1
KIB_PER_MIB = 1024.0


@dataclass(frozen=True, slots=True)
class CpuMark:
    """Seconds of processor time used until now: by one tree, by this process and its children, by the machine."""

    tree: float
    bench: float
    machine: float


def tree_pids(root: int) -> list[int]:
    """List the process and all its descendants; they may have left its process group."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        fields = _stat_fields(int(entry.name)) if entry.name.isdigit() else None
        if fields is not None:
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, queue = [root], [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def cpu_mark(root: int) -> CpuMark:
    return CpuMark(tree_cpu_seconds(root), _bench_cpu_seconds(), _machine_busy_seconds())


def tree_cpu_seconds(root: int) -> float:
    """Sum user and system time, with that of children that already ended and were waited for."""
    ticks = 0
    for pid in tree_pids(root):
        fields = _stat_fields(pid)
        if fields is not None:
            ticks += sum(int(value) for value in fields[11:15])
    return ticks / TICKS_PER_SECOND


def tree_rss_mib(root: int) -> float:
    return sum(_rss_kib(pid) for pid in tree_pids(root)) / KIB_PER_MIB


def others_percent(before: CpuMark, after: CpuMark, seconds: float) -> float:
    """Tell how much of the machine went to neither the server nor the loader: the noise of the measurement."""
    used_by_us = (after.tree - before.tree) + (after.bench - before.bench)
    return max(0.0, 100.0 * (after.machine - before.machine - used_by_us) / (seconds * CORES))


def signal_tree(root: int, number: signal.Signals) -> None:
    for pid in tree_pids(root):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _stat_fields(pid: int) -> list[str] | None:
    """Give the fields of /proc/PID/stat after the name, which may itself hold spaces and parentheses."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def _rss_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def _bench_cpu_seconds() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def _machine_busy_seconds() -> float:
    fields = [int(value) for value in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle_and_waiting = fields[3] + fields[4]
    return (sum(fields) - idle_and_waiting) / TICKS_PER_SECOND
