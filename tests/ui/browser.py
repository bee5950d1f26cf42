"""A real browser in front of a real node.

Owns     one Chromium for a module, a context for each test, and the pictures in .reports/ui.
Keeps    a page that says anything on its console that is an error, that breaks its own policy, or that asks anybody but
         its node, has failed its test, whatever else the test looked at.
"""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / ".reports" / "ui"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# A container has no user namespaces and little shared memory; the collector tells of the heap without what is dead.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--js-flags=--expose-gc",
    "--enable-precise-memory-info",
)
WAIT_MS = 20_000  # a machine with load is slow, and a test does not wait longer than it has to
expect.set_options(timeout=WAIT_MS)
DESK, PHONE = (1280, 800), (390, 780)
# What the browser itself says of a connection that a test has cut, or of a status that a test asks for.
EXPECTED = ("Failed to load resource",)


def found() -> str | None:
    """The Chromium of this machine; STREAMS_TEST_CHROMIUM names another one."""
    named = os.environ.get("STREAMS_TEST_CHROMIUM")
    return named or next((path for path in map(shutil.which, NAMES) if path), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    path = found()
    assert path is not None, "the tests are skipped without a browser"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


class Window:
    """A page of one test on the node at `base`."""

    def __init__(self, browser: Browser, base: str, *, size: tuple[int, int] = DESK, **options: Any) -> None:
        self.base = base
        self.context: BrowserContext = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, locale="en-GB", timezone_id="UTC",
            **{"reduced_motion": "reduce", **options},  # pictures that stand still, and no core that paints
        )  # fmt: skip
        self.context.set_default_timeout(WAIT_MS)
        self.page: Page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(EXPECTED):
            self.said.append(message.text)

    def open(self, link: str = "#/") -> Page:
        """Show a view by its address."""
        self.page.goto(f"{self.base}/ui{link}")
        return self.page

    def picture(self, name: str) -> None:
        """Keep how it looks, for people."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=PICTURES / f"{name}.png")

    def close(self) -> None:
        """End it, and see that it kept to itself."""
        self.context.close()
        assert self.said == []
        ours = urlsplit(self.base).netloc
        assert {urlsplit(url).netloc for url in self.asked if not url.startswith(("data:", "blob:"))} <= {ours}


def elsewhere(act: Callable[[], object]) -> None:
    """Run something with an event loop of its own: the browser's driver has the one of this thread."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as failure:  # noqa: BLE001 - it is raised again where somebody waits for it
            failed.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
