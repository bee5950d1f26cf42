"""PUT, POST and DELETE of a stream."""

import re

from streams_node.errors import MethodNotAllowed
from streams_node.http.asgi import Receive, Scope, Send, answer, cors
from streams_node.http.context import Context
from streams_node.http.forks import fork_of
from streams_node.http.headers import RawHeaders, collected, lifetime, write_headers
from streams_node.http.pages import CLOSED
from streams_node.http.paths import Surface, Target, check_creatable
from streams_node.ingest.append import (
    CHECKS_MAX,
    LARGE_BYTES,
    Appended,
    AppendRequest,
    append,
    check_beside,
    open_large,
    waits_for_check,
)
from streams_node.ingest.create import Created, CreateRequest, create
from streams_node.ingest.remove import delete_stream
from streams_node.ingest.state import StreamState
from streams_node.observe.metrics import Metrics
from streams_node.protocol import content_types
from streams_node.protocol.producers import Producer

_HOST = re.compile(rb"[0-9A-Za-z._:\[\]-]{1,255}")


async def post(context: Context, target: Target, scope: Scope, receive: Receive, send: Send) -> int:
    """Append, close, or both."""
    found = collected(scope["headers"])
    said = write_headers(found, context.settings)
    body = await context.bodies.read(scope, receive, found.get(b"content-length"))
    request = AppendRequest(body, *said)
    ledger = context.ledger
    state = ledger.states.peek(target.name)
    if len(body) >= LARGE_BYTES and (state is None or state.meaning is None):
        request = await open_large(ledger, request, is_json=content_types.is_json(said.content_type or ""))
        state = ledger.states.peek(target.name)
    if state is None or state.gone or state.ttl_s is not None or state.expires_us is not None:
        state = await ledger.living(target.name)
    for _ in range(CHECKS_MAX):  # it may be declared anew meanwhile
        meaning = state.meaning
        if meaning is None or not waits_for_check(meaning, request, is_json=state.is_json):
            break
        request = await check_beside(ledger, meaning, request)
        state = await ledger.living(target.name)
    before = state.next_seq  # `append` decides before it waits for anything
    appended = await append(ledger, state, request)
    if appended.batch is not None:
        await appended.batch.settling
        count_appended(context.metrics, appended.next_seq - before, len(body))
    status, headers = appended_answer(state, appended, found, empty=not body)
    await answer(scope, send, status, headers)
    return status


def count_appended(metrics: Metrics, entries: int, size: int) -> None:
    metrics.appends += 1
    metrics.appended_entries += entries
    metrics.append_bytes += size


def appended_answer(
    state: StreamState, appended: Appended, found: dict[bytes, bytes], *, empty: bool
) -> tuple[int, RawHeaders]:
    """Status and headers for an append that is, or will be, stored."""
    headers: RawHeaders = [(b"stream-next-offset", state.token(appended.next_seq).encode())]
    if appended.closed:
        headers.append(CLOSED)
    if appended.producer is not None:
        headers += _producer(appended.producer)
    if appended.stored and appended.producer is not None and not empty:
        headers.append((b"content-length", b"0"))
        return 200, headers + cors(found)
    return 204, headers + cors(found)


async def put(context: Context, target: Target, scope: Scope, receive: Receive, send: Send) -> int:
    """Create a stream, or confirm that it is as asked."""
    check_creatable(target)
    found = collected(scope["headers"])
    ttl_s, expires_us = lifetime(found)
    fork = fork_of(context, found)
    said = write_headers(found, context.settings)
    body = await context.bodies.read(scope, receive, found.get(b"content-length"))
    first = AppendRequest(body, *said)
    if len(body) >= LARGE_BYTES:
        first = await open_large(context.ledger, first, is_json=content_types.is_json(said.content_type or ""))
    request = CreateRequest(
        said.content_type,
        ttl_s,
        expires_us,
        first,
        implicit_bucket=target.surface is Surface.V1,
        fork=fork,
    )
    created = await create(context.ledger, target.name, request)
    if created.batch is not None:
        await created.batch.settling
    status = 201 if created.fresh else 200
    await answer(scope, send, status, _created(context, scope, found, created) + cors(found))
    return status


async def delete(context: Context, target: Target, scope: Scope, receive: Receive, send: Send) -> int:  # noqa: ARG001 - every handler takes the same arguments
    """End a stream and everything in it."""
    batch = await delete_stream(context.ledger, target.name)
    await batch.settling
    await answer(scope, send, 204, cors(collected(scope["headers"])))
    return 204


def not_allowed(method: str) -> MethodNotAllowed:
    return MethodNotAllowed(method, "GET, HEAD, OPTIONS, POST, PUT, DELETE")


def _created(context: Context, scope: Scope, found: dict[bytes, bytes], created: Created) -> RawHeaders:
    state = created.state
    headers: RawHeaders = [
        (b"content-type", state.content_type.encode("latin-1")),
        (b"stream-next-offset", state.token(created.next_seq).encode()),
        (b"content-length", b"0"),
    ]
    if created.closed:
        headers.append(CLOSED)
    if created.fresh:
        headers.append((b"location", public_base(context, scope, found) + scope["raw_path"]))
    if created.producer is not None:
        headers += _producer(created.producer)
    return headers


def public_base(context: Context, scope: Scope, found: dict[bytes, bytes]) -> bytes:
    """The address clients use: as configured, otherwise as this client wrote it."""
    if context.settings.public_url:
        return context.settings.public_url.rstrip("/").encode()
    host = found.get(b"host") or b""
    if not _HOST.fullmatch(host):  # it is repeated in `Location`
        host = _listener(scope)
    return str(scope.get("scheme", "http")).encode() + b"://" + host


def _listener(scope: Scope) -> bytes:
    host, port = scope.get("server") or ("localhost", None)
    return f"{host}:{port}".encode() if port else str(host).encode()


def _producer(producer: Producer) -> RawHeaders:
    return [
        (b"producer-epoch", str(producer.epoch).encode()),
        (b"producer-seq", str(producer.seq).encode()),
    ]
