"""From what a person gave (flags, environment, a TOML file) to `Settings`, or to everything that is wrong with it.

Pure but for reading the TOML file. Values are judged by precedence: one that a stronger source replaces is not looked
at, its name always is.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from streams_node.config.clashes import Clash
from streams_node.config.settings import CLASH_ERROR, Settings
from streams_node.config.tuning import available_bytes, tuned

ENVIRONMENT_PREFIX = "STREAMS_"
CONFIG_VARIABLE = "STREAMS_CONFIG"
# Read by the command line itself, or by testing/crashpoints.py: no settings of the node and no mistakes either.
_OTHER_VARIABLES = frozenset({CONFIG_VARIABLE, "STREAMS_URL", "STREAMS_CRASH_AT"})
# A Kubernetes Service called `streams` puts these beside ours; the message has to say where they come from.
_SERVICE_LINK = re.compile(r"STREAMS_(SERVICE_(HOST|PORT).*|PORT_\d+_(TCP|UDP).*)")


class SettingsProblem(NamedTuple):
    """One thing to mend, and where: `source` is a flag, a variable, a file or `default`."""

    source: str
    name: str
    problem: str


class SettingsError(Exception):
    """All that is wrong with the settings, so that one round of mending is enough."""

    def __init__(self, problems: Iterable[SettingsProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{name}: {problem} ({source})" for source, name, problem in self.problems))


class _Given(NamedTuple):
    source: str
    value: object


class _Layer(NamedTuple):
    """What one source says, and what is wrong with it before values are looked at."""

    given: dict[str, _Given]
    problems: list[SettingsProblem]


def load_settings(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    toml_path: Path | None = None,
) -> Settings:
    """The settings, by precedence; a flag that is `None` was not given. Raises `SettingsError` with every problem."""
    given, problems = _gather(flags, environ, toml_path)
    settings, bad_values, clashes = _build(given)
    problems += bad_values
    bad_names = {problem.name for problem in problems}
    # What a field that is itself wrong does to its neighbours is noise.
    problems += [_located(clash, given) for clash in clashes if bad_names.isdisjoint(clash.names)]
    if problems or settings is None:
        raise SettingsError(problems)
    return settings


def setting_sources(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    toml_path: Path | None = None,
) -> dict[str, str]:
    """Where each setting's value comes from, for `config show`."""
    given, _ = _gather(flags, environ, toml_path)
    return {name: given[name].source if name in given else "default" for name in Settings.model_fields}


def _gather(flags: Mapping[str, object], environ: Mapping[str, str], toml_path: Path | None) -> _Layer:
    if toml_path is None and environ.get(CONFIG_VARIABLE):
        toml_path = Path(environ[CONFIG_VARIABLE])
    weak, strong, strongest = _from_toml(toml_path), _from_environment(environ), _from_flags(flags)
    given = weak.given | strong.given | strongest.given
    return _Layer(_from_memory(given) | given, weak.problems + strong.problems + strongest.problems)


def _from_memory(given: Mapping[str, _Given]) -> dict[str, _Given]:
    """What `auto_tune` makes of the memory there is; weaker than whatever a person sets."""
    asked = given.get("auto_tune")
    if asked is None:
        return {}
    try:
        found = tuned(str(asked.value), available_bytes())
    except ValueError:  # it is told with the other problems
        return {}
    return {name: _Given(f"auto_tune {found.preset_mb}", value) for name, value in found.values.items()}


def _from_toml(path: Path | None) -> _Layer:
    if path is None:
        return _Layer({}, [])
    source = str(path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        return _Layer({}, [SettingsProblem(source, "config", f"cannot be read: {error.strerror or error}")])
    except ValueError as error:  # not TOML, or not UTF-8
        return _Layer({}, [SettingsProblem(source, "config", f"is not valid TOML: {error}")])
    return _known({name: _Given(source, value) for name, value in table.items()})


def _from_environment(environ: Mapping[str, str]) -> _Layer:
    given = {
        _name_of(variable): _Given(variable, value)
        for variable, value in environ.items()
        if variable.startswith(ENVIRONMENT_PREFIX) and variable not in _OTHER_VARIABLES
    }
    layer = _known(given)
    # Empty counts as not set: compose files write `STREAMS_API_KEY: ${KEY:-}` for an optional value.
    return layer._replace(given={name: each for name, each in layer.given.items() if each.value})


def _from_flags(flags: Mapping[str, object]) -> _Layer:
    return _known({name: _Given(flag_of(name), value) for name, value in flags.items() if value is not None})


def _known(given: Mapping[str, _Given]) -> _Layer:
    return _Layer(
        {name: each for name, each in given.items() if name in Settings.model_fields},
        [
            SettingsProblem(each.source, name, _unknown(name, each.source))
            for name, each in given.items()
            if name not in Settings.model_fields
        ],
    )


def _unknown(name: str, source: str) -> str:
    if _SERVICE_LINK.fullmatch(source):
        return "no such setting; a Kubernetes Service called `streams` makes it: set enableServiceLinks to false"
    near = get_close_matches(name, Settings.model_fields, n=1)
    return f"no such setting; did you mean {near[0]}?" if near else "no such setting"


def _build(given: Mapping[str, _Given]) -> tuple[Settings | None, list[SettingsProblem], list[Clash]]:
    """Validate; when single values are wrong, leave them out and look again, for clashes among the others."""
    try:
        return Settings(**{name: each.value for name, each in given.items()}), [], []  # type: ignore[arg-type]
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
    if details[0]["type"] == CLASH_ERROR:
        return None, [], details[0]["ctx"]["clashes"]
    bad = {str(detail["loc"][0]): _text(detail) for detail in details}
    _, _, clashes = _build({name: each for name, each in given.items() if name not in bad})
    return None, [SettingsProblem(given[name].source, name, problem) for name, problem in bad.items()], clashes


def _text(detail: ErrorDetails) -> str:
    # What the standard library raised comes wrapped in words of the validator; the cause alone is clearer.
    text = str(detail["ctx"]["error"]) if detail["type"] == "value_error" else detail["msg"]
    return text[:1].lower() + text[1:]


def _located(clash: Clash, given: Mapping[str, _Given]) -> SettingsProblem:
    source = next((given[name].source for name in clash.names if name in given), "default")
    return SettingsProblem(source, clash.names[0], clash.problem)


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def variable_of(name: str) -> str:
    return ENVIRONMENT_PREFIX + name.upper()


def _name_of(variable: str) -> str:
    name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
    # `STREAMS_port` is no setting: were it one, it and `STREAMS_PORT` could disagree.
    return name if variable == variable_of(name) else variable
