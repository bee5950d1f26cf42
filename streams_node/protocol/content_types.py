"""Media types: which are equal, which are JSON, which an event stream may carry as text."""

import re

DEFAULT = "application/octet-stream"
_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_MEDIA = re.compile(rf"({_WORD}/{_WORD})[ \t]*(;[\t\x20-\x7e]*)?", re.ASCII)


def media(content_type: str) -> str:
    """The part that decides equality: type and subtype, lower case, without parameters."""
    return content_type.partition(";")[0].strip().lower()


def valid(content_type: str) -> bool:
    """Whether the text is `type/subtype` with printable parameters."""
    return _MEDIA.fullmatch(content_type) is not None


def is_json(content_type: str) -> bool:
    """Whether the stream keeps JSON messages: exactly application/json, as the protocol says."""
    return media(content_type) == "application/json"


def is_text(content_type: str) -> bool:
    """Whether an event stream carries the bytes as they are; every other type goes as base64."""
    kind = media(content_type)
    return kind == "application/json" or kind.startswith("text/")
