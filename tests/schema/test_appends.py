"""Appends to a stream with a schema: what is refused, what is keyed, and that nothing of a refused batch stays."""

import asyncio
import json
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from streams_node.meaning import prepared
from streams_node.protocol.frames import unpack_keys
from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess, in_process
from tests.http.conftest import with_node
from tests.schema.messages import JSON, OPS, V1, V2, append, create, lens, read, refusal, update

__all__ = ["with_node"]
WithNode = Callable[..., None]
KEY = {"jsonPointer": "/k", "required": True}

REFUSED: list[tuple[Any, Any, str]] = [
    ({"type": "object"}, [{}, 5], "must be object"),
    ({"type": ["string", "null"]}, [5], "must be string,null"),
    (V1, [{"b": "x"}], "must have required property 'a'; must match format \"date-time\""),
    ({"additionalProperties": False}, [{"x": 1}], "must NOT have additional properties"),
    ({"enum": [1]}, [2], "must be equal to one of the allowed values"),
    ({"const": 1}, [2], "must be equal to constant"),
    ({"minimum": 3}, [2], "must be >= 3"),
    ({"exclusiveMaximum": 2.5}, [3], "must be < 2.5"),
    ({"multipleOf": 2}, [3], "must be multiple of 2"),
    ({"maxLength": 1}, ["ab"], "must NOT have more than 1 characters"),
    ({"minItems": 1}, [[]], "must NOT have fewer than 1 items"),
    ({"minProperties": 1}, [{}], "must NOT have fewer than 1 properties"),
    ({"uniqueItems": True}, [[1, 1]], "must NOT have duplicate items"),
    ({"contains": {"const": 1}}, [[2]], "must contain at least 1 valid item(s)"),
    ({"pattern": "^a"}, ["b"], 'must match pattern "^a"'),
    ({"not": {}}, [1], "must NOT be valid"),
    ({"anyOf": [{"const": 1}, {"const": 2}]}, [3], "must match a schema in anyOf"),
    ({"oneOf": [{}, {}]}, [3], "must match exactly one schema in oneOf"),
    (False, [1], "boolean schema is false"),
    ({"propertyNames": {"maxLength": 1}}, [{"ab": 1}], "property name must be valid"),
    (True, json.loads("[" * 102 + "]" * 102), "entry is nested deeper than 100 levels"),
]


@pytest.mark.parametrize(("schema", "entries", "message"), REFUSED)
def test_an_entry_that_is_not_valid_refuses_the_batch(
    with_node: WithNode, schema: Any, entries: Any, message: str
) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await create(node)
        assert (await update(node, {"schema": schema})).status == 200
        answer = await append(node, entries)
        assert (answer.status, answer.body) == (400, refusal(message))
        assert (await read(node)).body == b"[]"

    with_node(test)


