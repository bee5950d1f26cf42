"""Every answer that the document describes for what declares and selects: its status, and the whole of its body."""

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from streams_node.errors import Overloaded, Unavailable
from streams_node.http import resources
from streams_node.http.openapi import document
from streams_node.ingest.ledger import Ledger
from streams_node.ingest.retain import retain
from streams_node.testing.inprocess import InProcess, in_process
from streams_node.wal.lookup import Name
from tests.schema.messages import EMPTY, JSON, append, create, lens, refusal, update

PATH = "/v1/stream/s"
NAME = Name("_default", "s")
KEY = "of-tests-alone-and-long-enough"
# Of the connection, before there is a request to answer: tests/http/test_connections.py has those bodies.
ELSEWHERE = {"431"}
DECLARED: dict[str, Any] = {
    "schema": {"type": "object"},
    "routingKey": {"jsonPointer": "/k", "required": False},
    "search": {
        "primaryTimestampField": "at",
        "fields": {
            "at": {"kind": "date", "bindings": [{"version": 1, "jsonPointer": "/at"}], "column": True},
            "n": {"kind": "integer", "bindings": [{"version": 1, "jsonPointer": "/n"}], "column": True},
        },
    },
}
REGISTRY = {
    "apiVersion": EMPTY["apiVersion"], "schema": "s", "currentVersion": 1, "routingKey": DECLARED["routingKey"],
    "search": DECLARED["search"], "boundaries": [{"offset": 0, "version": 1}], "schemas": {"1": DECLARED["schema"]},
    "lenses": {},
}  # fmt: skip
ENTRIES = [{"k": "a", "n": 1}, {"k": "b", "n": 2}, {"k": "a", "n": 2}]
GENERIC = {"apiVersion": "durable.streams/profile/v1", "profile": {"kind": "generic"}}
EVLOG = {"apiVersion": "durable.streams/profile/v1", "profile": {"kind": "evlog"}}

MISSING = refusal("stream `s` does not exist in bucket `_default`", "not_found")
NO_KEY = refusal("this node wants `Authorization: Bearer <key>` with the key it was started with", "unauthorized")
LATE = refusal(
    "append timed out; append outcome is unknown, check Stream-Next-Offset before retrying", "append_timeout"
)
SLOW = refusal("request timed out", "request_timeout")
BUSY = refusal("as a test wants it", "overloaded")
AWAY = refusal("as a test wants it", "unavailable")
UNKNOWN = refusal(
    "the commit failed; the outcome is unknown, check Stream-Next-Offset before retrying", "outcome_unknown"
)
INTERNAL = refusal("internal error; the request id is in the node's log", "internal")
GONE = refusal("entries below the earliest retained offset are gone", "gone")


def text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class World:
    """A node, and what a case may do to it. Whatever was broken is whole again when the case ends."""

    def __init__(self, node: InProcess, broken: pytest.MonkeyPatch) -> None:
        self.node = node
        self.broken = broken
        self.headers: dict[str, str] = {}
        self.held = asyncio.Event()

    @property
    def ledger(self) -> Ledger:
        return self.node.context.ledger

    async def nothing(self) -> None:
        """There is no stream."""

    async def empty(self) -> None:
        await create(self.node)

    async def declared(self) -> None:
        """And it has entries."""
        await create(self.node)
        assert (await update(self.node, DECLARED)).status == 200
        assert (await append(self.node, ENTRIES)).status == 204

    async def trimmed(self) -> None:
        await self.declared()
        await retain(self.ledger, await self.ledger.readable(NAME), 2)

    async def late(self) -> None:
        """The disk does not answer."""
        await self.empty()
        writer = self.node.context.database.writer
        run_now = writer.run

        async def held(*args: Any) -> Any:
            await self.held.wait()
            return await run_now(*args)

        self.broken.setattr(writer, "run", held)

    async def failing(self) -> None:
        """The disk says no."""
        await self.empty()

        async def full(*_: Any) -> None:
            raise sqlite3.OperationalError("disk is full")

        self.broken.setattr(self.node.context.database.writer, "run", full)

    async def refusing(self) -> None:
        """Writes are not taken."""
        await self.empty()
        self.ledger.refusals["test"] = Overloaded("as a test wants it")

    def lookup(self, answer: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[None]]:
        """Whoever looks the stream up meets this."""

        async def prepare() -> None:
            await self.declared()

            async def found(*_: Any, **__: Any) -> Any:
                return await answer()

            for name in ("living", "readable"):
                self.broken.setattr(self.ledger, name, found)

        return prepare


