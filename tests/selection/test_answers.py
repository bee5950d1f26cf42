"""What a client is told whose read is of some entries only: bodies of refusals, tags, offsets, live reads."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest

from streams_node.protocol.offsets import encode
from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess, in_process
from tests.http.wire import Reply, ask
from tests.selection.world import JSON, PATH, SEARCH

TEXT = {"content-type": "text/plain"}
Test = Callable[[InProcess, FakeClock], Awaitable[None]]


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., None]:
    """Runs a coroutine with a node that has an empty stream with fields."""

    def run(test: Test, **settings: Any) -> None:
        async def main() -> None:
            clock = FakeClock()
            async with in_process(tmp_path / "node", clock=clock, **settings) as node:
                assert (await ask(node, "PUT", PATH, JSON)).status == 201
                schema = json.dumps({"schema": {"type": "object"}, "search": SEARCH}).encode()
                assert (await ask(node, "POST", f"{PATH}/_schema", JSON, schema)).status == 200
                await test(node, clock)

        anyio.run(main)

    return run


async def append(node: InProcess, *records: Any, key: str | None = None, path: str = PATH) -> None:
    headers = JSON if key is None else JSON | {"stream-key": key.encode().decode("latin-1")}
    assert (await ask(node, "POST", path, headers, json.dumps(list(records)).encode())).status == 204


async def get(node: InProcess, query: str, path: str = PATH, headers: dict[str, str] | None = None) -> Reply:
    return await ask(node, "GET", f"{path}?{query}", headers)


def refusal(reply: Reply) -> Any:
    assert reply.status == 400
    return json.loads(reply.body)


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("", "filter must not be empty", 0),
        ("%20", "filter must not be empty", 0),
        ("(", "expected clause in filter", 1),
        ("%22x%22:1", "expected field name in filter", 0),
        ("service", "expected ':' in filter clause", 7),
        ("service:", "expected value in filter clause", 8),
        ("has:", "has: requires a field name", 4),
        ("(service:api", "missing ')' in filter", 0),
        ("service:api)", "unexpected token in filter", 11),
        ("service:%22api", "unterminated quoted string in filter", 8),
        ("nobody:1", "filter field nobody is not indexed", 0),
        ("contains:1", "filter field contains is not indexed", 0),
        ("n:x", "invalid value for filter field", 2),
        ("service:>api", "comparison operator not supported for filter field", 0),
        ("ok:>=true", "comparison operator not supported for filter field", 0),
    ],
)
def test_a_filter_that_is_none_is_refused_with_the_character_at_fault(
    run: Callable[..., None], text: str, message: str, position: int
) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        error = {"code": "bad_request", "message": message, "position": position}
        assert refusal(await get(node, f"filter={text}")) == {"error": error}
        if text:
            assert refusal(await get(node, f"offset=now&live=true&filter={text}")) == {"error": error}

    run(test)


def test_a_filter_is_for_streams_of_json_and_not_for_event_streams(run: Callable[..., None]) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/t", TEXT)
        message = "filter requires application/json stream content-type"
        assert refusal(await get(node, "filter=n:1", "/v1/stream/t"))["error"]["message"] == message
        message = "filter does not support live=sse"
        assert refusal(await get(node, "offset=-1&live=sse&filter=n:1"))["error"]["message"] == message
        await ask(node, "PUT", "/v1/stream/plain", JSON, b"[1]")
        message = "filter field n is not indexed"
        assert refusal(await get(node, "filter=n:1", "/v1/stream/plain"))["error"]["message"] == message
        assert (await get(node, "filter=n:1", "/v1/stream/nobody")).status == 404

    run(test)


@pytest.mark.parametrize("text", ["x", "2026-01-01", "1e9", "-1", "2026-13-01T00:00:00Z", "1" * 20])
def test_a_time_that_is_none_is_refused(run: Callable[..., None], text: str) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        message = f"since must be an RFC 3339 time or Unix nanoseconds, not `{text}`"
        assert refusal(await get(node, f"since={text}"))["error"]["message"] == message

    run(test)


def test_an_offset_wins_over_a_time_and_a_time_begins_a_live_read(run: Callable[..., None]) -> None:
    async def test(node: InProcess, clock: FakeClock) -> None:
        await append(node, {"n": 1})
        clock.advance(10)
        await append(node, {"n": 2})
        since = clock() * 1000
        assert (await get(node, f"since={since}")).body == b'[{"n": 2}]'
        assert (await get(node, f"since={since}&offset=-1")).body == b'[{"n": 1},{"n": 2}]'
        assert (await get(node, f"since={since}&offset=now")).body == b"[]"
        assert (await get(node, f"since={since}&live=long-poll")).body == b'[{"n": 2}]'
        late = await get(node, f"since={since + 1000}")
        assert (late.body, late.headers["stream-next-offset"]) == (b"[]", encode(0, 2))
        assert "stream-up-to-date" in late.headers

    run(test)


@pytest.mark.parametrize("key", ["a", "a/b", "..", ".", "ä ö", "%", "a?b#c", "\n", "x" * 200, "pk", "_schema"])
def test_a_key_in_the_path_is_the_key_in_the_query(run: Callable[..., None], key: str) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/agents")
        await ask(node, "PUT", "/agents/keyed", JSON)
        spelled = quote(key, safe="")
        schema = {"routingKey": {"jsonPointer": "/key", "required": False}}
        made = await ask(node, "POST", "/agents/keyed/_schema", JSON, json.dumps(schema).encode())
        assert made.status == 200, made.body
        await append(node, {"key": key}, {"key": f"{key}."}, {}, {"key": key}, path="/agents/keyed")
        record = json.dumps({"key": key}).encode()
        for path in ("/agents/keyed", "/v1/stream/agents/keyed"):
            there, here = await get(node, "", f"{path}/pk/{spelled}"), await get(node, f"key={spelled}", path)
            assert there == here
            assert there.body == b"[%b,%b]" % (record, record)
            assert there.headers["stream-next-offset"] == encode(0, 4)
            assert (await ask(node, "HEAD", f"{path}/pk/{spelled}")).status == 200
            for method in ("POST", "DELETE"):
                assert (await ask(node, method, f"{path}/pk/{spelled}")).headers["allow"] == "GET, HEAD"
            assert (await ask(node, "PUT", f"{path}/pk/{spelled}", JSON)).status == 400
        assert (await get(node, "key=", "/agents/keyed")).body.count(b"key") == 3

    run(test)


def test_a_tag_names_what_was_selected(run: Callable[..., None]) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await append(node, {"n": 1}, key="a")
        queries = [
            "",
            "key=a",
            "key=b",
            "filter=n:1",
            "filter=n:1&key=a",
            "filter=n:2",
            "filter=n:1&format=raw",
            "key=n:1",
        ]
        tags = [(await get(node, query)).headers["etag"] for query in queries]
        assert len(set(tags)) == len(queries)
        for query, tag in zip(queries, tags, strict=True):
            again = await get(node, query, headers={"if-none-match": tag})
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
        assert (await get(node, "filter=n:1")).headers[
            "cache-control"
        ] == "public, max-age=60, stale-while-revalidate=300"
        lens: dict[str, Any] = {"apiVersion": "durable.lens/v1", "schema": "s", "from": 1, "to": 2,
                "ops": [{"op": "add", "path": "/new", "schema": {}, "default": 7}]}  # fmt: skip
        grown = {"type": "object", "properties": {"new": {"type": "integer"}}, "required": ["new"]}
        body = json.dumps({"schema": grown, "lens": lens | {"ops": [lens["ops"][0] | {"schema": {"type": "integer"}}]}})
        changed = await ask(node, "POST", f"{PATH}/_schema", JSON, body.encode())
        assert changed.status == 200, changed.body
        later = [(await get(node, query)).headers["etag"] for query in queries]
        assert not set(tags) & set(later)

    run(test)


def test_a_tag_of_a_filter_changes_with_what_it_finds(run: Callable[..., None]) -> None:
    """Where entries lie and which version shows them stays; what the fields are does not."""

    async def test(node: InProcess, _: FakeClock) -> None:
        await append(node, {"service": "API"}, {"service": "api"}, key="a")
        queries = ["filter=service:api", "filter=service:api&format=raw", "filter=service:api&key=a", "key=a", ""]
        before = [await get(node, query) for query in queries]
        fields = SEARCH["fields"] | {"service": SEARCH["fields"]["service"] | {"normalizer": "lowercase_v1"}}
        body = json.dumps({"search": SEARCH | {"fields": fields}}).encode()
        assert (await ask(node, "POST", f"{PATH}/_schema", JSON, body)).status == 200
        for query, old in zip(queries, before, strict=True):
            again = await get(node, query, headers={"if-none-match": old.headers["etag"]})
            assert again.status == (200 if "filter" in query else 304), query
            assert ("API" in old.body.decode()) == ("filter" not in query)
            assert "filter" not in query or b"API" in again.body
        body = json.dumps({"search": SEARCH}).encode()
        assert (await ask(node, "POST", f"{PATH}/_schema", JSON, body)).status == 200
        for query, old in zip(queries, before, strict=True):
            back = await get(node, query)
            assert (back.body, back.headers["etag"]) == (old.body, old.headers["etag"])

    run(test)


def test_a_tag_of_a_filter_changes_with_how_old_entries_are_judged(run: Callable[..., None]) -> None:
    """Also where they are shown as they are stored."""

    async def test(node: InProcess, _: FakeClock) -> None:
        await append(node, {"m": 1}, {"m": 2})
        before = await get(node, "filter=n:1&format=raw")
        assert before.body == b""
        schema = {"type": "object", "properties": {"n": {}}, "required": ["n"]}
        ops = [{"op": "add", "path": "/n", "schema": {}, "default": 1}]
        lens = {"apiVersion": "durable.lens/v1", "schema": "s", "from": 1, "to": 2, "ops": ops}
        body = json.dumps({"schema": schema, "lens": lens}).encode()
        assert (await ask(node, "POST", f"{PATH}/_schema", JSON, body)).status == 200
        after = await get(node, "filter=n:1&format=raw", headers={"if-none-match": before.headers["etag"]})
        assert (after.status, after.body) == (200, b'{"m": 1}{"m": 2}')

    run(test)


def test_entries_are_judged_and_shown_as_the_current_schema_has_them(run: Callable[..., None]) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await append(node, {"m": 1}, {"m": 2}, key="a")
        lens = {"apiVersion": "durable.lens/v1", "schema": "s", "from": 1, "to": 2,
                "ops": [{"op": "rename", "from": "/m", "to": "/n"}]}  # fmt: skip
        one = {"type": "object", "required": ["m"], "properties": {"m": {"type": "integer"}}}
        two = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
        await ask(node, "PUT", "/v1/stream/v", JSON)
        for update in ({"schema": one, "search": SEARCH}, {"schema": two, "lens": lens | {"schema": "v"}}):
            made = await ask(node, "POST", "/v1/stream/v/_schema", JSON, json.dumps(update).encode())
            assert made.status == 200, made.body
            if "lens" not in update:
                await append(node, {"m": 1}, {"m": 2}, key="a", path="/v1/stream/v")
        await append(node, {"n": 2}, {"n": 3}, path="/v1/stream/v")
        assert (await get(node, "filter=n:2", "/v1/stream/v")).body == b'[{"n":2},{"n": 2}]'
        assert (await get(node, "filter=n:2&format=raw", "/v1/stream/v")).body == b'{"m": 2}{"n": 2}'
        assert (await get(node, "key=a", "/v1/stream/v")).body == b'[{"n":1},{"n":2}]'
        assert (await get(node, "key=a&filter=n:1", "/v1/stream/v/pk/a")).body == b'[{"n":1}]'

    run(test)


def test_a_filter_that_examines_too_much_says_so_and_goes_on_from_its_offset(run: Callable[..., None]) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        for _at in range(10):
            await append(node, {"n": 1, "pad": "x" * 480})
        begin, seen = "-1", 0
        for live in ("", "&live=long-poll"):
            first = await get(node, f"offset=-1&filter=n:2{live}")
            assert (first.status, first.body) == (200, b"[]")
            assert first.headers["stream-filter-scan-limit-reached"] == "true"
            assert first.headers["stream-filter-scan-limit-bytes"] == "1024"
            assert 1024 <= int(first.headers["stream-filter-scanned-bytes"]) < 1024 + 500
            assert first.headers["stream-next-offset"] == encode(0, 3)
        while True:
            page = await get(node, f"offset={begin}&filter=n:2")
            begin, seen = page.headers["stream-next-offset"], seen + 1
            if "stream-up-to-date" in page.headers:
                break
        assert (seen, begin) == (4, encode(0, 10))
        assert "stream-filter-scan-limit-reached" not in page.headers

    run(test, filter_scan_bytes_max=1024)


def test_a_long_poll_waits_for_what_it_asks_for(run: Callable[..., None]) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await append(node, {"n": 1}, key="a")
        for selection in ("filter=n:2", "key=b", "key=b&filter=n:2"):
            waiting = node.start("GET", f"{PATH}?offset=now&live=long-poll&{selection}")
            await append(node, {"n": 1}, key="a")
            await asyncio.sleep(0)
            await append(node, {"n": 2}, key="b")
            await waiting.task
            assert (waiting.head["status"], waiting.body) == (200, b'[{"n": 2}]')
            empty = await get(
                node, f"offset=-1&live=long-poll&timeout=50ms&{selection}".replace("2", "9").replace("b", "z")
            )
            assert (empty.status, empty.body) == (204, b"")
            assert empty.headers["stream-next-offset"] == empty.headers["stream-end-offset"]
            assert "stream-up-to-date" in empty.headers
        await ask(node, "POST", PATH, {"stream-closed": "true"})
        closed = await get(node, "offset=-1&live=long-poll&filter=n:9")
        assert (closed.status, closed.headers["stream-closed"]) == (204, "true")

    run(test)


def test_an_event_stream_of_a_key_shows_its_entries_only(run: Callable[..., None]) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await append(node, {"n": 1}, key="a")
        await append(node, {"n": 2}, key="b")
        reader = node.start("GET", f"{PATH}/pk/a?offset=-1&live=sse")
        await reader.until(b'"upToDate":true')
        await append(node, {"n": 3}, key="b")
        await append(node, {"n": 4}, key="a")
        await reader.until(b'"n": 4')
        await append(node, {"n": 5}, key="b")
        await ask(node, "POST", PATH, {"stream-closed": "true"})
        await reader.until(b'"streamClosed":true')
        await reader.task
        data = [line for line in reader.body.split(b"\n") if line.startswith(b"data:[")]
        assert data == [b'data:[{"n": 1}]', b'data:[{"n": 4}]']
        assert encode(0, 5).encode() in reader.body

    run(test)


def test_bytes_are_read_by_key_too(run: Callable[..., None]) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await ask(node, "PUT", "/v1/stream/b", TEXT)
        for key, body in (("a", b"one"), ("b", b"two"), ("a", b"three" * 20_000)):
            await ask(node, "POST", "/v1/stream/b", TEXT | {"stream-key": key}, body)
        page = await get(node, "key=a&max_bytes=10", "/v1/stream/b")
        assert (page.body, page.headers["stream-next-offset"]) == (b"one", encode(0, 2))
        page = await get(node, f"key=a&max_bytes=10&offset={encode(0, 1)}", "/v1/stream/b")
        assert (page.body, page.headers["stream-next-offset"]) == (b"three" * 20_000, encode(0, 3))

    run(test, log_row_bytes_max=4096)
