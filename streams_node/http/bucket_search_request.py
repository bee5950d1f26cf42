"""What a search of a bucket asks for: a search's body, and which streams. Pure."""

from typing import NamedTuple

from streams_node.errors import BadSearch
from streams_node.http.search_request import SearchRequest, of_body, of_members

STREAMS_MAX = 1000
_PATTERN_BYTES_MAX = 1024
_ANY = "*"
_OWN = "__"  # the node's own streams: a pattern finds none of them


class Pattern(NamedTuple):
    """Pieces of text that an id has one after the other: it begins with the first and ends with the last."""

    pieces: tuple[str, ...]

    @classmethod
    def of(cls, text: object) -> "Pattern":
        if not isinstance(text, str) or not text or len(text.encode()) > _PATTERN_BYTES_MAX:
            raise BadSearch(f"streams must be a text of 1 to {_PATTERN_BYTES_MAX} bytes")
        return cls(tuple(text.split(_ANY)))

    @property
    def prefix(self) -> str:
        """What all ids begin with."""
        return self.pieces[0]

    @property
    def text(self) -> str:
        return _ANY.join(self.pieces)

    def matches(self, name: str) -> bool:
        """Whether an id fits. The first place for each piece is as good as any: it takes no time to speak of."""
        first, *rest = self.pieces
        if name.startswith(_OWN) or not name.startswith(first):
            return False
        if not rest:
            return name == first
        *middle, last = rest
        at = len(first)
        for piece in middle:
            at = name.find(piece, at)
            if at < 0:
                return False
            at += len(piece)
        return len(name) - at >= len(last) and name.endswith(last)


class BucketSearchRequest(NamedTuple):
    search: SearchRequest
    streams: Pattern


def bucket_request(body: bytes, query_string: bytes) -> BucketSearchRequest:
    """Members of a POST; unknown ones are ignored."""
    given = of_body(body)
    return BucketSearchRequest(of_members(given, query_string), Pattern.of(given.get("streams", _ANY)))