async def hangs() -> None:
    await asyncio.Event().wait()


async def is_busy() -> None:
    raise Overloaded("as a test wants it")


async def is_away() -> None:
    raise Unavailable("as a test wants it")


async def is_broken() -> None:
    raise ZeroDivisionError


Prepare = Callable[[World], Callable[[], Awaitable[None]]]


class Case(NamedTuple):
    """A request, in a world that was prepared, and the whole of its answer. `settings` are the node's."""

    operation: str
    prepare: Prepare
    status: int
    answer: bytes
    query: str = ""
    body: bytes = b""
    headers: Mapping[str, str] = {}
    settings: Mapping[str, Any] = {}
    path: str = PATH


def of_all(operation: str, body: bytes = b"") -> list[Case]:
    """What every operation may be answered."""
    short = {"request_ms_max": 100, "append_wait_ms_max": 50}
    return [
        Case(operation, lambda world: world.nothing, 404, MISSING, body=body),
        Case(operation, lambda world: world.nothing, 401, NO_KEY, body=body,
             settings={"no_auth": False, "api_key": KEY}),
        Case(operation, lambda world: world.lookup(hangs), 408, SLOW, body=body, settings=short),
        Case(operation, lambda world: world.lookup(is_busy), 429, BUSY, body=body),
        Case(operation, lambda world: world.lookup(is_away), 503, AWAY, body=body),
        Case(operation, lambda world: world.lookup(is_broken), 500, INTERNAL, body=body),
        Case(operation, lambda world: world.nothing, 400, refusal("a path segment must be non-empty"), body=body,
             path="/v1/stream//s"),
    ]  # fmt: skip


def of_writes(operation: str, body: bytes) -> list[Case]:
    """What every change may be answered."""
    return [
        Case(operation, lambda world: world.late, 408, LATE, body=body, settings={"append_wait_ms_max": 20}),
        Case(operation, lambda world: world.failing, 503, UNKNOWN, body=body, settings={"queue_appends_max": 100}),
        Case(operation, lambda world: world.refusing, 429, BUSY, body=body),
    ]


def of_reads(operation: str, query: str, matching: list[int]) -> list[Case]:
    """What reads of some of the entries may be answered."""
    shown = b"[%b]" % b",".join(json.dumps(ENTRIES[at]).encode() for at in matching)
    raw = b"".join(json.dumps(ENTRIES[at]).encode() for at in matching)
    poll = "&offset={3}&live=long-poll&timeout=1ms"
    return [
        Case(operation, lambda world: world.declared, 200, shown, query),
        Case(operation, lambda world: world.declared, 200, raw, f"{query}&format=raw"),
        Case(operation, lambda world: world.declared, 204, b"", query + poll),
        Case(operation, lambda world: world.declared, 304, b"", query, headers={"if-none-match": "*"}),
        Case(operation, lambda world: world.declared, 400,
             refusal("format must be raw or json, not `xml`"), f"{query}&format=xml"),
        Case(operation, lambda world: world.trimmed, 410, GONE, f"{query}&offset={{1}}"),
    ]  # fmt: skip


UPDATE = text({"schema": {"type": "object"}})
PROFILE = text({"profile": {"kind": "evlog"}})
ONE: dict[str, Any] = {**EMPTY, "currentVersion": 1, "boundaries": [{"offset": 0, "version": 1}],
                       "schemas": {"1": {"type": "object"}}}  # fmt: skip
