import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from streams_node.profiles import installed
from streams_node.protocol.frames import unpack_keys
from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import Answer, InProcess, in_process
from streams_node.wal.lookup import Name
from tests.profiles.test_documents import REFUSED

JSON = {"content-type": "application/json"}
_ROWS = "SELECT count, keys FROM log WHERE stream = ? ORDER BY row_id"
API = "durable.streams/profile/v1"
SURFACES = pytest.mark.parametrize("path", ["/v1/stream/s", "/v1/stream/team/s", "/team-a/s"])
GENERIC = {"apiVersion": API, "profile": {"kind": "generic"}}


def document(kind: str, **config: object) -> dict[str, Any]:
    return {"apiVersion": API, "profile": {"kind": kind, **config}}


def run(folder: Path, test: Callable[[InProcess], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        async with in_process(folder, clock=FakeClock(), **settings) as node:
            await test(node)

    asyncio.run(main())


async def made(node: InProcess, path: str, content_type: str = "application/json") -> None:
    if path.startswith("/team-a"):
        await node.request("PUT", "/team-a")
    assert (await node.request("PUT", path, {"content-type": content_type})).status == 201


async def ask(node: InProcess, path: str) -> Any:
    answer = await node.request("GET", path)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    return json.loads(answer.body)


async def set_to(node: InProcess, path: str, kind: str, **config: object) -> Answer:
    return await node.request("POST", f"{path}/_profile", JSON, json.dumps(document(kind, **config)).encode())


def refused(answer: Answer) -> tuple[int, str, str]:
    error = json.loads(answer.body)["error"]
    return answer.status, error["code"], error["message"]


@SURFACES
def test_a_stream_is_generic_until_it_is_told_otherwise(tmp_path: Path, path: str) -> None:
    async def test(node: InProcess) -> None:
        await made(node, path)
        answer = await node.request("GET", f"{path}/_profile")
        assert (answer.status, answer.body) == (
            200,
            b'{"apiVersion":"' + API.encode() + b'","profile":{"kind":"generic"}}',
        )
        assert answer.headers["cache-control"] == "no-store"
        config = {"redactKeys": ["pin"], "correlation": {"parseTraceparent": False}}
        answer = await set_to(node, path, "evlog", **config)
        assert (answer.status, json.loads(answer.body)) == (200, document("evlog", **config))
        assert await ask(node, f"{path}/_profile") == document("evlog", **config)
        head = await node.request("HEAD", f"{path}/_profile")
        assert (head.status, head.body) == (200, b"")

    run(tmp_path, test)


def test_what_is_wrong_is_said_in_known_words_and_changes_nothing(tmp_path: Path) -> None:
    async def test(node: InProcess) -> None:
        await made(node, "/v1/stream/s")
        for body, message in REFUSED:
            answer = await node.request("POST", "/v1/stream/s/_profile", JSON, body)
            assert (answer.status, json.loads(answer.body)) == (
                400,
                {"error": {"code": "bad_request", "message": message}},
            )
        assert await ask(node, "/v1/stream/s/_profile") == GENERIC
        assert (await ask(node, "/v1/stream/s/_schema"))["currentVersion"] == 0

    run(tmp_path, test)


@pytest.mark.parametrize("kind", ["state-protocol", "otel-traces"])
def test_kinds_that_come_later_are_not_implemented(tmp_path: Path, kind: str) -> None:
    async def test(node: InProcess) -> None:
        await made(node, "/v1/stream/s")
        answer = await set_to(node, "/v1/stream/s", kind, more={"a": 1})
        message = f"profile `{kind}` is not there yet; this node has evlog, generic and metrics"
        assert refused(answer) == (501, "not_implemented", message)

    run(tmp_path, test)


def test_other_methods_and_other_names_are_refused(tmp_path: Path) -> None:
    async def test(node: InProcess) -> None:
        assert refused(await node.request("GET", "/v1/stream/s/_profile"))[0] == 404
        assert refused(await set_to(node, "/v1/stream/s", "evlog"))[0] == 404
        await made(node, "/v1/stream/s")
        for method in ("DELETE", "PATCH"):
            answer = await node.request(method, "/v1/stream/s/_profile")
            assert (answer.status, answer.headers["allow"]) == (405, "GET, POST, HEAD")
        assert refused(await node.request("PUT", "/v1/stream/s/_profile"))[0] == 400

    run(tmp_path, test)


@pytest.mark.parametrize("kind", ["evlog", "metrics"])
def test_a_profile_needs_a_json_stream_without_entries(tmp_path: Path, kind: str) -> None:
    async def test(node: InProcess) -> None:
        await made(node, "/v1/stream/bytes", "application/octet-stream")
        answer = await set_to(node, "/v1/stream/bytes", kind)
        assert refused(answer) == (
            400, "bad_request", f"{kind} profile requires application/json stream content-type",
        )  # fmt: skip
        assert (await set_to(node, "/v1/stream/bytes", "generic")).status == 200
        await made(node, "/v1/stream/full")
        await node.request("POST", "/v1/stream/full", JSON, b"{}")
        answer = await set_to(node, "/v1/stream/full", kind)
        assert refused(answer) == (400, "bad_request", f"{kind} profile must be installed before appending data")
        assert await ask(node, "/v1/stream/full/_profile") == GENERIC
        assert (await ask(node, "/v1/stream/full/_schema"))["currentVersion"] == 0

    run(tmp_path, test)


@pytest.mark.parametrize("kind", ["evlog", "metrics"])
def test_a_profile_brings_its_registry(tmp_path: Path, kind: str) -> None:
    async def test(node: InProcess) -> None:
        await made(node, "/v1/stream/team/s")
        await node.request("POST", "/v1/stream/team/s/_schema", JSON, b'{"schema":{"type":"string"}}')
        assert (await set_to(node, "/v1/stream/team/s", kind)).status == 200
        update = installed(kind)
        assert update is not None
        registry = await ask(node, "/v1/stream/team/s/_schema")
        for rollup in update["search"]["rollups"].values():
            rollup.setdefault("timestampField", update["search"]["primaryTimestampField"])
        assert registry == {
            "apiVersion": "durable.streams/schema-registry/v1",
            "schema": "team/s",
            "currentVersion": 1,
            **({"routingKey": update["routingKey"]} if "routingKey" in update else {}),
            "search": update["search"],
            "boundaries": [{"offset": 0, "version": 1}],
            "schemas": {"1": update["schema"]},
            "lenses": {},
        }

    run(tmp_path, test)


def test_the_same_kind_again_changes_the_configuration_only(tmp_path: Path) -> None:
    async def test(node: InProcess) -> None:
        path = "/v1/stream/s"
        await made(node, path)
        await set_to(node, path, "evlog", redactKeys=["pin"])
        at = {"kind": "date", "bindings": [{"version": 1, "jsonPointer": "/timestamp"}], "exact": True}
        search = json.dumps({"search": {"primaryTimestampField": "at", "fields": {"at": at}}}).encode()
        assert (await node.request("POST", f"{path}/_schema", JSON, search)).status == 200
        changed = await ask(node, f"{path}/_schema")
        await node.request("POST", path, JSON, b'{"pin":1,"pen":1}')
        number = (await state_of(node, "s")).meaning_number
        assert (await set_to(node, path, "evlog", redactKeys=["PIN "])).status == 200
        assert (await state_of(node, "s")).meaning_number == number  # the very same: nothing was written
        answer = await set_to(node, path, "evlog", redactKeys=["pen"])
        assert (answer.status, json.loads(answer.body)) == (200, document("evlog", redactKeys=["pen"]))
        assert (await state_of(node, "s")).meaning_number == number + 1
        assert await ask(node, f"{path}/_schema") == changed
        await node.request("POST", path, JSON, b'{"pin":1,"pen":1}')
        contexts = [each["context"] for each in await ask(node, f"{path}?offset=-1")]
        assert contexts == [{"pin": "[REDACTED]", "pen": 1}, {"pin": 1, "pen": "[REDACTED]"}]

    run(tmp_path, test)


async def state_of(node: InProcess, stream: str) -> Any:
    return await node.context.ledger.living(Name("_default", stream))


async def keys(node: InProcess, stream: str) -> list[str | None]:
    state = await state_of(node, stream)
    rows = await node.context.database.readers.run(
        lambda db: db.execute("SELECT count, keys FROM log WHERE stream = ? ORDER BY row_id", (state.id,)).fetchall()
    )
    return [key for count, blob in rows for key in unpack_keys(blob, count)]


def test_generic_again_keeps_entries_and_registry(tmp_path: Path) -> None:
    async def test(node: InProcess) -> None:
        path = "/v1/stream/s"
        await made(node, path)
        await set_to(node, path, "evlog")
        await node.request("POST", path, JSON, b'{"message":"one"}')
        before, registry = await ask(node, f"{path}?offset=-1"), await ask(node, f"{path}/_schema")
        assert json.loads((await set_to(node, path, "generic")).body) == GENERIC
        assert await ask(node, f"{path}?offset=-1") == before
        assert await ask(node, f"{path}/_schema") == registry
        answer = await node.request("POST", path, JSON, b'{"message":"two"}')
        assert answer.status == 400  # the schema stays, and nobody makes the entry fit any more
        assert (await node.request("POST", path, JSON, json.dumps(before).encode())).status == 204
        answer = await set_to(node, path, "evlog")
        assert refused(answer) == (400, "bad_request", "evlog profile must be installed before appending data")
        await made(node, "/v1/stream/empty")
        for kind in ("evlog", "generic", "metrics", "evlog"):
            assert (await set_to(node, "/v1/stream/empty", kind)).status == 200
        assert "routingKey" not in await ask(node, "/v1/stream/empty/_schema")

    run(tmp_path, test)


def test_an_entry_that_is_refused_refuses_the_append(tmp_path: Path) -> None:
    async def test(node: InProcess) -> None:
        path = "/v1/stream/s"
        await made(node, path)
        await set_to(node, path, "evlog")
        answer = await node.request("POST", path, JSON, b'[{"message":"a"},[1]]')
        assert (answer.status, json.loads(answer.body)["error"]) == (
            400, {"code": "bad_request", "message": "evlog record must be an object", "entry": 1},
        )  # fmt: skip
        answer = await node.request("POST", path, JSON, b'{"sampling":5}')
        assert refused(answer)[:2] == (400, "bad_request")
        deep = b'{"x":' * 5000 + b"1" + b"}" * 5000
        for hostile in (
            b'{"a":1e999}',
            b'{"a":' + b"9" * 5000 + b"}",
            b'{"a":"\\ud800"}',
            deep,
            b'{"x":' + b"[" * 80 + b"]" * 80 + b"}",
        ):
            assert (await node.request("POST", path, JSON, hostile)).status in {204, 400}
        producer = {**JSON, "producer-id": "p", "producer-epoch": "0", "producer-seq": "0"}
        assert (await node.request("POST", path, producer, b"5")).status == 400
        assert (await node.request("POST", path, producer, b"{}")).status == 200
        assert (await node.request("POST", path, producer, b"5")).status == 204  # a duplicate is told so first

    run(tmp_path, test)


def test_keys_are_the_schemas_or_the_requests_or_the_profiles(tmp_path: Path) -> None:
    async def test(node: InProcess) -> None:
        await made(node, "/v1/stream/e")
        await set_to(node, "/v1/stream/e", "evlog")
        body = b'[{"requestId":"r","traceId":"t"},{"traceId":"t"},{}]'
        await node.request("POST", "/v1/stream/e", JSON, body)
        await node.request("POST", "/v1/stream/e", {**JSON, "stream-key": "mine"}, body)
        await node.request(
            "POST", "/v1/stream/e/_schema", JSON, b'{"routingKey":{"jsonPointer":"/level","required":true}}'
        )
        await node.request("POST", "/v1/stream/e", JSON, body)
        assert await keys(node, "e") == ["r", "t", None, "mine", "mine", "mine", "info", "info", "info"]
        await made(node, "/v1/stream/m")
        await set_to(node, "/v1/stream/m", "metrics")
        record = b'{"metric":"m","unit":"ns","windowStart":1,"windowEnd":2,"count":1,"sum":1,"tags":{"b":1,"a":2}}'
        answer = await node.request("POST", "/v1/stream/m", {**JSON, "stream-key": "mine"}, record)
        assert refused(answer) == (400, "bad_request", "Stream-Key not allowed when routingKey is configured")
        await node.request("POST", "/v1/stream/m", JSON, record)
        await node.request("POST", "/v1/stream/m/_schema", JSON, b'{"routingKey":null}')
        await node.request("POST", "/v1/stream/m", JSON, record)
        assert await keys(node, "m") == ["summary|delta|m|ns|||a=2\0b=1"] * 2

    run(tmp_path, test)


def test_lists_show_the_kind(tmp_path: Path) -> None:
    async def test(node: InProcess) -> None:
        for kind in ("evlog", "generic", "metrics"):
            await made(node, f"/v1/stream/{kind}")
            await set_to(node, f"/v1/stream/{kind}", kind, **({"redactKeys": ["a"]} if kind == "evlog" else {}))
        shown = {each["name"]: each["profile"] for each in await ask(node, "/v1/streams")}
        assert shown == {kind: kind for kind in ("evlog", "generic", "metrics")}

    run(tmp_path, test)


def test_a_restart_keeps_profile_normalisation_and_registry(tmp_path: Path) -> None:
    path = "/v1/stream/s"

    async def first(node: InProcess) -> None:
        await made(node, path)
        await set_to(node, path, "evlog", redactKeys=["pin"], correlation={"requestIdFields": ["rid"]})

    async def second(node: InProcess) -> None:
        config = {"redactKeys": ["pin"], "correlation": {"requestIdFields": ["rid"]}}
        assert await ask(node, f"{path}/_profile") == document("evlog", **config)
        assert (await ask(node, f"{path}/_schema"))["search"]["profile"] == "evlog"
        await node.request("POST", path, JSON, b'{"pin":1,"rid":"r","n":1.10}')
        answer = await node.request("GET", f"{path}?offset=-1")
        assert b'"context":{"pin":"[REDACTED]","rid":"r","n":1.10}' in answer.body
        assert b'"requestId":"r"' in answer.body

    run(tmp_path, first)
    run(tmp_path, second)


def test_a_profile_that_races_an_append_is_before_it_or_refused(tmp_path: Path) -> None:
    async def test(node: InProcess) -> None:
        for at in range(30):
            path = f"/v1/stream/s{at}"
            await made(node, path)

            async def late(path: str = path, at: int = at) -> Answer:
                for _ in range(at % 6):
                    await asyncio.sleep(0)
                return await node.request("POST", path, JSON, b'{"message":"m"}')

            profile, append = await asyncio.gather(set_to(node, path, "evlog"), late())
            assert append.status == 204
            (entry,) = await ask(node, f"{path}?offset=-1")
            registry = await ask(node, f"{path}/_schema")
            normal = profile.status == 200
            assert (len(entry) == 20, registry["currentVersion"] == 1) == (normal, normal)

    run(tmp_path, test)


def test_a_node_that_begins_from_the_bucket_has_the_profile(tmp_path: Path) -> None:
    bucket = {"object_store_folder": tmp_path / "bucket", "tiers": True}

    async def first(node: InProcess) -> None:
        await made(node, "/v1/stream/e")
        await set_to(node, "/v1/stream/e", "evlog", redactKeys=["pin"], correlation={"requestIdFields": ["rid"]})
        await made(node, "/v1/stream/empty")
        await set_to(node, "/v1/stream/empty", "metrics")
        await node.request("POST", "/v1/stream/e", JSON, b'{"pin":1,"rid":"one"}')
        for stream in ("e", "empty"):
            assert (await node.request("POST", f"/v1/stream/{stream}/_flush")).status == 200

    async def second(node: InProcess) -> None:
        config = {"redactKeys": ["pin"], "correlation": {"requestIdFields": ["rid"]}}
        assert await ask(node, "/v1/stream/e/_profile") == document("evlog", **config)
        assert await ask(node, "/v1/stream/empty/_profile") == document("metrics")
        assert (await ask(node, "/v1/stream/empty/_schema"))["routingKey"]["jsonPointer"] == "/seriesKey"
        shown = {each["name"]: each["profile"] for each in await ask(node, "/v1/streams")}
        assert shown == {"e": "evlog", "empty": "metrics"}
        await node.request("POST", "/v1/stream/e", JSON, b'{"pin":1,"rid":"two"}')
        stored = await ask(node, "/v1/stream/e?offset=-1")
        assert [each["requestId"] for each in stored] == ["one", "two"]
        assert [each["context"]["pin"] for each in stored] == ["[REDACTED]"] * 2
        assert await keys(node, "e") == ["two"]

    run(tmp_path / "lost", first, **bucket)
    run(tmp_path / "new", second, bootstrap_from_store=True, **bucket)
