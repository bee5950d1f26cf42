"""What the handler of a part of a stream takes and gives."""

from typing import Generic, NamedTuple, TypeVar

import msgspec

from streams_node.http.headers import RawHeaders
from streams_node.wal.lookup import Name

View = TypeVar("View", bound=msgspec.Struct)


class SubRequest(NamedTuple):
    """A whole request. `argument` is the last segment where a part has one; `headers` are the known ones, in lower
    case; the body is there, within the bound of its part.
    """

    name: Name
    argument: str | None
    query_string: bytes
    headers: dict[bytes, bytes]
    body: bytes


class Reply(NamedTuple, Generic[View]):
    """An answer: a view, or its text where that was made before. With a tag, If-None-Match is answered by 304."""

    status: int
    view: View | None
    text: bytes | None = None
    headers: RawHeaders = []  # noqa: RUF012 - never changed
    tag: str | None = None

    def encoded(self) -> bytes:
        return self.text if self.text is not None else msgspec.json.encode(self.view)
