"""The worker's two commands about the mirror, `mirror` and `snapshot`: heavy, so they run in a child process.

`mirror` {folder, snapshot | None, deltas, sum}, as `feed.feed` makes them, moves the mirror on and answers
{generation, sum}; or {broken: why}: then it has to be fed anew. `snapshot` {folder, part_bytes} answers {generation,
parts: [{part, file, sha256, bytes}]}, to be put in this order.

Dies     while it applies: the mirror stands for a generation, this one or the last one. While it builds: mirror.new is
         nobody's, and the next build starts with removing it. While it dumps: files that nobody names.
"""

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Any

from streams_node.errors import CatalogueError
from streams_node.manifest.dump import PartFile, Snapshot, dump
from streams_node.manifest.feed import BUILDING, MIRROR, snapshot_folder
from streams_node.manifest.records import decode_index
from streams_node.manifest.tables import At, MirrorBroken, apply, at, load_snapshot, open_mirror

PART_BYTES = 16 * 1024 * 1024  # of a snapshot, compressed: what one request takes, and a reader holds in memory

__all__ = ["PART_BYTES", "apply", "at", "command_apply", "command_snapshot", "dump", "load_snapshot", "parts_of"]


def command_apply(arguments: dict[str, Any]) -> dict[str, Any]:
    """The worker's command `mirror`."""
    folder = Path(arguments["folder"])
    deltas = [Path(file) for file in arguments["deltas"]]
    try:
        now = _rebuild(folder, arguments) if _starts_anew(folder, arguments) else _move_on(folder, deltas)
    except MirrorBroken as problem:
        return {"broken": problem.message}
    if now.sum != arguments["sum"]:
        return {"broken": f"the mirror stands for generation {now.generation} with another checksum"}
    for file in deltas:
        file.unlink(missing_ok=True)
    return {"generation": now.generation, "sum": now.sum}


def command_snapshot(arguments: dict[str, Any]) -> dict[str, Any]:
    """The worker's command `snapshot`."""
    folder = Path(arguments["folder"])
    with contextlib.closing(open_mirror(folder / MIRROR)) as db:
        made = dump(db, snapshot_folder(folder), arguments.get("part_bytes", PART_BYTES))
    parts = [part._asdict() | {"file": str(part.file)} for part in made.parts]
    return {"generation": made.generation, "parts": parts}


def parts_of(answer: dict[str, Any]) -> Snapshot:
    """The answer of `snapshot`, for `put_snapshot`."""
    parts = [PartFile(each["part"], Path(each["file"]), each["sha256"], each["bytes"]) for each in answer["parts"]]
    return Snapshot(answer["generation"], parts)


def _starts_anew(folder: Path, arguments: dict[str, Any]) -> bool:
    return arguments["snapshot"] is not None or not (folder / MIRROR).exists()


def _move_on(folder: Path, deltas: list[Path]) -> At:
    with contextlib.closing(open_mirror(folder / MIRROR)) as db:
        return _apply_all(db, deltas)


def _rebuild(folder: Path, arguments: dict[str, Any]) -> At:
    """Under another name, without the care for the disk that a mirror in use needs; then it takes the place."""
    path, building = folder / MIRROR, folder / BUILDING
    for file in (path, Path(f"{path}-journal"), building, Path(f"{building}-journal")):
        file.unlink(missing_ok=True)
    with contextlib.closing(open_mirror(building, building=True)) as db:
        snapshot = arguments["snapshot"]
        if snapshot is not None:
            index = decode_index(snapshot["index"].encode(), "snapshot index")
            load_snapshot(db, index, [Path(file) for file in snapshot["files"]])
        now = _apply_all(db, [Path(file) for file in arguments["deltas"]])
    put_in_place(building, path)
    return now


def put_in_place(building: Path, path: Path) -> None:
    """A file that was written carelessly is made durable, and gets its name."""
    for each in (building, building.parent):
        handle = os.open(each, os.O_RDONLY)
        try:
            os.fsync(handle)
            if each == building:
                building.replace(path)
        finally:
            os.close(handle)


def _apply_all(db: sqlite3.Connection, deltas: list[Path]) -> At:
    for file in deltas:
        try:
            apply(db, file)
        except MirrorBroken:
            raise
        except (CatalogueError, OSError) as problem:  # a torn file of ours; what is damaged in the bucket comes back
            raise MirrorBroken(f"`{file.name}` cannot be applied: {problem}") from problem
    return at(db)
