"""The reserved `__ds` space: subscriptions, their wakes, and the keys that sign webhooks. Ordinary Litestar handlers.

Who holds a wake shows its token as `Authorization: Bearer`; a node's own key has no place there, and is not asked for.
"""

from typing import Any
from urllib.parse import quote, unquote_to_bytes

import msgspec
from litestar import Request, Response, delete, get, post, put
from litestar.datastructures import State
from litestar.params import FromPath
from msgspec import UNSET, UnsetType

from streams_node.errors import BadSubscription, InvalidRequest, StreamsError
from streams_node.http.context import Context
from streams_node.http.headers import collected
from streams_node.http.paths import V1, v1_target
from streams_node.http.write import public_base
from streams_node.protocol.times import rfc3339
from streams_node.subscriptions import (
    ACKS_MAX,
    Ack,
    Holding,
    Jwk,
    Kind,
    Link,
    Subscription,
    Subscriptions,
    WakeStream,
    Wanted,
    parse,
    path_of,
    stream_of,
)
from streams_node.wal.lookup import Name

Req = Request[Any, Any, State]
_ROOT = "/v1/stream/__ds"
_ONE = f"{_ROOT}/subscriptions/{{id:str}}"
BODY_BYTES_MAX = 1 << 20
_ID_CHARS_MAX = 128
_WORKER_CHARS_MAX = 256
_DESCRIPTION_CHARS_MAX = 4096
_LEASE_MS, _LEASE_MS_MIN, _LEASE_MS_MAX = 30_000, 1000, 600_000
_JWKS_AGE = "public, max-age=300"


# --- what comes in ----------------------------------------------------------------------------------------------------


class WebhookBody(msgspec.Struct):
    url: str


class SubscriptionBody(msgspec.Struct, omit_defaults=True):
    type: str
    pattern: str | None = None
    streams: list[str] | None = None
    webhook: WebhookBody | None = None
    wake_stream: str | None = None
    lease_ttl_ms: int | None = None
    description: str | None = None


class StreamsBody(msgspec.Struct):
    streams: list[str]


class ClaimBody(msgspec.Struct):
    worker: str


class AckedStream(msgspec.Struct):
    offset: str
    stream: str | None = None
    path: str | None = None


class HoldingBody(msgspec.Struct):
    wake_id: str
    generation: int


class AckBody(HoldingBody):
    acks: list[AckedStream] = []
    done: bool = False


# --- what goes out ----------------------------------------------------------------------------------------------------


class LinkView(msgspec.Struct):
    path: str
    link_type: str
    acked_offset: str


class SigningView(msgspec.Struct):
    alg: str
    kid: str
    jwks_url: str


class WebhookView(msgspec.Struct):
    url: str
    signing: SigningView


class SubscriptionView(msgspec.Struct, omit_defaults=True):
    id: str
    subscription_id: str
    type: str
    streams: list[LinkView]
    lease_ttl_ms: int
    created_at: str
    status: str
    pattern: str | UnsetType = UNSET
    webhook: WebhookView | UnsetType = UNSET
    wake_stream: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    more_streams: bool = False


class ClaimView(msgspec.Struct):
    wake_id: str
    generation: int
    token: str
    streams: list[WakeStream]
    lease_ttl_ms: int


class AckView(msgspec.Struct):
    ok: bool
    next_wake: bool


class JwksView(msgspec.Struct):
    keys: list[Jwk]


# --- subscriptions ----------------------------------------------------------------------------------------------------


@put(_ONE, status_code=201)
async def subscription_create(request: Req, id: FromPath[str]) -> Response[SubscriptionView]:  # noqa: A002 - as in its path
    """Make a subscription, or confirm it."""
    if not id.isprintable() or len(id) > _ID_CHARS_MAX:
        raise BadSubscription(f"the id of a subscription has at most {_ID_CHARS_MAX} printable characters")
    context = _context(request)
    body = await _body(request, SubscriptionBody)
    wanted = _wanted(context, body)
    subscription, fresh = await context.subscriptions.create(id, wanted, _base(request))
    return Response(await _view(request, subscription), status_code=201 if fresh else 200)


@get(_ONE)
async def subscription_get(request: Req, id: FromPath[str]) -> SubscriptionView:  # noqa: A002
    """What is known of a subscription."""
    return await _view(request, _subscriptions(request).get(id))


