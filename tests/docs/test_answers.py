"""What a node answers, against what the document says: every status and header that is seen is described, and every
success that is described is seen.
"""

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from streams_node.errors import Overloaded
from streams_node.http import docs_page, resources
from streams_node.http.openapi import document
from streams_node.http.routes import ROUTES, Route
from streams_node.testing.inprocess import Answer, InProcess, in_process
from tests.docs.index_walk import walk_indexes
from tests.docs.searches import walk_aggregations, walk_bucket_searches, walk_searches
from tests.docs.subscriptions import walk_subscriptions

JSON = {"content-type": "application/json"}
TEXT = {"content-type": "text/plain"}
PRODUCER = {"producer-id": "p", "producer-epoch": "1", "producer-seq": "0"}
# On every answer, described once in the manual and not at each operation.
SHARED = {
    "x-content-type-options", "cross-origin-resource-policy", "access-control-allow-origin", "content-length",
    "access-control-expose-headers", "date", "content-type", "server-timing",
}  # fmt: skip


@dataclass
class Watched:
    """A node whose answers are noted by operation and status."""

    node: InProcess
    seen: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))

    async def __call__(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Answer:
        answer = await self.node.request(method, target, headers, body)
        self.note(method, target, answer.status, set(answer.headers))
        return answer

    async def first_of(self, target: str, what: bytes) -> None:
        """An answer that goes on, read until it says `what`."""
        running = self.node.start("GET", target)
        await running.until(what)
        await running.hang_up()
        self.note("GET", target, running.head["status"], {name.decode() for name, _ in running.head["headers"]})

    def note(self, method: str, target: str, status: int, headers: set[str]) -> None:
        self.seen[route_of(method, target.partition("?")[0]).name, status] |= headers - SHARED


async def walk(node: Watched) -> None:
    """Every success that can be had without waiting, and the refusals a client meets in a day."""
    for path in (
        "/",
        "/health",
        "/healthz",
        "/livez",
        "/readyz",
        "/metrics",
        "/openapi.json",
        "/docs",
        "/v1/streams",
        "/v1/server/_details",
        "/v1/server/_mem",
    ):
        await node("GET", path)
    await node("GET", "/", {"accept": "text/html,*/*"})
    await walk_page(node)
    await node("GET", "/v1/streams?limit=x")
    node.node.context.ledger.refusals["test"] = Overloaded("as a test wants it")
    await node("GET", "/readyz")
    del node.node.context.ledger.refusals["test"]
    for method in ("PUT", "PUT", "GET"):
        await node(method, "/agents")
    await node("GET", "/nobody-made-it")
    await node("GET", "/UPPER")
    for base in ("/v1/stream/", "/agents/"):
        await walk_stream(node, f"{base}s{len(base)}")
        await walk_selections(node, f"{base}k{len(base)}")
        await walk_declarations(node, f"{base}d{len(base)}")
        await walk_searches(node, f"{base}q{len(base)}")
        await walk_aggregations(node, f"{base}r{len(base)}")
    await walk_bucket_searches(node)
    await node("PUT", "/v1/stream/s/snapshot")
    await node("GET", "/agents/streams?limit=1")
    await node("GET", "/agents/streams?limit=0")
    await node("GET", "/missing-bucket/streams")
    await node("DELETE", "/agents")
    await node("PUT", "/empty-one")
    await node("DELETE", "/empty-one")
    await node("DELETE", "/empty-one")
    for path in ("/v1/stream/agents/meaning", "/agents/meant"):
        await walk_meaning(node, path)
    await walk_flushes(node)
    await walk_subscriptions(node)


async def walk_page(node: Watched) -> None:
    """The admin page and a file of it, then once more with their tags."""
    page = await node("GET", "/ui")
    asset = re.search(rb'"(/ui/[^"]+)"', page.body)
    assert asset is not None
    file = await node("GET", asset[1].decode())
    for path, answer in (("/ui", page), (asset[1].decode(), file)):
        assert (await node("GET", path, {"if-none-match": answer.headers["etag"]})).status == 304


async def walk_meaning(node: Watched, path: str) -> None:
    await node("PUT", path, JSON)
    for part, update in (("_schema", b'{"schema":{"type":"object"}}'), ("_profile", b'{"profile":{"kind":"generic"}}')):
        seen = await node("GET", f"{path}/{part}")
        await node("GET", f"{path}/{part}", {"if-none-match": seen.headers.get("etag", "*")})
        await node("POST", f"{path}/{part}", JSON, update)
        await node("POST", f"{path}/{part}", JSON, b"{")
        await node("GET", f"{path}-missing/{part}")
    await node("POST", f"{path}/_schema/check", JSON, b'{"update":{"routingKey":null},"entries":[{}]}')


async def walk_flushes(node: Watched) -> None:
    """Before the stages run nothing reaches the bucket; then it does."""
    tiers = node.node.context.tiers
    await node("PUT", "/agents/f", JSON, b"[1]")
    paths = ("/v1/stream/agents/f/_flush", "/agents/f/_flush", "/__ursula/flush-cold/agents/f")
    assert [(await node("POST", path)).status for path in paths] == [202, 202, 202]
    await tiers.open()
    tiers.start()
    for path in paths:
        await node("POST", "/v1/stream/agents/f", JSON, b"[2]")
        while (await node("POST", path)).status == 202:
            pass
    await node("POST", paths[-1])
    await node("POST", f"{paths[-1]}?min_hot_bytes=-1")
    await node("POST", "/agents/nobody-made-it/_flush")
    await node("POST", "/__ursula/flush-cold/agents/nobody-made-it")


async def walk_stream(node: Watched, path: str) -> None:
    await node("PUT", path, {**JSON, "stream-ttl": "3600", **PRODUCER}, b'[{"n":1}]')
    await node("PUT", path, {**JSON, "stream-ttl": "3600"})
    await node("PUT", path, TEXT)
    await node("PUT", path, {**JSON, "stream-ttl": "-1"})
    await node("PUT", path, {"stream-forked-from": "/v1/stream/x"})
    await walk_forks(node, path + "-source", path + "-fork")
    await node("HEAD", path)
    await node("POST", path, JSON, b"[2,3]")
    await node("POST", path, {**JSON, **PRODUCER, "producer-seq": "1", "stream-seq": "a"}, b"4")
    for extra in (
        {"producer-seq": "1"},
        {"producer-seq": "9"},
        {"producer-epoch": "0"},
        {"stream-seq": "a", "producer-seq": "2"},
    ):
        await node("POST", path, {**JSON, **PRODUCER, **extra}, b"5")
    await node("POST", path, TEXT, b"5")
    await node("POST", path, JSON, b"{")
    await node("POST", path, JSON, b"[" + b"1," * 200 + b"1]")
    page = await node("GET", f"{path}?offset=-1")
    await node("GET", f"{path}?offset=-1", {"if-none-match": page.headers["etag"]})
    head = await node("HEAD", path)
    await node("HEAD", path, {"if-none-match": head.headers["etag"]})
    await node("GET", f"{path}?offset=now")
    await node("GET", f"{path}?offset=nonsense")
    await node("GET", f"{path}?offset=00000000000000000ZZZZZZZZZ")
    await node("GET", f"{path}?filter=x")
    await node("GET", f"{path}?offset=-1&live=long-poll")
    await node("GET", f"{path}?offset=now&live=long-poll&timeout=1ms")
    await node.first_of(f"{path}?offset=-1&live=sse", b"upToDate")
    await node("POST", path, {"stream-closed": "true"})
    await node("POST", path, JSON, b"6")
    await node("GET", f"{path}?offset=-1&live=sse")
    await node("GET", f"{path}?offset={page.headers['stream-next-offset']}&live=long-poll")
    await node("HEAD", path)
    binary = path + "-bytes"
    closed = {"stream-closed": "true", "stream-expires-at": "2200-01-01T00:00:00Z"}
    await node("PUT", binary, closed, b"\x00")
    await node("PUT", binary, closed)
    for method in ("HEAD", "GET"):
        tag = (await node(method, binary)).headers["etag"]
        await node(method, binary, {"if-none-match": tag})
    await node("GET", f"{binary}?offset=-1&live=sse")
    await node("PUT", path + "-closing", JSON)
    await node("POST", path + "-closing", {**JSON, **PRODUCER, "stream-closed": "true"}, b"1")
    await node("DELETE", path)
    for method in ("DELETE", "GET", "HEAD"):
        await node(method, path)
    await node("POST", path, JSON, b"1")
    await node("PUT", path, JSON)
    old = await node("GET", f"{path}?offset={page.headers['stream-next-offset']}")
    assert old.status == 410


async def walk_forks(node: Watched, source: str, fork: str) -> None:
    shared = {"stream-forked-from": source}
    await node("PUT", source, JSON, b"[1,2]")
    await node("PUT", fork, {**shared, **TEXT})
    await node("PUT", fork, shared)
    await node("DELETE", source)
    for method in ("GET", "HEAD", "DELETE"):
        await node(method, source)
    await node("POST", source, JSON, b"1")
    await node("DELETE", fork)


async def walk_declarations(node: Watched, path: str) -> None:
    """A profile, and the schema that it installs; then what is refused."""
    await node("PUT", path, JSON)
    for part, body in (("_profile", b'{"profile":{"kind":"evlog"}}'), ("_schema", b'{"routingKey":null}')):
        await node("GET", f"{path}/{part}")
        assert (await node("POST", f"{path}/{part}", JSON, body)).status == 200
        await node("POST", f"{path}/{part}", JSON, b"{")
        await node("POST", f"{path}/{part}", JSON, b" " * (2 << 20))
        await node("GET", f"{path}-missing/{part}")
        await node("POST", f"{path}-missing/{part}", JSON, body)
    lens = b'{"apiVersion":"durable.lens/v1","schema":"s","from":7,"to":8,"ops":[{"op":"head","path":""}]}'
    await node("POST", f"{path}/_schema", JSON, b'{"schema":true,"lens":%b}' % lens)


async def walk_selections(node: Watched, path: str) -> None:
    """Reads of some entries: by key, by a filter that takes too much, and by a filter of no meaning."""
    field = {"kind": "integer", "bindings": [{"version": 1, "jsonPointer": "/n"}], "exact": True}
    kind = {"kind": "date", "bindings": [{"version": 1, "jsonPointer": "/at"}], "column": True}
    search = {"primaryTimestampField": "at", "fields": {"at": kind, "n": field}}
    await node("PUT", path, JSON)
    schema = json.dumps({"schema": {"type": "object"}, "search": search}).encode()
    assert (await node("POST", f"{path}/_schema", JSON, schema)).status == 200
    await node(
        "POST", path, {**JSON, "stream-key": "k"}, json.dumps([{"n": n, "pad": "x" * 200} for n in range(20)]).encode()
    )
    for base in (f"{path}?", f"{path}/pk/k?"):
        page = await node("GET", f"{base}offset=-1&filter=n:99")
        assert "stream-filter-scan-limit-reached" in page.headers
        await node("GET", f"{base}offset=-1&filter=n:99", {"if-none-match": page.headers["etag"]})
        await node("GET", f"{base}filter=nobody:1")
        await node("GET", f"{base}offset=-1&live=long-poll")
        await node("GET", f"{base}offset=now&live=long-poll&timeout=1ms")
        await node.first_of(f"{base}offset=-1&live=sse", b"upToDate")
    await node("POST", path, {"stream-closed": "true"})
    page = await node("GET", f"{path}/pk/k?offset=now")
    for answer in (await node("GET", f"{path}/pk/k"), await node("GET", f"{path}/pk/nobody")):
        await node("GET", f"{path}/pk/k", {"if-none-match": answer.headers["etag"]})
        await node("GET", f"{path}/pk/nobody", {"if-none-match": answer.headers["etag"]})
    await node("GET", f"{path}/pk/k?offset={page.headers['stream-next-offset']}&live=long-poll")
    await node("PUT", f"{path}-bytes", {"stream-closed": "true"}, b"\x00")
    await node("GET", f"{path}-bytes/pk/k?offset=-1&live=sse")
    await node("GET", f"{path}/pk/%ff")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, int], set[str]]:
    async def scenario() -> Mapping[tuple[str, int], set[str]]:
        async with in_process(
            tmp_path_factory.mktemp("node"), append_entries_max=100, filter_scan_bytes_max=1024
        ) as node:
            watched = Watched(node)
            await walk(watched)
        await walk_indexes(tmp_path_factory.mktemp("indexes"), lambda node: Watched(node, watched.seen))
        return watched.seen

    return asyncio.run(scenario())


