"""What somebody does with the schema of a stream, and sees of its producers, against a real node."""

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.ui.browser import Window
from tests.ui.seeds import JSON, Api

pytestmark = [pytest.mark.xdist_group("browser")]
Open = Callable[..., Window]
N = {"n": {"type": "integer"}}
NUMBER = {"type": "object", "required": ["n"], "properties": N}
PULL = {"type": "pull-wake", "streams": ["produced"], "wake_stream": "wake/pool"}
LENS = {"apiVersion": "durable.lens/v1", "from": 1, "to": 2}


def declare(api: Api, name: str, update: object) -> None:
    api.call("POST", f"/v1/stream/{name}/_schema", update)


def marked(page: Page, kind: str) -> list[int]:
    """The numbers of the lines that something is said of."""
    return [int(text) for text in page.locator(f".line-numbers .{kind}").all_inner_texts()]


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def test_a_schema_is_checked_while_it_is_written_and_by_the_node(window: Open, api: Api) -> None:
    api.create("typed")
    page = window().open("#/s/typed/schema")
    page.get_by_role("button", name="Write one").click()
    editor = page.get_by_role("textbox", name="Any of")
    expect(page.get_by_text("the node would take it")).to_be_visible()
    first = editor.input_value()
    editor.fill(first.replace('"date"', '"day"'))
    expect(page.locator("#schema-said")).to_contain_text("kind is one of")
    assert marked(page, "bad") == [line_of(first, '"primaryTimestampField"'), line_of(first, '"date"')]
    expect(page.get_by_role("button", name="Store")).to_be_disabled()
    editor.fill(first.replace('"exact": true', '"exact": 7'))
    page.get_by_role("button", name="Store").click()
    expect(page.locator("#schema-said .trouble")).to_contain_text("exact")
    editor.fill(first)
    page.get_by_role("button", name="Store").click()
    expect(page.get_by_role("heading", name="Version 1")).to_be_visible()
    expect(page.get_by_label("Searchable fields")).to_contain_text("message")


def test_a_fault_of_a_schema_is_shown_at_its_line_and_led_to(window: Open) -> None:
    view = window()
    page = view.open("#/s/requests/schema")
    page.get_by_role("button", name="Change", exact=True).click()
    editor = page.get_by_role("textbox", name="Any of")
    expect(page.get_by_text("The last 50 entries fit")).to_be_visible()
    text = editor.input_value()
    assert page.locator(".line-numbers > div > div").count() == text.count("\n") + 1

    editor.fill(text.replace('"bindings"', "bindings", 1))
    expect(page.locator("#schema-said .trouble")).to_be_visible()
    assert marked(page, "bad") == [line_of(text, '"bindings"')]

    # Only the node knows this one: its message names the place.
    editor.fill(text.replace('"unicode_word_v1"', '"another"'))
    expect(page.locator("#schema-said .trouble")).to_contain_text("search.fields.message.analyzer")
    line = line_of(text, '"unicode_word_v1"')
    assert marked(page, "bad") == [line]
    view.picture("schema-fault")
    page.get_by_role("button", name=f"Line {line}").click()
    expect(editor).to_be_focused()
    chosen = editor.evaluate("area => area.value.slice(area.selectionStart, area.selectionEnd)")
    assert '"another"' in chosen
    assert "\n" not in chosen
    assert editor.evaluate("area => area.scrollTop") > 0

    # Nothing is wrong with it, and it finds nothing.
    editor.fill(text.replace('"/status"', '"/statos"'))
    expect(page.locator("#schema-said .hint")).to_contain_text("none of the last 50 entries has /statos")
    assert marked(page, "warn") == [line_of(text, '"status": {')]
    page.get_by_text("What it changes").click()
    expect(page.locator(".difference .in code")).to_have_text(re.compile('"/statos"'))
    expect(page.locator(".difference .out code")).to_have_text(re.compile('"/status"'))


def test_a_change_is_held_against_the_last_entries_before_it_is_stored(window: Open, api: Api) -> None:
    api.create("numbers")
    declare(api, "numbers", {"schema": NUMBER})
    api.append("numbers", [{"n": number, **({"k": "x"} if number % 2 else {})} for number in range(60)])
    page = window().open("#/s/numbers/schema")
    page.get_by_role("button", name="Change", exact=True).click()
    editor = page.get_by_role("textbox", name="Any of")
    editor.fill(json.dumps({"routingKey": {"jsonPointer": "/k", "required": True}}))
    expect(page.get_by_text("25 of the last 50 entries would be refused")).to_be_visible()
    expect(page.get_by_text("does not fit the last entries")).to_be_visible()
    assert "routingKey" not in json.loads(api.call("GET", "/v1/stream/numbers/_schema"))
    page.get_by_role("link", name="Entry 10", exact=True).click()
    expect(page.get_by_label("Message 10", exact=True).locator(".tree")).to_contain_text("10")


def test_what_a_version_has_changed_is_shown(window: Open, api: Api) -> None:
    api.create("changing")
    declare(api, "changing", {"schema": NUMBER})
    later = {**NUMBER, "required": ["n", "m"], "properties": {**N, "m": {"type": "string"}}}
    step = {"op": "add", "path": "/m", "schema": {"type": "string"}, "default": "-"}
    declare(api, "changing", {"schema": later, "lens": {**LENS, "schema": "changing", "ops": [step]}})
    page = window().open("#/s/changing/schema")
    expect(page.get_by_role("heading", name="What has changed")).to_be_visible()
    added = page.get_by_label("From version 1 to 2").locator(".in code")
    expect(added.filter(has_text='"m": {')).to_have_count(1)
    expect(page.get_by_text("1 operation of a lens")).to_be_visible()


def test_producers_are_listed_page_by_page_and_lead_to_their_entries(window: Open, api: Api) -> None:
    api.create("produced")
    view = window()
    page = view.open("#/s/produced/producers")
    expect(page.get_by_text("No producer yet")).to_be_visible()
    expect(page.get_by_text("No subscription.")).to_be_visible()
    for number in range(103):
        said = {"Producer-Id": f"worker-{number:03d}", "Producer-Epoch": str(number % 4), "Producer-Seq": "0"}
        api.call("POST", "/v1/stream/produced", {"n": number}, {**JSON, **said})
    expect(page.get_by_role("heading", name="103 producers")).to_be_visible()
    rows = page.get_by_label("Producers").locator("tbody tr")
    expect(rows).to_have_count(100)
    expect(rows.nth(6)).to_have_text(re.compile(r"worker-006\s*2\s*0\s*6\s*(just now|\d.* ago)"))
    view.picture("producers-light")
    page.get_by_role("button", name="More: 3 left").click()
    expect(rows).to_have_count(103)
    api.call("PUT", "/v1/stream/__ds/subscriptions/mine", PULL)
    expect(page.get_by_label("Subscriptions")).to_contain_text("it names the stream")
    rows.nth(6).get_by_role("link").click()
    expect(page.get_by_label("Message 6", exact=True).locator(".tree")).to_contain_text("6")
