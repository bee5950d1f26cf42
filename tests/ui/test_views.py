"""What somebody does on the page, against a real node."""

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.ui.browser import PHONE, Window
from tests.ui.seeds import Api

pytestmark = [pytest.mark.xdist_group("browser")]
Open = Callable[..., Window]
MILLION = 1_000_000


def entries(page: Page) -> int:
    """How many entries the head of the stream says there are."""
    return int(page.locator("dl.facts dd").first.inner_text().replace(",", ""))


def test_streams_are_listed_found_by_prefix_and_opened_by_keys(window: Open) -> None:
    page = window().open()
    rows = page.locator("a.stream-row")
    expect(rows.filter(has_text="requests")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("paym")
    expect(page.get_by_text("Nothing begins so")).to_be_visible()
    page.get_by_role("searchbox").fill("payments/re")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("payments/refunds")
    page.get_by_role("searchbox").fill("or")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("orders")
    page.get_by_role("searchbox").press("ArrowDown")
    page.get_by_role("searchbox").press("Enter")
    expect(page.get_by_role("heading", level=1, name="orders")).to_be_visible()
    assert page.url.endswith("#/s/orders/messages")


def test_a_stream_is_created_written_to_closed_and_deleted_only_by_its_name(window: Open, api: Api) -> None:
    page = window().open()
    page.get_by_role("button", name="New").click()
    page.get_by_role("dialog").get_by_role("textbox", name="Name").fill("fresh/one")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1, name="fresh/one")).to_be_visible()
    expect(page.get_by_text("Nothing here yet")).to_be_visible()

    page.get_by_role("button", name="Append").first.click()
    box = page.get_by_role("dialog")
    box.get_by_role("textbox").first.fill('{"n": ')
    expect(box.locator("#produce-said")).to_have_text("Unexpected end of the text, line 1, column 7.")
    expect(box.get_by_role("button", name="Append")).to_be_disabled()
    box.get_by_role("textbox").first.fill('[{"n": 12345678901234567890}, {"n": 2}]')
    expect(box.get_by_text("2 messages.")).to_be_visible()
    box.get_by_role("button", name="Append").click()
    expect(box.get_by_text("Stored.")).to_be_visible()
    box.get_by_role("button", name="Done").click()
    expect(page.locator(".message")).to_have_count(2)
    expect(page.locator(".message").first).to_contain_text("12345678901234567890")
    expect(page.locator("dl.facts dd").first).to_have_text("2")

    page.get_by_role("button", name="Close", exact=True).click()
    confirm(page, "Close for good", "fresh/one")
    expect(page.locator(".stream-head")).to_contain_text("Closed")
    expect(page.get_by_text("The stream is closed: this is all of it.")).to_be_visible()
    assert api.details("fresh/one")["stream"]["closed"] is True

    page.get_by_role("button", name="Delete").click()
    confirm(page, "Delete for good", "fresh/one")
    expect(page.locator("a.stream-row").filter(has_text="fresh/one")).to_have_count(0)
    page.goto(page.url.partition("#")[0] + "#/s/fresh%2Fone")
    expect(page.get_by_text("There is no such stream")).to_be_visible()


def confirm(page: Page, action: str, name: str) -> None:
    box = page.get_by_role("dialog")
    button = box.get_by_role("button", name=action)
    expect(button).to_be_disabled()
    box.get_by_role("textbox").fill(name[:-1])
    expect(button).to_be_disabled()
    box.get_by_role("textbox").fill(name)
    button.click()
    expect(box).to_have_count(0)


def test_what_is_refused_is_said_where_it_was_asked(window: Open) -> None:
    page = window().open()
    page.get_by_role("button", name="New").click()
    page.get_by_role("dialog").get_by_role("textbox", name="Name").fill("__mine")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("dialog").locator(".trouble")).to_contain_text("node's own")


