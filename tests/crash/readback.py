"""Reads everything back: streams by offset paging, the listings of the node and of its buckets.

The listings are asked first, right after a start: what they say then comes from the database alone, because no stream
has been loaded yet. A head that was not brought up to the log shows there.
"""

import json
from collections.abc import Iterable
from random import Random
from typing import Any

from tests.crash.model import Broken, Found, Presence, Stream, place
from tests.support.wire import Answer, Wire

_PAGES = (None, None, 1500, 20_000)  # bytes a page: as the node likes, or small ones that end between entries
_STREAMS_PAGE = 700
_BUCKET_PAGE = 7
_PAGES_MAX = 100_000


async def read_stream(wire: Wire, stream: Stream, random: Random) -> Found | None:
    """The whole stream from its start, or None when the node says that there is none."""
    head = await wire.request("HEAD", stream.path)
    if head.status == 404:
        return None
    _expect(head, 200, stream.path)
    epoch, tail = place(head.next_offset)
    closed = head.headers.get("stream-closed") == "true"
    try:
        entries = await read_entries(wire, stream, random.choice(_PAGES))
    except Over:
        return None
    return Found(epoch, tail, closed, entries)


class Over(Exception):
    """A stream with a window ended between two requests: whether it was allowed to is for the model to say."""


async def read_entries(wire: Wire, stream: Stream, page_bytes: int | None = None, offset: str = "-1") -> list[str]:
    """Entries from an offset to the end; every page must begin where the one before it ended."""
    entries: list[str] = []
    first = 0 if offset == "-1" else place(offset).seq
    for _ in range(_PAGES_MAX):
        size = "" if page_bytes is None else f"&max_bytes={page_bytes}"
        answer = await wire.request("GET", f"{stream.path}?offset={offset}{size}")
        if answer.status == 404 and stream.ttl_s is not None:
            raise Over
        _expect(answer, 200, stream.path)
        page = entries_of(stream, answer.body)
        entries += page
        offset = answer.next_offset
        if place(offset).seq != first + len(entries):
            raise Broken(f"{stream.path}: {first + len(entries)} entries came, the next offset says {place(offset)}")
        if answer.headers.get("stream-up-to-date") == "true":
            return entries
        if not page:
            raise Broken(f"{stream.path}: an empty page at {offset} that is not the end")
    raise Broken(f"{stream.path}: paging does not end")


def entries_of(stream: Stream, body: bytes) -> list[str]:
    """The entries of a page: JSON strings, or lines."""
    if stream.json:
        found: list[str] = json.loads(body)
        return found
    lines = body.decode().split("\n")
    if lines.pop():
        raise Broken(f"{stream.path}: a page ends within an entry")
    return [line + "\n" for line in lines]


async def list_node(wire: Wire) -> dict[str, dict[str, Any]]:
    """All pages of `/v1/streams`, by the path of the stream."""
    listed: dict[str, dict[str, Any]] = {}
    offset = 0
    while True:
        answer = await wire.request("GET", f"/v1/streams?limit={_STREAMS_PAGE}&offset={offset}")
        _expect(answer, 200, "/v1/streams")
        page = json.loads(answer.body)
        listed |= {entry["name"]: entry for entry in page}
        offset += _STREAMS_PAGE
        if not page:
            return listed


async def list_bucket(wire: Wire, bucket: str) -> dict[str, dict[str, Any]] | None:
    """All pages of a bucket's listing, by stream id; None when there is no bucket. Its own count must agree."""
    about = await wire.request("GET", f"/{bucket}")
    if about.status == 404:
        return None
    _expect(about, 200, bucket)
    listed: dict[str, dict[str, Any]] = {}
    after = ""
    while True:
        answer = await wire.request("GET", f"/{bucket}/streams?limit={_BUCKET_PAGE}{after}")
        _expect(answer, 200, bucket)
        page = json.loads(answer.body)
        listed |= {entry["stream_id"]: entry for entry in page["streams"]}
        if not page["has_more"]:
            break
        after = f"&after={page['next_cursor']}"
    counted = json.loads(about.body)["streams"]
    if counted != len(listed):
        raise Broken(f"bucket {bucket} counts {counted} streams and lists {sorted(listed)}")
    return listed


def compare_listing(listed: dict[str, dict[str, Any]], streams: Iterable[Stream]) -> None:
    """After everything is settled: the listing taken before names exactly the living streams, with their ends."""
    expected = {name_of(stream): stream for stream in streams}
    strangers = listed.keys() - expected.keys()
    if strangers:
        raise Broken(f"the listing names {sorted(strangers)[:3]}, which nobody made")
    for name, stream in expected.items():
        entry = listed.get(name)
        if stream.ttl_s is not None:
            continue  # its time may have ended between the two
        if (entry is not None) != (stream.presence is Presence.PRESENT):
            raise Broken(f"{name} is {stream.presence}, the listing says {entry}")
        if entry is not None and int(entry["next_offset"]) != stream.tail:
            raise Broken(f"{name} has {stream.tail} entries, the listing says {entry}")


def name_of(stream: Stream) -> str:
    """How `/v1/streams` calls it."""
    return stream.path.removeprefix("/v1/stream/").removeprefix("/")


def _expect(answer: Answer, status: int, what: str) -> None:
    if answer.status != status:
        raise Broken(f"{what}: {answer.status} instead of {status}: {answer.body[:200]!r}")
