"""What a start finds in the folder: whole copies by their names; everything else of ours is removed."""

import contextlib
import re
from pathlib import Path
from typing import NamedTuple

from streams_node.cache.fetch import remove
from streams_node.cache.shelf import Copy

_MADE = r"[0-9a-f]{32}(?:\.filter)?"  # an exact run and the filter beside it are two objects
_COPY = re.compile(rf"(?P<made>{_MADE})-(?P<number>[0-9]+)\.parquet")
_PART = re.compile(rf"{_MADE}-[0-9]+\.part")


class Listed(NamedTuple):
    """Copies, the longest untouched first, and the highest number in a name."""

    copies: list[Copy]
    newest: int


def file_name(made: str, number: int) -> str:
    return f"{made}-{number}.parquet"


def part_name(made: str, number: int) -> str:
    return f"{made}-{number}.part"


def listed(folder: Path) -> Listed:
    """A folder that cannot be read has nothing."""
    found: list[tuple[int, int, Copy]] = []
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if _PART.fullmatch(path.name):
                remove(path)
            elif match := _COPY.fullmatch(path.name):
                stat = path.stat()
                copy = Copy(match["made"], path, stat.st_size, verified=False)
                found.append((stat.st_mtime_ns, int(match["number"]), copy))
    found.sort(key=lambda one: one[:2])
    return Listed([copy for _, _, copy in found], max((number for _, number, _ in found), default=0))