def test_messages_come_live_are_paused_and_go_on(window: Open, api: Api) -> None:
    api.create("ticks")
    page = window().open("#/s/ticks")
    expect(page.get_by_text("Nothing here yet")).to_be_visible()
    expect(page.locator(".pill.live")).to_be_visible()
    api.append("ticks", [{"tick": 1}, {"tick": 2}])
    expect(page.locator(".message")).to_have_count(2)
    page.keyboard.press("p")
    expect(page.get_by_role("button", name="Follow")).to_be_visible()
    api.append("ticks", [{"tick": 3}])
    expect(page.get_by_text("1 newer message")).to_be_visible()
    expect(page.locator(".message")).to_have_count(2)
    page.get_by_role("button", name="Follow").click()
    expect(page.locator(".message")).to_have_count(3)


def test_a_place_is_found_by_number_by_offset_and_by_time(window: Open) -> None:
    page = window().open("#/s/orders")
    expect(page.locator(".message").last).to_contain_text('"id":349')
    jump = page.get_by_label("Go to a message")
    jump.fill("120")
    jump.press("Enter")
    expect(page.locator(".tag.accent", has_text="from message 120")).to_be_visible()
    expect(page.locator("#m120")).to_contain_text('"id":120')
    jump.fill("somewhere")
    jump.press("Enter")
    expect(page.locator("#jump-said")).to_contain_text("15m")
    jump.fill("1h")
    jump.press("Enter")
    expect(page.locator("#m0")).to_contain_text('"id":0')
    assert "since=" in page.url
    page.get_by_role("button", name="Go live").click()
    expect(page.locator(".pill.live")).to_be_visible()


def test_scrolling_up_stops_following_and_reads_what_was_before(window: Open) -> None:
    page = window().open("#/s/orders")
    expect(page.locator("#m349")).to_be_visible()
    page.locator(".message-list").hover()
    page.mouse.wheel(0, -4000)
    expect(page.locator(".toolbar").get_by_text("Paused")).to_be_visible()
    expect(page.locator(".list-foot")).to_contain_text("Messages 150 to 349")


def test_a_message_is_shown_as_tree_raw_and_hex_and_has_an_address(window: Open, api: Api) -> None:
    view = window()
    page = view.open("#/s/orders")
    page.locator("#m340").click()
    inspector = page.get_by_label("Message 340")
    expect(inspector.locator(".tree")).to_contain_text("A-340")
    inspector.get_by_role("button", name="Raw").click()
    expect(inspector.locator("pre.raw")).to_have_text('{"id":340,"total":1190.0,"items":[{"sku":"A-340"}]}')
    inspector.get_by_role("button", name="Hex").click()
    expect(inspector.locator("pre.hex")).to_contain_text("7b 22 69 64 22 3a 33 34")
    address = inspector.get_by_role("button", name="curl").get_attribute("data-copy") or ""
    asked = re.search(r"'http://[^/]+(/[^']+)'", address)
    assert asked is not None
    assert json.loads(api.call("GET", asked[1])) == [{"id": 340, "total": 1190.0, "items": [{"sku": "A-340"}]}]
    assert "urllib.request" in (inspector.get_by_role("button", name="Python").get_attribute("data-copy") or "")
    permalink = inspector.get_by_role("button", name="Link").get_attribute("data-copy") or ""
    other = window()
    other.open(permalink.partition("/ui")[2])
    expect(other.page.get_by_label("Message 340").locator(".tree")).to_contain_text("A-340")
    page.locator(".message-list").focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_label("Message 341")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".inspector")).to_have_count(0)


def test_text_and_bytes_are_shown_entry_by_entry(window: Open) -> None:
    page = window().open("#/s/notes")
    expect(page.locator(".message")).to_have_count(2)
    expect(page.locator("#m1")).to_contain_text("another line")
    page.goto(page.url.partition("#")[0] + "#/s/blobs")
    page.locator("#m0").click()
    expect(page.locator("pre.hex")).to_contain_text("00 01 02 03 04 05 06 07")


