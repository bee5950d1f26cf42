"""A reader of event streams, written after the HTML standard's section 9.2.6 and not after our writer."""

import re
from typing import NamedTuple

_LINE = re.compile(rb"\r\n|\r|\n")


class Event(NamedTuple):
    """A dispatched event; `id` and `retry` are not used by the protocol, so their presence is kept to be refused."""

    kind: str
    data: bytes
    other: tuple[bytes, ...] = ()


def events_of(stream: bytes) -> list[Event]:
    """Every event that a conforming client would dispatch. What follows the last blank line is not an event."""
    lines = _LINE.split(stream.removeprefix(b"\xef\xbb\xbf"))
    events: list[Event] = []
    kind, data = b"", b""
    other: list[bytes] = []
    for line in lines[:-1]:  # the last one has no line end yet
        if not line:
            if data:
                events.append(
                    Event(kind.decode("utf-8", "replace") or "message", data.removesuffix(b"\n"), tuple(other))
                )
            kind, data, other = b"", b"", []
            continue
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"":
                pass  # a comment
            case b"event":
                kind = value
            case b"data":
                data += value + b"\n"
            case _:
                other.append(name)
    return events


def with_line_feeds(text: bytes) -> bytes:
    """The text as an event stream can carry it: every line end is one LF."""
    return _LINE.sub(b"\n", text)
