"""Describes the machine by a fixed list of facts; nothing else about it may reach a report."""

import importlib.metadata
import os
import platform
import re
import sqlite3
import statistics
import sys
import time
from pathlib import Path

from ops.bench.errors import CannotRunError

MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs", "devtmpfs")
SYNC_COUNT = 200
SYNC_SIZES = {"200 B": 200, "64 KB": 65_536}
KIB_PER_GIB = 1 << 20


def ensure_real_disk(folder: Path) -> None:
    """Refuse to measure durability on memory."""
    folder.mkdir(parents=True, exist_ok=True)
    kind = file_system(folder)
    if kind in MEMORY_FILE_SYSTEMS:
        raise CannotRunError(f"the work folder is on {kind}; name one on a disk by --work-dir")


def facts(folder: Path, wrk_version: str | None = None) -> dict[str, str]:
    return {
        "cores": str(os.cpu_count()),
        "processor": _processor(),
        "memory": f"{_memory_gib():.0f} GiB",
        "system": f"{platform.system()} {_kernel()}, {platform.machine()}",
        "file system": file_system(folder),
        **{f"fdatasync of {name}, p50": f"{_fdatasync_us(folder, size):.0f} µs" for name, size in SYNC_SIZES.items()},
        "Python": platform.python_version(),
        "SQLite of that Python": sqlite3.sqlite_version,
        **({} if wrk_version is None else {"wrk": wrk_version}),
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def stamp(folder: Path, *packages: str) -> str:
    """When, where and of which versions a number was measured, as the last line under a table."""
    parts = [
        time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        f"{os.cpu_count()} cores, {_processor()}, {_memory_gib():.0f} GiB",
        f"{platform.system()} {_kernel()}, {file_system(folder)}",
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}",
        *(f"{name} {importlib.metadata.version(name)}" for name in ("streams-node", *packages)),
    ]
    return "; ".join(parts)


def file_system(folder: Path) -> str:
    """Name the type of the file system that holds the folder: that of the longest mount point above it."""
    place, best, kind = str(folder.resolve()), "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, candidate, *_ = line.split()
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, candidate
    return kind


def ensure_linux() -> None:
    if sys.platform != "linux":
        raise CannotRunError("the benchmark reads /proc and freezes servers by signal; it runs on Linux only")


def _fdatasync_us(folder: Path, size: int) -> float:
    """Measure what one durable append costs at the least: write at the end of a file, and wait for the disk."""
    path, block, times = folder / "fdatasync", b"x" * size, []
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        for _ in range(SYNC_COUNT):
            began = time.perf_counter()
            os.write(descriptor, block)
            os.fdatasync(descriptor)
            times.append(time.perf_counter() - began)
    finally:
        os.close(descriptor)
        path.unlink()
    return statistics.median(times) * 1e6


def _kernel() -> str:
    """Keep the numbers of the release only; what follows them names builds and sometimes hosts."""
    found = re.match(r"\d+(\.\d+)*", platform.release())
    return found.group() if found else "unknown"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gib() -> float:
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:"))
    return int(line.split()[1]) / KIB_PER_GIB