def test_a_search_says_what_it_rests_on_goes_on_and_is_built_from_the_schema(window: Open) -> None:
    view = window()
    page = view.open("#/s/requests/search")
    expect(page.locator(".coverage")).to_contain_text("complete")
    expect(page.locator(".coverage")).to_contain_text("nothing left out so far of 1,500 entries")
    expect(page.locator(".hits tbody tr")).to_have_count(50)
    expect(page.locator(".histogram-head")).to_contain_text("1,500 records by at")
    page.get_by_role("button", name="More hits").click()
    expect(page.locator(".hits tbody tr")).to_have_count(100)

    page.get_by_role("button", name="Filter").click()
    page.get_by_label("Field").select_option("level")
    page.get_by_label("Condition").select_option("is")
    page.get_by_label("Value").fill("error")
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_label("Query")).to_have_value("level:error")
    expect(page.locator(".hits tbody tr").first).to_contain_text("error")
    page.get_by_label("Query").fill("level:error declined")
    page.get_by_label("Query").press("Enter")
    expect(page.locator(".hits mark").first).to_have_text("declined")
    assert "q=level%3Aerror+declined" in page.url
    page.locator(".hits tbody tr").first.click()
    expect(page.locator(".inspector .tree")).to_contain_text("declined")
    page.get_by_label("Order").select_option("ms:desc")
    assert "sort=ms%3Adesc" in page.url