def test_what_the_schema_does_not_enforce_is_stored_as_it_came(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await create(node)
        ignored = {"format": "email", "contentMediaType": "application/json"}
        schema = {"$id": "http://a/b", "$schema": "x", "properties": {"a": ignored},
                  "prefixItems": [False], "definitions": {"x": {"type": "bogus"}}}  # fmt: skip
        assert (await update(node, {"schema": schema})).status == 200
        await create(node, "/v1/stream/other")
        assert (await update(node, {"schema": schema}, "/v1/stream/other")).status == 200
        body = b'[ {"a": "no mail",  "n": 1.0 , "n": 2} , 12345678901234567890123]'
        assert (await node.request("POST", "/v1/stream/s", JSON, body)).status == 204
        assert (await read(node)).body == b'[{"a": "no mail",  "n": 1.0 , "n": 2},12345678901234567890123]'

    with_node(test)


def test_a_stream_with_a_schema_takes_json_only(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await create(node)
        assert (await update(node, {"schema": True})).status == 200
        answer = await node.request("POST", "/v1/stream/s", {"content-type": "text/plain"}, b"x")
        assert (answer.status, answer.body) == (400, refusal("stream requires JSON"))

    with_node(test)


@pytest.mark.parametrize("content_type", ["text/plain", "application/octet-stream", "application/vnd.x+json"])
def test_a_stream_of_another_type_takes_no_schema(with_node: WithNode, content_type: str) -> None:
    """It could never be applied, and would refuse every append."""

    async def test(node: InProcess, _: FakeClock) -> None:
        await create(node, content_type=content_type)
        for body in ({"schema": True}, {"schema": {}, "routingKey": {"jsonPointer": "/k", "required": False}}):
            answer = await update(node, body)
            said = f"schema requires application/json stream content-type; this one is {content_type}"
            assert (answer.status, answer.body) == (400, refusal(said))
        assert json.loads((await node.request("GET", "/v1/stream/s/_schema")).body)["currentVersion"] == 0
        assert (await node.request("POST", "/v1/stream/s", {"content-type": content_type}, b"x")).status == 204

    with_node(test)


KEYS: list[tuple[Any, Any, str]] = [
    ([{"k": "x"}, {}], True, "routing key missing"),
    ([{"k": None}], False, "routing key must be string"),
    ([{"k": 5}], True, "routing key must be string"),
    ([5], True, "routing key missing"),
    ([{"k": "x" * 2000}], True, "routing key has 2000 bytes; at most 1024 are allowed"),
]


@pytest.mark.parametrize(("entries", "required", "message"), KEYS)
def test_an_entry_without_the_key_that_it_needs_refuses_the_batch(
    with_node: WithNode, entries: Any, required: Any, message: str
) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await create(node)
        await update(node, {"routingKey": {"jsonPointer": "/k", "required": required}})
        answer = await append(node, entries)
        assert (answer.status, answer.body) == (400, refusal(message))
        other = await append(node, [{"k": "x"}], **{"stream-key": "y"})
        assert (other.status, other.body) == (
            400,
            refusal("Stream-Key not allowed when routingKey is configured"),
        )
        assert (await read(node)).body == b"[]"

    with_node(test)


def test_every_entry_is_stored_with_its_key_also_one_that_takes_several_rows(tmp_path: Path) -> None:
    async def main() -> None:
        async with in_process(tmp_path / "data", log_row_bytes_max=4096) as node:
            await create(node)
            assert (await append(node, [{"k": "old"}], **{"stream-key": "header"})).status == 204
            await update(node, {"routingKey": {"jsonPointer": "/k", "required": False}})
            assert (
                await append(node, [{"k": "a"}, {}, {"k": "é"}, {"k": "long", "x": "y" * 9000}, {"k": ""}])
            ).status == 204

    anyio.run(main)
    with sqlite3.connect(tmp_path / "data" / "streams.db") as db:
        rows = db.execute("SELECT keys, count FROM log ORDER BY row_id").fetchall()
    assert [key for blob, count in rows for key in unpack_keys(blob, count)] == ["header", "a", None, "é", "long", ""]


def test_a_retry_is_answered_as_one_whatever_the_schema_has_become(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await create(node)
        await update(node, {"schema": V1})
        producer = {"producer-id": "p", "producer-epoch": "0", "producer-seq": "0"}
        assert (await append(node, [{"a": "x"}], **producer)).status == 200
        await update(node, {"schema": V2, "lens": lens(*OPS)})
        assert (await append(node, [{"a": "x"}], **producer)).status == 204
        refused = await append(node, [{"a": "x"}], **(producer | {"producer-seq": "1"}))
        assert refused.status == 400
        assert (await append(node, [{"c": "x", "n": 1}], **(producer | {"producer-seq": "1"}))).status == 200

    with_node(test)


def test_what_a_schema_can_cost_is_refused_before_it_costs(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await create(node)
        heavy = {"items": {"allOf": [{"minimum": -at} for at in range(1000)]}}
        assert (await update(node, {"schema": heavy})).status == 200
        answer = await append(node, [list(range(100_000))])
        assert answer.status == 400
        assert b"entry is too large for its schema" in answer.body
        assert (await append(node, [list(range(100))])).status == 204
        many = await append(node, [list(range(500))] * 100)
        assert (many.status, b"append fewer at once" in many.body) == (400, True)
        for schema, message in (
            ({"pattern": "((a{1000}){1000}){1000}"}, b"pattern is invalid"),
            ({"allOf": [{"pattern": f"a{at}"} for at in range(65)]}, b"65 patterns"),
            ({"enum": list(range(30_000))}, b"30002 values"),
            ({"pattern": "a" * 2000}, b"1024 characters"),
        ):
            await create(node, "/v1/stream/t")
            refused = await update(node, {"schema": schema}, "/v1/stream/t")
            assert (refused.status, message in refused.body) == (400, True)
            await node.request("DELETE", "/v1/stream/t")

    with_node(test)


HEAVY = {"items": {"anyOf": [{"const": at} for at in range(200)]}}
LIGHT = {"type": "object", "properties": {"a": {"type": "integer"}}}
EVLOG = {"profile": {"kind": "evlog"}}
CHECKED = [
    (LIGHT, [{"a": 1}] * 20, False),
    (LIGHT, [{"a": 1}] * 8000, True),
    (HEAVY, [[199] * 2], False),
    (HEAVY, [[199] * 500], True),
    (True, [0] * 100, False),
    (True, [0] * 10_000, True),
    (EVLOG, [{"message": "m", "requestId": "r"}] * 3, False),
    (EVLOG, [{}] * 500, True),
]


@pytest.mark.parametrize(("declared", "entries", "beside"), CHECKED)
@pytest.mark.parametrize("forked", [False, True])
def test_what_takes_long_to_check_does_not_hold_the_loop(
    with_node: WithNode, monkeypatch: pytest.MonkeyPatch, declared: Any, entries: Any, *, beside: bool, forked: bool
) -> None:
    """However small it is; also as the first content of a fork."""

    async def test(node: InProcess, _: FakeClock) -> None:
        await create(node)
        part, body = ("_profile", declared) if declared is EVLOG else ("_schema", {"schema": declared})
        declaring = await node.request("POST", f"/v1/stream/s/{part}", JSON, json.dumps(body).encode())
        assert declaring.status == 200
        threads: list[bool] = []

        def noted(*args: Any) -> Any:
            threads.append(threading.current_thread() is not threading.main_thread())
            return prepared(*args)

        monkeypatch.setattr("streams_node.ingest.append.prepared", noted)
        said = json.dumps(entries, separators=(",", ":")).encode()
        if forked:
            fork = JSON | {"stream-forked-from": "/v1/stream/s"}
            assert (await node.request("PUT", "/v1/stream/t", fork, said)).status == 201
        else:
            assert (await node.request("POST", "/v1/stream/s", JSON, said)).status == 204
        assert threads == [beside]

    with_node(test)


def test_a_body_that_waits_for_its_check_is_checked_anew_when_the_schema_changes(
    with_node: WithNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await create(node)
        assert (await update(node, {"schema": HEAVY})).status == 200
        workshop, times = node.context.ledger.workshop, 0
        check = workshop.check

        async def changing(work: Any) -> Any:
            nonlocal times
            found = await check(work)
            times += 1
            if times < 3:
                key = {"jsonPointer": f"/k{times}", "required": times == 2}
                assert (await update(node, {"routingKey": key})).status == 200
            return found

        monkeypatch.setattr(workshop, "check", changing)
        refused = await append(node, [[199] * 500])
        assert (refused.status, refused.body) == (400, refusal("routing key missing"))
        assert times == 3
        assert (await read(node)).body == b"[]"

    with_node(test)


@pytest.mark.parametrize(
    ("ops", "beside"),
    [
        ([{"op": "add", "path": "/b", "schema": {}, "default": 1}], False),
        ([{"op": "add", "path": "/b", "schema": {}, "default": at} for at in range(500)], True),
        ([{"op": "add", "path": "/b", "schema": {}, "default": ["x" * 100] * 200}], True),
        ([{"op": "add", "path": "/b", "schema": {}, "default": [{}] * 200},
          {"op": "map", "path": "/l", "ops": [{"op": "copy", "from": "/a", "to": "/b"}] * 20}], True),
    ],
)  # fmt: skip
def test_what_takes_long_to_promote_does_not_hold_the_loop(
    with_node: WithNode, monkeypatch: pytest.MonkeyPatch, ops: Any, *, beside: bool
) -> None:
    """However small the page is."""

    async def test(node: InProcess, _: FakeClock) -> None:
        await create(node)
        items = {"type": "object", "properties": {"a": {}}, "required": ["a"]}
        old: dict[str, Any] = {"properties": {"l": {"type": "array", "items": items}}, "required": ["l"]}
        assert (await update(node, {"schema": old})).status == 200
        assert (await append(node, [{"l": []}] * 40)).status == 204
        evolved = await update(
            node, {"schema": old | {"properties": old["properties"] | {"b": {}}}, "lens": lens(*ops)}
        )
        assert evolved.status == 200, evolved.body
        workshop, times = node.context.ledger.workshop, 0
        promote = workshop.promote

        async def counted(work: Any) -> Any:
            nonlocal times
            times += 1
            return await promote(work)

        monkeypatch.setattr(workshop, "promote", counted)
        shown = await read(node)
        assert shown.status == 200
        assert all("b" in each for each in json.loads(shown.body))
        assert times == beside

    with_node(test)


def test_a_lens_that_fails_is_told_with_its_place_and_raw_reads_go_on(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await create(node)
        schema = {"required": ["a"]}
        await update(node, {"schema": schema})
        await append(node, [{"a": "x"}, {"a": 5}])
        step = {"op": "convert", "path": "/a", "fromType": "string", "toType": "string",
                "forward": {"builtin": "lowercase"}, "backward": {"builtin": "lowercase"}}  # fmt: skip
        old = {"properties": {"a": {}}, "required": ["a"]}
        await create(node, "/v1/stream/t")
        await update(node, {"schema": old}, "/v1/stream/t")
        await append(node, [{"a": "X"}, {"a": 5}], "/v1/stream/t")
        given = {**lens(step), "schema": "t"}
        assert (await update(node, {"schema": {}, "lens": given}, "/v1/stream/t")).status == 200
        answer = await read(node, path="/v1/stream/t")
        offset = "0000000000000000000G000000"
        said = (f"type mismatch: expected string, got integer; the entry after offset {offset} cannot be shown, "
                "format=raw shows it as stored")  # fmt: skip
        assert (answer.status, answer.body) == (400, refusal(said))
        first = await read(node, "?max_bytes=5", "/v1/stream/t")
        assert (first.status, first.body) == (200, b'[{"a":"x"}]')
        assert (await read(node, "?format=raw", "/v1/stream/t")).body == b'{"a": "X"}{"a": 5}'

    with_node(test)


def test_updates_that_race_appends_never_leave_an_entry_with_another_version(tmp_path: Path) -> None:
    """Every version takes only its own entries; each stored one must be of the version of its boundary."""
    versions, writers = 12, 6

    def schema(version: int) -> Any:
        return {
            "type": "object",
            "properties": {"v": {"type": "integer"}, f"v{version}": {}},
            "required": [f"v{version}", "v"],
        }

    async def main() -> list[Any]:
        async with in_process(tmp_path / "data") as node:
            await create(node)
            assert (await update(node, {"schema": schema(1)})).status == 200
            done = False

            async def write(number: int) -> None:
                at = 1
                while not done:
                    body = [{"v": at, f"v{at}": "x" * (number % 2 * 2000)}] * 40  # half of them are checked in threads
                    answer = await append(node, body)
                    assert answer.status in {204, 400}
                    if answer.status == 400:
                        shown = await node.request("GET", "/v1/stream/s/_schema")
                        at = json.loads(shown.body)["currentVersion"]

            async def evolve() -> None:
                for at in range(1, versions):
                    await asyncio.sleep(0.02)
                    step = {"op": "rename", "from": f"/v{at}", "to": f"/v{at + 1}"}
                    body = {"schema": schema(at + 1), "lens": lens(step, at=at)}
                    answers = await asyncio.gather(update(node, body), update(node, body))
                    assert sorted(each.status for each in answers) == [200, 409]

            tasks = [asyncio.create_task(write(number)) for number in range(writers)]
            await evolve()
            done = True
            await asyncio.gather(*tasks)
            registry = json.loads((await node.request("GET", "/v1/stream/s/_schema")).body)
            entries: list[Any] = []
            offset, promoted = "-1", 0
            while True:
                page = await read(node, f"?offset={offset}&format=raw")
                text = page.body.decode().replace("}{", "},{")
                entries += json.loads(f"[{text}]")
                shown = json.loads((await read(node, f"?offset={offset}")).body)
                promoted += sum(f"v{versions}" in each for each in shown)
                offset = page.headers["stream-next-offset"]
                if "stream-up-to-date" in page.headers:
                    return [registry, entries, promoted]

    registry, entries, promoted = asyncio.run(main())
    with sqlite3.connect(tmp_path / "data" / "streams.db") as db:
        rows = db.execute("SELECT seq, count, schema_version FROM log ORDER BY row_id").fetchall()
    stored = [version for _, count, version in rows for _ in range(count)]
    bounds = [(each["offset"], each["version"]) for each in registry["boundaries"]]
    expected = [max(version for offset, version in bounds if offset <= seq) for seq in range(len(entries))]
    assert [entry["v"] for entry in entries] == expected
    assert stored == expected
    assert promoted > 0