@delete(_ONE, status_code=204)
async def subscription_delete(request: Req, id: FromPath[str]) -> None:  # noqa: A002
    """End a subscription."""
    await _subscriptions(request).delete(id)


@post(f"{_ONE}/streams", status_code=204)
async def subscription_name(request: Req, id: FromPath[str]) -> None:  # noqa: A002
    """Add streams by name."""
    context = _context(request)
    subscription = context.subscriptions.get(id)
    body = await _body(request, StreamsBody)
    await context.subscriptions.name_streams(subscription, _names(context, body.streams))


@delete(f"{_ONE}/streams/{{path:path}}", status_code=204)
async def subscription_unname(request: Req, id: FromPath[str], path: FromPath[str]) -> None:  # noqa: A002
    """Take a stream out that was added by name."""
    context = _context(request)
    subscription = context.subscriptions.get(id)
    await context.subscriptions.unname_stream(subscription, _name(context, str(path)))


# --- wakes ------------------------------------------------------------------------------------------------------------


@post(f"{_ONE}/claim", status_code=200)
async def subscription_claim(request: Req, id: FromPath[str]) -> ClaimView:  # noqa: A002
    """Get the current wake."""
    subscriptions = _subscriptions(request)
    subscription = subscriptions.get(id)
    worker = (await _body(request, ClaimBody)).worker
    if not 0 < len(worker) <= _WORKER_CHARS_MAX:
        raise BadSubscription(f"`worker` must have 1 to {_WORKER_CHARS_MAX} characters")
    claim = await subscriptions.claim(subscription, worker)
    streams = [stream_of(each) for each in claim.wake.seen]
    return ClaimView(claim.wake.id or "", claim.wake.generation, claim.token, streams, claim.lease_ms)


@post(f"{_ONE}/ack", status_code=200)
async def subscription_ack(request: Req, id: FromPath[str]) -> AckView:  # noqa: A002
    """Acknowledge, as the worker that has claimed."""
    return await _acked(request, id, Kind.PULL)


@post(f"{_ONE}/callback", status_code=200)
async def subscription_callback(request: Req, id: FromPath[str]) -> AckView:  # noqa: A002
    """Acknowledge, as the receiver of a webhook."""
    return await _acked(request, id, Kind.WEBHOOK)


@post(f"{_ONE}/release", status_code=204)
async def subscription_release(request: Req, id: FromPath[str]) -> None:  # noqa: A002
    """Let go of a wake."""
    subscriptions = _subscriptions(request)
    subscription = subscriptions.get(id)
    body = await _body(request, HoldingBody)
    await subscriptions.release(subscription, _holding(request, body))


@get(f"{_ROOT}/jwks.json")
async def jwks(request: Req) -> Response[JwksView]:
    """The keys that webhooks are signed with."""
    view = JwksView(_subscriptions(request).keys.jwks())
    headers = {"content-type": "application/jwk-set+json", "cache-control": _JWKS_AGE}
    return Response(view, headers=headers, media_type="application/jwk-set+json")


# --- helpers ----------------------------------------------------------------------------------------------------------


def _context(request: Req) -> Context:
    """The node, for a path that is text: what is none was decoded to `\ufffd`, and must not name a subscription."""
    try:
        unquote_to_bytes(request.scope["raw_path"]).decode()
    except UnicodeDecodeError:
        raise InvalidRequest("the path", "UTF-8") from None
    context: Context = request.app.state.context
    return context


def _subscriptions(request: Req) -> Subscriptions:
    return _context(request).subscriptions


def _base(request: Req) -> str:
    return public_base(_context(request), request.scope, _headers(request)).decode("latin-1")  # type: ignore[arg-type]


def _headers(request: Req) -> dict[bytes, bytes]:
    return collected(list(request.scope["headers"]))


