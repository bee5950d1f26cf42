"""The interface as an OpenAPI 3.1 document: the route table and `operations.py`, put into OpenAPI's words.

The hot routes, which no framework sees, stand in it like all others. What a view looks like is taken from the class
that its handler returns.
"""

import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from itertools import product
from typing import Any

import msgspec
import orjson
from litestar import Response
from litestar.handlers import HTTPRouteHandler

from streams_node import __version__
from streams_node.errors import StreamsError
from streams_node.http.fields import FIELDS
from streams_node.http.operation import Answer, Operation
from streams_node.http.operations import CODES, EVERYWHERE, INPUTS, OPERATIONS, OUTPUTS
from streams_node.http.problems import STATUS
from streams_node.http.reply import Reply
from streams_node.http.routes import ROUTES, SUB_ROUTES, Access, Route
from streams_node.http.subs import SUBS

Json = dict[str, Any]
_DESCRIPTION = """\
Durable, append-only streams over HTTP. A stream is created with PUT, written with POST and read with GET from an offset
on, once or live. Every stream has two addresses: `/v1/stream/{path}` and `/{bucket}/{stream}`.

A node that was started with a key wants it as `Authorization: Bearer <key>` wherever an operation says so. An address
answers other methods with 405 and `Allow`; HEAD is answered wherever GET is, OPTIONS everywhere, without a key, for
browsers.
"""
TAGS = {
    "streams": "Writing and reading a stream by its path; buckets are made as they are named.",
    "buckets": "Buckets, the streams in a bucket that exists, and lists of streams.",
    "subscriptions": "Who is woken when streams get entries: by a webhook, or as a worker that claims.",
    "node": "The node itself.",
}


def document(handlers: Iterable[HTTPRouteHandler]) -> bytes:
    """The whole document. The handlers say what views look like."""
    views = dict(_views(handlers))
    return orjson.dumps(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Streams Node",
                "version": __version__,
                "description": _DESCRIPTION,
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
            "paths": _paths(views),
            "components": {
                "schemas": _schemas(views.values()),
                "headers": {name: _header(text) for name, text in OUTPUTS.items()},
                "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            },
        }
    )


def status_of_codes() -> Mapping[str, HTTPStatus]:
    """The status of every error code that can leave the node."""
    kinds = list(_tree(StreamsError))
    return {
        kind.code: next(STATUS[base] for base in kind.__mro__ if base in STATUS) for kind in kinds if kind.code in CODES
    }


def codes_of(route: Route) -> list[str]:
    """The codes of the failures that requests of a route can meet."""
    key = ["unauthorized"] if route.access is Access.KEY else []
    return [*OPERATIONS[route.name].codes.split(), *key, *EVERYWHERE.split()]


def wire_name(name: str) -> str:
    """How an input is called in a request: its name without what tells it from others."""
    return name.partition(".")[0]


def inputs_of(route: Route) -> list[str]:
    """The inputs of a route: the parts of its path, then what its row names."""
    return re.findall(r"{(\w+)}", route.pattern) + OPERATIONS[route.name].inputs.split()


def tag_of(route: Route) -> str:
    """The group in which a route is shown."""
    if route.name.startswith(("stream.", "pk.")):
        return "streams"
    if route.name.startswith("subscription."):
        return "subscriptions"
    return "buckets" if route.name.startswith(("bucket.", "streams")) else "node"