MISMATCH = text({"schema": True, "lens": lens({"op": "rename", "from": "/k", "to": "/j"}, at=7)})
CONFLICT = refusal("lens version mismatch", "conflict")
LARGE = "a body may have {} bytes, not {}"
CASES = [
    *of_all("GET /_schema"),
    Case("GET /_schema", lambda world: world.empty, 200, text(EMPTY)),
    Case("GET /_schema", lambda world: world.declared, 200, text(REGISTRY)),
    *of_all("POST /_schema", UPDATE),
    *of_writes("POST /_schema", UPDATE),
    Case("POST /_schema", lambda world: world.empty, 200, text(ONE), body=UPDATE),
    Case("POST /_schema", lambda world: world.declared, 400, refusal("lens required"), body=UPDATE),
    Case("POST /_schema", lambda world: world.declared, 409, CONFLICT, body=MISMATCH),
    Case("POST /_schema", lambda world: world.empty, 413,
         refusal(LARGE.format(1 << 20, (1 << 20) + 1), "payload_too_large"), body=b" " * ((1 << 20) + 1)),
    *of_all("POST /_schema/check", text({"update": json.loads(UPDATE)})),
    Case("POST /_schema/check", lambda world: world.empty, 200,
         b'{"currentVersion":1,"entries":2,"refused":[{"index":1,"message":"must be object"}]}',
         body=text({"update": json.loads(UPDATE), "entries": [{}, 5]})),
    Case("POST /_schema/check", lambda world: world.declared, 400, refusal("lens required"),
         body=text({"update": json.loads(UPDATE)})),
    Case("POST /_schema/check", lambda world: world.declared, 409, CONFLICT,
         body=text({"update": json.loads(MISMATCH)})),
    Case("POST /_schema/check", lambda world: world.empty, 413,
         refusal(LARGE.format(2 << 20, (2 << 20) + 1), "payload_too_large"), body=b" " * ((2 << 20) + 1)),
    *of_all("GET /_profile"),
    Case("GET /_profile", lambda world: world.empty, 200, text(GENERIC)),
    *of_all("POST /_profile", PROFILE),
    *of_writes("POST /_profile", PROFILE),
    Case("POST /_profile", lambda world: world.empty, 200, text(EVLOG), body=PROFILE),
    Case("POST /_profile", lambda world: world.declared, 400,
         refusal("evlog profile must be installed before appending data"), body=PROFILE),
    Case("POST /_profile", lambda world: world.empty, 413,
         refusal(LARGE.format(512 << 10, (512 << 10) + 1), "payload_too_large"), body=b" " * ((512 << 10) + 1)),
    Case("POST /_profile", lambda world: world.empty, 501,
         refusal("profile `state-protocol` is not there yet; this node has evlog, generic and metrics",
                 "not_implemented"), body=text({"profile": {"kind": "state-protocol"}})),
    *of_all("GET /pk/{key}"),
    *of_reads("GET /pk/{key}", "", [0, 2]),
    *of_all("GET ?filter"),
    *of_reads("GET ?filter", "filter=n:2", [1, 2]),
    *of_reads("GET ?filter", "filter=n:2&key=a", [2]),
    *of_reads("GET ?filter", "key=b", [1]),
    Case("GET ?filter", lambda world: world.declared, 400,
         text({"error": {"code": "bad_request", "message": "filter field x is not indexed", "position": 0}}),
         "filter=x:1"),
]  # fmt: skip


OPERATIONS = sorted({case.operation for case in CASES})


async def target(world: World, case: Case) -> tuple[str, str]:
    """Method and address. `{n}` in a query is the offset behind n entries, which lives of a name do not share."""
    method, _, sub = case.operation.partition(" ")
    path = case.path + sub.replace("?filter", "").replace("{key}", "a")
    query = case.query.removeprefix("&")
    if "{" in query:
        state = await world.ledger.readable(NAME)
        query = query.format(*map(state.token, range(len(ENTRIES) + 1)))
    return method, f"{path}?{query}" if query else path


async def judge(node: InProcess, case: Case) -> None:
    """In a life of the stream of its own."""
    with pytest.MonkeyPatch.context() as broken:
        world = World(node, broken)
        await case.prepare(world)()
        headers = {**(JSON if case.body else {}), **case.headers}
        answer = await node.request(*await target(world, case), headers, case.body)
        world.held.set()
        world.ledger.refusals.pop("test", None)
        await world.ledger.committer.settled()
    assert (answer.status, answer.body) == (case.status, case.answer), case
    if case.status >= 400:
        assert (answer.headers["content-type"], answer.headers["cache-control"]) == ("application/json", "no-store")
    if case.status != 401 and not node.context.ledger.broken:
        assert (await node.request("DELETE", PATH)).status in {204, 404}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_answer_as_a_whole(tmp_path: Path, operation: str) -> None:
    async def main() -> None:
        wanted = sorted((case for case in CASES if case.operation == operation), key=lambda case: str(case.settings))
        for said, cases in groupby(wanted, lambda case: str(case.settings)):
            some = list(cases)
            async with in_process(tmp_path / str(len(said)), **some[0].settings) as node:
                for case in some:
                    await judge(node, case)

    asyncio.run(main())


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_status_that_is_described_is_one_of_them(operation: str) -> None:
    method, _, sub = operation.partition(" ")
    described = json.loads(document(resources.HANDLERS))["paths"]["/v1/stream/{path}" + sub.replace("?filter", "")]
    seen = {str(case.status) for case in CASES if case.operation == operation}
    assert seen == set(described[method.lower()]["responses"]) - ELSEWHERE
