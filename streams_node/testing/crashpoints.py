"""Named moments at which a test can kill the process, as `kill -9` would.

`STREAMS_CRASH_AT=commit.after:3` dies at the third pass of that moment. Unset, as always outside tests, a moment costs
one comparison. The names in the code are the list of what the crash tests must hit.
"""

import os
import signal

_NAME, _, _COUNT = os.environ.get("STREAMS_CRASH_AT", "").partition(":")
_left = int(_COUNT or 1)


def crash_point(name: str) -> None:
    """Die here without any clean-up if the environment says so."""
    if name == _NAME:
        _pass()


def _pass() -> None:
    global _left  # noqa: PLW0603 - one process dies once
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
