"""The long-poll, and how a live reader waits: for a change, for its time to be over, or for its client to leave."""

import asyncio
from collections.abc import Awaitable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from typing_extensions import override

from streams_node.errors import Missing
from streams_node.http.asgi import CYCLE, Receive, Scope, Send, answer
from streams_node.http.bodies import Disconnected
from streams_node.http.context import Context
from streams_node.http.headers import CORS
from streams_node.http.pages import NO_STORE, cache_control, page_body, page_headers, page_tag, timed_page
from streams_node.http.query import ReadQuery
from streams_node.ingest.state import StreamState
from streams_node.live.hub import Hub
from streams_node.protocol.cursors import cursor
from streams_node.read.pages import Page

Answer = TypeVar("Answer")


async def long_poll(
    context: Context, state: StreamState, start: int, query: ReadQuery, scope: Scope, receive: Receive, send: Send
) -> int:
    """Entries from `start` as soon as there are any; 204 when there are none in time, or never will be."""
    loop = asyncio.get_running_loop()
    context.metrics.count_read("long_poll")
    ms_max = context.settings.long_poll_ms_max
    deadline = loop.time() + min(ms_max if query.timeout_ms is None else query.timeout_ms, ms_max) / 1000
    with context.live.attached(state, "long_poll") as hub, watched(scope, receive) as left:
        while (page := await _page(context, hub, start, query, deadline, left)) is not None:
            if page.payload or not page.up_to_date or page.closed:
                break
            start = page.end  # what came was not asked for
    if left.done():
        context.ledger.touch(state)
        return 499
    if state.gone:  # deleted, or loaded again after a failed commit
        fresh = await context.ledger.readable(state.name)
        if fresh.id != state.id:
            raise Missing(f"stream `{state.name.stream}` was deleted")
        state, page = fresh, None
    if page is None:
        page = await timed_page(context, state, start, query, framed=True)
    headers = page_headers(state, page)
    if not page.closed:
        headers.append((b"stream-cursor", cursor(context.now_s(), query.cursor, context.jitter()).encode()))
    context.ledger.touch(state)
    if not page.payload and page.up_to_date:
        headers = [line for line in headers if line[0] != b"content-type"]
        await answer(scope, send, 204, [*headers, NO_STORE, *CORS])
        return 204
    body = page_body(state, page, query)
    context.metrics.read_bytes += len(body)
    headers += [
        (b"etag", page_tag(state, page, query).encode()),
        cache_control(context),
        (b"content-length", str(len(body)).encode()),
    ]
    await answer(scope, send, 200, headers + CORS, body)
    return 200


async def _page(
    context: Context, hub: Hub, start: int, query: ReadQuery, deadline: float, left: "asyncio.Future[None]"
) -> Page | None:
    """What a read of some entries finds once there is anything new; None when there is nothing, or all is asked for."""
    state = hub.state
    while start >= state.tail.seq and not state.tail_closed and not hub.ended and not left.done():
        if not await wait(hub, deadline, left):
            break
    if not query.selects or start >= state.tail.seq or hub.ended or left.done():
        return None
    return await timed_page(context, state, start, query, framed=True)


async def wait(
    hub: Hub, deadline: float, left: "asyncio.Future[None]", waiter: "asyncio.Future[bool] | None" = None
) -> bool:
    """Wait for the next change of the stream, or for `waiter`; False when the time is over or the client is gone."""
    loop = asyncio.get_running_loop()
    changed = hub.waiter() if waiter is None else waiter

    def give_up(_: object = None) -> None:
        if not changed.done():
            changed.set_result(False)

    timer = loop.call_at(deadline, give_up)
    left.add_done_callback(give_up)
    try:
        return await changed
    finally:
        timer.cancel()
        left.remove_done_callback(give_up)
        hub.leave(changed)


@contextmanager
def watched(scope: Scope, receive: Receive) -> Iterator["asyncio.Future[None]"]:
    """A future that is done once the client has left. Our own protocol tells; another server is asked by a task."""
    loop = asyncio.get_running_loop()
    left: asyncio.Future[None] = loop.create_future()
    cycle = scope.get(CYCLE)
    if cycle is not None:
        with cycle.protocol.watch(left):
            yield left
        return
    task = loop.create_task(_until_disconnect(receive, left), name="watch-disconnect")
    try:
        yield left
    finally:
        task.cancel()


async def _until_disconnect(receive: Receive, left: "asyncio.Future[None]") -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    if not left.done():
        left.set_result(None)


class _Begun(Awaitable[Answer]):
    """A coroutine that has run up to where it waits for something. StopIteration if it ended before."""

    def __init__(self, coroutine: Coroutine[Any, Any, Answer]) -> None:
        self._coroutine = coroutine
        self.step()

    def step(self, thrown: BaseException | None = None) -> None:
        self._awaited = self._coroutine.send(None) if thrown is None else self._coroutine.throw(thrown)

    @property
    def is_aside(self) -> bool:
        """Whether it waits for nothing but others' turn on the loop."""
        return self._awaited is None

    @override
    def __await__(self) -> Generator[Any, Any, Answer]:
        awaited = self._awaited
        try:
            while True:
                try:
                    sent = yield awaited
                except BaseException as thrown:  # noqa: BLE001 - it is the coroutine's, whatever it is
                    awaited = self._coroutine.throw(thrown)
                else:
                    awaited = self._coroutine.send(sent)
        except StopIteration as end:
            answer: Answer = end.value
            return answer


async def while_there(coroutine: Coroutine[Any, Any, Answer], scope: Scope, receive: Receive, seconds: float) -> Answer:
    """The answer; it is not made any further once the client has left. TimeoutError when the time is over.

    What waits for nothing needs neither a clock nor a look at its client.
    """
    try:
        answering = _Begun(coroutine)
        while answering.is_aside:
            try:
                await asyncio.sleep(0)
            except BaseException as thrown:  # noqa: BLE001 - it is the coroutine's, whatever it is
                answering.step(thrown)
            else:
                answering.step()
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    with watched(scope, receive) as left:
        async with asyncio.timeout(seconds) as clock:
            loop = asyncio.get_running_loop()

            def stop(_: object) -> None:
                with suppress(RuntimeError):  # it has ended meanwhile
                    clock.reschedule(loop.time())

            left.add_done_callback(stop)
            try:
                return await answering
            except asyncio.CancelledError:
                if left.done():
                    raise Disconnected from None
                raise
