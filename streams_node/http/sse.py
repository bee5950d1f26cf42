"""Event streams, byte for byte: lines end in LF, `data:` has no space, every data event has its control event."""

import base64
import re

import orjson

_LINE = re.compile(rb"\r\n|\r|\n")
HEARTBEAT = b":\n\n"


def data_event(payload: bytes, *, is_json: bool, is_text: bool) -> bytes:
    """One page of entries as a data event. A payload's line breaks become lines of the event, so none can end it.

    Clients drop one space after `data:`, so a line of text that begins with a space is given a second one. In JSON a
    blank at the start of a line means nothing, and some clients cut right after the colon.
    """
    if is_json:
        payload = b"[" + payload + b"]"
    elif not is_text:
        return b"event: data\ndata:" + base64.b64encode(payload) + b"\n\n"
    if b"\n" in payload or b"\r" in payload:
        lines = _LINE.split(payload)
        payload = b"\ndata:".join(lines if is_json else [_spaced(line) for line in lines])
    elif not is_json:
        payload = _spaced(payload)
    return b"event: data\ndata:" + payload + b"\n\n"


def _spaced(line: bytes) -> bytes:
    return b" " + line if line.startswith(b" ") else line


def control_event(next_offset: str, *, cursor: str | None, up_to_date: bool, closed: bool) -> bytes:
    """Where the reader is now; a closed stream has no cursor, because nobody should come back."""
    said: dict[str, object] = {"streamNextOffset": next_offset}
    if closed:
        said["streamClosed"] = True
    elif cursor is not None:
        said["streamCursor"] = cursor
    if up_to_date:
        said["upToDate"] = True
    return b"event: control\ndata:" + orjson.dumps(said) + b"\n\n"
