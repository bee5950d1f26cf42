"""Which function a command is. They are names, so that no room is loaded, or need be there, before it is called."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from streams_node.errors import WorkerFailed

Command = Callable[[dict[str, Any]], dict[str, Any]]

COMMANDS: Mapping[str, str] = {
    "seal": "streams_node.segmenter.build:seal",
    "compact": "streams_node.compactor.build:compact",
    "snapshot": "streams_node.manifest.mirror:command_snapshot",
    "mirror": "streams_node.manifest.mirror:command_apply",
}
TABLE = "streams_node.worker.commands:COMMANDS"


def load(place: str) -> Any:
    """What a text like `module:name` names."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def function_of(table: str, command: str) -> Command:
    """The function behind a command."""
    places: Mapping[str, str] = load(table)
    if command not in places:
        raise WorkerFailed(f"a worker knows no command `{command}`; it knows {', '.join(sorted(places))}")
    try:
        found: Command = load(places[command])
    except (ImportError, AttributeError) as problem:
        raise WorkerFailed(f"the command `{command}` cannot be loaded: {problem}") from problem
    return found
