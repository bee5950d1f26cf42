"""The processor is the node's first: an index driver takes what is left.

It stays in the node's session. Linux may weigh whole sessions against each other (`sched_autogroup_enabled`), whatever
the priority of a process is within its own; and of a session that has most of its work on one core, the threads on the
other one count for little. In a session of its own, even of the least weight, Java kept the node's writer waiting.
"""

import os
from contextlib import suppress

NICE = 10
_LOWEST = 19


def lower(task: int, by: int) -> None:
    """Give a process, or on Linux a thread, less priority than whoever calls has."""
    with suppress(OSError):  # it has ended already
        os.setpriority(os.PRIO_PROCESS, task, min(os.getpriority(os.PRIO_PROCESS, 0) + by, _LOWEST))


def step_back(pid: int) -> None:
    """Lower the priority of a child that has just been started, and so of all that it starts."""
    lower(pid, NICE)
    with suppress(AttributeError, OSError):  # or this is no Linux
        os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0))  # never takes a core from who was there first
