"""GET and POST of `_schema`: every answer as a whole."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess
from tests.http.conftest import with_node
from tests.schema.messages import (
    EMPTY,
    JSON,
    OBJECT,
    OPS,
    V1,
    V2,
    append,
    create,
    lens,
    read,
    refusal,
    update,
)

__all__ = ["with_node"]
WithNode = Callable[..., None]

ALONE = [
    (b"", "schema update must be valid JSON"),
    (b"{", "schema update must be valid JSON"),
    (b"[" * 2000, "schema update must be valid JSON"),
    (b"[]", "schema update must be a JSON object"),
    (b"null", "schema update must be a JSON object"),
    ({"schema": {}, "x": 1, "apiVersion": "other"}, "schemaUpdate.x is not supported"),
    ({"apiVersion": "other"}, "invalid schema apiVersion"),
    ({}, "schema update must include schema, routingKey, or search"),
    ({"lens": {}}, "schema update must include schema, routingKey, or search"),
    ({"lens": {}, "routingKey": None}, "schema update lens requires schema"),
    ({"schema": {}, "routingKey": None}, "schema update routingKey must be an object when schema is provided"),
    ({"routingKey": 5}, "routingKey must be an object"),
    ({"routingKey": {"x": 1}}, "routingKey.x is not supported"),
    ({"routingKey": {}}, "routingKey.jsonPointer must be a string"),
    ({"routingKey": {"jsonPointer": "/a"}}, "routingKey.required must be boolean"),
    ({"routingKey": {"jsonPointer": "a", "required": True}}, "invalid json pointer"),
    ({"routingKey": {"jsonPointer": "/~2", "required": True}}, "invalid json pointer"),
    ({"search": {"primaryTimestampField": "t", "fields": {}}}, "search.fields must have at least one field"),
    ({"routingKey": None, "search": None}, "missing schema"),
    (
        {"search": {"primaryTimestampField": "t", "fields": {"t": {
            "kind": "date", "bindings": [{"version": 1, "jsonPointer": "/t"}]}}}},
        "search config requires an installed schema version",
    ),
    ({"schema": 5}, "schema must be object or boolean"),
    ({"schema": {"type": "bogus"}}, "type must be JSONType or JSONType[]: bogus"),
    ({"schema": {"properties": {"a": {"$ref": "#/x"}}}}, "external $ref is not supported"),
    ({"schema": {"required": "a"}}, "schema is invalid: schema/required must be array"),
    ({"schema": {"pattern": "("}}, "pattern is invalid, too large, or looks around: ("),
    ({"schema": {"pattern": "(?=a)"}}, "pattern is invalid, too large, or looks around: (?=a)"),
    ({"schema": {}, "lens": {}}, "invalid lens: lens must have required property 'apiVersion'"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message"), ALONE)
def test_a_first_update_that_is_refused_says_why_and_changes_nothing(
    with_node: WithNode, body: Any, message: str
) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await create(node)
        answer = await update(node, body)
        expected = refusal(message)
        if b"search.fields" in expected:  # the words are another room's
            assert answer.status == 400
            assert b"search" in answer.body
        else:
            assert (answer.status, answer.body) == (400, expected)
        shown = await node.request("GET", "/v1/stream/s/_schema")
        assert (shown.status, json.loads(shown.body)) == (200, EMPTY)

    with_node(test)


def test_schemas_evolve_as_the_worked_example_says(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await create(node)
        first = await update(node, {"schema": V1})
        one: dict[str, Any] = {
            **EMPTY,
            "currentVersion": 1,
            "boundaries": [{"offset": 0, "version": 1}],
            "schemas": {"1": V1},
        }
        assert (first.status, first.body) == (200, json.dumps(one, separators=(",", ":")).encode())
        assert (await append(node, [{"a": "notemail", "b": "2020-01-01T00:00:00Z"}])).status == 204
        second = await update(node, {"schema": V2, "lens": lens(*OPS)})
        stored = lens(OPS[0], {**OPS[1], "default": 7})
        two: dict[str, Any] = {
            **one, "currentVersion": 2,
            "boundaries": [{"offset": 0, "version": 1}, {"offset": 1, "version": 2}],
            "schemas": {"1": V1, "2": V2}, "lenses": {"1": stored},
        }  # fmt: skip
        assert (second.status, second.body) == (200, json.dumps(two, separators=(",", ":")).encode())
        assert (await append(node, {"c": "new", "n": 1})).status == 204
        page = await read(node)
        assert page.body == b'[{"b":"2020-01-01T00:00:00Z","c":"notemail","n":7},{"c": "new", "n": 1}]'
        raw = await read(node, "?format=raw")
        assert raw.body == b'{"a": "notemail", "b": "2020-01-01T00:00:00Z"}{"c": "new", "n": 1}'
        assert len({page.headers["etag"], raw.headers["etag"]}) == 2
        shown = await node.request("GET", "/v1/stream/s/_schema")
        assert (shown.status, shown.body) == (200, second.body)
        assert shown.headers["content-type"] == "application/json"
        assert shown.headers["cache-control"] == "no-store"

    with_node(test)


NEXT: list[tuple[Any, int, str, str]] = [
    ({"schema": V1}, 400, "bad_request", "lens required"),
    ({"schema": V2, "lens": 5}, 400, "bad_request", "invalid lens: lens must be object"),
    ({"schema": V2, "lens": lens(*OPS, at=2)}, 409, "conflict", "lens version mismatch"),
    ({"schema": V2, "lens": lens(*OPS, to=3)}, 409, "conflict", "lens version mismatch"),
    ({"schema": V2, "lens": lens(*OPS, schema="t")}, 400, "bad_request", "lens schema mismatch"),
    ({"schema": V1, "lens": lens(*OPS)}, 400, "bad_request", "add dest missing in new schema"),
]


@pytest.mark.parametrize(("body", "status", "code", "message"), NEXT)
def test_a_next_version_that_is_refused_says_why_and_changes_nothing(
    with_node: WithNode, body: Any, status: int, code: str, message: str
) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await create(node)
        before = await update(node, {"schema": V1})
        answer = await update(node, body)
        assert (answer.status, answer.body) == (status, refusal(message, code))
        assert (await node.request("GET", "/v1/stream/s/_schema")).body == before.body

    with_node(test)


def test_a_first_schema_needs_an_empty_stream_and_a_routing_key_does_not(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await create(node)
        await append(node, [{"k": 1}])
        answer = await update(node, {"schema": OBJECT})
        assert (answer.status, answer.body) == (400, refusal("first schema requires empty stream"))
        key = {"jsonPointer": "/k", "required": False}
        assert json.loads((await update(node, {"routingKey": key})).body) == {**EMPTY, "routingKey": key}
        assert json.loads((await update(node, {"routingKey": None})).body) == EMPTY

    with_node(test)


def test_a_first_lens_is_checked_and_not_kept(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await create(node)
        wrong = await update(node, {"schema": OBJECT, "lens": lens(*OPS, at=1)})
        assert (wrong.status, wrong.body) == (409, refusal("lens version mismatch", "conflict"))
        taken = await update(node, {"schema": OBJECT, "lens": lens(*OPS, at=0)})
        assert (taken.status, json.loads(taken.body)["lenses"]) == (200, {})

    with_node(test)


@pytest.mark.parametrize("surface", ["/v1/stream/some/s", "/some/s"])
def test_both_surfaces_serve_the_registry(with_node: WithNode, surface: str) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        assert (await node.request("PUT", "/some")).status == 201
        await create(node, surface)
        answer = await update(node, {"schema": True}, surface)
        expected = {**EMPTY, "schema": "some/s", "currentVersion": 1,
                    "boundaries": [{"offset": 0, "version": 1}], "schemas": {"1": True}}  # fmt: skip
        assert (answer.status, json.loads(answer.body)) == (200, expected)
        head = await node.request("HEAD", f"{surface}/_schema")
        assert (head.status, head.headers["content-length"], head.body) == (200, str(len(answer.body)), b"")
        for method in ("DELETE", "PATCH"):
            other = await node.request(method, f"{surface}/_schema")
            assert (other.status, other.headers["allow"]) == (405, "GET, POST, HEAD")
        assert (await node.request("PUT", f"{surface}/_schema")).status == 400

    with_node(test)


def test_a_stream_that_is_not_there_has_no_registry(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        missing = refusal("stream `s` does not exist in bucket `_default`", "not_found")
        for answer in (await node.request("GET", "/v1/stream/s/_schema"), await update(node, {"schema": OBJECT})):
            assert (answer.status, answer.body) == (404, missing)
        await create(node)
        await update(node, {"schema": OBJECT})
        assert (await node.request("DELETE", "/v1/stream/s")).status == 204
        await create(node)
        assert json.loads((await node.request("GET", "/v1/stream/s/_schema")).body) == EMPTY

    with_node(test)


def test_a_body_that_is_too_large_is_not_read(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await create(node)
        answer = await node.request("POST", "/v1/stream/s/_schema", JSON, b" " * ((1 << 20) + 1))
        assert answer.status == 413
        assert json.loads(answer.body)["error"]["code"] == "payload_too_large"

    with_node(test)


def test_readers_who_wait_are_not_disturbed_and_see_the_current_version(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await create(node)
        await update(node, {"schema": V1})
        await append(node, [{"a": "x"}])
        end = (await read(node)).headers["stream-next-offset"]
        sse = node.start("GET", "/v1/stream/s?offset=-1&live=sse")
        await sse.until(b'{"a": "x"}')
        poll = node.start("GET", f"/v1/stream/s?offset={end}&live=long-poll&timeout_ms=3000")
        size = len(sse.body)
        assert (await update(node, {"schema": V2, "lens": lens(*OPS)})).status == 200
        assert len(sse.body) == size
        assert not poll.task.done()
        await append(node, [{"c": "y", "n": 1}])
        await poll.task
        assert (poll.head["status"], poll.body) == (200, b'[{"c": "y", "n": 1}]')
        await sse.until(b'{"c": "y", "n": 1}')
        await sse.hang_up()
        fresh = node.start("GET", "/v1/stream/s?offset=-1&live=sse")
        await fresh.until(b'{"c":"x","n":7}')
        await fresh.hang_up()

    with_node(test)


def test_what_is_declared_again_in_another_order_stays_as_it_is_stored(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await create(node)
        field = {"kind": "date", "bindings": [{"version": 1, "jsonPointer": "/at"}], "column": True}
        first = {"primaryTimestampField": "at", "fields": {"at": field, "b": field}}
        second = {"fields": {"b": field, "at": field}, "primaryTimestampField": "at"}
        stored = await update(node, {"schema": V1, "search": first})
        again = await update(node, {"search": second})
        shown = await node.request("GET", "/v1/stream/s/_schema")
        assert stored.status == again.status == 200
        assert stored.body == again.body == shown.body

    with_node(test)
