"""Every setting as a flag, made from the settings themselves, so that the two can not drift apart."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from streams_node.cli.output import Output
from streams_node.config import SettingRow, Settings, describe

SettingsCommand = Callable[[Mapping[str, object], Path | None, Output], int]

_CONFIG = Annotated[
    Path | None, Parameter(help="TOML file with settings, a name and a value a line. [env var: STREAMS_CONFIG]")
]
_JSON = Annotated[bool, Parameter(help="Print results as JSON, one object a line.", negative="")]


def with_settings_flags(command: SettingsCommand) -> Callable[..., int]:
    """A command line function with `--config`, `--json` and a flag for each setting, which calls `command`.

    Values stay text: `load_settings` judges flags, variables and the file by the same rules, and all at once.
    """

    def run(*, config: Path | None = None, json: bool = False, **flags: object) -> int:
        return command(flags, config, Output(json=json))

    parameters = [
        _keyword("config", _CONFIG, None),
        *(_keyword(row.name, _flag(row), None) for row in describe()),
        _keyword("json", _JSON, default=False),
    ]
    # The command line library reads a function's signature; this writes the one that nobody wants to write by hand.
    run.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__doc__ = command.__doc__
    return run


def _keyword(name: str, annotation: object, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _flag(row: SettingRow) -> object:
    is_switch = Settings.model_fields[row.name].annotation is bool
    shown = f"{row.default} {row.unit}" if row.default.isdigit() and row.unit else row.default
    parameter = Parameter(
        help=f"{row.reason} [default: {shown}]",
        # `--no-no-auth` would be a riddle; `--no-auth=false` says the same.
        negative="",
        # "-5" must reach the settings, which say what is wrong with it, instead of being taken for a flag.
        allow_leading_hyphen=True,
    )
    return Annotated[bool | None if is_switch else str | None, parameter]
