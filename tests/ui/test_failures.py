"""The page when the node is away, asks for a key, or answers late, wrongly and in part."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.support.node_process import NodeProcess
from tests.ui.browser import Window, elsewhere
from tests.ui.seeds import Api

pytestmark = [pytest.mark.xdist_group("browser")]
KEY = "an-invented-key-0123456789"


@contextmanager
def start(data: Path, settings: Mapping[str, object] | None = None, **options: Any) -> Iterator[NodeProcess]:
    with NodeProcess(data, settings={"index_driver": "off", **(settings or {})}, **options) as process:
        elsewhere(lambda: asyncio.run(process.ready()))
        yield process


def test_a_restart_of_the_node_is_said_survived_and_nothing_is_shown_twice(browser: Browser, tmp_path: Path) -> None:
    with start(tmp_path / "data") as first:
        base = f"http://127.0.0.1:{first.port}"
        api = Api(base)
        api.create("steps")
        api.append("steps", [{"step": number} for number in range(30)])
        window = Window(browser, base)
        page = window.open("#/s/steps")
        expect(page.locator("#m29")).to_be_visible()
        first.kill()
        first.process.wait()
        expect(page.get_by_text("The node does not answer")).to_be_visible()
        expect(page.locator(".bar .pill")).to_have_text("Not connected")
        expect(page.locator("#m29")).to_be_visible()  # what is known stays
        window.picture("away")
        with start(tmp_path / "data", port=first.port):
            expect(page.locator(".bar .pill")).to_have_text("Connected")
            api.append("steps", [{"step": 30}])
            expect(page.locator("#m30")).to_contain_text('"step":30')
            expect(page.locator("dl.facts dd").first).to_have_text("31")
            numbers = page.locator(".message .seq").all_inner_texts()
            assert numbers == sorted(set(numbers), key=int)
            # Connections that broke are what was to be shown; nothing else may have gone wrong.
            window.said = [text for text in window.said if "ERR_" not in text]
            window.close()


def test_a_stream_that_came_out_of_the_bucket_is_shown_over_its_epochs(browser: Browser, tmp_path: Path) -> None:
    bucket = {"object_store_folder": tmp_path / "objects"}
    with start(tmp_path / "lost", bucket) as first:
        api = Api(f"http://127.0.0.1:{first.port}")
        api.create("steps")
        api.append("steps", [{"step": number} for number in range(30)])
        api.call("POST", "/v1/stream/steps/_flush", None)
        first.kill()
        first.process.wait()
    with start(tmp_path / "new", {**bucket, "bootstrap_from_store": True}) as second:
        base = f"http://127.0.0.1:{second.port}"
        api = Api(base)
        api.append("steps", [{"step": number} for number in range(30, 35)])
        epochs = api.details("steps")["stream"]["epochs"]
        assert [each["first_offset"] for each in epochs] == ["0", "30"]
        assert epochs[1]["epoch"] > epochs[0]["epoch"]
        window = Window(browser, base)
        page = window.open("#/s/steps")
        expect(page.locator(".list-foot")).to_contain_text("Messages 0 to 34 of 35")
        for number in (29, 30, 31):
            page.locator(f"#m{number}").click()
            message = page.get_by_label(f"Message {number}", exact=True)
            expect(message.locator(".tree")).to_contain_text(f"step: {number}")
            link = message.get_by_role("button", name="Link").get_attribute("data-copy") or ""
            other = Window(browser, base)
            other.open(link.partition("/ui")[2])
            expect(other.page.get_by_label(f"Message {number}", exact=True).locator(".tree")).to_contain_text(
                str(number)
            )
            other.close()
        jump = page.get_by_label("Go to a message")
        jump.fill("12")
        jump.press("Enter")
        expect(page.locator("#m12")).to_be_visible()
        window.close()


def test_a_node_with_a_key_is_opened_with_it_and_it_is_in_no_address(browser: Browser, tmp_path: Path) -> None:
    with start(tmp_path / "data", key=KEY) as node:
        base = f"http://127.0.0.1:{node.port}"
        window = Window(browser, base)
        page = window.open("#/s/none/messages")
        expect(page.get_by_role("heading", name="This node asks for a key")).to_be_visible()
        assert not [url for url in window.asked if "/v1/" in url]
        window.picture("key")
        page.get_by_label("Access key").fill("a-wrong-one")
        page.get_by_role("button", name="Open").click()
        expect(page.get_by_text("does not take this key")).to_be_visible()
        page.get_by_label("Access key").fill(KEY)
        page.get_by_role("button", name="Open").click()
        page.get_by_role("button", name="New").click()
        page.get_by_role("dialog").get_by_role("textbox", name="Name").fill("secret")
        page.get_by_role("button", name="Create", exact=True).click()
        expect(page.get_by_text("Nothing here yet")).to_be_visible()
        expect(page.locator(".pill.live")).to_be_visible()
        page.reload()
        expect(page.get_by_text("Nothing here yet")).to_be_visible()
        assert page.evaluate("[...Object.values(sessionStorage)]") == [KEY]
        assert KEY not in str(page.evaluate("[...Object.values(localStorage), document.cookie, location.href]"))
        assert [url for url in window.asked if KEY in url] == []
        page.get_by_role("button", name="Forget the key").click()
        expect(page.get_by_role("heading", name="This node asks for a key")).to_be_visible()
        window.close()


def test_loading_failing_and_partial_answers_have_a_face_of_their_own(browser: Browser, base: str) -> None:
    window = Window(browser, base)
    page = window.page
    held: list[Route] = []
    page.route("**/v1/streams?*", lambda route: held.append(route))  # noqa: PLW0108 - the driver marks the function
    window.open("#/s/requests/search")
    expect(page.locator(".streams .bone").first).to_be_visible()
    window.picture("loading")
    page.route(
        "**/_search",
        lambda route: route.fulfill(
            status=503, json={"error": {"code": "overloaded", "message": "the node has too much to do"}}
        ),
    )
    page.get_by_label("Query").fill("level:warn")
    page.get_by_label("Query").press("Enter")
    expect(page.get_by_role("alert").filter(has_text="The search failed")).to_contain_text("too much to do")
    window.picture("failed")
    page.unroute("**/_search")
    for title in ("The search failed", "The histogram could not be made"):
        failure = page.get_by_role("alert").filter(has_text=title)
        failure.get_by_role("button", name="Try again").click()
        expect(failure).to_have_count(0)
    expect(page.locator(".hits tbody tr").first).to_contain_text("warn")

    def partial(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        body["timed_out"] = True
        body["coverage"] |= {"complete": False, "possible_missing_events_upper_bound": 1200}
        route.fulfill(status=408, json=body)

    page.route("**/_search", partial)
    page.get_by_label("Query").fill("level:error")
    page.get_by_label("Query").press("Enter")
    expect(page.locator(".coverage")).to_contain_text("not complete")
    expect(page.locator(".coverage")).to_contain_text("1,200 entries may be missing: the time was up")
    window.picture("partial")
    for each in held:
        each.fulfill(status=500, json={"error": {"code": "internal", "message": "a fault of the node"}})
    expect(page.locator(".streams").get_by_text("The list could not be read")).to_be_visible()
    page.unroute("**/v1/streams?*")
    page.locator(".streams").get_by_role("button", name="Try again").click()
    expect(page.locator("a.stream-row").first).to_be_visible()
    window.close()


def test_an_append_without_an_answer_is_not_called_a_failure(browser: Browser, base: str) -> None:
    window = Window(browser, base)
    page = window.open("#/s/orders")
    page.get_by_role("button", name="Append").first.click()
    box = page.get_by_role("dialog")
    box.get_by_role("textbox").first.fill("[1]")
    expect(box.get_by_text("1 message.", exact=True)).to_be_visible()
    page.route("**/v1/stream/orders", lambda route: route.abort())
    box.get_by_role("button", name="Append").click()
    expect(box.get_by_text("this may be stored or not")).to_be_visible()
    expect(page.locator(".bar .pill")).to_have_text("Connected")
    window.close()


def test_problems_of_the_node_are_told_in_its_words(browser: Browser, base: str) -> None:
    window = Window(browser, base)

    def troubled(route: Route) -> None:
        body = route.fetch().json()
        body["problems"] = [
            {"code": "disk_floor", "severity": "error", "message": "Writes are refused.", "hint": "Make room."},
            {"code": "memory_tight", "severity": "warning", "message": "Memory is tight.", "hint": ""},
        ]
        route.fulfill(json=body)

    window.page.route("**/v1/server/_details", troubled)
    page = window.open("#/")
    expect(page.locator(".problem-list li")).to_have_count(2)
    expect(page.locator(".problem-list li").first).to_contain_text(re.compile(r"Writes are refused\.\s*Make room\."))
    window.picture("problems")
    window.page.unroute("**/v1/server/_details")
    window.page.route(
        "**/v1/server/_details", lambda route: route.fulfill(status=404, json={"error": {"code": "not_found"}})
    )
    expect(page.get_by_text("All is well.")).to_be_visible()
    window.close()
