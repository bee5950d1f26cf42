"""The OpenAPI document against the code that it describes."""

import json
import re
from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
import schemathesis

from streams_node import errors
from streams_node.errors import StreamsError
from streams_node.http import edge, headers, query, resources
from streams_node.http.fields import FIELDS
from streams_node.http.openapi import codes_of, document, inputs_of, status_of_codes, wire_name
from streams_node.http.operations import CODES, EVERYWHERE, INPUTS, OPERATIONS, OUTPUTS
from streams_node.http.routes import ROUTES, SUB_ROUTES, Route
from streams_node.http.subs import SUBS

# Failures of a start, and of a part that no request reaches yet.
NOT_ON_THE_WIRE = (errors.DataFolderError, errors.ListenError, errors.StoreError, errors.WorkerFailed)
# But a read may need the object store.
ON_READS = (
    errors.StoreUnavailable, errors.StoreRefused, errors.ObjectMissing, errors.StoreCorrupt, errors.ObjectDamaged,
)  # fmt: skip


@pytest.fixture(scope="module")
def api() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(document(resources.HANDLERS))
    return found


def operations(api: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_the_document_is_valid_openapi(api: dict[str, Any]) -> None:
    schema = schemathesis.openapi.from_dict(api)
    schema.validate()
    assert api["openapi"].startswith("3.1")


def test_every_route_is_an_operation_and_nothing_else_is(api: dict[str, Any]) -> None:
    assert {(method, path) for method, path, _ in operations(api)} == {(each.methods, each.pattern) for each in ROUTES}
    assert {operation["operationId"] for _, _, operation in operations(api)} == {route.name for route in ROUTES}
    assert set(OPERATIONS) == {route.name for route in ROUTES}


def test_every_reference_of_the_document_leads_somewhere(api: dict[str, Any]) -> None:
    for target in re.findall(r'"\$ref": *"#/([^"]+)"', json.dumps(api)):
        at: Any = api
        for name in target.split("/"):
            at = at[name]


def test_every_handler_is_a_route_and_every_route_has_a_handler() -> None:
    cold = {
        (method, re.sub(r":\w+}", "}", path))
        for handler in resources.HANDLERS
        for method in handler.http_methods
        for path in handler.paths
    }
    hot = {(method, path) for method in edge._HANDLERS for path in ("/v1/stream/{path}", "/{bucket}/{stream}")}
    assert cold & hot == set()
    hot |= {("GET", f"{path}/pk/{{key}}") for path in ("/v1/stream/{path}", "/{bucket}/{stream}")}
    hot |= {(route.methods, route.pattern) for route in SUB_ROUTES.values()}
    assert {(method, sub) for method, _, sub in SUB_ROUTES} == set(SUBS)
    assert cold | hot == {(route.methods, route.pattern) for route in ROUTES}


def test_every_error_code_is_explained_and_has_one_status() -> None:
    sent = {kind.code for kind in tree(StreamsError) if not issubclass(kind, NOT_ON_THE_WIRE)}
    assert sent | {kind.code for kind in ON_READS} == set(CODES)
    assert set(status_of_codes()) == set(CODES)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_what_a_route_names_is_described(route: Route) -> None:
    assert set(codes_of(route)) <= set(CODES)
    assert set(inputs_of(route)) <= set(INPUTS)
    for answer in OPERATIONS[route.name].answers:
        assert set(answer.headers.split()) <= set(OUTPUTS)
    assert len({wire_name(name).lower() for name in inputs_of(route)}) == len(inputs_of(route))


def test_nothing_is_described_that_no_route_names() -> None:
    assert {name for route in ROUTES for name in inputs_of(route)} == set(INPUTS)
    named = {name for row in OPERATIONS.values() for answer in row.answers for name in answer.headers.split()}
    named |= {name for code in CODES.values() for name in code.headers.split()}
    assert named | {"X-Request-Id"} == set(OUTPUTS)
    used = {code for route in ROUTES for code in codes_of(route)} | set(EVERYWHERE.split())
    assert used | {"method_not_allowed"} == set(CODES)


def test_every_parameter_that_reads_and_listings_know_is_an_input() -> None:
    def asked(name: str) -> set[str]:
        names = OPERATIONS[name].inputs.split()
        return {wire_name(each) for each in names if INPUTS[each].place == "query"}

    assert asked("stream.read") == query._KNOWN
    assert asked("bucket.streams") == resources._LISTING
    assert asked("streams") == resources._STREAMS


def test_every_header_that_the_edge_reads_is_an_input_or_explained_here() -> None:
    elsewhere = {
        "authorization": "security of the document",
        "content-length": "HTTP's own",
        "host": "HTTP's own",
        "origin": "the browser's; decides about CORS headers",
        "x-request-id": "in the manual: any request may send it",
        "x-forwarded-proto": "read by nobody yet",
    }
    read = {name.decode() for name in headers._OURS}
    described = {wire_name(name).lower() for name, each in INPUTS.items() if each.place == "header"}
    assert read - set(elsewhere) == described - {"accept"}


def test_every_field_of_every_view_is_described(api: dict[str, Any]) -> None:
    functions = [*(handler.fn for handler in resources.HANDLERS), *(sub.handler for sub in SUBS.values())]
    structs = {struct.__name__: struct for function in functions for struct in structs_of(returned(function))}
    assert set(FIELDS) == set(structs)
    for name, struct in structs.items():
        assert set(FIELDS[name]) == set(struct.__struct_encode_fields__)
        assert all(each["description"] for each in api["components"]["schemas"][name]["properties"].values())


# --- helpers ----------------------------------------------------------------------------------------------------------


def tree(kind: type[StreamsError]) -> Iterator[type[StreamsError]]:
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child)


def returned(function: Any) -> Any:
    return get_type_hints(function).get("return")


def structs_of(shape: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(shape, type) and issubclass(shape, msgspec.Struct) and get_origin(shape) is None:
        yield shape
        for inner in get_type_hints(shape).values():
            yield from structs_of(inner)
    for argument in get_args(shape):
        yield from structs_of(argument)
