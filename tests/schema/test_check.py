"""`_schema/check` says what an update would do, as doing it does; and does nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams_node.testing.inprocess import InProcess
from tests.http.wire import Reply, ask
from tests.indexing.world import JSON, SEARCH, create, indexed, on_loop

A = "/v1/stream/a"
LENS = {"apiVersion": "durable.lens/v1", "schema": "a", "from": 1, "to": 2}
NAMED = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "minimum": 0}}}


async def post(node: InProcess, path: str, body: object) -> Reply:
    return await ask(node, "POST", path, JSON, json.dumps(body).encode())


async def check(node: InProcess, update: object, entries: object = (), path: str = A) -> Reply:
    return await post(node, f"{path}/_schema/check", {"update": update, "entries": list(entries)})  # type: ignore[call-overload]


@on_loop
async def test_the_whole_answer_and_that_nothing_has_changed(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A, declared=None)
        before = (await ask(node, "GET", f"{A}/_schema")).body
        reply = await check(node, {"schema": NAMED}, [{"n": 1}, {"n": -1}, {}, [{"n": 1}]])
        assert reply.status == 200, reply
        said = json.loads(reply.body)
        assert {name: said[name] for name in ("currentVersion", "entries")} == {"currentVersion": 1, "entries": 4}
        assert [each["index"] for each in said["refused"]] == [1, 2, 3]
        assert ">= 0" in said["refused"][0]["message"]
        assert (await ask(node, "GET", f"{A}/_schema")).body == before
        assert (await post(node, A, {"not": "as the schema has it"})).status == 204
        # Now the stream has an entry, and would not take a first schema.
        assert (await check(node, {"schema": NAMED})).status == 400
        assert (
            await check(node, {"routingKey": {"jsonPointer": "/n", "required": True}}, [{"n": "x"}, {}])
        ).status == 200


@on_loop
async def test_what_is_no_request_is_refused(tmp_path: Path) -> None:
    async with indexed(tmp_path / "node") as node:
        await create(node, A, declared=None)
        for body in (b"", b"[]", b"{", b"{}", b'{"update":{"routingKey":null},"more":1}', b'{"update":7}'):
            assert (await ask(node, "POST", f"{A}/_schema/check", JSON, body)).status == 400, body
        assert (await check(node, {"routingKey": None}, range(100))).status == 200
        assert (await check(node, {"routingKey": None}, range(101))).status == 400
        assert (await check(node, {"routingKey": None}, path="/v1/stream/none")).status == 404
        assert (await ask(node, "GET", f"{A}/_schema/check")).status == 405
        assert (await ask(node, "PUT", f"{A}/_schema/check", JSON)).status == 400
        large = await ask(node, "POST", f"{A}/_schema/check", JSON, b" " * (3 << 20))
        assert large.status == 413


UPDATES: tuple[Any, ...] = (
    {"schema": NAMED},
    {"schema": {"type": "object"}, "search": SEARCH},
    {"schema": {"type": 7}},
    {"search": SEARCH},
    {"search": {**SEARCH, "primaryTimestampField": "none"}},
    {"routingKey": {"jsonPointer": "/k", "required": True}},
    {"schema": True, "lens": {**LENS, "ops": [{"op": "remove", "path": "/z", "schema": {"type": "string"}}]}},
    {"schema": {"type": "object"}, "lens": {**LENS, "from": 5, "ops": [{"op": "remove", "path": "/z"}]}},
    {"lens": LENS},
    {"what": 1},
)
ENTRIES = st.sampled_from(({"n": 1}, {"n": -1}, {"k": "x"}, {"n": 3, "k": "y"}, {"n": 1, "k": 7}, 5, None, [{"n": 1}]))


@pytest.mark.parametrize("first", [None, NAMED])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(UPDATES), st.lists(ENTRIES, max_size=5))
def test_it_says_what_doing_it_says(tmp_path_factory: Any, first: Any, update: Any, entries: list[Any]) -> None:
    compare(tmp_path_factory.mktemp("node"), first, update, entries)


@on_loop
async def compare(folder: Path, first: Any, update: Any, entries: list[Any]) -> None:
    async with indexed(folder / "node") as node:
        await create(node, A, declared=None if first is None else {"schema": first})
        checked = await check(node, update, entries)
        done = await post(node, f"{A}/_schema", update)
        assert checked.status == done.status
        if done.status != 200:
            assert checked.body == done.body
            return
        said = json.loads(checked.body)
        assert said["currentVersion"] == json.loads(done.body)["currentVersion"]
        refusals = {each["index"]: each["message"] for each in said["refused"]}
        for index, entry in enumerate(entries):
            appended = await post(node, A, [entry])
            assert (appended.status == 204) == (index not in refusals), (entry, appended)
            if index in refusals:
                assert json.loads(appended.body)["error"]["message"] == refusals[index]
