"""The profile `evlog`: one wide event a request, in one envelope, without its secrets.

parse_config(members)     what a client may configure -> the normal form
Evlog(config)             a normaliser: entries -> entries as stored, and a routing key each
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from streams_node.errors import BadProfile
from streams_node.profiles import shapes
from streams_node.profiles.redaction import Redaction
from streams_node.profiles.values import decode, encode, number, text, whole

Path = tuple[str, ...]
WHAT = "evlog record"
LEVELS = ("debug", "info", "warn", "error")
MEMBERS = (
    "timestamp", "level", "service", "environment", "version", "region", "method", "path", "message", "why", "fix",
    "link", "requestId", "traceId", "spanId", "status", "duration", "sampling", "redaction", "context",
)  # fmt: skip
_ENVELOPE = frozenset(MEMBERS)
_SERVER_ERROR, _CLIENT_ERROR = 500, 400
_REQUEST_ID: tuple[Path, ...] = (("requestId",), ("context", "requestId"))
_TRACEPARENT: tuple[Path, ...] = (
    ("traceparent",), ("traceContext", "traceparent"), ("context", "traceparent"), ("headers", "traceparent"),
)  # fmt: skip
_W3C = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?", re.ASCII | re.DOTALL)


def parse_config(members: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration in its normal form: what is not said, or says nothing, is left out."""
    config: dict[str, Any] = {}
    if names := _redact_keys(members):
        config["redactKeys"] = names
    redaction = Redaction(names)
    if correlation := _correlation(shapes.section(members, "correlation", "profile", _CORRELATION), redaction):
        config["correlation"] = correlation
    observability = shapes.section(members, "observability", "profile", ("request",))
    request = shapes.section(observability, "request", "profile.observability", ("tracesStream",))
    if "tracesStream" in request:
        traces = shapes.name(request["tracesStream"], "profile.observability.request.tracesStream")
        config["observability"] = {"request": {"tracesStream": traces}}
    return config


_CORRELATION = ("requestIdFields", "traceContextFields", "parseTraceparent")


def _redact_keys(members: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(name.lower() for name in shapes.names(members, "redactKeys", "profile")))


def _correlation(members: Mapping[str, Any], redaction: Redaction) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for list_name in ("requestIdFields", "traceContextFields"):
        paths = list(dict.fromkeys(shapes.names(members, list_name, "profile.correlation")))
        for index, path in enumerate(paths):
            at = f"profile.correlation.{list_name}[{index}]"
            if "" in path.split("."):
                raise BadProfile(f"{at} must be a dotted path")
            if _hidden(tuple(path.split(".")), redaction):
                raise BadProfile(f"{at} must not lead to a member that is redacted")
        if paths:
            found[list_name] = paths
    if "parseTraceparent" in members:
        if not isinstance(members["parseTraceparent"], bool):
            raise BadProfile("profile.correlation.parseTraceparent must be boolean")
        found["parseTraceparent"] = members["parseTraceparent"]
    return found


def _hidden(path: Path, redaction: Redaction) -> bool:
    """A member of the envelope is never redacted. `context` is, and everything else of the input ends up in it."""
    return not (len(path) == 1 and path[0] in _ENVELOPE - {"context"}) and redaction.hides(path)


