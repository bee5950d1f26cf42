"""Every route of the node, once: its class, who may use it, and what it does. The edge asks this table, and a test that
every handler is in it.

    public      streams, buckets, health
    operator    metrics, inspection, administration: on the operator's own listener if there is one
    internal    the indexer's: wherever the operator's routes are
"""

import re
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from streams_node.http.paths import RESERVED, Surface


class RouteClass(Enum):
    PUBLIC = "public"
    OPERATOR = "operator"
    INTERNAL = "internal"


class Access(Enum):
    """What a request must show, where the node asks for keys at all."""

    OPEN = "open"
    KEY = "key"


class Route(NamedTuple):
    """Requests with one of these methods and a path of this pattern."""

    name: str
    methods: str
    pattern: str
    kind: RouteClass
    access: Access
    summary: str


_P, _O, _I = RouteClass.PUBLIC, RouteClass.OPERATOR, RouteClass.INTERNAL
DS = RESERVED.decode()
_DS_ONE = "/v1/stream/__ds/subscriptions/{id}"
ROUTES: tuple[Route, ...] = (
    Route("root", "GET", "/", _P, Access.OPEN, "where to begin"),
    Route("health", "GET", "/health", _P, Access.OPEN, "the process answers"),
    Route("healthz", "GET", "/healthz", _P, Access.OPEN, "the same, under another usual name"),
    Route("livez", "GET", "/livez", _P, Access.OPEN, "the event loop moves"),
    Route("readyz", "GET", "/readyz", _P, Access.OPEN, "reads and writes are taken; 503 with the reasons otherwise"),
    Route("metrics", "GET", "/metrics", _O, Access.KEY, "Prometheus text"),
    Route("openapi", "GET", "/openapi.json", _O, Access.KEY, "this interface as OpenAPI"),
    # A browser cannot send a key with an address. The page is the same on every node, and asks for the key itself.
    Route("docs", "GET", "/docs", _O, Access.OPEN, "this interface as a page"),
    # The admin page asks for the key, too; its files are those of every node of this version.
    Route("ui", "GET", "/ui", _O, Access.OPEN, "the admin page"),
    Route("ui.asset", "GET", "/ui/{asset}", _O, Access.OPEN, "a file of the admin page"),
    Route("server.details", "GET", "/v1/server/_details", _O, Access.KEY, "the node's limits, and how it is"),
    Route("server.memory", "GET", "/v1/server/_mem", _O, Access.KEY, "what the node's memory is used for"),
    Route(
        "server.subscriptions",
        "GET",
        "/v1/server/_subscriptions",
        _O,
        Access.KEY,
        "all subscriptions, and how they are",
    ),
    Route("index.overview", "GET", "/v1/server/_index", _O, Access.KEY, "what there is to index, and who is at it"),
    Route("index.claim", "POST", "/v1/server/_index/claim", _I, Access.KEY, "work for an index driver"),
    Route("index.renew", "POST", "/v1/server/_index/renew", _I, Access.KEY, "an index driver is still at it"),
    Route("index.commit", "POST", "/v1/server/_index/commit", _I, Access.KEY, "what came of a claim"),
    Route("streams", "GET", "/v1/streams", _P, Access.KEY, "list the streams of all buckets"),
    Route("stream.create", "PUT", "/v1/stream/{path}", _P, Access.KEY, "create a stream"),
    Route("stream.append", "POST", "/v1/stream/{path}", _P, Access.KEY, "append to or close a stream"),
    Route("stream.read", "GET", "/v1/stream/{path}", _P, Access.KEY, "read a stream, once or live"),
    Route("stream.head", "HEAD", "/v1/stream/{path}", _P, Access.KEY, "what is known of a stream"),
    Route("stream.delete", "DELETE", "/v1/stream/{path}", _P, Access.KEY, "delete a stream"),
    Route("pk.read", "GET", "/v1/stream/{path}/pk/{key}", _P, Access.KEY, "read the entries with a routing key"),
    Route("sub.flush", "POST", "/v1/stream/{path}/_flush", _O, Access.KEY, "bring a stream into the bucket now"),
    Route("sub.schema.get", "GET", "/v1/stream/{path}/_schema", _P, Access.KEY, "the schema registry of a stream"),
    Route(
        "sub.schema.update", "POST", "/v1/stream/{path}/_schema", _P, Access.KEY, "change a stream's schema registry"
    ),
    Route("sub.schema.check", "POST", "/v1/stream/{path}/_schema/check", _P, Access.KEY, "what a change would do"),
    Route("sub.details", "GET", "/v1/stream/{path}/_details", _P, Access.KEY, "all that is known of a stream"),
    Route("sub.index-status", "GET", "/v1/stream/{path}/_index_status", _P, Access.KEY, "how far its indexes are"),
    Route(
        "sub.index-rebuild", "POST", "/v1/stream/{path}/_index/rebuild", _O, Access.KEY, "have the rest of it indexed"
    ),
    Route("sub.producers", "GET", "/v1/stream/{path}/_producers", _P, Access.KEY, "the producers of a stream"),
    Route("sub.profile.get", "GET", "/v1/stream/{path}/_profile", _P, Access.KEY, "the profile of a stream"),
    Route("sub.profile.update", "POST", "/v1/stream/{path}/_profile", _P, Access.KEY, "change a stream's profile"),
    Route("sub.routing-keys", "GET", "/v1/stream/{path}/_routing_keys", _P, Access.KEY, "the routing keys of a stream"),
    Route("sub.aggregate", "POST", "/v1/stream/{path}/_aggregate", _P, Access.KEY, "add up a stream by a rollup"),
    Route("sub.search.get", "GET", "/v1/stream/{path}/_search", _P, Access.KEY, "search a stream"),
    Route("sub.search", "POST", "/v1/stream/{path}/_search", _P, Access.KEY, "search a stream, asked in a body"),
    Route("bucket.create", "PUT", "/{bucket}", _P, Access.KEY, "create a bucket"),
    Route("bucket.get", "GET", "/{bucket}", _P, Access.KEY, "what is known of a bucket"),
    Route("bucket.delete", "DELETE", "/{bucket}", _P, Access.KEY, "delete an empty bucket"),
    Route("bucket.streams", "GET", "/{bucket}/streams", _P, Access.KEY, "list the streams of a bucket"),
    Route("bucket.search", "POST", "/{bucket}/streams/_search", _P, Access.KEY, "search streams of a bucket"),
    Route("bucket.stream.create", "PUT", "/{bucket}/{stream}", _P, Access.KEY, "create a stream"),
    Route("bucket.stream.append", "POST", "/{bucket}/{stream}", _P, Access.KEY, "append to or close a stream"),
    Route("bucket.stream.read", "GET", "/{bucket}/{stream}", _P, Access.KEY, "read a stream, once or live"),
    Route("bucket.stream.head", "HEAD", "/{bucket}/{stream}", _P, Access.KEY, "what is known of a stream"),
    Route("bucket.stream.delete", "DELETE", "/{bucket}/{stream}", _P, Access.KEY, "delete a stream"),
    Route(
        "bucket.pk.read", "GET", "/{bucket}/{stream}/pk/{key}", _P, Access.KEY, "read the entries with a routing key"
    ),
    Route(
        "bucket.sub.flush", "POST", "/{bucket}/{stream}/_flush", _O, Access.KEY, "bring a stream into the bucket now"
    ),
    Route(
        "bucket.sub.schema.get", "GET", "/{bucket}/{stream}/_schema", _P, Access.KEY, "the schema registry of a stream"
    ),
    Route(
        "bucket.sub.schema.update",
        "POST",
        "/{bucket}/{stream}/_schema",
        _P,
        Access.KEY,
        "change a stream's schema registry",
    ),
    Route(
        "bucket.sub.schema.check",
        "POST",
        "/{bucket}/{stream}/_schema/check",
        _P,
        Access.KEY,
        "what a change would do",
    ),
    Route("bucket.sub.details", "GET", "/{bucket}/{stream}/_details", _P, Access.KEY, "all that is known of a stream"),
    Route(
        "bucket.sub.index-status", "GET", "/{bucket}/{stream}/_index_status", _P, Access.KEY, "how far its indexes are"
    ),
    Route(
        "bucket.sub.index-rebuild",
        "POST",
        "/{bucket}/{stream}/_index/rebuild",
        _O,
        Access.KEY,
        "have the rest of it indexed",
    ),
    Route("bucket.sub.producers", "GET", "/{bucket}/{stream}/_producers", _P, Access.KEY, "the producers of a stream"),
    Route("bucket.sub.profile.get", "GET", "/{bucket}/{stream}/_profile", _P, Access.KEY, "the profile of a stream"),
    Route(
        "bucket.sub.profile.update", "POST", "/{bucket}/{stream}/_profile", _P, Access.KEY, "change a stream's profile"
    ),
    Route(
        "bucket.sub.routing-keys",
        "GET",
        "/{bucket}/{stream}/_routing_keys",
        _P,
        Access.KEY,
        "the routing keys of a stream",
    ),
    Route(
        "bucket.sub.aggregate", "POST", "/{bucket}/{stream}/_aggregate", _P, Access.KEY, "add up a stream by a rollup"
    ),
    Route("bucket.sub.search.get", "GET", "/{bucket}/{stream}/_search", _P, Access.KEY, "search a stream"),
    Route(
        "bucket.sub.search", "POST", "/{bucket}/{stream}/_search", _P, Access.KEY, "search a stream, asked in a body"
    ),
    Route("subscription.create", "PUT", _DS_ONE, _P, Access.KEY, "make a subscription"),
    Route("subscription.get", "GET", _DS_ONE, _P, Access.KEY, "what is known of a subscription"),
    Route("subscription.delete", "DELETE", _DS_ONE, _P, Access.KEY, "end a subscription"),
    Route("subscription.name", "POST", f"{_DS_ONE}/streams", _P, Access.KEY, "add streams to a subscription"),
    Route(
        "subscription.unname",
        "DELETE",
        f"{_DS_ONE}/streams/{{path}}",
        _P,
        Access.KEY,
        "take a stream out of a subscription",
    ),
    Route("subscription.claim", "POST", f"{_DS_ONE}/claim", _P, Access.KEY, "get the current wake, as a worker"),
    # Who holds a wake shows its token instead of a key.
    Route("subscription.ack", "POST", f"{_DS_ONE}/ack", _P, Access.OPEN, "acknowledge, as a worker"),
    Route("subscription.callback", "POST", f"{_DS_ONE}/callback", _P, Access.OPEN, "acknowledge, as a webhook"),
    Route("subscription.release", "POST", f"{_DS_ONE}/release", _P, Access.OPEN, "let go of a wake"),
    Route(
        "subscription.jwks", "GET", "/v1/stream/__ds/jwks.json", _P, Access.OPEN, "keys that webhooks are signed with"
    ),
    Route(
        "flush-cold",
        "POST",
        "/__ursula/flush-cold/{bucket}/{stream}",
        _O,
        Access.KEY,
        "bring a stream into the bucket now",
    ),
)
# What the protocols describe and this version does not have, and what it belongs to: 501, whatever the method. They are
# public and want a key.
_TOUCH, _OTLP = "the profile `state-protocol`", "traces of OpenTelemetry"
LATER_SUBS: Mapping[str, str] = {
    "touch/meta": _TOUCH,
    "touch/wait": _TOUCH,
    "touch/templates/activate": _TOUCH,
    "_otlp/v1/traces": _OTLP,
}
LATER_PATHS: Mapping[str, str] = {
    "/v1/traces": _OTLP,
    "/v1/observe/request": "requests put together of events and traces",
}
WAITING = frozenset(("index.claim",))  # a slow answer is what was asked for
STREAM_ROUTES: dict[tuple[str, bool], Route] = {
    (route.methods, route.name.startswith("bucket.")): route for route in ROUTES if "stream." in route.name
}
SUB_ROUTES: dict[tuple[str, Surface, str], Route] = {
    (
        route.methods,
        Surface.V1 if route.pattern.startswith("/v1/") else Surface.BUCKET,
        route.pattern.rpartition("}/")[2],
    ): route
    for route in ROUTES
    if ".sub." in f".{route.name}"
}
_RESERVED = [
    (re.compile(route.pattern.replace("{id}", "[^/]+").replace("{path}", ".+")), route)
    for route in ROUTES
    if route.pattern.startswith(DS)
]
_FIXED = {route.pattern: route for route in ROUTES if "{" not in route.pattern}
_BUCKET = {route.methods: route for route in ROUTES if route.pattern == "/{bucket}"}
_BUCKET_PATH = re.compile(r"/[^/]+")
_LISTING_PATH = re.compile(r"/[^/]+/streams")
_SEARCH_PATH = re.compile(r"/[^/]+/streams/_search")
_FLUSH_PATH = re.compile(r"/__ursula/flush-cold/[^/]+/[^/]+")
_ASSET = next(route for route in ROUTES if route.name == "ui.asset")
_FLUSH = next(route for route in ROUTES if route.name == "flush-cold")
_SEARCH = next(route for route in ROUTES if route.name == "bucket.search")
_LISTING = next(route for route in ROUTES if route.name == "bucket.streams")


def sub_route(method: str, surface: Surface, sub: str) -> Route | None:
    """The route of a part of a stream."""
    return SUB_ROUTES.get((method, surface, sub))


def cold_route(method: str, path: str) -> Route | None:
    """The route of a path that is not a stream's; None when there is none at all. The method may still not fit."""
    fixed = _FIXED.get(path)
    if fixed is not None:
        return fixed
    if path.startswith("/ui/"):
        return _ASSET
    if _LISTING_PATH.fullmatch(path):
        return _LISTING
    if _SEARCH_PATH.fullmatch(path):
        return _SEARCH
    if _FLUSH_PATH.fullmatch(path):
        return _FLUSH
    if path.startswith(DS):
        known = reserved_routes(path)
        return known.get(method) or known.get("GET") or next(iter(known.values()), None)
    if _BUCKET_PATH.fullmatch(path):
        return _BUCKET.get(method, _BUCKET["GET"])
    return None


def reserved_routes(path: str) -> dict[str, Route]:
    """The routes of an address in the reserved `__ds` space, by their methods."""
    return {route.methods: route for pattern, route in _RESERVED if pattern.fullmatch(path)}