def _tree(kind: type[StreamsError]) -> Iterator[type[StreamsError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _tree(child)


def _paths(views: Mapping[str, object]) -> Json:
    paths: Json = {}
    for route in ROUTES:
        paths.setdefault(route.pattern, {})[route.methods.lower()] = _operation(route, views)
    return paths


def _operation(route: Route, views: Mapping[str, object]) -> Json:
    row = OPERATIONS[route.name]
    said: Json = {
        "operationId": route.name,
        "summary": route.summary,
        "description": row.text,
        "tags": [tag_of(route)],
        "x-route-class": route.kind.value,
        "security": [] if route.access is Access.OPEN else [{"key": []}],
        "parameters": [_parameter(name) for name in inputs_of(route)],
        "responses": _responses(route, row, views.get(route.name)),
    }
    if row.takes_entries:
        said["requestBody"] = {"description": "Entries, of the stream's type.", "content": _ENTRIES}
    if row.takes is not None:
        content = {"application/json": {"schema": row.takes}}
        said["requestBody"] = {"description": "A JSON object.", "required": True, "content": content}
    return said


def _parameter(name: str) -> Json:
    found = INPUTS[name]
    required = {"required": True} if found.place == "path" else {}
    return {"name": wire_name(name), "in": found.place, **required, "description": found.text, "schema": found.schema}


def _responses(route: Route, row: Operation, view: object) -> Json:
    said: Json = {str(answer.status): _answer(answer, view) for answer in row.answers}
    statuses = status_of_codes()
    for code in codes_of(route):
        status = str(int(statuses[code]))
        # `readyz` says with 503 what it is asked for.
        if status not in said or "x-codes" in said[status]:
            _add_code(said.setdefault(status, {"description": "", "headers": {}, "x-codes": []}), code, route.methods)
    return dict(sorted(said.items()))


def _add_code(said: Json, code: str, method: str) -> None:
    said["x-codes"].append(code)
    said["description"] = "\n\n".join(filter(None, (said["description"], f"`{code}`: {CODES[code].text}")))
    said["headers"] |= _headers(f"{CODES[code].headers} X-Request-Id Cache-Control")
    if method != "HEAD":
        said["content"] = {"application/json": {"schema": _reference("schemas", "Error")}}


def _answer(answer: Answer, view: object) -> Json:
    said: Json = {"description": answer.text}
    if answer.headers:
        said["headers"] = _headers(answer.headers)
    content = _content(answer, view)
    return {**said, "content": content} if content else said


def _content(answer: Answer, view: object) -> Json:
    said: Json = {}
    for body in answer.body.split():
        said |= _BODIES[body] if body != "view" else {"application/json": {"schema": _shape(view)}}
    return said


def _shape(view: object) -> Json:
    (shape,), _ = msgspec.json.schema_components([view], ref_template=_TEMPLATE)
    return shape


def _headers(names: str) -> Json:
    # A response object has no place for Content-Type but its `content`.
    return {name: _reference("headers", name) for name in names.split() if name != "Content-Type"}


def _header(text: str) -> Json:
    return {"description": text, "schema": {"type": "string"}}


def _reference(kind: str, name: str) -> Json:
    return {"$ref": f"#/components/{kind}/{name}"}


def _views(handlers: Iterable[HTTPRouteHandler]) -> Iterator[tuple[str, object]]:
    """What the handler of each route that is not hot returns."""
    names = {(route.methods, route.pattern): route.name for route in ROUTES}
    for handler in handlers:
        for method, path in product(handler.http_methods, handler.paths):
            name = names.get((method, re.sub(r":\w+}", "}", path)))
            if name is not None:  # the framework has handlers of its own, for OPTIONS
                yield name, _returned(handler.fn)
    for (verb, _, sub), route in SUB_ROUTES.items():
        yield route.name, _returned(SUBS[verb, sub].handler)


def _returned(function: typing.Any) -> object:
    shape = typing.get_type_hints(function).get("return")
    return typing.get_args(shape)[0] if typing.get_origin(shape) in {Response, Reply} else shape


def _schemas(views: Iterable[object]) -> Json:
    _, found = msgspec.json.schema_components([view for view in views if view is not None], ref_template=_TEMPLATE)
    for name, schema in found.items():
        for field, text in FIELDS.get(name, {}).items():
            schema["properties"][field]["description"] = text
    return {**found, "Error": _ERROR}


_TEMPLATE = "#/components/schemas/{name}"
_ENTRIES: Json = {
    "application/json": {"schema": {"description": "One message, or an array of messages."}},
    "*/*": {"schema": {"type": "string", "format": "binary"}},
}
_BODIES: Mapping[str, Json] = {
    "entries": {**_ENTRIES, "text/event-stream": {"schema": {"type": "string"}}},
    "json": {"application/json": {"schema": {"type": "object"}}},
    "text": {"text/plain": {"schema": {"type": "string"}}},
    "html": {"text/html": {"schema": {"type": "string"}}},
}
_ERROR: Json = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "description": "Some errors have more fields, for programs.",
            "properties": {
                "code": {"type": "string", "enum": sorted(CODES), "description": "Stable; for programs."},
                "message": {"type": "string", "description": "For people; its words may change."},
                "expected_seq": {"type": "integer"},
                "received_seq": {"type": "integer"},
                "current_epoch": {"type": "integer"},
            },
        }
    },
}
