"""The list of very many streams of a real node: counted, scrolled through and searched without reading them all.

STREAMS_UI_STREAMS=1000000 takes a million of them; STREAMS_UI_STREAMS_DATA keeps their folder for the next time.
"""

import asyncio
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from streams_node.testing.inprocess import InProcess, in_process
from tests.support.node_process import NodeProcess
from tests.ui.browser import PICTURES, Window, elsewhere
from tests.ui.test_load import TASK_MS_MAX, task_ms_max

pytestmark = [pytest.mark.xdist_group("browser")]
Open = Callable[..., Window]
STREAMS = int(os.environ.get("STREAMS_UI_STREAMS", "6000"))
SIDE_BY_SIDE = 256
# Four pages to find the end, one for each place that was looked at, and those beside them.
REQUESTS_MAX = 80


def name(number: int) -> str:
    return f"m{number:07d}"


async def create(node: InProcess, numbers: Iterator[int]) -> None:
    for number in numbers:
        reply = await node.request("PUT", f"/v1/stream/{name(number)}", {"content-type": "application/json"})
        assert reply.status == 201


async def fill(data: Path) -> None:
    async with in_process(data) as node:
        numbers = iter(range(STREAMS))
        await asyncio.gather(*(create(node, numbers) for _ in range(SIDE_BY_SIDE)))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[str]:  # noqa: ARG001 - skips without one
    kept = os.environ.get("STREAMS_UI_STREAMS_DATA")
    data = Path(kept) if kept else tmp_path_factory.mktemp("many") / "data"
    if not data.exists():
        elsewhere(lambda: asyncio.run(fill(data)))
    with NodeProcess(data, settings={"index_driver": "off"}) as process:
        elsewhere(lambda: asyncio.run(process.ready()))
        yield f"http://127.0.0.1:{process.port}"


@pytest.mark.timeout(120 + STREAMS / 1000)
def test_very_many_streams_are_listed_without_reading_them_all(window: Open, browser: Browser, many: str) -> None:
    view = window(many)
    browser.start_tracing(page=view.page, categories=["toplevel", "disabled-by-default-devtools.timeline"])
    page = view.open("#/streams")
    rows = page.locator("a.stream-row")
    expect(page.locator(".streams-head [role=status]")).to_have_text(f"{STREAMS:,}")
    assert rows.count() < 60
    box = page.locator(".stream-list")
    for share in (1, 0.5, 0.25, 0):
        box.evaluate("(list, share) => list.scrollTop = (list.scrollHeight - list.clientHeight) * share", share)
        at = int(share * (STREAMS - 1))
        expect(rows.filter(has_text=re.compile("|".join(name(at + by) for by in range(-12, 13)))).first).to_be_visible()
    page.get_by_role("searchbox").fill(name(STREAMS - 7)[:-1])
    expect(page.locator(".streams-head [role=status]")).to_contain_text("10 found")
    page.get_by_role("searchbox").fill(name(STREAMS // 3))
    expect(rows).to_have_count(1)
    page.get_by_role("searchbox").press("ArrowDown")
    page.get_by_role("searchbox").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(name(STREAMS // 3))
    view.picture("many")
    asked = [url for url in view.asked if "/v1/streams?" in url or "/v1/buckets" in url]
    longest = task_ms_max(browser.stop_tracing(), tasks_min=10)
    told = f"{STREAMS} streams, {len(asked)} requests for lists, the longest task {longest:.0f} ms\n"
    PICTURES.mkdir(parents=True, exist_ok=True)
    (PICTURES / "many.txt").write_text(told, encoding="utf-8")
    assert len(asked) < REQUESTS_MAX
    assert longest <= TASK_MS_MAX
