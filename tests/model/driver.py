"""Runs a node in this process next to the model, and holds every answer against it."""

import asyncio
import copy
import json
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess, Running, in_process
from streams_node.wal.folder import DATABASE
from tests.http.wire import SECURITY, Reply, ask
from tests.model.world import ANY, Expected, Name, Page, Span, Stream, World, joined

T = TypeVar("T")
_MEMORY = Path("/dev/shm")  # noqa: S108 - where it exists, an fsync costs nothing; no test here is about lost power
PAGE_BYTES = 1024
AHEAD_MS = 300_000
NOT_PROTOCOL = (
    "access-control-allow-origin", "access-control-expose-headers", "content-length", "x-request-id",
)  # fmt: skip


class Sent(NamedTuple):
    """A request that was sent together with others: its answer, and what the model says of it."""

    name: Name
    reply: Reply
    predict: Callable[[World, bool], Expected]


class Driver:
    """One node that is opened, closed, killed and opened again, and what it should say."""

    def __init__(self, *, tiny_cache: bool, heads_flush_rows: int, commit_rows_max: int) -> None:
        self.clock = FakeClock()
        self.world = World(ahead_us_max=AHEAD_MS * 1000)
        self.world.now_us = self.clock()
        self.tags: dict[str, Span] = {}
        self.spans: dict[Span, str] = {}
        self.tokens: list[str] = []
        self._tiny_cache = tiny_cache
        self._settings = {
            "heads_flush_rows": heads_flush_rows, "commit_rows_max": commit_rows_max, "read_page_bytes": PAGE_BYTES,
            "log_row_bytes_max": 4096, "hot_tail_stream_bytes_max": 2000, "hot_tail_bytes_max": 4000,
            "timestamp_ahead_ms_max": AHEAD_MS, "long_poll_ms_max": 2000, "disk_floor_bytes": 0,
        }  # fmt: skip
        self._runner = asyncio.Runner()
        self._folders = Path(tempfile.mkdtemp(prefix="streams-model-", dir=_MEMORY if _MEMORY.is_dir() else None))
        self._generation = 0
        self._stack = AsyncExitStack()
        self.node = self.run(self._open())

    # --- the node's life --------------------------------------------------------------------------------------------

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    @property
    def _folder(self) -> Path:
        return self._folders / str(self._generation)

    async def _open(self) -> InProcess:
        node = await self._stack.enter_async_context(
            in_process(self._folder, clock=self.clock, **self._settings)  # type: ignore[arg-type]
        )
        if self._tiny_cache:
            node.context.ledger.states._bytes_max = 0  # every state that may go, goes
        return node

    async def _close(self) -> None:
        await self._stack.aclose()
        self._stack = AsyncExitStack()

    def restart(self) -> None:
        """An orderly end, and a start on the same folder."""

        async def again() -> None:
            await self._close()
            self.node = await self._open()

        self.run(again())

    def crash(self) -> None:
        """Go on from a copy of the files as they are at this moment: heads may be behind, the -wal file is full."""

        async def again() -> None:
            await self.node.context.ledger.committer.settled()
            before, self._generation = self._folder, self._generation + 1
            self._folder.mkdir()
            for name in (DATABASE, DATABASE + "-wal"):
                if (before / name).exists():
                    shutil.copyfile(before / name, self._folder / name)
            await self._close()
            self.node = await self._open()

        self.run(again())

    def end(self) -> None:
        try:
            self.run(self._close())
        finally:
            self._runner.close()
            shutil.rmtree(self._folders, ignore_errors=True)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.world.now_us = self.clock()

    def advance_to(self, moment_us: int) -> None:
        self.clock.now_us = self.world.now_us = moment_us

    # --- one request ------------------------------------------------------------------------------------------------

    def ask(self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Reply:
        return self.run(ask(self.node, method, path, headers, body))

    def start(self, method: str, path: str) -> Running:
        return self.node.start(method, path)

    def hold(self, reply: Reply, outcomes: list[bool], predict: Callable[[World, bool], Expected]) -> Expected:
        """The answer must be one of the predicted ones; the model goes on from the one that it is."""
        faults: list[str] = []
        for alive in outcomes:
            world = self.world if len(outcomes) == 1 else copy.deepcopy(self.world)
            expected = predict(world, alive)
            fault = self.fault(reply, expected)
            if fault is None:
                self.world = world
                self._learn(reply, expected)
                return expected
            faults.append(fault)
        raise AssertionError(f"{' / '.join(faults) or 'no outcome is possible'}\n{reply}")

    def hold_together(self, sent: list[Sent]) -> None:
        """Answers to requests that were sent at once: there must be an order in which the model says the same."""
        found = self._in_some_order(self.world, sent)
        assert found is not None, "no order explains these answers:\n" + "\n".join(str(one.reply) for one in sent)
        self.world = found
        for one in sent:
            self._learn_tokens(one.reply)

    def _in_some_order(self, world: World, sent: list[Sent]) -> World | None:
        if not sent:
            return world
        for at, one in enumerate(sent):
            for alive in world.possible(one.name):
                after = copy.deepcopy(world)
                if self.fault(one.reply, one.predict(after, alive)) is None:
                    found = self._in_some_order(after, sent[:at] + sent[at + 1 :])
                    if found is not None:
                        return found
        return None

    def fault(self, reply: Reply, expected: Expected) -> str | None:
        """What is wrong with an answer; None when nothing is."""
        if reply.status != expected.status:
            return f"status {reply.status}, not {expected.status}"
        wanted = dict(expected.headers)
        if expected.page is not None:
            fault = self._page_fault(reply, expected.page, wanted)
            if fault is not None:
                return fault
        seen = reply.without(SECURITY, NOT_PROTOCOL)
        for name, value in wanted.items():
            if value == ANY and name in seen:
                wanted[name] = seen[name]
        if seen != wanted:
            return f"headers {seen}, not {wanted}"
        if expected.code is not None and json.loads(reply.body)["error"]["code"] != expected.code:
            return f"error {reply.body!r}, not {expected.code}"
        if expected.body is not None and reply.body != expected.body:
            return f"body {reply.body!r}, not {expected.body!r}"
        return self._tag_fault(reply, expected)

    def _page_fault(self, reply: Reply, page: Page, wanted: dict[str, str]) -> str | None:
        """The entries are the stream's from the start on, whole, at least one, within the bound."""
        stream, start = page.stream, page.start
        end = self._end_of(reply.headers.get("stream-next-offset", ""), stream, start)
        if end is None or (end == start) != (start == stream.tail):
            return f"a page from {start} of {stream.tail} ends at {reply.headers.get('stream-next-offset')}"
        shown = stream.entries[start:end]
        if reply.body != joined(shown, as_json=stream.is_json and not page.raw):
            return f"entries {start} to {end} are {shown!r}, not {reply.body!r}"
        commas = len(shown) - 1 if stream.is_json and not page.raw else 0
        if len(shown) > 1 and sum(map(len, shown)) + commas > page.bytes_max:
            return f"{len(reply.body)} bytes where {page.bytes_max} were asked for"
        wanted["stream-next-offset"] = stream.token(end)
        if end == stream.tail:
            wanted["stream-up-to-date"] = "true"
            if stream.closed:
                wanted["stream-closed"] = "true"
                wanted.pop("stream-cursor", None)  # nobody needs to come back
        return None

    def _end_of(self, token: str, stream: Stream, start: int) -> int | None:
        ends = [end for end in range(start, stream.tail + 1) if stream.token(end) == token]
        return ends[0] if ends else None

    def span_of(self, reply: Reply, expected: Expected) -> Span | None:
        """What the answer's tag has to stand for."""
        if expected.tag is None or expected.page is None:
            return expected.tag
        stream = expected.page.stream
        end = self._end_of(reply.headers["stream-next-offset"], stream, expected.page.start)
        assert end is not None
        return expected.tag._replace(end=end, closed=stream.closed and end == stream.tail)

    def _tag_fault(self, reply: Reply, expected: Expected) -> str | None:
        """Two answers share a tag if and only if they are the same answer."""
        span = self.span_of(reply, expected)
        if span is None:
            return None
        tag = reply.headers["etag"]
        if self.tags.get(tag, span) != span or self.spans.get(span, tag) != tag:
            return f"tag {tag} stands for {self.tags.get(tag)} and for {span}, which has {self.spans.get(span)}"
        return None

    def _learn(self, reply: Reply, expected: Expected) -> None:
        span = self.span_of(reply, expected)
        if span is not None:
            self.tags[reply.headers["etag"]] = span
            self.spans[span] = reply.headers["etag"]
        self._learn_tokens(reply)

    def _learn_tokens(self, reply: Reply) -> None:
        for name in ("stream-next-offset", "stream-end-offset"):
            token = reply.headers.get(name)
            if token is not None and token not in self.tokens:
                self.tokens.append(token)
