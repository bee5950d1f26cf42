"""What the page shows is what is so: nothing is rounded, turned around, cut off or out of date without being said."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.ui.browser import DESK, PHONE, Window
from tests.ui.seeds import SEARCH, Api, requests

pytestmark = [pytest.mark.xdist_group("browser")]
Open = Callable[..., Window]
HUGE = 12345678901234567890
TURNED = "exe.\u202egnp"  # what follows the sign is written from right to left
ESCAPED = "exe.\\u202egnp"


def searchable(api: Api, name: str) -> None:
    api.create(name)
    api.call("POST", f"/v1/stream/{name}/_schema", {"schema": {"type": "object"}, "search": SEARCH})


def test_a_hit_is_opened_as_it_was_sent_and_an_answer_says_when_it_is_old(window: Open, api: Api) -> None:
    searchable(api, "huge")
    rows = [{**row, "number": HUGE} for row in requests(3)]
    api.append("huge", rows[:1])
    page = window().open("#/s/huge/search")
    # One record is a column of a minute, and no axis of years.
    expect(page.locator(".histogram-head")).to_contain_text("1 record by at, a column is 1m")
    expect(page.locator(".coverage")).to_contain_text("its one entry looked at")
    chart = page.locator(".histogram .chart")
    chart.focus()
    page.keyboard.press("End")
    expect(page.locator(".histogram [role=status]").last).to_contain_text("1 record")
    width = page.locator(".histogram .u-over").evaluate("box => box.clientWidth")
    assert page.locator(".histogram .u-select").evaluate("box => box.clientWidth") > 0.9 * width
    page.locator(".hits tbody tr").first.click()
    page.get_by_role("button", name="Raw").click()
    expect(page.locator("pre.raw")).to_contain_text(f'"number":{HUGE}')
    api.append("huge", rows[1:])
    expect(page.locator(".newer")).to_contain_text("2 entries have come since")
    page.get_by_role("button", name="Search again").click()
    expect(page.locator(".hits tbody tr")).to_have_count(3)
    expect(page.locator(".newer")).to_have_count(0)


def test_signs_that_turn_text_around_turn_nothing(window: Open, api: Api) -> None:
    name = "turned-%E2%80%AEgnp.exe"
    api.create(name)
    api.append(name, [{"file": TURNED, TURNED: 1}])
    page = window().open(f"#/s/{name}")
    expect(page.get_by_role("heading", level=1)).to_have_text("turned-\\u202egnp.exe")
    expect(page.locator(".stream-name").filter(has_text="turned")).to_have_text("turned-\\u202egnp.exe")
    expect(page.locator("#m0 .line")).to_contain_text(ESCAPED)
    page.locator("#m0").click()
    expect(page.locator(".inspector .leaf").nth(0)).to_have_text(f'file: "{ESCAPED}"')
    expect(page.locator(".inspector .leaf").nth(1)).to_have_text(f"{ESCAPED}: 1")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_label("Type").fill("turned-\\u202egnp.exe")
    page.get_by_role("button", name="Delete for good").click()
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_bytes_stand_beside_what_they_are_as_text_however_narrow_it_is(window: Open, size: tuple[int, int]) -> None:
    page = window(size=size).open("#/s/blobs")
    page.locator("#m0").click()
    expect(page.locator("pre.hex")).to_contain_text("58 59 5a 5b 5c 5d 5e 5f  XYZ[\\]^_")
    assert page.locator(".inspector-body").evaluate("box => box.scrollWidth <= box.clientWidth") is True


def test_a_long_text_is_drawn_in_part_until_somebody_wants_it(window: Open, api: Api) -> None:
    api.create("long")
    api.append("long", [{"text": "y" * 9000}])
    page = window().open("#/s/long")
    page.locator("#m0").click()
    text = page.locator(".inspector .j-string")
    expect(text).to_have_text(re.compile(r'^"y{1999}$'))
    page.get_by_role("button", name="7,002 characters more").click()
    expect(text).to_have_text(re.compile(r'^"y{9000}"$'))


def test_a_fork_and_a_lifetime_are_told_of(window: Open, api: Api) -> None:
    said = {"Content-Type": "application/json", "Stream-Forked-From": "/v1/stream/orders", "Stream-TTL": "7200"}
    api.call("PUT", "/v1/stream/forked", None, said)
    page = window().open("#/s/forked/storage")
    expect(page.locator(".stream-heading")).to_contain_text("fork of orders")
    expect(page.get_by_text("its first 350 entries are those of")).to_be_visible()
    expect(page.locator("dl.facts")).to_contain_text("2 h after its last use")
    page.get_by_role("link", name="fork of orders").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("orders")


def test_a_step_back_takes_a_dialog_with_it(window: Open) -> None:
    page = window().open("#/s/orders")
    expect(page.locator(".message").last).to_be_visible()
    page.get_by_role("link", name="Storage").click()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.go_back()
    expect(page.locator(".message").last).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_message_that_there_is_not_yet_is_not_gone_to(window: Open) -> None:
    page = window().open("#/s/orders")
    expect(page.locator(".message").last).to_be_visible()
    jump = page.get_by_label("Go to a message")
    jump.fill("99999")
    jump.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="There are")).to_have_text(
        re.compile(r"There are \d+ messages, numbered from 0")
    )
    expect(page.locator(".message").last).to_be_visible()


def test_an_offset_that_is_none_is_refused_in_the_nodes_words(window: Open) -> None:
    page = window(size=PHONE).open("#/s/orders?from=NONE")
    expect(page.get_by_role("alert").filter(has_text="could not be read").locator("code").first).to_have_text("NONE")
    expect(page.locator(".jump .tag")).to_have_text("from an offset")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth") is True
