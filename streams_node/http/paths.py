"""What a path means: which bucket, which stream, which part of it. Pure; the same rules for both surfaces.

/v1/stream/{path}        no slash: bucket `_default`; otherwise the first segment is the bucket
/{bucket}/{stream}       the bucket must exist
…/{sub-resource}         a fixed list of last segments, so they can not end a stream's name
"""

import re
from enum import Enum, auto
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from streams_node.errors import InvalidRequest, Missing, ReservedPath
from streams_node.wal.listing import DEFAULT_BUCKET
from streams_node.wal.lookup import Name

V1 = b"/v1/stream/"
RESERVED = V1 + b"__ds/"  # not streams: see subscriptions.py
_BUCKET = re.compile(r"[a-z0-9_-]{4,64}")
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_SIMPLE = re.compile(rb"/v1/stream/([0-9A-Za-z_~-]+)")  # most are: one segment, and nothing in it that could be more
_CONTROL = re.compile(rb"[\x00-\x20\x7f]")
RESERVED_BUCKETS = frozenset(
    ("health", "healthz", "livez", "readyz", "metrics", "docs", "schema", "openapi", "elastic", "ui")
)
KEY_BYTES_MAX = 122  # bucket, slash and stream together, on the bucket surface
SUBS_OF_ONE = frozenset(
    ("_schema", "_profile", "_search", "_aggregate", "_details", "_index_status", "_routing_keys", "_producers",
     "_flush", "snapshot", "bootstrap", "retention", "append-batch", "attrs")
)  # fmt: skip
SUBS_OF_TWO = frozenset(
    (("touch", "meta"), ("touch", "wait"), ("_index", "rebuild"), ("_schema", "check"), ("_otlp", "v1"),
     ("_search", "explain"))
)  # fmt: skip
SUBS_WITH_ARGUMENT = frozenset(("pk", "snapshot", "retention"))
SUBS_OF_THREE = frozenset((("touch", "templates", "activate"), ("_otlp", "v1", "traces")))


_NOT_SIMPLE = frozenset(("streams", "__ds"))


class Surface(Enum):
    V1 = auto()
    BUCKET = auto()


class Target(NamedTuple):
    """One stream, or a sub-resource of it."""

    name: Name
    surface: Surface
    sub: str | None = None
    argument: str | None = None


def v1_target(raw_path: bytes, *, path_bytes_max: int) -> Target:
    """The target of `/v1/stream/{path}`."""
    simple = _SIMPLE.fullmatch(raw_path)
    if simple is not None and len(raw_path) <= len(V1) + path_bytes_max:
        name = simple[1].decode("ascii")
        if name not in _NOT_SIMPLE:
            return Target(Name(DEFAULT_BUCKET, name), Surface.V1)
    raw, key = _without_key(raw_path[len(V1) :])
    segments = _segments(raw)
    if segments[0] == "__ds":
        raise Missing("there is no such resource in the reserved `__ds` space")
    streams, sub, argument = (segments, "pk", key) if key is not None else _split(segments)
    if len("/".join(streams).encode()) > path_bytes_max:
        raise InvalidRequest("a stream path", f"at most {path_bytes_max} bytes long")
    bucket, rest = (DEFAULT_BUCKET, streams[0]) if len(streams) == 1 else (streams[0], "/".join(streams[1:]))
    check_bucket_free(bucket)
    if rest == "streams":
        raise ReservedPath("`streams` lists a bucket and cannot be a stream")
    return Target(Name(bucket, rest), Surface.V1, sub, argument)


def bucket_target(raw_path: bytes) -> Target:
    """The target of `/{bucket}/{stream}`."""
    raw_bucket, slash, raw_rest = raw_path[1:].partition(b"/")
    raw_rest, key = _without_key(raw_rest)
    bucket, *rest = _segments(raw_bucket + slash + raw_rest)
    check_bucket(bucket)
    streams, sub, argument = (rest, "pk", key) if key is not None else _split(rest)
    if len(streams) != 1:
        raise Missing("there is no such resource below a stream")
    stream = streams[0]
    if stream == "streams":
        raise ReservedPath("`streams` lists a bucket and cannot be a stream")
    if len(f"{bucket}/{stream}".encode()) > KEY_BYTES_MAX:
        raise InvalidRequest("bucket and stream id together", f"at most {KEY_BYTES_MAX} bytes long")
    return Target(Name(bucket, stream), Surface.BUCKET, sub, argument)


def check_bucket(bucket: str) -> None:
    """Refuse a name that no bucket can have on the bucket surface."""
    if not _BUCKET.fullmatch(bucket):
        raise InvalidRequest("a bucket id", "4 to 64 of a-z, 0-9, _ and -", bucket)
    check_bucket_free(bucket)


def check_bucket_free(bucket: str) -> None:
    """Refuse the node's own names."""
    if bucket in RESERVED_BUCKETS or bucket.startswith("__"):
        raise ReservedPath(f"`{bucket}` is reserved and cannot be a bucket")


def check_creatable(target: Target) -> None:
    """Refuse what only the node may create."""
    if target.name.stream.startswith("__"):
        raise ReservedPath("names that begin with `__` are the node's own")


def _without_key(raw: bytes) -> tuple[bytes, str | None]:
    """`…/pk/{key}` as what is before it, and the key: any text, also one with slashes and dots."""
    before, _, last = raw.rpartition(b"/")
    if not before.endswith(b"/pk") or not last:
        return raw, None
    if _CONTROL.search(last) or _BAD_ESCAPE.search(last):
        raise InvalidRequest("percent encoding", "`%` and two hexadecimal digits", last.decode("ascii", "replace"))
    return before.removesuffix(b"/pk"), _text(last)


def _segments(raw: bytes) -> list[str]:
    if _CONTROL.search(raw):  # what `Location` repeats must hold no line break, whatever parsed the request
        raise InvalidRequest("a path", "without control characters and spaces", raw.decode("ascii", "replace"))
    segments = _decoded(raw) if b"%" in raw or not raw.isascii() else raw.decode("ascii").split("/")
    for segment in segments:
        if not segment:
            raise InvalidRequest("a path segment", "non-empty")
        if ".." in segment or segment == "." or "\0" in segment or "/" in segment:
            raise InvalidRequest("a path segment", "without `..`, `.` alone, or NUL", segment)
    return segments


def _decoded(raw: bytes) -> list[str]:
    if b"%2f" in raw.lower():
        raise InvalidRequest("a path", "without encoded slashes", raw.decode("ascii", "replace"))
    if _BAD_ESCAPE.search(raw):
        raise InvalidRequest("percent encoding", "`%` and two hexadecimal digits", raw.decode("ascii", "replace"))
    return [_text(segment) for segment in raw.split(b"/")]


def _text(segment: bytes) -> str:
    try:
        return unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidRequest(
            "a path segment", "UTF-8 text in percent encoding", segment.decode("ascii", "replace")
        ) from None


def _split(segments: list[str]) -> tuple[list[str], str | None, str | None]:
    """The stream's own segments, the sub-resource, and its argument."""
    more, last = segments[:-1], segments[-1] if segments else ""
    if segments[:-3] and tuple(segments[-3:]) in SUBS_OF_THREE:
        return segments[:-3], "/".join(segments[-3:]), None
    if segments[:-2] and tuple(segments[-2:]) in SUBS_OF_TWO:
        return segments[:-2], "/".join(segments[-2:]), None
    if segments[:-2] and more[-1] in SUBS_WITH_ARGUMENT:
        return more[:-1], more[-1], last
    if more and last in SUBS_OF_ONE:
        return more, last, None
    return segments, None, None
