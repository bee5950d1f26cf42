"""`streams-node config`: what a node would run with, without starting one."""

import os
from collections.abc import Mapping
from pathlib import Path

from cyclopts import App

from streams_node.cli.flags import with_settings_flags
from streams_node.cli.output import EXIT_OK, Output
from streams_node.config import SettingsError, load_settings, public_dump, setting_sources

app = App(name="config", help="Look at settings without starting a node.")


def _check(flags: Mapping[str, object], config: Path | None, output: Output) -> int:
    """Say whether a node would start with these settings; every problem is listed."""
    try:
        load_settings(flags, os.environ, config)
    except SettingsError as error:
        return output.bad_settings(error.problems)
    output.result({"valid": True, "problems": []}, "the settings are valid")
    return EXIT_OK


def _show(flags: Mapping[str, object], config: Path | None, output: Output) -> int:
    """Print each setting with its value and where it comes from; secrets are masked."""
    try:
        values = public_dump(load_settings(flags, os.environ, config))
    except SettingsError as error:
        return output.bad_settings(error.problems)
    sources = setting_sources(flags, os.environ, config)
    for name, value in values.items():
        shown = "none" if value is None else value
        output.result({"name": name, "value": value, "source": sources[name]}, f"{name} = {shown}  ({sources[name]})")
    return EXIT_OK


app.command(with_settings_flags(_check), name="check")
app.command(with_settings_flags(_show), name="show")
