"""Steps on a file system after which something is certain to be on disk; the folder store is made of them."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from streams_node.errors import StoreUnsuitable, invariant
from streams_node.objects.keys import Key, KeyPrefix, is_key

_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}
# On macOS an fsync leaves the drive's own cache unwritten; this one does not.
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


def sync(fd: int) -> None:
    if _FULL_SYNC is None:
        os.fsync(fd)
    else:
        fcntl.fcntl(fd, _FULL_SYNC)


def sync_path(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync(fd)
    finally:
        os.close(fd)


def sync_folders(folder: Path, root: Path) -> None:
    """The names in `folder`, and of it and every folder above it up to `root`.

    All of them each time: a process that died right after it made a folder may not have come to this. An fsync of a
    folder without news costs a few microseconds.
    """
    sync_path(folder)
    if folder != root:
        sync_folders(folder.parent, root)


def make_folders(folder: Path) -> None:
    """Without any fsync: `sync_folders` comes after the file that they are for."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as problem:
        raise NotADirectoryError(errno.ENOTDIR, "a file has the name of a folder", str(folder)) from problem


def prune_folders(folder: Path, root: Path) -> None:
    """Remove folders that became empty, upwards, below `root`."""
    with contextlib.suppress(OSError):  # the first that is not empty
        while folder != root:
            folder.rmdir()
            folder = folder.parent


def create(coming: Path, path: Path) -> None:
    """Give the file its name; FileExistsError if the name is taken. The kernel decides, so nobody can come between."""
    try:
        os.link(coming, path)
    except FileExistsError:
        raise
    except OSError as problem:
        if problem.errno in _NO_LINKS:
            raise StoreUnsuitable(
                f"the file system of `{path.parent}` has no hard links, so it cannot create a file exclusively; "
                "choose a folder on another one"
            ) from problem
        raise


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_all(fd: int, size: int, position: int) -> bytes:
    """Up to `size` bytes; fewer only at the end of the file."""
    parts = []
    while size > 0 and (part := os.pread(fd, size, position)):
        parts.append(part)
        size -= len(part)
        position += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def files_below(root: Path, prefix: KeyPrefix, after: str) -> Iterator[tuple[Key, os.DirEntry[str]]]:
    """Files whose path from `root` is a key, begins with `prefix` and is greater than `after`, in byte order."""
    start = prefix[: prefix.rfind("/") + 1]
    invariant(not start or is_key(start[:-1]), "a listing begins in a folder that keys can have", prefix=prefix)
    return _walk(root, start, prefix, after)


def _walk(root: Path, folder: str, prefix: str, after: str) -> Iterator[tuple[Key, os.DirEntry[str]]]:
    for name, entry in _in_order(root / folder):
        path = folder + name
        if name.endswith("/"):
            may_hold = path.startswith(prefix) or prefix.startswith(path)
            if may_hold and (path > after or after.startswith(path)) and is_key(path[:-1]):
                yield from _walk(root, path, prefix, after)
        elif path.startswith(prefix) and path > after and is_key(path):
            yield Key(path), entry


def _in_order(folder: Path) -> list[tuple[str, os.DirEntry[str]]]:
    """Entries in the order of the keys below them: a folder counts with the slash that its keys have."""
    try:
        with os.scandir(folder) as entries:
            return sorted(
                (f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name, entry)
                for entry in entries
                if entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)
            )
    except (FileNotFoundError, NotADirectoryError):  # removed while we walk, or nothing was ever there
        return []
