"""What goes through the pipes: one line of JSON a command, and one an answer.

to the child     {"number": 1, "command": "seal", "arguments": {…}}
from the child   {"number": 1, "result": {…}}
             or  {"number": 1, "error": {"kind": "StoreUnavailable", "message": "…", "fields": {…}}}
"""

from typing import Any

import msgspec

from streams_node.errors import StreamsError, WorkerFailed

LINE_BYTES_MAX = 32 << 20  # the directory of a pack of a million streams takes a few MiB


class Request(msgspec.Struct):
    number: int
    command: str
    arguments: dict[str, Any]


class Failure(msgspec.Struct):
    """An error of ours by the name of its class; anything else has no kind."""

    message: str
    kind: str | None = None
    fields: dict[str, Any] = {}


class Answer(msgspec.Struct, omit_defaults=True):
    number: int
    result: dict[str, Any] | None = None
    error: Failure | None = None


_ENCODER = msgspec.json.Encoder(enc_hook=str)
_REQUESTS = msgspec.json.Decoder(Request)
_ANSWERS = msgspec.json.Decoder(Answer)


def line_of(message: Request | Answer) -> bytes:
    """A message as a line; what JSON does not know becomes its text."""
    return _ENCODER.encode(message) + b"\n"


def read_request(line: bytes) -> Request:
    return _REQUESTS.decode(line)


def read_answer(line: bytes) -> Answer:
    return _ANSWERS.decode(line)


def failure_of(problem: Exception) -> Failure:
    """An error as it travels."""
    if isinstance(problem, StreamsError):
        fields = {name: value for name, value in vars(problem).items() if name != "message"}
        return Failure(problem.message, type(problem).__name__, fields)
    return Failure(f"{type(problem).__name__}: {problem}")


def error_of(failure: Failure) -> StreamsError:
    """The error that a child raised: of its own class, so that it is handled as if it had been raised here."""
    kind = _kinds().get(failure.kind or "")
    if kind is None:
        return WorkerFailed(f"the worker failed: {failure.message}")
    error = kind.__new__(kind)  # constructors make messages out of facts; here is the message, and there are the facts
    error.args = (failure.message,)
    vars(error).update({"facts": {}} | failure.fields | {"message": failure.message})
    return error


def _kinds() -> dict[str, type[StreamsError]]:
    found: dict[str, type[StreamsError]] = {}
    waiting = [StreamsError]
    while waiting:
        kind = waiting.pop()
        found[kind.__name__] = kind
        waiting += kind.__subclasses__()
    return found
