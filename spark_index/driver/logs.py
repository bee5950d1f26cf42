"""The log: a line of JSON on standard error for each thing that happened, also for what Java and its workers print."""

import contextlib
import json
import os
import sys
import threading
import time
from typing import Any

_LINE_CHARS = 2000
_LINES_MAX = 200  # of other programs, in any minute: a stack trace a task is enough
_MINUTE_S = 60.0


class Log:
    """Safe for threads."""

    def __init__(self, fd: int | None = None) -> None:
        self._fd = sys.stderr.fileno() if fd is None else fd
        self._lock = threading.Lock()

    def __call__(self, event: str, level: str = "info", **facts: Any) -> None:
        line = json.dumps({"ts": round(time.time(), 3), "level": level, "event": event, **facts}, default=str)
        with self._lock, contextlib.suppress(OSError):  # whoever read it is gone
            os.write(self._fd, line.encode() + b"\n")


def capture_stderr() -> Log:
    """From now on what this process and its children print to standard error are lines of the log, too."""
    log = Log(os.dup(2))
    end, start = os.pipe()
    os.dup2(start, 2)
    os.close(start)
    threading.Thread(target=_relay, args=(end, log), name="stderr", daemon=True).start()
    return log


def _relay(end: int, log: Log) -> None:
    since, count = time.monotonic(), 0
    with os.fdopen(end, "r", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if time.monotonic() - since > _MINUTE_S:
                since, count = time.monotonic(), 0
            count += 1
            if count <= _LINES_MAX and line.strip():
                log("printed", "debug", line=line.rstrip()[:_LINE_CHARS])
            elif count == _LINES_MAX + 1:
                log("printed", "debug", line="more lines follow, and are left out")
