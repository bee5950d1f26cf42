"""The processor is the node's first: an index driver takes what is left.

Linux may weigh whole sessions against each other (`sched_autogroup_enabled`), whatever the priority of a process is
within its own, and the driver leads a session. So both are lowered: with the first alone, Java took as much of two
busy cores as the appends did.
"""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

NICE = 10
_LOWEST = 19
_TRIES = 5  # the kernel takes one such change in 0.1 s from all who are not root
_AGAIN_S = 0.1


async def step_back(pid: int) -> None:
    """Lower the priority of a child that has just been started, and so of all that it starts. It leads a session."""
    with suppress(OSError):  # it has ended already
        os.setpriority(os.PRIO_PROCESS, pid, min(os.getpriority(os.PRIO_PROCESS, 0) + NICE, _LOWEST))
    session = Path(f"/proc/{pid}/autogroup")
    for _ in range(_TRIES):
        if _lowered(session):
            return
        await asyncio.sleep(_AGAIN_S)


def _lowered(session: Path) -> bool:
    """Whether it was, or cannot be: not every system weighs sessions, and not every container may say how."""
    try:
        session.write_text(str(NICE))
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
