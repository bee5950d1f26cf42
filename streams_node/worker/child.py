"""The child process: reads commands from its standard input until that ends, and answers on its standard output.

    python -m streams_node.worker.child [table of commands]

Started by `parent.py`, and of no use to a person.
"""

import gc
import os
import queue
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from streams_node.errors import StreamsError
from streams_node.observe import logs
from streams_node.worker.commands import TABLE, function_of
from streams_node.worker.messages import Answer, Request, failure_of, line_of, read_request

log = logs.get_logger(__name__)
_NICE = 5  # a third of the weight that the node's threads have: what is to be sealed may not pile up for ever
_OOM_SCORE = "500"  # the kernel takes the child first, and not the node
_STDIN, _STDOUT, _STDERR = 0, 1, 2


def main() -> None:
    """Serve one parent."""
    commands, answers = _own_pipes()
    _step_back()
    logs.configure("json", "info")
    table = sys.argv[1] if len(sys.argv) > 1 else TABLE
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(commands, waiting), name="commands", daemon=True).start()
    gc.disable()  # a seal makes a million objects and no circle; looking through them took a tenth of its time
    known = set[str]()
    while True:
        request = read_request(waiting.get())
        line = line_of(answer(request, table))
        try:
            answers.write(line)
            answers.flush()
        except OSError:  # the node has gone
            os._exit(0)
        del line
        gc.collect()
        if request.command not in known:  # what it has loaded stays: not to be looked through after each of the next
            known.add(request.command)
            gc.freeze()


def answer(request: Request, table: str) -> Answer:
    """What became of one command."""
    try:
        return Answer(request.number, result=function_of(table, request.command)(request.arguments))
    except StreamsError as problem:
        return Answer(request.number, error=failure_of(problem))
    except Exception as problem:
        log.exception("a command failed", command=request.command)
        return Answer(request.number, error=failure_of(problem))


def _own_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Keep the pipes to ourselves: what a library prints goes to the log, and does not become an answer."""
    commands, answers = os.dup(_STDIN), os.dup(_STDOUT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _STDIN)
    os.close(nothing)
    os.dup2(_STDERR, _STDOUT)
    return os.fdopen(commands, "rb"), os.fdopen(answers, "wb")


def _step_back() -> None:
    """Signals are the node's business, and so is the processor.

    A group of our own keeps a terminal's signals away. A session of our own would do so, too, but Linux may weigh whole
    sessions against each other (`sched_autogroup_enabled`), and then no priority counts: a thread of the node that was
    to commit waited as long for a core as the commit took.
    """
    os.setpgid(0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.nice(_NICE)
    with suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # never takes a core from who was there first
    with suppress(OSError):  # not Linux
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)


def _listen(commands: BinaryIO, waiting: "queue.SimpleQueue[bytes]") -> None:
    """On a thread of its own, so that the end of the node ends a command that is under way, too."""
    for line in commands:
        waiting.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
