"""How the machine writes its requests, and how it reads what is no single stream's answer."""

import base64
import json
from typing import Any
from urllib.parse import quote

from tests.http.event_streams import with_line_feeds
from tests.http.wire import Reply
from tests.model.world import Append, Expected, Fork, Name, Stream, World, joined, media


def path_of(name: Name, *, v1: bool) -> str:
    """A stream's path on one surface or the other; a name with a slash has only one."""
    if v1 and name.bucket == "_default":
        return f"/v1/stream/{quote(name.stream, safe='')}"
    if v1 or "/" in name.stream:
        return f"/v1/stream/{name.bucket}/{quote(name.stream)}"
    return f"/{name.bucket}/{quote(name.stream, safe='')}"


def query_of(**given: object) -> str:
    pairs = [f"{name}={quote(str(value), safe='')}" for name, value in given.items() if value is not None]
    return "?" + "&".join(pairs) if pairs else ""


def headers_of(request: Append) -> dict[str, str]:
    found: dict[str, str] = {}
    if request.content_type is not None:
        found["content-type"] = request.content_type
    if request.close:
        found["stream-closed"] = "true"
    if request.producer is not None:
        id_, epoch, seq = request.producer
        found |= {"producer-id": id_, "producer-epoch": str(epoch), "producer-seq": str(seq)}
    if request.stream_seq is not None:
        found["stream-seq"] = request.stream_seq.encode().decode("latin-1")  # as its UTF-8 bytes
    if request.hint_us is not None:
        found["stream-timestamp"] = str(request.hint_us * 1000)
    return found


def fork_headers(fork: Fork) -> dict[str, str]:
    found = {"stream-forked-from": path_of(fork.source, v1=True)}
    if fork.offset is not None:
        found["stream-fork-offset"] = fork.offset
    return found | ({"stream-fork-sub-offset": str(fork.sub)} if fork.sub else {})


def token_of(epoch: int, seq: int) -> str:
    return Stream(0, epoch, "", None, None, 0, 0).token(seq)


def is_text(stream: Stream) -> bool:
    return stream.is_json or media(stream.content_type).startswith("text/")


def shown(stream: Stream, start: int, end: int) -> bytes:
    """Entries as the data of an event."""
    page = joined(stream.entries[start:end], as_json=stream.is_json)
    return with_line_feeds(page) if is_text(stream) else base64.b64encode(page)


def code_of(reply: Reply) -> Any:
    return json.loads(reply.body)["error"]["code"]


def check_listing(said: dict[str, Any], bucket: str, prefix: str, lines: dict[str, Any], limit: int) -> None:
    """The page holds every line that must be there, in order; lines under `name?` may be missing."""
    page = said["streams"]
    assert (said["bucket_id"], said["prefix"], said["stream_count"]) == (bucket, prefix, len(page))
    assert len(page) <= limit
    by_id = {line["stream_id"]: line for line in lines.values()}
    assert [by_id.get(line["stream_id"]) for line in page] == page
    order = [line["stream_id"] for line in page]
    assert order == sorted(order, key=str.encode)
    must = [key for key in lines if not key.endswith("?")]
    if said["has_more"]:
        assert said["next_cursor"] == order[-1]
        assert len(page) == limit
        assert {key for key in must if key.encode() <= order[-1].encode()} <= set(order)
    else:
        assert said["next_cursor"] is None
        assert set(must) <= set(order)


def post(name: Name, request: Append, world: World, alive: bool) -> Expected:  # noqa: FBT001 - called with what is possible
    return world.post(name, request, alive=alive)


def put(name: Name, request: Append, path: str, world: World, alive: bool) -> Expected:  # noqa: FBT001 - as above
    location = "http://node.test" + path
    return world.put(name, request, alive=alive, ttl_s=None, expires_us=None, implicit=True, path=location)


def get(name: Name, bytes_max: int, world: World, alive: bool) -> Expected:  # noqa: FBT001 - as above
    return world.get(name, None, alive=alive, bytes_max=bytes_max, form=None)
