"""Reads the members of a profile document strictly: what is not known is refused, and so is what has no bound."""

from collections.abc import Mapping
from typing import Any

from streams_node.errors import BadProfile

NAMES_MAX = 64
NAME_CHARS_MAX = 256
_SHOWN_CHARS = 80


def members(raw: object, path: str, allowed: tuple[str, ...]) -> Mapping[str, Any]:
    """An object with no other members than these."""
    if not isinstance(raw, dict):
        raise BadProfile(f"{path} must be an object")
    for known in raw:
        if known not in allowed:
            raise BadProfile(f"{path}.{known[:_SHOWN_CHARS]} is not supported")
    return raw


def section(around: Mapping[str, Any], name: str, path: str, allowed: tuple[str, ...]) -> Mapping[str, Any]:
    """An object that may be absent."""
    return members(around[name], f"{path}.{name}", allowed) if name in around else {}


def names(around: Mapping[str, Any], name: str, path: str) -> list[str]:
    """An array of names that may be absent."""
    at = f"{path}.{name}"
    raw = around.get(name, [])
    if not isinstance(raw, list):
        raise BadProfile(f"{at} must be an array of strings")
    if len(raw) > NAMES_MAX:
        raise BadProfile(f"{at} must have at most {NAMES_MAX} items")
    return [_name(each, f"{at}[{index}]") for index, each in enumerate(raw)]


def name(raw: object, path: str) -> str:
    """Text that says something, without the white space around it."""
    return _name(raw, path)


def _name(raw: object, path: str) -> str:
    trimmed = raw.strip() if isinstance(raw, str) else ""
    if not trimmed:
        raise BadProfile(f"{path} must be a non-empty string")
    if len(trimmed) > NAME_CHARS_MAX:
        raise BadProfile(f"{path} must be at most {NAME_CHARS_MAX} characters long")
    return trimmed
