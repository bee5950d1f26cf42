"""Files on their way in: complete and on disk before they get the name of an object."""

import contextlib
import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from streams_node.objects import payload
from streams_node.objects.folder import disk
from streams_node.objects.protocol import Checksum, Data


class Arrival(NamedTuple):
    """A file that is on disk and has no name yet that anybody looks for."""

    path: Path
    size: int
    mtime_ns: int
    checksum: Checksum


@contextlib.contextmanager
def arriving(folder: Path, data: Data) -> Iterator[Arrival]:
    """The data in a file of its own below `folder`; removed at the end unless it was renamed."""
    path = folder / secrets.token_hex(16)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        # For as long as this process lives; it tells the sweep of another one that it does.
        fcntl.flock(fd, fcntl.LOCK_EX)
        digest = hashlib.sha256()
        for chunk in payload.chunks_of(data):
            digest.update(chunk)
            disk.write_all(fd, chunk)
        disk.sync(fd)
        stat = os.fstat(fd)
        yield Arrival(path, stat.st_size, stat.st_mtime_ns, Checksum(digest.hexdigest()))
    finally:
        os.close(fd)
        path.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Remove what dead writers left. A file that is swept before its writer could lock it fails that put, once."""
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(fd)
