"""Commands for the tests of the worker; they run in its child."""

import inspect
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from streams_node.errors import InvariantBroken, ObjectDamaged, StoreUnavailable
from streams_node.observe.logs import get_logger

TABLE = "tests.segments.commands:COMMANDS"
COMMANDS = {
    name: f"tests.segments.commands:{name}"
    for name in "echo facts sleep die nonsense talk damaged away broken wrong huge unended other_number".split()
} | {"missing": "tests.segments.no_such_module:thing", "nameless": "tests.segments.commands:no_such_name"}


def echo(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"pid": os.getpid()} | arguments


def facts(_: dict[str, Any]) -> dict[str, Any]:
    ignored = subprocess.run(
        ["grep", "SigIgn", f"/proc/{os.getpid()}/status"], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    return {
        "nice": os.nice(0),
        "group": os.getpgid(0),
        "session": os.getsid(0),
        "pid": os.getpid(),
        "ignored": int(ignored, 16),
        "path": sys.path,
        "crash_at": os.environ.get("STREAMS_CRASH_AT"),
        "oom": Path("/proc/self/oom_score_adj").read_text(),
    }


def sleep(arguments: dict[str, Any]) -> dict[str, Any]:
    Path(arguments["begun"]).write_text(str(os.getpid()))
    time.sleep(arguments["seconds"])
    return {}


def die(arguments: dict[str, Any]) -> dict[str, Any]:
    os._exit(arguments["status"])


def nonsense(_: dict[str, Any]) -> dict[str, Any]:
    _write(b"{nonsense}\n")
    return {}


def unended(_: dict[str, Any]) -> dict[str, Any]:
    _write(b'{"number": 1')
    os._exit(0)


def other_number(_: dict[str, Any]) -> dict[str, Any]:
    _write(b'{"number": 0, "result": {}}\n')
    return {}


def talk(_: dict[str, Any]) -> dict[str, Any]:
    print("printed by a library")  # noqa: T201 - as libraries do
    get_logger("tests").warning("something is odd", rows=7)
    return {"ok": True}


def damaged(_: dict[str, Any]) -> dict[str, Any]:
    raise ObjectDamaged("ab", "it is torn")


def away(_: dict[str, Any]) -> dict[str, Any]:
    raise StoreUnavailable("the store is away", outcome_unknown=True, retry_after_ms=5)


def broken(_: dict[str, Any]) -> dict[str, Any]:
    raise InvariantBroken("broken invariant: rows", row=5)


def wrong(_: dict[str, Any]) -> dict[str, Any]:
    raise ZeroDivisionError("by nothing")


def huge(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"text": "x" * arguments["size"]}


def _write(raw: bytes) -> None:
    """Past the messages, into the pipe of the answers, which only `child.main` holds."""
    frame = inspect.currentframe()
    while frame is not None:
        if "answers" in frame.f_locals:
            frame.f_locals["answers"].write(raw)
            frame.f_locals["answers"].flush()
        frame = frame.f_back
