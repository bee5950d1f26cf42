from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest

from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess, in_process
from tests.http.listener import BODY_MAX, BODY_MS, HEAD_MAX, HEAD_MS, STALL_MS, Listener, listening, put

_serial = count()


@pytest.fixture
def with_node(tmp_path: Path) -> Callable[..., None]:
    """Runs a coroutine with a node of its own: `with_node(test, read_page_bytes=1024)`."""

    def run(test: Callable[[InProcess, FakeClock], Awaitable[None]], **settings: Any) -> None:
        async def main() -> None:
            async with fresh_node(tmp_path, **settings) as (node, clock):
                await test(node, clock)

        anyio.run(main)

    return run


@asynccontextmanager
async def fresh_node(folder: Path, **settings: Any) -> AsyncIterator[tuple[InProcess, FakeClock]]:
    clock = FakeClock()
    async with in_process(folder / "data", clock=clock, **settings) as node:
        yield node, clock


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listener]:
    """A node behind a socket, with small limits; each test has streams of its own."""
    with listening(
        tmp_path_factory.mktemp("node"), no_auth=True, header_wait_ms_max=HEAD_MS, append_body_idle_ms_max=BODY_MS,
        send_stall_ms_max=STALL_MS, append_body_bytes_max=BODY_MAX, header_bytes_max=HEAD_MAX, long_poll_ms_max=200,
    ) as listener:  # fmt: skip
        yield listener


@pytest.fixture
def path(node: Listener) -> str:
    """A stream that is there, with `one` in it."""
    path = f"/v1/stream/s{next(_serial)}"
    assert node.ask(put(path, b"one")).status == 201
    return path
