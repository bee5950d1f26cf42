"""`stream create`, `append`, `close` and `rm`."""

import io
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, BinaryIO

from streams_node.cli.client import Answer, Client, UsageError, path_of_stream
from streams_node.cli.output import Output
from streams_node.cli.session import DEFAULTS, SWITCH, VALUE, Options, run

_CREATED = 201


class UnreadableFileError(UsageError):
    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file} cannot be read: {reason}")


def create(
    name: str,
    *,
    content_type: str | None = None,
    ttl: str | None = None,
    expires_at: str | None = None,
    closed: Annotated[bool, SWITCH] = False,
    options: Options = DEFAULTS,
) -> int:
    """Create a stream; a second time with the same properties changes nothing.

    Parameters
    ----------
    name
        `stream` or `bucket/stream`.
    content_type
        Media type of all entries; without it the node's default, application/octet-stream.
    ttl
        Seconds without reads and writes after which the stream expires.
    expires_at
        Moment at which the stream expires, like 2030-01-01T00:00:00Z.
    closed
        Create it closed: it can be read, and never be appended to.
    options
        The node to talk to, and how to print.
    """
    wanted = {"Content-Type": content_type, "Stream-TTL": ttl, "Stream-Expires-At": expires_at}
    headers = {header: value for header, value in wanted.items() if value is not None}
    if closed:
        headers["Stream-Closed"] = "true"

    def act(client: Client, output: Output) -> None:
        answer = client.send("PUT", path_of_stream(name), headers=headers)
        is_new = answer.status == _CREATED
        _report(output, name, answer, "created" if is_new else "exists already", created=is_new)

    return run(options, act)


def append(
    name: str,
    file: Annotated[str, VALUE] = "-",
    *,
    data: Annotated[str | None, VALUE] = None,
    lines: Annotated[bool, SWITCH] = False,
    content_type: str | None = None,
    options: Options = DEFAULTS,
) -> int:
    """Append to a stream, from stdin if nothing else is said.

    Parameters
    ----------
    name
        `stream` or `bucket/stream`.
    file
        File to append; `-` is stdin.
    data
        Text to append, instead of a file.
    lines
        One append a line, without the line's end; empty lines are left out.
    content_type
        Media type of what is sent; without it the stream's own is asked for.
    options
        The node to talk to, and how to print.
    """
    if data is not None and file != "-":
        return Output(json=options.json).misuse("give --data or a file, not both")

    def act(client: Client, output: Output) -> None:
        path = path_of_stream(name)
        headers = {"Content-Type": content_type or _content_type(client, path)}
        last, count = None, 0
        for body in _bodies(file, data, lines=lines):
            last, count = client.send("POST", path, headers=headers, body=body), count + 1
            if options.json:
                _report(output, name, last, "")
        if last is not None and not options.json:
            _report(output, name, last, f"{count} append{'s' if count > 1 else ''} stored")

    return run(options, act)


def close(name: str, *, options: Options = DEFAULTS) -> int:
    """Close a stream for good: it can still be read, and never be appended to again."""

    def act(client: Client, output: Output) -> None:
        _report(output, name, client.send("POST", path_of_stream(name), headers={"Stream-Closed": "true"}), "closed")

    return run(options, act)


def remove(name: str, *, yes: Annotated[bool, SWITCH] = False, options: Options = DEFAULTS) -> int:
    """Delete a stream and all its entries; there is no way back, so `--yes` has to be given."""
    if not yes:
        return Output(json=options.json).misuse(f"this deletes {name} and all its entries; add --yes if that is meant")

    def act(client: Client, output: Output) -> None:
        client.send("DELETE", path_of_stream(name))
        output.result({"stream": name, "deleted": True}, f"{name}: deleted")

    return run(options, act)


def _report(output: Output, name: str, answer: Answer, done: str, **facts: object) -> None:
    state = {"stream": name, **facts, "next_offset": answer.next_offset, "closed": answer.closed}
    output.result(state, f"{name}: {done}; next offset {answer.next_offset}")


def _content_type(client: Client, path: str) -> str:
    return client.send("HEAD", path).headers.get("content-type", "application/octet-stream")


def _bodies(file: str, data: str | None, *, lines: bool) -> Iterator[bytes]:
    try:
        with _source(file, data) as source:
            if not lines:
                yield source.read()
                return
            # One at a time, so that `tail -f log | stream append --lines` sends each when it comes.
            yield from filter(None, (line.rstrip(b"\r\n") for line in source))
    except OSError as error:
        raise UnreadableFileError(file, error.strerror or str(error)) from error


def _source(file: str, data: str | None) -> AbstractContextManager[BinaryIO]:
    if data is not None:
        return io.BytesIO(data.encode())
    return nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb")
