"""The one table from failures to status codes, and the shape that every failure has on the wire."""

from http import HTTPStatus
from typing import NamedTuple

import orjson

from streams_node import errors
from streams_node.errors import StreamsError

Headers = list[tuple[bytes, bytes]]
OVERLOAD_RETRY_S = b"1"  # a queue or a backlog drains in less
UNAVAILABLE_RETRY_S = b"5"  # a restart, an operator, or a full disk takes longer

STATUS: dict[type[StreamsError], HTTPStatus] = {
    errors.InvalidRequest: HTTPStatus.BAD_REQUEST,
    errors.InvalidOffset: HTTPStatus.BAD_REQUEST,
    errors.ReservedPath: HTTPStatus.BAD_REQUEST,
    errors.InvalidDeclaration: HTTPStatus.BAD_REQUEST,
    errors.InvalidEntry: HTTPStatus.BAD_REQUEST,
    errors.LensError: HTTPStatus.BAD_REQUEST,
    errors.Unauthorized: HTTPStatus.UNAUTHORIZED,
    errors.ProducerFenced: HTTPStatus.FORBIDDEN,
    errors.Missing: HTTPStatus.NOT_FOUND,
    errors.MethodNotAllowed: HTTPStatus.METHOD_NOT_ALLOWED,
    errors.RequestTimedOut: HTTPStatus.REQUEST_TIMEOUT,
    errors.AppendTimedOut: HTTPStatus.REQUEST_TIMEOUT,
    errors.Conflict: HTTPStatus.CONFLICT,
    errors.Gone: HTTPStatus.GONE,
    errors.TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.HeadTooLarge: HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    errors.Overloaded: HTTPStatus.TOO_MANY_REQUESTS,
    errors.NotImplementedYet: HTTPStatus.NOT_IMPLEMENTED,
    errors.Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreRefused: HTTPStatus.SERVICE_UNAVAILABLE,  # until an operator has acted; nothing here is wrong
    StreamsError: HTTPStatus.INTERNAL_SERVER_ERROR,
}


class Problem(NamedTuple):
    """A failure, ready to be sent."""

    status: int
    code: str
    headers: Headers
    body: bytes


def problem(failure: BaseException) -> Problem:
    """What a client is told. A failure that is not one of ours tells nothing but that it happened."""
    if not isinstance(failure, StreamsError):
        failure = StreamsError("internal error; the request id is in the node's log")
    status = next(STATUS[kind] for kind in type(failure).__mro__ if kind in STATUS)
    said = {"code": failure.code, "message": failure.message} | failure.facts
    body = orjson.dumps({"error": said}, default=str)
    headers = [
        (b"content-type", b"application/json"),
        (b"cache-control", b"no-store"),
        (b"content-length", str(len(body)).encode()),
        *_facts(failure),
    ]
    return Problem(int(status), failure.code, headers, body)


def _facts(failure: StreamsError) -> Headers:
    match failure:
        case errors.StreamClosed():
            return [(b"stream-closed", b"true"), (b"stream-next-offset", failure.next_offset.encode())]
        case errors.InvalidOffset():
            return [(b"stream-next-offset", failure.tail.encode())]
        case errors.Gone():
            said = ((b"stream-next-offset", failure.next_offset), (b"stream-earliest-offset", failure.earliest))
            return [(name, value.encode()) for name, value in said if value is not None]
        case errors.ProducerGap():
            return [
                (b"producer-expected-seq", str(failure.expected).encode()),
                (b"producer-received-seq", str(failure.received).encode()),
            ]
        case errors.ProducerFenced():
            return [(b"producer-epoch", str(failure.current_epoch).encode())]
        case errors.MethodNotAllowed():
            return [(b"allow", failure.allow.encode())]
        case errors.Unauthorized():
            return [(b"www-authenticate", b"Bearer")]
        case errors.Overloaded():
            return [(b"retry-after", OVERLOAD_RETRY_S)]
        case errors.Unavailable() | errors.StoreUnavailable() | errors.StoreRefused():
            return [(b"retry-after", UNAVAILABLE_RETRY_S)]
        case _:
            return []