class Evlog:
    """The normaliser of one configuration."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        correlation = config.get("correlation", {})
        self._redaction = Redaction(config.get("redactKeys", ()))
        self._request_id = self._open(_paths(correlation.get("requestIdFields")) or _REQUEST_ID)
        fields = _paths(correlation.get("traceContextFields"))
        self._trace_id = self._open((*_ending(fields, "traceId"), ("traceId",), ("traceContext", "traceId")))
        self._span_id = self._open((*_ending(fields, "spanId"), ("spanId",), ("traceContext", "spanId")))
        self._traceparent = self._open(_TRACEPARENT) if correlation.get("parseTraceparent", True) else ()

    def _open(self, paths: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(path for path in paths if not _hidden(path, self._redaction))

    def __call__(self, entries: Sequence[bytes], now_us: int) -> tuple[list[bytes], list[str | None]]:
        """The entries as they are stored, and the routing key that each of them suggests."""
        moment = datetime.fromtimestamp(now_us // 1000 / 1000, UTC)
        now = moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
        stored, keys = [], []
        for index, raw in enumerate(entries):
            try:
                record = self._record(raw, now)
                stored.append(encode(record))
            except BadProfile as problem:
                problem.facts["entry"] = index
                raise
            except RecursionError:  # in `sampling`, which is stored as it is
                raise BadProfile(f"{WHAT} is nested too deeply", entry=index) from None
            keys.append(record["requestId"] or record["traceId"])
        return stored, keys

    def _record(self, raw: bytes, now: str) -> dict[str, Any]:
        given = decode(raw, WHAT)
        if type(given) is not dict:
            raise BadProfile(f"{WHAT} must be an object")
        get = given.get
        why, fix, link, status = text(get("why")), text(get("fix")), text(get("link")), whole(get("status"))
        trace, span = self._trace(given)
        request = _first(given, self._request_id)
        context = _context(given)
        return {
            "timestamp": text(get("timestamp")) or now,
            "level": _level(get("level"), status, explained=bool(why or fix or link)),
            "service": text(get("service")),
            "environment": text(get("environment")),
            "version": text(get("version")),
            "region": text(get("region")),
            "method": text(get("method")),
            "path": text(get("path")),
            "message": text(get("message")),
            "why": why,
            "fix": fix,
            "link": link,
            "requestId": request,
            "traceId": trace,
            "spanId": span,
            "status": status,
            "duration": number(get("duration")),
            "sampling": get("sampling"),
            "redaction": {"keys": self._redaction.apply(context, f"{WHAT}.context") if context else []},
            "context": context,
        }

    def _trace(self, given: dict[str, Any]) -> tuple[str | None, str | None]:
        trace, span = _first(given, self._trace_id), _first(given, self._span_id)
        if trace is None or span is None:
            for path in self._traceparent:
                found = _traceparent(_at(given, path))
                if found is not None:
                    return trace or found[0], span or found[1]
        return trace, span


def _paths(dotted: Sequence[str] | None) -> tuple[Path, ...]:
    return tuple(tuple(path.split(".")) for path in dotted or ())


def _ending(paths: tuple[Path, ...], name: str) -> tuple[Path, ...]:
    return tuple(path for path in paths if path[-1] == name)


def _first(given: dict[str, Any], paths: tuple[Path, ...]) -> str | None:
    for path in paths:
        found = text(_at(given, path))
        if found is not None:
            return found
    return None


def _at(given: dict[str, Any], path: Path) -> Any:
    """What is at a path of member names; arrays have none."""
    value: Any = given
    for name in path:
        if type(value) is not dict:
            return None
        value = value.get(name)
    return value


def _traceparent(value: object) -> tuple[str, str] | None:
    """The ids of a W3C traceparent. Version ff is none, and version 00 has nothing after its flags."""
    said = text(value)
    found = _W3C.fullmatch(said.lower()) if said is not None else None
    if found is None or found[0].startswith("ff") or (found[0].startswith("00") and len(found[0]) > _W3C_CHARS):
        return None
    trace, span = found[1], found[2]
    return (trace, span) if trace.strip("0") and span.strip("0") else None


_W3C_CHARS = 55


def _level(given: object, status: int | None, *, explained: bool) -> str:
    said = text(given)
    if said is not None and (level := said.lower()) in LEVELS:
        return level
    if explained or (status is not None and status >= _SERVER_ERROR):
        return "error"
    return "warn" if status is not None and status >= _CLIENT_ERROR else "info"


def _context(given: dict[str, Any]) -> dict[str, Any]:
    """The given context and, after it, every member that the envelope does not know."""
    context = given.get("context")
    if type(context) is not dict:
        context = {} if context is None else {"context": context}
    for name, value in given.items():
        if name not in _ENVELOPE:
            context[name] = value
    return context
