"""The published Python client against a real node; its asynchronous half once, as it shares the rest."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from random import Random
from typing import Any

import httpx
import pytest
from durable_streams import (
    AsyncDurableStream,
    DurableStream,
    DurableStreamError,
    SeqConflictError,
    StreamExistsError,
    StreamNotFoundError,
    astream,
    stream,
)

from tests.clients.conftest import Node

JSON = "application/json"
LIVE = pytest.mark.parametrize("live", ["long-poll", "sse"])
RETRY: dict[str, Any] = {}  # an `on_error` that returns it asks for the same request again


def test_json_messages_come_back_in_order(node: Node) -> None:
    with DurableStream.create(node.stream(), content_type=JSON, body=[{"n": 0}]) as handle:
        for n in range(1, 5):
            handle.append({"n": n})
        with handle.stream() as response:
            assert response.read_json() == [{"n": n} for n in range(5)]
            assert response.up_to_date
        assert handle.head().offset == response.offset


def test_appends_of_many_threads_are_all_stored_once(node: Node) -> None:
    with DurableStream.create(node.stream(), content_type=JSON) as handle:
        with ThreadPoolExecutor(16) as threads:
            list(threads.map(handle.append, range(400)))
        with handle.stream() as response:
            assert sorted(response.read_json()) == list(range(400))


def test_bytes_come_back_byte_for_byte_over_many_pages(node: Node) -> None:
    random = Random(7)
    parts = [random.randbytes(size) for size in (1, 70_000, 1_500_000, 900_000)]
    with DurableStream.create(node.stream(), content_type="application/octet-stream") as handle:
        for part in parts:
            handle.append(part)
        with handle.stream() as response:
            assert response.read_bytes() == b"".join(parts)


def test_text_comes_back_as_it_was(node: Node) -> None:
    poem = "ünïcödé\r\nline\u2028still the same\rline\n\n"
    with DurableStream.create(node.stream(), content_type="text/plain; charset=utf-8", body=poem) as handle:
        with handle.stream() as response:
            assert response.read_text() == poem
        with handle.stream(offset="-1", live="sse") as response:
            # An event stream has only one kind of line break.
            assert next(response.iter_text()) == "ünïcödé\nline\u2028still the same\nline\n\n"


def test_refusals_are_the_errors_the_client_knows(node: Node) -> None:
    url = node.stream()
    with pytest.raises(StreamNotFoundError):
        DurableStream.connect(url)
    with DurableStream.create(url, content_type=JSON, ttl_seconds=3600) as handle:
        DurableStream.create(url, content_type=JSON, ttl_seconds=3600).close()
        with pytest.raises(StreamExistsError):
            DurableStream.create(url, content_type="text/plain")
        handle.append(1, seq="b")
        with pytest.raises(SeqConflictError):
            handle.append(2, seq="a")
        with pytest.raises(DurableStreamError) as refused, stream(url, offset="not-an-offset"):
            pass
        assert refused.value.status == 400
        handle.delete()
        with pytest.raises(StreamNotFoundError):
            handle.append(3)


@LIVE
def test_a_live_tail_gets_entries_as_they_come(node: Node, live: str) -> None:
    url = node.stream()
    with DurableStream.create(url, content_type=JSON, body=[0]) as handle:
        writer = after_first_read(lambda: [handle.append(n) for n in range(1, 20)])
        with stream(url, offset="-1", live=live) as response:  # type: ignore[arg-type]
            assert list(islice(writer.watch(response.iter_json()), 20)) == list(range(20))
        writer.join()


def test_the_automatic_mode_catches_up_and_then_waits(node: Node) -> None:
    url = node.stream()
    with DurableStream.create(url, content_type=JSON, body=[0, 1]) as handle:
        writer = after_first_read(lambda: handle.append(2))
        with stream(url) as response:
            assert list(islice(writer.watch(response.iter_json()), 3)) == [0, 1, 2]
        writer.join()


def test_an_event_stream_ends_when_the_stream_is_closed(node: Node) -> None:
    url = node.stream()
    with DurableStream.create(url, content_type=JSON, body=[1]) as handle:
        handle.append(2)
    httpx.post(url, headers={"Stream-Closed": "true"}).raise_for_status()
    with stream(url, offset="-1", live="sse") as response:
        assert list(response.iter_json()) == [1, 2]


def test_a_saved_offset_is_good_after_a_restart(own_node: Node) -> None:
    url = own_node.stream()
    with DurableStream.create(url, content_type=JSON, body=[1, 2]) as handle, handle.stream() as response:
        assert response.read_json() == [1, 2]
        saved = response.offset
    own_node.kill()
    own_node.start()
    with DurableStream.connect(url) as handle:
        assert handle.head().offset == saved
        handle.append(3)
        with handle.stream(offset=saved) as response:
            assert response.read_json() == [3]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_live_tail_goes_on_after_a_restart(own_node: Node, end: str) -> None:
    url = own_node.stream()
    failures: list[Exception] = []

    def again(failure: Exception) -> dict[str, Any]:
        failures.append(failure)
        threading.Event().wait(0.05)
        return RETRY

    def restart() -> None:
        getattr(own_node, end)()
        own_node.start()
        with DurableStream.connect(url) as writer:
            for n in (2, 3):
                writer.append(n)

    with DurableStream.create(url, content_type=JSON, body=[0, 1]):
        pass
    operator = after_first_read(restart)
    with stream(url, offset="-1", live="long-poll", on_error=again) as response:
        assert list(islice(operator.watch(response.iter_json()), 4)) == [0, 1, 2, 3]
    operator.join()
    assert failures, "the restart was too quick for the test to mean anything"


@LIVE
def test_the_asynchronous_client_does_the_same(node: Node, live: str) -> None:
    async def scenario() -> list[Any]:
        url = node.stream()
        async with await AsyncDurableStream.create(url, content_type=JSON, body=[0]) as handle:
            await asyncio.gather(*(handle.append(n) for n in range(1, 5)))
            seen: list[Any] = []
            async with astream(url, offset="-1", live=live) as response:  # type: ignore[arg-type]
                async for item in response.iter_json():
                    seen.append(item)
                    if len(seen) == 5:
                        await handle.append("live")
                    if item == "live":
                        return seen
        return seen

    seen = asyncio.run(scenario())
    assert sorted(seen[:5]) == [0, 1, 2, 3, 4]
    assert seen[5:] == ["live"]


# --- somebody who acts while a read is on its way ---------------------------------------------------------------------


class after_first_read:  # noqa: N801 - reads as a sentence where it is used
    """Does something in a thread of its own as soon as the watched read has delivered an entry."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self._begin = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="meanwhile")
        self._thread.start()

    def watch(self, items: Any) -> Any:
        for item in items:
            self._begin.set()
            yield item

    def join(self) -> None:
        self._begin.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        self._begin.wait()
        try:
            self._act()
        except BaseException as failure:  # noqa: BLE001 - raised again by `join`
            self._failure = failure
