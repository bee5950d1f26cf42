"""The command line `streams-node`: starts a node, looks at its settings, and talks to a running one.

Owns     the words a person types, exit codes (0 done, 1 refused by the node, 2 usage, 3 unreachable) and `--json`.
Pulls    arguments, the environment, stdin.
Hands on `Settings` to `app.serve`; HTTP requests to a node.
Keeps    results on stdout, talk on stderr; a command imports only what it runs, so that `serve` starts fast and
         never loads the HTTP client.
Dies     at any point: an append that was cut off may or may not be stored; ask the stream.
"""

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from streams_node import __version__
from streams_node.cli.output import EXIT_OK, EXIT_USAGE

# What a shell reports for a program that the closed pipe behind it ended (128 + SIGPIPE).
_EXIT_PIPE_CLOSED = 141
_BARE = "--auto-tune"


def main(tokens: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; without `tokens`, the process's arguments."""
    given = sys.argv[1:] if tokens is None else tokens
    tokens = [f"{_BARE}=auto" if token == _BARE else token for token in given]  # the one flag whose value may be absent
    try:
        outcome = _app()(tokens, exit_on_error=False, result_action="return_value")
    except CycloptsError:
        return EXIT_USAGE  # already explained on stderr
    except BrokenPipeError:
        # `read | head` is no failure; without this the interpreter would complain while it flushes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _EXIT_PIPE_CLOSED
    return outcome if isinstance(outcome, int) else EXIT_OK


def _app() -> App:
    app = App(name="streams-node", version=__version__, help="A server of durable, append-only streams over HTTP.")
    # By path, with the help text here: only the command that runs is imported.
    app.command("streams_node.cli.serve:serve", name="serve", help="Run a node until it is told to stop.")
    app.command("streams_node.cli.config:app", name="config", help="Look at settings without starting a node.")
    app.command("streams_node.cli.stream:app", name="stream", help="Create, write, read and list streams of a node.")
    app.command("streams_node.cli.index:app", name="index", help="Look at the indexes of a node, and have them built.")
    app.command("streams_node.cli.store:app", name="store", help="Look at the object store.")
    app.command("streams_node.cli.catalogue:app", name="catalogue", help="Look at what a node has published.")
    return app
