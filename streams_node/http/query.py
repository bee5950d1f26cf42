"""The query of a read as typed values."""

import re
from enum import Enum
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote_plus

from streams_node.errors import BadFilter, InvalidRequest
from streams_node.protocol import offsets, times
from streams_node.protocol.offsets import Position

_FIELDS_MAX = 64
_KNOWN = frozenset(
    ("offset", "live", "timeout", "timeout_ms", "max_bytes", "cursor", "format", "key", "filter", "since")
)
_BROKEN = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CURSOR_CHARS_MAX = 64
DIGITS_MAX = 18  # a longer number is beyond every bound here


class Mode(Enum):
    CATCHUP = "catchup"
    LONG_POLL = "long_poll"
    SSE = "sse"


class Now:
    """The special offset of the current end."""


NOW = Now()
_MODES = {"": Mode.CATCHUP, "false": Mode.CATCHUP, "0": Mode.CATCHUP, "true": Mode.LONG_POLL, "1": Mode.LONG_POLL,
          "long-poll": Mode.LONG_POLL, "sse": Mode.SSE}  # fmt: skip


class ReadQuery(NamedTuple):
    """A read as it was asked for."""

    offset: Position | Now | None
    mode: Mode
    timeout_ms: int | None
    bytes_max: int | None
    cursor: str | None
    raw: bool | None  # `format=raw` is True, `format=json` False
    key: str | None = None
    filter: str | None = None
    since_us: int | None = None

    @property
    def selects(self) -> bool:
        """Whether it shows some entries only."""
        return self.key is not None or self.filter is not None


PLAIN = ReadQuery(None, Mode.CATCHUP, None, None, None, None)


def read_query(query_string: bytes) -> ReadQuery:
    """The checked query; unknown parameters are ignored, known ones come once and not blank."""
    if not query_string:
        return PLAIN
    found = parameters(query_string, _KNOWN)
    mode = _MODES.get(found.get("live", ""))
    if mode is None:
        raise InvalidRequest("live", "one of long-poll, true, sse", found["live"])
    offset = _offset(found.get("offset"))
    since_us = _since(found)
    if mode is not Mode.CATCHUP and offset is None and since_us is None:
        raise InvalidRequest("offset", "given with a live read")
    timeout_ms, bytes_max = _timeout(found), _bytes_max(found)
    chosen = found.get("key") or None, found.get("filter"), since_us
    return ReadQuery(offset, mode, timeout_ms, bytes_max, _cursor(found), _raw(found), *chosen)


def waiting(found: dict[str, str]) -> int | None:
    """How long a long-poll of what is known of a stream waits, 0 for as long as usual; None for one that does not."""
    mode = _MODES.get(found.get("live", ""))
    if mode is None or mode is Mode.SSE:
        raise InvalidRequest("live", "long-poll or true: an invalid live mode", found["live"])
    timeout_ms = _timeout(found)
    return None if mode is Mode.CATCHUP else timeout_ms or 0


def parameters(
    query_string: bytes, known: frozenset[str], *, blank: frozenset[str] = frozenset(("key",))
) -> dict[str, str]:
    """The known parameters of a query, each at most once; some may be blank: a key that is blank is none."""
    try:
        text = query_string.decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_FIELDS_MAX)
    except ValueError:
        raise InvalidRequest("the query", f"at most {_FIELDS_MAX} parameters of UTF-8 text") from None
    if _BROKEN.search(text):
        _refuse_broken(text, known)
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in known:
            if name in found:
                raise InvalidRequest(f"parameter `{name}`", "given once", "two values")
            if not value and name == "filter":
                raise BadFilter("filter must not be empty", position=0)
            if not value and name not in blank:
                raise InvalidRequest(f"parameter `{name}`", "not blank")
            found[name] = value
    return found


def number(asked: dict[str, str], name: str, default: int, *, least: int, most: int) -> int:
    """A whole number in its bounds, or the default."""
    text = asked.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > DIGITS_MAX or not least <= int(text) <= most:
        raise InvalidRequest(f"parameter `{name}`", f"a whole number from {least} to {most}", text)
    return int(text)


def _refuse_broken(text: str, known: frozenset[str]) -> None:
    """As in a path. Taken as it stands, it would be another key than the one that was meant, and silently."""
    for pair in text.split("&"):
        name, _, value = pair.partition("=")
        if unquote_plus(name) in known and _BROKEN.search(value):
            raise InvalidRequest("percent encoding", "`%` and two hexadecimal digits", pair)


def _offset(text: str | None) -> Position | Now | None:
    if text is None:
        return None
    if text in ("-1", offsets.START_ALIAS):
        return offsets.START
    if text == "now":
        return NOW
    position = offsets.decode(text)
    if position is None:
        raise InvalidRequest("offset", "-1, now, or an offset that this stream has issued", text)
    return position


def _timeout(found: dict[str, str]) -> int | None:
    text = found.get("timeout_ms", found.get("timeout"))
    if text is None:
        return None
    ms = times.duration_ms(text)
    if ms is None:
        raise InvalidRequest("timeout", "milliseconds, or a duration as 2s", text)
    return ms


def _bytes_max(found: dict[str, str]) -> int | None:
    text = found.get("max_bytes")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > DIGITS_MAX or int(text) == 0:
        raise InvalidRequest("max_bytes", "a positive whole number", text)
    return int(text)


def _since(found: dict[str, str]) -> int | None:
    text = found.get("since")
    if text is None:
        return None
    moment = times.timestamp_us(text)
    if moment is None:
        raise InvalidRequest("since", "an RFC 3339 time or Unix nanoseconds", text)
    return moment


def _cursor(found: dict[str, str]) -> str | None:
    text = found.get("cursor")
    return text if text is None or len(text) <= _CURSOR_CHARS_MAX else None


def _raw(found: dict[str, str]) -> bool | None:
    text = found.get("format")
    if text is None:
        return None
    if text not in ("raw", "json"):
        raise InvalidRequest("format", "raw or json", text)
    return text == "raw"
