"""The data folder: one process at a time, with a name of its own.

Layout   LOCK            held for as long as the process lives; says which process, and whether a node ever wrote here
         streams.db      SQLite: log and metadata
         objects/        the object store `folder`, unless a setting puts it elsewhere
         sealing/        files on the way to the object store, emptied at start
         making/         the same, of the compaction
         cache/          copies of objects; may be deleted at any time
         webhook-keys.json   what signs webhooks and tokens; made with the first subscription
         catalogue/      what snapshots of the catalogue are made from; may be deleted while no node runs
"""

import fcntl
import os
from pathlib import Path
from typing import Literal, Self

from streams_node.errors import DataFolderError

DATABASE = "streams.db"
_LOCK = "LOCK"
_USED = b"used\n"
_LOCK_BYTES_MAX = 64


class DataFolder:
    """A folder that this process holds. The kernel frees the lock when the process dies, however it dies."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def open(cls, path: Path) -> Self:
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise DataFolderError(f"data folder `{path}` cannot be used: {problem.strerror}") from problem
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            holder = os.read(lock, _LOCK_BYTES_MAX).partition(b"\n")[0].decode("ascii", "replace") or "unknown"
            os.close(lock)
            raise DataFolderError(
                f"data folder `{path}` is in use by process {holder}; stop it first, or choose another --data"
            ) from problem
        folder = cls(path, lock)
        used = _USED in os.pread(lock, _LOCK_BYTES_MAX, 0)
        if used and not (folder.database.exists() and folder.database.stat().st_size):
            folder.close()
            raise DataFolderError(
                f"data folder `{path}` was in use before, and its {DATABASE} is gone or empty; restore it from a copy, "
                f"or remove the folder's {_LOCK} file to begin anew"
            )
        folder.sign(used=used)
        return folder

    def sign(self, *, used: bool) -> None:
        """Write whose it is; and, once there is a database, that an empty one would be a loss and no beginning."""
        text = f"{os.getpid()}\n".encode() + (_USED if used else b"")
        os.pwrite(self._lock, text, 0)
        os.ftruncate(self._lock, len(text))  # afterwards: a full disk would not give the room back
        os.fsync(self._lock)

    @property
    def database(self) -> Path:
        return self.path / DATABASE

    def room(self, name: Literal["sealing", "making", "cache", "catalogue"]) -> Path:
        """One of the folders inside, made if it is not there."""
        path = self.path / name
        path.mkdir(exist_ok=True)
        return path

    def free_bytes(self) -> int:
        """Room left for an ordinary user on the folder's file system."""
        stat = os.statvfs(self.path)
        return stat.f_bavail * stat.f_frsize

    def close(self) -> None:
        os.close(self._lock)