async def _body(request: Req, shape: type[msgspec.Struct]) -> Any:
    """The JSON body, of a shape."""
    declared = _headers(request).get(b"content-length")
    raw = await _context(request).bodies.read(request.scope, request.receive, declared, BODY_BYTES_MAX)  # type: ignore[arg-type]
    try:
        return msgspec.json.decode(raw, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise BadSubscription(f"the body is not as described: {problem}") from None


async def _acked(request: Req, id_: str, kind: Kind) -> AckView:
    context = _context(request)
    subscription = context.subscriptions.get(id_)
    if subscription.kind is not kind:
        raise BadSubscription(f"this is not for a subscription of type `{subscription.kind.value}`")
    body: AckBody = await _body(request, AckBody)
    if len(body.acks) > ACKS_MAX:
        raise BadSubscription(f"a request may acknowledge {ACKS_MAX} streams")
    acks = [Ack(_name(context, each.stream or each.path or ""), each.offset) for each in body.acks]
    more = await context.subscriptions.ack(subscription, _holding(request, body), acks, done=body.done)
    return AckView(ok=True, next_wake=more)


def _holding(request: Req, body: HoldingBody) -> Holding:
    said = _headers(request).get(b"authorization", b"").decode("latin-1")
    scheme, _, token = said.partition(" ")
    return Holding(token.strip() if scheme.lower() == "bearer" else None, body.generation, body.wake_id)


def _wanted(context: Context, body: SubscriptionBody) -> Wanted:
    """What a body asks for, or what is wrong with it."""
    try:
        kind = Kind(body.type)
    except ValueError:
        raise BadSubscription("`type` must be `webhook` or `pull-wake`") from None
    pattern = None if body.pattern is None else "/".join(parse(body.pattern))
    streams = tuple(_names(context, body.streams or []))
    if pattern is None and not streams:
        raise BadSubscription("a subscription needs a `pattern`, or `streams`")
    lease_ms = _LEASE_MS if body.lease_ttl_ms is None else body.lease_ttl_ms
    if not _LEASE_MS_MIN <= lease_ms <= _LEASE_MS_MAX:
        raise BadSubscription(f"`lease_ttl_ms` must be from {_LEASE_MS_MIN} to {_LEASE_MS_MAX}")
    if (body.webhook is not None) != (kind is Kind.WEBHOOK):
        raise BadSubscription("`webhook` with its `url` belongs to the type `webhook`, which needs it")
    if (body.wake_stream is not None) != (kind is Kind.PULL):
        raise BadSubscription("`wake_stream` belongs to the type `pull-wake`, which needs it")
    if body.description is not None and len(body.description) > _DESCRIPTION_CHARS_MAX:
        raise BadSubscription(f"`description` may have {_DESCRIPTION_CHARS_MAX} characters")
    url = None if body.webhook is None else body.webhook.url
    wake = None if body.wake_stream is None else _name(context, body.wake_stream)
    return Wanted(kind, pattern, streams, url, wake, lease_ms, body.description)


def _names(context: Context, paths: list[str]) -> list[Name]:
    if len(paths) > context.settings.subscription_streams_max:
        raise BadSubscription(f"a subscription may name {context.settings.subscription_streams_max} streams")
    return list(dict.fromkeys(_name(context, path) for path in paths))


def _name(context: Context, path: str) -> Name:
    """The stream of a path below `/v1/stream/`. Slashes around it do not count."""
    try:
        raw = V1 + quote(path.strip("/"), safe="/").encode()
        target = v1_target(raw, path_bytes_max=context.settings.stream_path_bytes_max)
    except (StreamsError, UnicodeEncodeError) as problem:
        raise BadSubscription(f"`{path[:64]}` is no path of a stream: {problem}") from None
    if target.sub is not None:
        raise BadSubscription(f"`{path[:64]}` is a part of a stream")
    return target.name


async def _view(request: Req, subscription: Subscription) -> SubscriptionView:
    subscriptions = _subscriptions(request)
    links, more = await subscriptions.links(subscription)
    webhook: WebhookView | UnsetType = UNSET
    if subscription.url is not None:
        where = f"{_base(request)}{_ROOT}/jwks.json"
        webhook = WebhookView(subscription.url, SigningView("ed25519", subscriptions.keys.kid, where))
    wake = subscription.wake_stream
    return SubscriptionView(
        subscription.id,
        subscription.id,
        subscription.kind.value,
        [_link_view(link) for link in links],
        subscription.lease_ms,
        rfc3339(subscription.created_us),
        subscription.status,
        UNSET if subscription.pattern is None else subscription.pattern,
        webhook,
        UNSET if wake is None else path_of(wake),
        UNSET if subscription.description is None else subscription.description,
        more,
    )


def _link_view(link: Link) -> LinkView:
    return LinkView(path_of(link.name), "explicit" if link.explicit else "glob", link.acked)


HANDLERS = (
    subscription_create, subscription_get, subscription_delete, subscription_name, subscription_unname,
    subscription_claim, subscription_ack, subscription_callback, subscription_release, jwks,
)  # fmt: skip
