"""What came out of a stream, and how it is shown: pages of answers, events of SSE, messages of a JSON page. No I/O."""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Page:
    """Some entries of a stream, and where to go on."""

    body: bytes
    content_type: str
    next_offset: str
    up_to_date: bool
    closed: bool

    def facts(self, stream: str) -> dict[str, object]:
        """The page as `--json` prints it: `messages`, `text` or `base64`, by content type."""
        return {
            "stream": stream,
            "next_offset": self.next_offset,
            "up_to_date": self.up_to_date,
            "closed": self.closed,
            "content_type": self.content_type,
            **self._content(),
        }

    def shown(self) -> bytes:
        """The page for a terminal or a pipe: a JSON message a line, anything else byte for byte."""
        if self._media_type != "application/json":
            return self.body
        return b"".join(message.encode() + b"\n" for message in json_elements(self.body.decode()))

    @property
    def _media_type(self) -> str:
        return self.content_type.partition(";")[0].strip().lower()

    def _content(self) -> dict[str, object]:
        if self._media_type == "application/json":
            return {"messages": json.loads(self.body or b"[]")}
        if self._media_type.startswith("text/"):
            try:
                return {"text": self.body.decode()}
            except UnicodeDecodeError:
                pass  # the label is the writer's; the bytes are still theirs to get
        return {"base64": base64.b64encode(self.body).decode()}


def json_elements(array: str) -> Iterator[str]:
    """Each element of a JSON array as it was written, on one line: numbers keep their digits, objects their order."""
    decoder = json.JSONDecoder()
    position = _after_space(array, array.find("[") + 1)
    while position < len(array) and array[position] != "]":
        _, end = decoder.raw_decode(array, position)
        # A line break inside a JSON value can only be white space between its parts.
        yield array[position:end].replace("\r", " ").replace("\n", " ")
        position = _after_space(array, end)
        if array[position : position + 1] == ",":
            position = _after_space(array, position + 1)


def _after_space(text: str, position: int) -> int:
    while text[position : position + 1] in {" ", "\t", "\r", "\n"}:
        position += 1
    return position


def pages_of_events(lines: Iterable[tuple[Mapping[str, str], str]], content_type: str) -> Iterator[Page]:
    """A page for each control event, with the data that came before it."""
    kind, data, body = "", list[str](), b""
    for headers, line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            kind = value
        elif field == "data":
            data.append(value)
        elif not line:
            text = "\n".join(data)
            if kind == "data":
                body += _decoded(text, headers)
            elif kind == "control":
                yield _page_of_control(json.loads(text), body, content_type)
                body = b""
            kind, data = "", []


def _decoded(text: str, headers: Mapping[str, str]) -> bytes:
    if headers.get("stream-sse-data-encoding") == "base64":
        return base64.b64decode(text)
    return text.encode()


def _page_of_control(control: Mapping[str, object], body: bytes, content_type: str) -> Page:
    return Page(
        body=body,
        content_type=content_type,
        next_offset=str(control.get("streamNextOffset", "")),
        up_to_date=control.get("upToDate") is True,
        closed=control.get("streamClosed") is True,
    )
