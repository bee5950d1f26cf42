"""A folder for everything that a driver, its JVM and its local workers write; swept when its driver is dead.

<tmp>/streams-spark-<user>/              its lock is held while folders come and go
<tmp>/streams-spark-<user>/<name>/       locked by its driver for as long as that lives
"""

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def work_folder(base: Path | None = None) -> Iterator[Path]:
    """A new folder, after those of dead drivers were removed. Short, as sockets lie in it."""
    root = base or Path(tempfile.gettempdir()) / f"streams-spark-{os.getuid()}"
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if root.stat().st_uid != os.getuid():
        raise PermissionError(f"`{root}` is somebody else's; set TMPDIR")
    with _locked(root):
        _sweep(root)
        folder = root / secrets.token_hex(4)
        folder.mkdir(mode=0o700)
        held = _lock(folder, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def _sweep(root: Path) -> None:
    for folder in root.iterdir():
        with contextlib.suppress(OSError):  # it is alive, or no folder of ours
            held = _lock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            os.close(held)


@contextlib.contextmanager
def _locked(root: Path) -> Iterator[None]:
    held = _lock(root, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(held)


def _lock(folder: Path, how: int) -> int:
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, how)
    except BaseException:
        os.close(held)
        raise
    return held
