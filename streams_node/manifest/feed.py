"""Brings a mirror to a generation: the parent fetches files from the bucket, the worker applies them.

    catalogue/mirror.db              the mirror
    catalogue/<generation>.delta     generations on their way into it; the publisher may put its own here at once
    catalogue/snapshot/<part>        parts of a snapshot on their way into it, or out of it

Keeps    nothing here is trusted: the mirror checks the chain of checksums, and a doubt means everything anew.
"""

import contextlib
import shutil
from pathlib import Path
from typing import Any

from streams_node.errors import CatalogueError
from streams_node.manifest.chain import Chain
from streams_node.manifest.records import encode
from streams_node.manifest.snapshots import fetch_index, fetch_part, snapshots
from streams_node.manifest.tables import At, at, open_mirror

MIRROR = "mirror.db"
BUILDING = "mirror.new"
_SNAPSHOT = "snapshot"


def keep(folder: Path, generation: int, data: bytes) -> None:
    """Leave the bytes of a generation for the mirror, so that they need not be fetched again."""
    file = delta_file(folder, generation)
    coming = file.with_suffix(".coming")
    coming.write_bytes(data)
    coming.replace(file)


def delta_file(folder: Path, generation: int) -> Path:
    return folder / f"{generation}.delta"


def peek(folder: Path) -> At | None:
    """What the mirror in a folder stands for; None when there is none that can be used."""
    path = folder / MIRROR
    if not path.exists():
        return None
    with contextlib.suppress(CatalogueError), contextlib.closing(open_mirror(path)) as db:
        found = at(db)
        return found if found.generation else None
    return None


def feed(chain: Chain, folder: Path, through: int, through_sum: str, *, anew: bool = False) -> dict[str, Any]:
    """Fetch what the mirror lacks up to a generation, into files; returns the arguments of the command `mirror`.

    `anew` after the command answered `broken`: nothing that is in the folder is used.
    """
    now = None if anew else peek(folder)
    if anew:
        clear(folder)
    if now is not None and now.generation <= through:
        with contextlib.suppress(CatalogueError):  # collected long ago: a snapshot stands for it
            deltas = _fetch_deltas(chain, folder, now.generation, through)
            return _arguments(folder, None, deltas, through_sum)
    clear(folder)
    for listed in snapshots(chain.store):
        if listed.complete and listed.generation <= through:
            with contextlib.suppress(CatalogueError):  # damaged: the one before it, and more generations
                parts = _fetch_snapshot(chain, folder, listed.generation)
                deltas = _fetch_deltas(chain, folder, listed.generation, through)
                return _arguments(folder, parts, deltas, through_sum)
    return _arguments(folder, None, _fetch_deltas(chain, folder, 0, through), through_sum)


def clear(folder: Path) -> None:
    """Forget everything: the mirror first, so that no half of it is ever taken for one."""
    for name in (MIRROR, f"{MIRROR}-journal", BUILDING, f"{BUILDING}-journal"):
        (folder / name).unlink(missing_ok=True)
    for pattern in ("*.delta", "*.coming"):
        for file in folder.glob(pattern):
            file.unlink(missing_ok=True)
    shutil.rmtree(folder / _SNAPSHOT, ignore_errors=True)


def snapshot_folder(folder: Path) -> Path:
    """An empty folder for the parts of a snapshot."""
    path = folder / _SNAPSHOT
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def _fetch_deltas(chain: Chain, folder: Path, after: int, through: int) -> list[Path]:
    files = []
    for generation in range(after + 1, through + 1):
        file = delta_file(folder, generation)
        if not file.exists():
            keep(folder, generation, chain.fetch(generation))
        files.append(file)
    return files


def _fetch_snapshot(chain: Chain, folder: Path, generation: int) -> dict[str, Any]:
    path = snapshot_folder(folder)
    index = fetch_index(chain.store, generation)
    files = [path / f"{part.part:06d}" for part in index.parts]
    for part, file in zip(index.parts, files, strict=True):
        file.write_bytes(fetch_part(chain.store, generation, part))
    return {"index": encode(index).decode(), "files": [str(file) for file in files]}


def _arguments(folder: Path, snapshot: dict[str, Any] | None, deltas: list[Path], checksum: str) -> dict[str, Any]:
    return {"folder": str(folder), "snapshot": snapshot, "deltas": [str(file) for file in deltas], "sum": checksum}
