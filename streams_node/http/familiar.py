"""Header lines that came before: what they say is kept, so that most appends are not parsed again.

A client sends the same lines with append after append; only the path may change. Parsing them and collecting what they
say costs as much as deciding the append. What is kept has been through the parser and all checks, byte for byte, so
this way never judges lines by itself: whatever is new, special, unusual or not whole goes through the parser.
"""

from collections.abc import Mapping
from typing import NamedTuple

from streams_node.config import Settings
from streams_node.errors import InvalidRequest
from streams_node.http.headers import RawHeaders, WriteHeaders, collected, is_plain, write_headers

_LINES_BYTES_MAX = 1024  # of most requests; one with a long token is parsed each time
_HEADERS_MAX = 32  # parsed, a hundred tiny ones take forty times their bytes
_KEPT_MAX = 512  # at most some 4 MB: a client whose lengths vary needs one for each
_SEEN_MAX = 4096  # hashes of lines that came once: what has an id of its own in each request never comes again
_METHOD = b"POST "
_VERSION = b" HTTP/1.1\r\n"
_END = b"\r\n\r\n"


class Familiar(NamedTuple):
    """What header lines say: as parsed, what of it this node reads, as checked values, and the length of the body."""

    headers: RawHeaders
    found: dict[bytes, bytes]
    said: WriteHeaders
    length: int


class Parts(NamedTuple):
    """A request cut where its path, its header lines and its body are, if it is what it looks like."""

    path: bytes
    lines: bytes
    body_at: int


def parts(data: bytes) -> Parts | None:
    """What came as one append, uncut; None if it does not look like one."""
    version_at = data.find(_VERSION)
    end = data.find(_END, version_at)
    lines_at = version_at + len(_VERSION)
    if version_at < 0 or end < lines_at:
        return None
    return Parts(data[len(_METHOD) : version_at], data[lines_at:end], end + len(_END))


class FamiliarLines:
    """What is known of header lines by their bytes. Lines are kept when they come the second time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._kept: dict[bytes, Familiar] = {}
        self._seen: set[int] = set()

    @property
    def known(self) -> Mapping[bytes, Familiar]:
        return self._kept

    def learn(self, lines: bytes, headers: RawHeaders, length: int) -> None:
        """Note lines that the parser has taken, of a request that leaves its connection open, with this much body."""
        if len(lines) > _LINES_BYTES_MAX or len(headers) > _HEADERS_MAX or lines in self._kept:
            return
        seen = hash(lines)
        if seen not in self._seen:
            if len(self._seen) >= _SEEN_MAX:
                self._seen.clear()
            self._seen.add(seen)
            return
        try:
            found = collected(headers)
            if not is_plain(found):
                return
            said = write_headers(found, self._settings)
        except InvalidRequest:
            return
        if len(self._kept) >= _KEPT_MAX:
            self._kept.clear()
        self._kept[lines] = Familiar(headers, found, said, length)