@pytest.fixture(scope="module")
def described() -> Mapping[tuple[str, int], set[str]]:
    api = json.loads(document(resources.HANDLERS))
    return {
        (operation["operationId"], int(status)): {name.lower() for name in answer.get("headers", ())}
        for methods in api["paths"].values()
        for operation in methods.values()
        for status, answer in operation["responses"].items()
    }


Answers = Mapping[tuple[str, int], set[str]]


def test_every_status_that_is_answered_is_described(seen: Answers, described: Answers) -> None:
    assert set(seen) - set(described) == set()


def test_every_success_that_is_described_is_answered(seen: Answers, described: Answers) -> None:
    successes = {(name, status) for name, status in described if status < 400}
    assert successes - set(seen) == set()


def test_every_header_of_an_answer_is_described(seen: Answers, described: Answers) -> None:
    unknown = {where: headers - described.get(where, set()) for where, headers in seen.items()}
    assert {where: headers for where, headers in unknown.items() if headers} == {}


def test_every_header_that_is_described_for_a_success_is_answered(seen: Answers, described: Answers) -> None:
    missing = {where: headers - seen[where] for where, headers in described.items() if where[1] < 400}
    assert {where: headers for where, headers in missing.items() if headers} == {}


# --- failures of what is not hot --------------------------------------------------------------------------------------


