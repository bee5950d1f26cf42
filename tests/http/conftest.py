from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess, in_process


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
