"""A node with a small shop on it, and a browser: both for all modules of this folder."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.support.node_process import NodeProcess
from tests.ui.browser import Window, chromium, elsewhere, found
from tests.ui.seeds import Api, shop

NEED = "no Chromium: install one (Debian: apt-get install chromium), or name it in STREAMS_TEST_CHROMIUM"


@pytest.fixture(scope="package")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    if found() is None:
        pytest.skip(NEED)
    folder: Path = tmp_path_factory.mktemp("node")
    with NodeProcess(folder / "data", settings={"index_driver": "off"}) as process:
        elsewhere(lambda: asyncio.run(process.ready()))
        shop(Api(f"http://127.0.0.1:{process.port}"))
        yield process


@pytest.fixture(scope="package")
def base(node: NodeProcess) -> str:
    return f"http://127.0.0.1:{node.port}"


@pytest.fixture
def api(base: str) -> Api:
    return Api(base)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if found() is None:
        pytest.skip(NEED)
    with chromium() as started:
        yield started


@pytest.fixture
def window(browser: Browser, base: str) -> Iterator[Callable[..., Window]]:
    """Opens windows, and looks at how they behaved when the test is over."""
    opened: list[Window] = []

    def open_window(at: str = base, **options: Any) -> Window:
        opened.append(Window(browser, at, **options))
        return opened[-1]

    yield open_window
    for each in opened:
        each.close()
