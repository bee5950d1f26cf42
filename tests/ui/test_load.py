"""A stream that is busier than anybody can read: the page stays usable, and small."""

import os
import threading
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.ui.browser import PICTURES, Window
from tests.ui.seeds import Api

pytestmark = [pytest.mark.xdist_group("browser")]
Open = Callable[..., Window]
SECONDS = float(os.environ.get("STREAMS_UI_LOAD_S", "10"))
A_SECOND, BATCHES = 2000, 20
TASK_MS_MAX = 200
HEAP_BYTES_MAX = 300 << 20
# What the page's own code took of a task, not how long the machine let it wait: CI's has two cores and other work.
WATCH = """() => {
  window.tasks = [];
  new PerformanceObserver((list) => {
    for (const each of list.getEntries()) window.tasks.push([each.startTime, each.duration]);
  }).observe({ type: "longtask", buffered: true });
}"""


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


def tasks_ms(page: Page) -> list[float]:
    return [float(duration) for _, duration in page.evaluate("window.tasks")]


@pytest.mark.timeout(120 + 2 * SECONDS)
def test_two_thousand_messages_a_second_are_followed_without_a_long_task(window: Open, api: Api) -> None:
    api.create("busy")
    page = window().open("#/s/busy")
    expect(page.locator(".pill.live")).to_be_visible()
    page.evaluate(WATCH)
    stop, counts = threading.Event(), [0]
    writer = threading.Thread(target=appended, args=(api, "busy", stop, counts))
    cpu = page.context.new_cdp_session(page)
    cpu.send("Performance.enable")
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
    metrics = {each["name"]: each["value"] for each in cpu.send("Performance.getMetrics")["metrics"]}
    long = [task for task in tasks_ms(page) if task > TASK_MS_MAX]
    page.evaluate("gc()")
    heap = page.evaluate("performance.memory.usedJSHeapSize")
    PICTURES.mkdir(parents=True, exist_ok=True)
    told = f"{end} messages, tasks of {metrics['TaskDuration']:.1f} s, long ones {long}, heap {heap >> 20} MiB\n"
    (PICTURES / "load.txt").write_text(told, encoding="utf-8")
    assert heap <= HEAP_BYTES_MAX
    assert long == []
    # It never fell behind by more than a moment, and took a part of a core only.
    assert metrics["TaskDuration"] < SECONDS
