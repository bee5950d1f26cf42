"""Conversions of one value: a map from texts to scalars, or one of the named ones."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from streams_node.schema.errors import LensFailed
from streams_node.schema.values import text_of, type_name

Transform = Callable[[Any], Any]
PARTIAL = frozenset(("string_to_int", "rfc3339_to_unix_millis"))  # not every value of their type can be converted
_LEAP_YEAR = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DAY = (
    r"(?:\d{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
    rf"|{_LEAP_YEAR}-02-29)"
)
# Exact to the day, so that the one call is all: the validator makes it for every such text.
DATE_TIME = re.compile(
    rf"({_DAY})T((?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d)(?:\.(\d{{1,9}}))?(Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII
)
_LEADING_INT = re.compile(r"\s*([+-]?\d+)", re.ASCII)
_DIGITS_MAX = 300  # more are beyond a double
_EXACT = 2**53
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_MS_MAX = 253_402_300_799_999  # the end of the year 9999
_MS_MIN = -62_135_596_800_000  # the begin of the year 1


def transform_of(spec: dict[str, Any]) -> Transform:
    """The function that a lens's `forward` or `backward` describes."""
    if "builtin" in spec:
        return _BUILTINS.get(spec["builtin"]) or _unknown(spec["builtin"])
    table, has_default, default = spec["map"], "default" in spec, spec.get("default")

    def convert(value: Any) -> Any:
        found = table.get(text_of(value), table) if not isinstance(value, dict | list) else table
        if found is not table:
            return found
        if not has_default:
            raise LensFailed("convert map missing key and default")
        return default

    return convert


def _unknown(name: str) -> Transform:
    def fail(_: Any) -> Any:
        raise LensFailed(f"unknown builtin: {name}")

    return fail


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise LensFailed(f"type mismatch: expected string, got {type_name(value)}")
    return value


def _whole(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise LensFailed(f"type mismatch: expected integer, got {type_name(value)}")
    return value


def _string_to_int(value: Any) -> Any:
    found = _LEADING_INT.match(_text(value))
    if found is None or len(found[1]) > _DIGITS_MAX:
        raise LensFailed("string_to_int expects a number at the beginning")
    number = int(found[1])
    return number if abs(number) <= _EXACT else float(number)


def _rfc3339_to_unix_millis(value: Any) -> Any:
    text = _text(value)
    found = DATE_TIME.fullmatch(text)
    if found is None or text.startswith("0000"):
        raise LensFailed("rfc3339_to_unix_millis expects a date-time")
    zone = "+00:00" if found[4] == "Z" else found[4]
    whole = datetime.fromisoformat(f"{found[1]}T{found[2]}+00:00")
    away = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6])) * (1 if zone[0] == "+" else -1)
    return (whole - _EPOCH - away) // _MS + int((found[3] or "0")[:3].ljust(3, "0"))


def _unix_millis_to_rfc3339(value: Any) -> Any:
    ms = int(value) if isinstance(value, float) else _whole(value)
    if not _MS_MIN <= ms <= _MS_MAX:
        raise LensFailed("unix_millis_to_rfc3339 expects milliseconds of the years 1 to 9999")
    return (_EPOCH + ms * _MS).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_BUILTINS: dict[str, Transform] = {
    "lowercase": lambda value: _text(value).lower(),
    "uppercase": lambda value: _text(value).upper(),
    "string_to_int": _string_to_int,
    "int_to_string": lambda value: text_of(_whole(value)),
    "rfc3339_to_unix_millis": _rfc3339_to_unix_millis,
    "unix_millis_to_rfc3339": _unix_millis_to_rfc3339,
}
BUILTINS = frozenset(_BUILTINS)