def test_a_brush_over_the_histogram_narrows_the_query(window: Open) -> None:
    page = window().open("#/s/requests/search")
    expect(page.locator(".histogram-head")).to_contain_text("1,500 records by at")
    page.get_by_label("Query").fill("level:error")
    page.get_by_label("Query").press("Enter")
    expect(page.locator(".histogram-head")).not_to_contain_text("1,500 records by at")
    expect(page.locator(".histogram-head")).to_contain_text("records by at")
    expect(page.locator(".coverage strong")).to_contain_text("hits")
    whole = page.locator(".coverage strong").inner_text()
    box = page.locator(".histogram .u-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 30, steps=4)
    page.mouse.up()
    expect(page.get_by_label("Query")).to_have_value(re.compile(r'level:error at:>="2.*" at:<"2.*"'))
    expect(page.locator(".coverage strong")).not_to_have_text(whole)
    page.get_by_role("button", name="Clear the range").click()
    expect(page.get_by_label("Query")).to_have_value("level:error")


def test_columns_of_the_histogram_are_chosen_by_keys(window: Open) -> None:
    page = window().open("#/s/requests/search?q=level:error")
    expect(page.locator(".histogram-head")).to_contain_text("records by at")
    chart = page.locator(".histogram .chart")
    chart.focus()
    for key in ("End", "Shift+ArrowLeft", "Shift+ArrowLeft"):
        page.keyboard.press(key)
    told = page.locator(".histogram [role=status]").last
    expect(told).to_have_text(re.compile(r".* to .*: \d+ records?"))
    wanted = int(re.search(r": (\d+) record", told.inner_text())[1])  # type: ignore[index]
    assert page.locator(".histogram .u-select").evaluate("box => box.clientWidth") > 0
    page.keyboard.press("Enter")
    expect(page.get_by_label("Query")).to_have_value(re.compile(r'level:error at:>="2.*" at:<"2.*"'))
    expect(page.locator(".coverage strong")).to_have_text(re.compile(rf"^{wanted} hits?"))


def test_a_query_that_cannot_be_understood_is_pointed_at(window: Open) -> None:
    page = window().open("#/s/requests/search?q=card AND")
    expect(page.locator(".pointer")).to_contain_text("Expected clause in search query")


def test_a_stream_without_a_search_says_how_it_gets_one(window: Open) -> None:
    view = window()
    page = view.open("#/s/clicks/search")
    expect(page.get_by_role("heading", name="This stream cannot be searched yet", exact=True)).to_be_visible()
    page.get_by_role("link", name="Go to the schema").click()
    expect(page.get_by_text("No schema yet")).to_be_visible()
    expect(page.get_by_role("button", name="Write one")).to_be_visible()
    view.open("#/s/orders/search")  # which has entries, and so gets none
    expect(page.get_by_role("heading", name="This stream cannot be searched", exact=True)).to_be_visible()
    page.get_by_role("link", name="Go to the schema").click()
    page.get_by_role("button", name="Declare a routing key").click()
    expect(page.get_by_role("heading", name="Routing key")).to_be_visible()
    expect(page.get_by_text("50 of the last 50 entries would be refused")).to_be_visible()  # their ids are numbers


def test_indexes_storage_and_the_node_are_told_of(window: Open) -> None:
    page = window().open("#/s/requests/storage")
    expect(page.get_by_role("heading", name="Object store", exact=True)).to_be_visible()
    page.get_by_role("button", name="Upload now").click()
    expect(page.get_by_text(re.compile("Everything is in the object store|It has begun"))).to_be_visible()
    expect(page.locator("dl.facts")).to_contain_text("In the object storeeverything")
    page.get_by_role("button", name="Upload now").click()  # there is nothing to do, and it is said so
    expect(page.get_by_text("Everything is in the object store.")).to_be_visible()
    page.get_by_role("link", name="Index").click()
    expect(page.get_by_text("indexes are behind")).to_be_visible()
    expect(page.get_by_text("This node starts no index driver")).to_be_visible()
    page.get_by_role("button", name="Index now").click()
    page.get_by_role("dialog").get_by_role("button", name="Index", exact=True).click()
    expect(page.get_by_text("Asked for.")).to_be_visible()
    page.get_by_role("link", name="Overview", exact=True).click()
    expect(page.locator(".charts .card")).to_have_count(9)
    expect(page.locator(".charts canvas").first).to_be_visible()
    expect(page.get_by_role("heading", name="Largest on this disk")).to_be_visible()
    busiest = page.locator(".card").filter(has=page.get_by_role("heading", name="Most appends"))
    expect(busiest.locator("dl.rows > div, p.quiet").first).to_be_visible()


def test_what_changes_beside_the_page_is_seen_without_a_reload(window: Open, api: Api) -> None:
    api.create("watched")
    page = window().open("#/s/watched/storage")
    expect(page.locator("dl.facts dd").first).to_have_text("0")
    for expected in ("1", "2"):
        api.append("watched", {"n": expected})
        expect(page.locator("dl.facts dd").first).to_have_text(expected)
    api.call("DELETE", "/v1/stream/watched", None, {})
    expect(page.get_by_text("There is no such stream")).to_be_visible()
    api.create("watched", "text/plain")  # another one of that name
    expect(page.locator(".stream-heading .tag")).to_have_text("text/plain")
    expect(page.locator("dl.facts dd").first).to_have_text("0")


def test_a_million_streams_are_scrolled_without_reading_them_all(window: Open) -> None:
    """The node's own tests show its pages of a million; here they are invented, so that the test takes a second."""
    view = window()
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        limit, offset = (int(re.search(rf"{name}=(\d+)", route.request.url)[1]) for name in ("limit", "offset"))  # type: ignore[index]
        rows = [
            {"name": f"stream-{number:07d}", "next_offset": str(number), "profile": "generic"}
            for number in range(offset, min(MILLION, offset + limit))
        ]
        route.fulfill(json=rows)

    view.page.route("**/v1/streams?*", answer)
    page = view.open()
    expect(page.locator(".streams-head [role=status]")).to_have_text("1,000,000")
    assert page.locator("a.stream-row").count() < 60
    page.locator(".stream-list").evaluate("list => list.scrollTop = list.scrollHeight")
    expect(page.locator("a.stream-row").last).to_contain_text("stream-0999999")
    page.locator(".stream-list").evaluate("list => list.scrollTop = list.scrollHeight / 2")
    expect(page.locator("a.stream-row").nth(9)).to_contain_text(re.compile("stream-0(49|50)"))
    assert len(asked) < 60


def test_on_a_phone_the_list_and_the_stream_are_a_screen_each(window: Open) -> None:
    view = window(size=PHONE)
    page = view.open("#/streams")
    page.locator("a.stream-row").filter(has_text="orders").click()
    expect(page.locator("#m349")).to_be_in_viewport()
    expect(page.locator(".streams")).to_be_hidden()
    page.locator("#m349").click()
    expect(page.locator(".inspector .tree")).to_be_in_viewport()
    page.get_by_role("button", name="Close the message").click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth") is True
    page.locator(".back").click()
    expect(page.locator(".streams")).to_be_visible()
