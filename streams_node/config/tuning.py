"""From the memory there is to settings that fit into it: what `auto_tune` makes of a machine.

Pure but for `available_bytes`. A preset says what is to be other than the default; whatever a person sets counts more.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from streams_node.config.quantity import KiB, MiB

AUTO = "auto"
PRESETS_MB = (256, 512, 1024, 2048, 4096, 8192)
_LIMITS_MB = {256: 300}  # the least in which a node lives at all is a little more than its name says
_CGROUP = Path("/proc/self/cgroup")
_CGROUPS = Path("/sys/fs/cgroup")
# In MiB, for the presets in their order.
_SIZES: Mapping[str, tuple[int, ...]] = {
    "sqlite_cache_bytes": (8, 16, 32, 64, 128, 256),
    "state_cache_bytes_max": (8, 16, 32, 48, 512, 1536),  # at last a million states
    "hot_tail_bytes_max": (8, 16, 24, 32, 64, 128),
    "decoded_bytes_max": (8, 16, 24, 32, 64, 128),
    "directory_bytes_max": (8, 8, 16, 32, 64, 128),
    "queue_bytes_max": (32, 32, 64, 64, 128, 256),
    "bodies_in_flight_bytes_max": (48, 64, 128, 256, 512, 1024),
    "answers_waiting_bytes_max": (32, 64, 128, 256, 512, 1024),
    "search_scan_bytes_max": (8, 16, 32, 64, 96, 128),
    "search_recent_bytes_max": (8, 16, 32, 64, 128, 256),
    "search_rollups_bytes_max": (2, 4, 8, 32, 48, 64),
    "filter_scan_bytes_max": (16, 32, 64, 100, 100, 100),
    "flush_bytes": (8, 16, 32, 32, 32, 32),
    "flush_bytes_max": (16, 32, 64, 64, 64, 64),
}
_COUNTS: Mapping[str, tuple[int, ...]] = {
    "search_concurrency": (1, 1, 2, 4, 4, 8),
    "reader_threads": (1, 1, 2, 2, 4, 4),
    "cold_reader_threads": (1, 1, 2, 2, 4, 4),
    "upload_threads": (1, 2, 2, 4, 4, 8),
    "read_ahead_objects": (0, 1, 2, 2, 2, 4),
}
_JVM_MB = 2048  # below this, a driver beside the node leaves too little for either


class Tuned(NamedTuple):
    """What was asked for, the preset that was taken, and what it sets."""

    requested_mb: int | None
    preset_mb: int
    values: Mapping[str, object]


def tuned(asked: str, available: int) -> Tuned:
    """Of `auto`, or a number of megabytes. ValueError says what is wrong with anything else."""
    requested: int | None = None
    if asked != AUTO:
        if not (asked.isascii() and asked.isdigit()) or int(asked) < PRESETS_MB[0]:
            raise ValueError(asked)
        requested = int(asked)
    memory_mb = available // MiB if requested is None else requested
    at = max((at for at, size in enumerate(PRESETS_MB) if size <= memory_mb), default=0)
    preset = PRESETS_MB[at]
    values: dict[str, object] = {"memory_limit_bytes": _LIMITS_MB.get(preset, preset) * MiB}
    values |= {name: sizes[at] * MiB for name, sizes in _SIZES.items()}
    values |= {name: counts[at] for name, counts in _COUNTS.items()}
    if preset < _JVM_MB:
        values["index_driver"] = "off"
    return Tuned(requested, preset, values)


def available_bytes() -> int:
    """Memory of this machine, or what the container that the process is in may have of it."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([whole, *_of_cgroups(_CGROUP, _CGROUPS)])


def _of_cgroups(own: Path, root: Path) -> list[int]:
    """The limits of the groups that the process is in, innermost first; of version 1 and 2."""
    found: list[int] = []
    try:
        lines = own.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            top, name = root, "memory.max"
        elif "memory" in controllers.split(","):
            top, name = root / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = Path(path.lstrip("/"))
        for place in (group, *group.parents):  # a container sees its own group as the root
            try:
                text = (top / place / name).read_text("ascii").strip()
            except (OSError, UnicodeDecodeError):
                continue
            if text.isdigit() and int(text) >= KiB:
                found.append(int(text))
    return found
