"""JSON pointers (RFC 6901): reading them, and looking things up in documents."""

import re
from typing import Any

CHARS_MAX = 1024
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
Tokens = tuple[str, ...]


class _Missing:
    """Stands for "there is nothing", which is not null."""


MISSING = _Missing()


class BadPointer(ValueError):
    """The text is no pointer."""


def parse(text: object) -> Tokens:
    """The unescaped steps of a pointer; none for the root."""
    if not isinstance(text, str) or len(text) > CHARS_MAX or not _POINTER.fullmatch(text):
        raise BadPointer("invalid json pointer")
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in text.split("/")[1:])


def index_of(token: str) -> int | None:
    """The place in an array that a step names, or None."""
    return int(token) if _INDEX.fullmatch(token) else None


def resolve(document: Any, tokens: Tokens) -> Any:
    """The value at a pointer, or MISSING."""
    for token in tokens:
        if isinstance(document, dict):
            document = document.get(token, MISSING)
        elif isinstance(document, list):
            at = index_of(token)
            document = document[at] if at is not None and at < len(document) else MISSING
        else:
            return MISSING
    return document
