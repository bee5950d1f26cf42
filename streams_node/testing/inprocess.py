"""A whole node in the test's own process: the real edge, ingest, SQLite and reads, without sockets.

async with in_process(folder, clock=FakeClock()) as node:
    answer = await node.request("PUT", "/v1/stream/orders", {"content-type": "application/json"}, b"[]")
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

from litestar import Litestar
from litestar.datastructures import State

from streams_node.app import node, system_us
from streams_node.config import Settings
from streams_node.http.asgi import App
from streams_node.http.cold import application
from streams_node.http.connections import Connections
from streams_node.http.context import Context
from streams_node.http.edge import Edge
from streams_node.http.routes import RouteClass
from streams_node.objects import RequestCounts, RetryingStore
from streams_node.tiering import Tiering
from streams_node.upkeep import Upkeep


@dataclass(slots=True)
class Answer:
    """A whole answer: header names are lower case; a repeated header keeps its last value."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class Running:
    """An answer that is still coming, as an event stream's: `parts` grows; `hang_up` is the client leaving."""

    task: asyncio.Task[None]
    parts: list[bytes] = field(default_factory=list)
    head: dict[str, Any] = field(default_factory=dict)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    grown: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)

    async def until(self, what: bytes, seconds: float = 5.0) -> bytes:
        """Wait until the body holds `what`."""
        async with asyncio.timeout(seconds):
            while what not in self.body:
                self.grown.clear()
                await self.grown.wait()
        return self.body

    async def hang_up(self) -> None:
        self.left.set()
        await self.task


@dataclass(slots=True)
class InProcess:
    context: Context
    upkeep: Upkeep
    edge: Edge

    async def request(
        self, method: str, target: str | bytes, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Answer:
        """One request from head to end; `target` is the raw path and query, as it would stand on the wire."""
        running = self.start(method, target, headers, body)
        await running.task
        return Answer(running.head["status"], _text(running.head["headers"]), running.body)

    def start(
        self, method: str, target: str | bytes, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Running:
        """Begin a request and return at once."""
        raw = target if isinstance(target, bytes) else target.encode("ascii")
        path, _, query = raw.partition(b"?")
        lines = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in (headers or {}).items()]
        if body and not any(name == b"content-length" for name, _ in lines):
            lines.append((b"content-length", str(len(body)).encode()))
        scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1",
            "server": ("127.0.0.1", 4437), "client": ("127.0.0.1", 50000), "scheme": "http", "method": method,
            "root_path": "", "path": unquote(path.decode("ascii")), "raw_path": path, "query_string": query,
            "headers": [(b"host", b"node.test"), *lines], "state": {},
        }  # fmt: skip
        running = Running(task=None)  # type: ignore[arg-type]
        running.task = asyncio.get_running_loop().create_task(self._run(scope, running, body))
        return running

    async def _run(self, scope: dict[str, Any], running: Running, body: bytes) -> None:
        sent = False

        async def receive() -> dict[str, Any]:
            nonlocal sent
            if not sent:
                sent = True
                return {"type": "http.request", "body": body, "more_body": False}
            await running.left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                running.head = dict(message)
            elif message.get("body"):
                running.parts.append(message["body"])
            running.grown.set()

        await self.edge(scope, receive, send)


@asynccontextmanager
async def in_process(
    folder: Path,
    *,
    clock: Callable[[], int] = system_us,
    upkeep: bool = False,
    tiers: bool = False,
    store: Callable[[RequestCounts], RetryingStore] | None = None,
    **settings: Any,
) -> AsyncIterator[InProcess]:
    """Open a node on a folder. Its duties and its tiers run only if asked for, so that a test moves everything itself.

    `store` is what the tiers rest on instead of the store of the settings, as one that fails on purpose.
    """
    settings.setdefault("sqlite_wal_grown_bytes", 0)
    chosen = Settings(data=folder, no_auth=settings.pop("no_auth", True), **settings)
    connections = Connections(chosen)
    async with node(chosen, connections, now_us=clock) as (context, duties):
        if upkeep:
            duties.start()
        if tiers:
            if store is not None:
                cast("Tiering", context.tiers).connect = lambda _settings, counts, _known: store(counts)
            await context.tiers.open()
            context.tiers.start()
        with _cold(context) as cold:
            yield InProcess(context, duties, Edge(context, cast("App", cold), frozenset(RouteClass)))
        context.live.end_all()
        await duties.stop()


@contextmanager
def _cold(context: Context) -> Iterator[Litestar]:
    """An application of the node's own while it lives. To make one takes longer than all else that a start does, so
    one whose node has ended serves the next.
    """
    cold = _idle.pop() if _idle else application(context)
    cold.state = State({"context": context})
    try:
        yield cold
    finally:
        cold.state = State()
        _idle.append(cold)


_idle: list[Litestar] = []


def _text(lines: list[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in lines}
