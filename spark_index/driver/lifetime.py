"""The driver ends with whoever started it: nobody has to look for it after a `kill -9`.

Keeps    if standard input is a pipe or a socket, its end is the end of the parent: the kernel closes it, however the
         parent died. A terminal, a file and /dev/null mean that nobody wants that.
"""

import contextlib
import os
import stat
import sys
import threading
from collections.abc import Callable


def has_parent() -> bool:
    """Whether standard input is held by somebody."""
    with contextlib.suppress(OSError, ValueError):
        mode = os.fstat(sys.stdin.fileno()).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    return False


def watch_parent(ended: Callable[[], None]) -> None:
    """Call `ended` in a thread, once the parent has gone."""

    def wait() -> None:
        with contextlib.suppress(OSError):
            while os.read(sys.stdin.fileno(), 4096):
                pass
        ended()

    threading.Thread(target=wait, name="parent", daemon=True).start()
