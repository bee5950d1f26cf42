"""`streams-node serve`: settings from flags, environment and file; then the node, until it is told to stop."""

import os
from collections.abc import Mapping
from pathlib import Path

from streams_node.cli.flags import with_settings_flags
from streams_node.cli.output import Output
from streams_node.config import SettingsError, load_settings


def _serve(flags: Mapping[str, object], config: Path | None, output: Output) -> int:
    """Run a node until it is told to stop.

    Each flag is also an environment variable, STREAMS_<NAME>, and a key of the TOML file; a flag wins over the
    variable, the variable over the file. Sizes are written like 64MiB, times like 3s.
    """
    try:
        settings = load_settings(flags, os.environ, config)
    except SettingsError as error:
        return output.bad_settings(error.problems)
    # Only now: a typing mistake is answered before the server and its libraries are loaded.
    from streams_node.app import serve as serve_node

    return serve_node(settings)


serve = with_settings_flags(_serve)
