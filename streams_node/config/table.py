"""Settings for people: the rows of the manual, and a running node's values with its secrets masked."""

from typing import NamedTuple

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from streams_node.config.quantity import GiB, KiB, MiB, Unit
from streams_node.config.settings import Settings


class SettingRow(NamedTuple):
    """One row of the settings table of the manual."""

    name: str
    unit: str
    default: str
    reason: str


def describe() -> tuple[SettingRow, ...]:
    return tuple(
        SettingRow(name, _unit(field), _shown(field.default, _unit(field)), field.description or "")
        for name, field in Settings.model_fields.items()
    )


def public_dump(settings: Settings) -> dict[str, str | int | bool | None]:
    """All values as JSON knows them; a secret is `***`."""
    return {name: _public(getattr(settings, name)) for name in Settings.model_fields}


def _unit(field: FieldInfo) -> str:
    return next((each.name for each in field.metadata if isinstance(each, Unit)), "")


def _shown(default: object, unit: str) -> str:
    if default is None:
        return "none"
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, int) and unit == "bytes":
        return _shown_bytes(default)
    return str(default)


def _shown_bytes(size: int) -> str:
    """The shortest way to write a size that reads back as the same number."""
    for name, factor in (("GiB", GiB), ("MiB", MiB), ("KiB", KiB)):
        if size and size % factor == 0:
            return f"{size // factor}{name}"
    return str(size)


def _public(value: object) -> str | int | bool | None:
    if isinstance(value, SecretStr):
        return "***"
    return value if value is None or isinstance(value, (str, int)) else str(value)
