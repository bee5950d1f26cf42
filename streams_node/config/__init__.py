"""Every setting of the node: its name, unit, default, bounds and reason.

Owns     the frozen model `Settings`, and the one way to build it from what a person gave: `load_settings`.
Pulls    flags, environment variables (`STREAMS_<NAME>`) and a TOML file, all handed in: nothing here reads the process.
Hands on a `Settings` whose fields agree with each other, or a `SettingsError` with every problem at once.
Keeps    precedence is flag > environment > TOML > default; an unknown name is an error wherever it stands;
         a secret is never part of a message; a node that would serve strangers without a key or TLS does not start.
Dies     at any point: nothing is written.

A new setting is one field of `Settings`. The command line flag, the environment variable, the TOML key and the row in
the manual follow from it. A rule between fields is a row or a branch in `clashes.py`.
"""

from streams_node.config.clashes import is_loopback
from streams_node.config.load import (
    CONFIG_VARIABLE,
    SettingsError,
    SettingsProblem,
    flag_of,
    load_settings,
    setting_sources,
    variable_of,
)
from streams_node.config.quantity import GiB, KiB, MiB
from streams_node.config.settings import Settings
from streams_node.config.table import SettingRow, describe, public_dump

__all__ = [
    "CONFIG_VARIABLE",
    "GiB",
    "KiB",
    "MiB",
    "SettingRow",
    "Settings",
    "SettingsError",
    "SettingsProblem",
    "describe",
    "flag_of",
    "is_loopback",
    "load_settings",
    "public_dump",
    "setting_sources",
    "variable_of",
]
