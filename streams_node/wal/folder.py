"""The data folder: one process at a time, with a name of its own.

Layout   LOCK            held for as long as the process lives
         streams.db      SQLite: log and metadata
"""

import fcntl
import os
from pathlib import Path
from typing import Self

from streams_node.errors import DataFolderError

DATABASE = "streams.db"
_LOCK = "LOCK"


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
            holder = os.read(lock, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(lock)
            raise DataFolderError(
                f"data folder `{path}` is in use by process {holder}; stop it first, or choose another --data"
            ) from problem
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        return cls(path, lock)

    @property
    def database(self) -> Path:
        return self.path / DATABASE

    def free_bytes(self) -> int:
        """Room left for an ordinary user on the folder's file system."""
        stat = os.statvfs(self.path)
        return stat.f_bavail * stat.f_frsize

    def close(self) -> None:
        os.close(self._lock)
