"""A stream that is busier than anybody can read: the page stays usable, and small."""

import json
import os
import threading
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, expect

from tests.ui.browser import PICTURES, Window
from tests.ui.seeds import Api

pytestmark = [pytest.mark.xdist_group("browser")]
Open = Callable[..., Window]
SECONDS = float(os.environ.get("STREAMS_UI_LOAD_S", "10"))
A_SECOND, BATCHES = 2000, 20
TASK_MS_MAX = 200
HEAP_BYTES_MAX = 300 << 20


def appended(api: Api, name: str, stop: threading.Event, counts: list[int]) -> None:
    """A steady flow of messages, until somebody says stop."""
    began, sent = time.monotonic(), 0
    while not stop.is_set():
        size = A_SECOND // BATCHES
        api.append(
            name, [{"n": sent + number, "service": "checkout", "text": "a line like many"} for number in range(size)]
        )
        sent += size
        counts[0] = sent
        stop.wait(max(0.0, began + sent / A_SECOND - time.monotonic()))


def task_ms_max(trace: bytes, tasks_min: float = SECONDS) -> float:
    """The longest task, in time of its thread: how long other work made it wait is none of the page's doing."""
    events = json.loads(trace)["traceEvents"]
    renderer = {
        each["pid"] for each in events if each["name"] == "thread_name" and each["args"]["name"] == "CrRendererMain"
    }
    tasks = [each for each in events if each["name"].endswith("RunTask") and each["pid"] in renderer and "dur" in each]
    assert len(tasks) > tasks_min, "the trace has the tasks of the page"
    return float(max(each.get("tdur", each["dur"]) for each in tasks)) / 1000


@pytest.mark.timeout(120 + 2 * SECONDS)
def test_two_thousand_messages_a_second_are_followed_without_a_long_task(
    window: Open, browser: Browser, api: Api
) -> None:
    api.create("busy")
    page = window().open("#/s/busy")
    expect(page.locator(".pill.live")).to_be_visible()
    stop, counts = threading.Event(), [0]
    writer = threading.Thread(target=appended, args=(api, "busy", stop, counts))
    browser.start_tracing(page=page, categories=["toplevel", "disabled-by-default-devtools.timeline"])
    writer.start()
    try:
        page.wait_for_timeout(SECONDS * 1000)
    finally:
        stop.set()
        writer.join()
    end = counts[0]
    expect(page.locator(f"#m{end - 1}")).to_be_visible()
    expect(page.locator("dl.facts dd").first).to_have_text(f"{end:,}")
    assert page.locator(".message").count() < 80
    numbers = [int(text) for text in page.locator(".message .seq").all_inner_texts()]
    assert numbers == list(range(numbers[0], end))
    longest = task_ms_max(browser.stop_tracing())
    page.evaluate("gc()")
    heap = page.evaluate("performance.memory.usedJSHeapSize")
    PICTURES.mkdir(parents=True, exist_ok=True)
    told = f"{end} messages, the longest task {longest:.0f} ms, heap {heap >> 20} MiB\n"
    (PICTURES / "load.txt").write_text(told, encoding="utf-8")
    assert heap <= HEAP_BYTES_MAX
    assert longest <= TASK_MS_MAX
