"""One writer at a time, among threads and processes: looking at a key and changing it are one step."""

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from streams_node.errors import StoreUnavailable

_WAIT_S = 10.0  # others hold the lock for a few fsyncs; longer means that one of them stands still
_POLL_S = 0.002


class FolderLock:
    """The kernel frees it when its holder dies, however it dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mutex = threading.Lock()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        ends = time.monotonic() + _WAIT_S
        if not self._mutex.acquire(timeout=_WAIT_S):
            raise StoreUnavailable("a write to the object folder does not end")
        try:
            # Opened each time, as a kernel lock belongs to an opened file; not created, as then the folder is gone.
            fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            try:
                _take(fd, ends)
                yield
            finally:
                os.close(fd)
        finally:
            self._mutex.release()


def _take(fd: int, ends: float) -> None:
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > ends:
                raise StoreUnavailable("the object folder is locked by another process, which stands still") from None
            time.sleep(_POLL_S)
