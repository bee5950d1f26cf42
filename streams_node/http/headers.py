"""Request headers as typed values, and the header lines that answers share."""

from functools import lru_cache
from typing import NamedTuple

from streams_node.config import Settings
from streams_node.errors import InvalidRequest
from streams_node.ingest.append import ProducerHeaders
from streams_node.protocol import content_types, times
from streams_node.protocol.frames import pack_key
from streams_node.protocol.producers import SEQ_MAX

RawHeaders = list[tuple[bytes, bytes]]

SECURITY: RawHeaders = [
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"cross-origin"),
]
ALLOWED_METHODS = "GET, POST, PUT, DELETE, HEAD, OPTIONS"
_ACCEPTED = (
    "content-type, authorization, if-none-match, stream-seq, stream-ttl, stream-expires-at, stream-closed, stream-key, "
    "stream-timestamp, stream-attrs, stream-record-match, stream-snapshot-match, producer-id, producer-epoch, "
    "producer-seq, stream-forked-from, stream-fork-offset, stream-fork-sub-offset, prefer, x-request-id"
)
_EXPOSED = (
    "stream-next-offset, stream-end-offset, stream-earliest-offset, stream-cursor, stream-up-to-date, stream-closed, "
    "stream-ttl, stream-expires-at, stream-sse-data-encoding, producer-epoch, producer-seq, producer-expected-seq, "
    "producer-received-seq, etag, location, content-type, content-encoding, vary, retry-after, stream-record-first, "
    "stream-record-start, stream-record-next, stream-snapshot-offset, stream-snapshot-digest, stream-retained-offset, "
    "stream-extensions, stream-filter-scan-limit-reached, stream-filter-scan-limit-bytes, stream-filter-scanned-bytes, "
    "x-request-id, server-timing"
)
CORS: RawHeaders = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", _EXPOSED.encode()),
]
PREFLIGHT: RawHeaders = [
    *CORS,
    (b"access-control-allow-methods", ALLOWED_METHODS.encode()),
    (b"access-control-allow-headers", _ACCEPTED.encode()),
    (b"access-control-max-age", b"86400"),
]
_OURS = frozenset(
    (
        b"content-type", b"content-length", b"stream-seq", b"stream-closed", b"stream-ttl", b"stream-expires-at",
        b"stream-key", b"stream-timestamp", b"producer-id", b"producer-epoch", b"producer-seq", b"if-none-match",
        b"authorization", b"host", b"origin", b"x-request-id", b"stream-forked-from", b"stream-fork-offset",
        b"stream-fork-sub-offset",
    )
)  # fmt: skip
_REPEATABLE = frozenset((b"if-none-match",))


class WriteHeaders(NamedTuple):
    """The headers of an append or a create that say how to store its body."""

    content_type: str | None
    close: bool = False
    producer: ProducerHeaders | None = None
    stream_seq: str | None = None
    key: bytes | None = None
    hint_us: int | None = None


def collected(raw: RawHeaders) -> dict[bytes, bytes]:
    """The headers that this node reads, each once; a repeated one is refused, because it would mean two things."""
    found: dict[bytes, bytes] = {}
    for name, value in raw:
        if name in _OURS:
            if name in found:
                if name not in _REPEATABLE:
                    raise InvalidRequest(f"header `{name.decode()}`", "sent once", "two values")
                found[name] += b"," + value
            else:
                found[name] = value
    return found


def write_headers(found: dict[bytes, bytes], settings: Settings) -> WriteHeaders:
    """The checked values; most appends send a content type and nothing else."""
    content_type = found.get(b"content-type")
    if is_plain(found):
        return _plain(content_type, settings.content_type_bytes_max)
    hint = found.get(b"stream-timestamp")
    key = _text(found, b"stream-key", settings.routing_key_bytes_max)
    stream_seq = _text(found, b"stream-seq", settings.stream_seq_bytes_max)
    if stream_seq is not None and not stream_seq:
        raise InvalidRequest("Stream-Seq", "non-empty")
    return WriteHeaders(
        _content_type(content_type, settings.content_type_bytes_max),
        is_true(found.get(b"stream-closed")),
        _producer(found, settings.producer_id_bytes_max),
        stream_seq,
        pack_key(key),
        None if hint is None else timestamp("Stream-Timestamp", hint),
    )


