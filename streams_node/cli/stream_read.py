"""`stream read`, `tail` and `ls`."""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated

from streams_node.cli.client import Answer, Client, RefusedError, UnreachableError, path_of_stream, quoted
from streams_node.cli.output import Output
from streams_node.cli.pages import Page, pages_of_events
from streams_node.cli.session import DEFAULTS, SWITCH, VALUE, Options, run


def read(
    name: str,
    *,
    offset: Annotated[str, VALUE] = "-1",
    max_bytes: int | None = None,
    follow_pages: bool = True,
    options: Options = DEFAULTS,
) -> int:
    """Print what a stream holds: a JSON message a line, other types byte for byte.

    Parameters
    ----------
    name
        `stream` or `bucket/stream`.
    offset
        Where to begin: -1 is the start, or a next offset that was printed before.
    max_bytes
        Size of a page.
    follow_pages
        Go on until the end of the stream; without it one page is printed.
    options
        The node to talk to, and how to print.
    """

    def act(client: Client, output: Output) -> None:
        for page in _pages(client, path_of_stream(name), offset, max_bytes):
            _print(output, name, page)
            if not follow_pages:
                output.say(f"next offset {page.next_offset}")
                return

    return run(options, act)


def tail(
    name: str,
    *,
    offset: Annotated[str, VALUE] = "now",
    sse: Annotated[bool, SWITCH] = False,
    options: Options = DEFAULTS,
) -> int:
    """Print entries as they come, until the stream is closed or you stop it.

    Parameters
    ----------
    name
        `stream` or `bucket/stream`.
    offset
        Where to begin: `now`, -1 for the start, or a next offset that was printed before.
    sse
        Use one long answer (server-sent events) instead of one request after another.
    options
        The node to talk to, and how to print.
    """

    def act(client: Client, output: Output) -> None:
        path, reached = path_of_stream(name), offset
        try:
            for page in (_live_events if sse else _live_polls)(client, path, offset):
                _print(output, name, page)
                reached = page.next_offset
        except (RefusedError, UnreachableError):
            output.say(f"to go on: --offset {reached}")
            raise

    return run(options, act)


def list_streams(
    *,
    bucket: str | None = None,
    prefix: Annotated[str | None, VALUE] = None,
    limit: int | None = None,
    after: Annotated[str | None, VALUE] = None,
    options: Options = DEFAULTS,
) -> int:
    """List streams: those of a bucket, or all of the node.

    Parameters
    ----------
    bucket
        Only this bucket; without it, all streams of the node.
    prefix
        Only names that begin so; needs --bucket.
    limit
        How many at most.
    after
        Where to go on: with --bucket the last name that was printed, otherwise the number of streams to skip.
    options
        The node to talk to, and how to print.
    """
    output = Output(json=options.json)
    if bucket is None and prefix is not None:
        return output.misuse("--prefix needs --bucket")
    if bucket is None and after is not None and not after.isdecimal():
        return output.misuse("without --bucket, --after is the number of streams to skip")

    def act(client: Client, output: Output) -> None:
        if bucket is None:
            _list_node(client, output, {"limit": limit, "offset": after})
        else:
            _list_bucket(client, output, bucket, {"prefix": prefix, "limit": limit, "after": after})

    return run(options, act)


# --- pages ----------------------------------------------------------------------------------------------------------


def _print(output: Output, name: str, page: Page) -> None:
    if output.json:
        output.result(page.facts(name), "")
    elif page.body:
        output.result({}, page.shown())


def _page(answer: Answer) -> Page:
    return Page(
        body=answer.body,
        content_type=answer.headers.get("content-type", ""),
        next_offset=answer.next_offset,
        up_to_date=answer.up_to_date,
        closed=answer.closed,
    )


def _pages(client: Client, path: str, offset: str, max_bytes: int | None) -> Iterator[Page]:
    limit = {} if max_bytes is None else {"max_bytes": str(max_bytes)}
    while True:
        page = _page(client.send("GET", path, params={"offset": offset, **limit}))
        yield page
        # The second condition ends the loop for a server that does not say when it is at the end.
        if page.up_to_date or page.next_offset in {"", offset}:
            return
        offset = page.next_offset


def _live_polls(client: Client, path: str, offset: str) -> Iterator[Page]:
    params = {"offset": offset, "live": "long-poll"}
    while True:
        answer = client.send("GET", path, params=params)
        page = _page(answer)
        # A poll that timed out says nothing new; the end of a closed stream does.
        if page.body or page.closed:
            yield page
        if page.closed:
            return
        params = {"offset": page.next_offset, "live": "long-poll"}
        if "stream-cursor" in answer.headers:
            params["cursor"] = answer.headers["stream-cursor"]


def _live_events(client: Client, path: str, offset: str) -> Iterator[Page]:
    # Events carry entries without their type, and the answer's own type is that of the events.
    content_type = client.send("HEAD", path).headers.get("content-type", "")
    closed = False
    while not closed:
        told = False
        for page in pages_of_events(client.lines(path, {"offset": offset, "live": "sse"}), content_type):
            told, offset, closed = True, page.next_offset, page.closed
            if page.body or closed:
                yield page
        # A node ends the answer every minute or so and the reader resumes; an answer without any event is no node.
        if not told:
            raise UnreachableError(path, "the event stream ended before its first event")


# --- lists ----------------------------------------------------------------------------------------------------------


def _list_node(client: Client, output: Output, wishes: Mapping[str, object]) -> None:
    for row in json.loads(client.send("GET", "/v1/streams", params=_given(wishes)).body):
        output.result(row, "\t".join(str(row.get(key, "")) for key in ("name", "profile", "created_at", "next_offset")))


def _list_bucket(client: Client, output: Output, bucket: str, wishes: Mapping[str, object]) -> None:
    page = json.loads(client.send("GET", f"/{quoted(bucket)}/streams", params=_given(wishes)).body)
    for row in page["streams"]:
        shown = (row.get(key, "") for key in ("stream_id", "status", "content_type", "tail_offset"))
        output.result(row, "\t".join(map(str, shown)))
    if page.get("has_more"):
        output.say(f"more: --after {page.get('next_cursor')}")


def _given(wishes: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in wishes.items() if value is not None}
