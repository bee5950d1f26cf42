"""The memory of this process, as the system tells of it."""

import contextlib
import ctypes
import gc
import resource
import sys
from pathlib import Path
from typing import NamedTuple

_STATUS = Path("/proc/self/status")
_KIB = 1024
_FIELDS = ("VmRSS", "VmHWM", "RssAnon", "RssFile", "RssShmem")


class Memory(NamedTuple):
    """In bytes; None where the system does not say."""

    source: str
    rss: int
    rss_max: int
    anon: int | None = None
    file: int | None = None
    shmem: int | None = None


def memory() -> Memory:
    """Of this moment. Reading it takes some 30 µs."""
    try:
        lines = _STATUS.read_text("ascii").splitlines()
    except OSError:
        return _of_usage()
    found = {
        name: int(rest.split()[0]) * _KIB
        for name, _, rest in (each.partition(":") for each in lines)
        if name in _FIELDS
    }
    if "VmRSS" not in found:
        return _of_usage()
    rss = found["VmRSS"]
    return Memory(
        "linux_proc_status",
        rss,
        max(rss, found.get("VmHWM", 0)),
        found.get("RssAnon"),
        found.get("RssFile"),
        found.get("RssShmem"),
    )


def collections() -> int:
    """Runs of the garbage collector since the start."""
    return sum(each["collections"] for each in gc.get_stats())


def give_back() -> None:
    """Have the allocator give back what it keeps for later; elsewhere than with glibc there is nothing to ask."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _of_usage() -> Memory:
    """The most it ever had is all that other systems tell without a package."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size = most if sys.platform == "darwin" else most * _KIB
    return Memory("getrusage", size, size)