def is_plain(found: dict[bytes, bytes]) -> bool:
    """Whether they say no more than a type: nothing that differs from one append to the next."""
    return _SPECIAL.isdisjoint(found)


_DIGITS_MAX = 16  # of 2^53 - 1
_SPECIAL = frozenset((
    b"stream-closed", b"stream-timestamp", b"stream-key", b"stream-seq", b"producer-id", b"producer-epoch",
    b"producer-seq",
))  # fmt: skip


def is_true(value: bytes | None) -> bool:
    """`Stream-Closed` counts only when it says `true`, in any case; anything else is as if absent."""
    return value is not None and value.strip().lower() == b"true"


def timestamp(name: str, value: bytes) -> int:
    moment = times.timestamp_us(value.decode("latin-1").strip())
    if moment is None:
        raise InvalidRequest(name, "an RFC 3339 time or Unix nanoseconds", value.decode("latin-1"))
    return moment


def lifetime(found: dict[bytes, bytes]) -> tuple[int | None, int | None]:
    """(TTL in seconds, absolute end in microseconds); at most one of them."""
    ttl, end = found.get(b"stream-ttl"), found.get(b"stream-expires-at")
    if ttl is not None and end is not None:
        raise InvalidRequest("the lifetime", "given by one of Stream-TTL and Stream-Expires-At", "both")
    if ttl is not None:
        text = ttl.decode("latin-1").strip()
        seconds = times.ttl_seconds(text)
        if seconds is None:
            raise InvalidRequest(
                "Stream-TTL", "whole seconds without sign or leading zeros, or a duration as 24h", text
            )
        return seconds, None
    return None, None if end is None else timestamp("Stream-Expires-At", end)


@lru_cache(maxsize=256)
def _plain(content_type: bytes | None, bytes_max: int) -> WriteHeaders:
    """Most appends send a content type and nothing else, and most send the same one."""
    return WriteHeaders(_content_type(content_type, bytes_max))


@lru_cache(maxsize=256)
def _content_type(value: bytes | None, bytes_max: int) -> str | None:
    if value is None or not value.strip():
        return None
    text = value.decode("latin-1").strip()
    if len(value) > bytes_max or not content_types.valid(text):
        raise InvalidRequest("Content-Type", f"type/subtype of at most {bytes_max} bytes", text)
    return text


def _producer(found: dict[bytes, bytes], id_bytes_max: int) -> ProducerHeaders | None:
    sent = [name for name in (b"producer-id", b"producer-epoch", b"producer-seq") if name in found]
    if not sent:
        return None
    if len(sent) < len(ProducerHeaders._fields):
        raise InvalidRequest(
            "Producer-Id, Producer-Epoch and Producer-Seq", "sent together", ", ".join(name.decode() for name in sent)
        )
    producer = _text(found, b"producer-id", id_bytes_max)
    if not producer:
        raise InvalidRequest("Producer-Id", "non-empty")
    return ProducerHeaders(
        producer, _number("Producer-Epoch", found[b"producer-epoch"]), _number("Producer-Seq", found[b"producer-seq"])
    )


def _number(name: str, value: bytes) -> int:
    text = value.strip()
    if not text.isdigit() or len(text) > _DIGITS_MAX or int(text) > SEQ_MAX:
        raise InvalidRequest(name, f"a whole number from 0 to {SEQ_MAX}", value.decode("latin-1"))
    return int(text)


def _text(found: dict[bytes, bytes], name: bytes, bytes_max: int) -> str | None:
    value = found.get(name)
    if value is None:
        return None
    if len(value) > bytes_max:
        raise InvalidRequest(f"header `{name.decode()}`", f"at most {bytes_max} bytes long", f"{len(value)} bytes")
    try:
        return value.strip().decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidRequest(f"header `{name.decode()}`", "UTF-8 text") from None