Scenario = Callable[[InProcess], Awaitable[None]]


def run(folder: Path, scenario: Scenario, **settings: Any) -> None:
    async def inside() -> None:
        async with in_process(folder, **settings) as node:
            await scenario(node)

    asyncio.run(inside())


def test_an_unexpected_fault_is_ours_to_tell_and_to_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: object) -> bytes:
        raise ZeroDivisionError

    async def scenario(node: InProcess) -> None:
        answer = await node.request("GET", "/openapi.json", {"x-request-id": "look-for-me"})
        assert answer.status == 500
        assert json.loads(answer.body)["error"]["code"] == "internal"
        assert answer.headers["x-request-id"] == "look-for-me"
        assert b"ZeroDivision" not in answer.body

    monkeypatch.setattr(docs_page, "document", broken)
    run(tmp_path, scenario)
    said = "".join(capsys.readouterr())
    assert "look-for-me" in said
    assert "ZeroDivisionError" in said


def test_a_refusal_of_what_is_not_hot_has_a_request_id_and_is_told_in_the_metrics(tmp_path: Path) -> None:
    async def scenario(node: InProcess) -> None:
        answer = await node.request("GET", "/missing-bucket", {"x-request-id": "mine"})
        assert (answer.status, answer.headers["x-request-id"]) == (404, "mine")
        wrong = await node.request("POST", "/health")
        assert (wrong.status, wrong.headers["allow"]) == (405, "GET, HEAD")
        node.context.ledger.refusals["test"] = Overloaded("as a test wants it")
        assert (await node.request("PUT", "/some-bucket")).headers["retry-after"] == "1"
        metrics = (await node.request("GET", "/metrics")).body.decode()
        assert 'streams_refusals_total{code="overloaded"} 1.0' in metrics

    run(tmp_path, scenario)


def test_metrics_say_their_type_once(tmp_path: Path) -> None:
    async def scenario(node: InProcess) -> None:
        answer = await node.request("GET", "/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"

    run(tmp_path, scenario)


def route_of(method: str, path: str) -> Route:
    found = [route for route in ROUTES if route.methods == method and fits(route.pattern, path)]
    return max(found, key=lambda route: len(re.sub(r"{\w+}", "", route.pattern)))  # the one that says most of the path


def fits(pattern: str, path: str) -> bool:
    parts = re.split(r"({\w+})", pattern)
    shape = "".join(
        {"{path}": ".+", "{asset}": ".+"}.get(part, "[^/]+" if part[:1] == "{" else re.escape(part)) for part in parts
    )
    return re.fullmatch(shape, path) is not None
