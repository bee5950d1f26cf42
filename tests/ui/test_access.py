"""The page for everybody: screen readers, keyboards, dark rooms and small screens."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.ui.browser import DESK, PHONE, ROOT, Window

pytestmark = [pytest.mark.xdist_group("browser")]
Open = Callable[..., Window]
AXE = (ROOT / "tests" / "ui" / "vendor" / "axe.min.js").read_text(encoding="utf-8")
NARROWEST = (320, 640)
SERIOUS = ("serious", "critical")
# Views by their addresses, and what is there once they are drawn.
VIEWS = {
    "overview": ("#/", ".charts canvas"),
    "messages": ("#/s/requests/messages", ".message"),
    "search": ("#/s/requests/search?q=level:error", ".hits tbody tr"),
    "schema": ("#/s/requests/schema", ".card table"),
    "index": ("#/s/requests/index", ".meter"),
    "storage": ("#/s/requests/storage", ".meter"),
    "producers": ("#/s/requests/producers", ".state.empty"),
    "empty": ("#/s/clicks/messages", ".state.empty"),
    "missing": ("#/s/nowhere/messages", ".state.empty"),
}
# Dark colours change contrasts only; on a phone those views are another layout that are more than a text. The narrowest
# screen is that of somebody who sees a page of 1280 pixels four times as large: nothing is beside it.
LOOKS = {
    "light": ("light", DESK, tuple(VIEWS), None),
    "dark": ("dark", DESK, tuple(VIEWS), ["color-contrast"]),
    "phone": ("light", PHONE, ("overview", "messages", "search"), None),
    "narrowest": ("light", NARROWEST, tuple(VIEWS), ["document-title"]),
}


def findings(page: Page, rules: list[str] | None = None, within: str = "html") -> list[dict[str, Any]]:
    """What axe-core finds that keeps somebody out."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    chosen = {"resultTypes": ["violations"], **({"runOnly": rules} if rules else {})}
    found = page.evaluate("([within, options]) => axe.run(within, options)", [within, chosen])
    return [
        {
            "rule": each["id"],
            "where": [node["target"] for node in each["nodes"]],
            "why": each["nodes"][0]["failureSummary"],
        }
        for each in found["violations"]
        if each["impact"] in SERIOUS
    ]


@pytest.mark.parametrize("look", LOOKS)
def test_no_view_keeps_anybody_out(window: Open, look: str) -> None:
    colours, size, names, rules = LOOKS[look]
    # axe makes markup of text, which the page's own policy refuses.
    view = window(size=size, color_scheme=colours, bypass_csp=True)
    for name in names:
        link, drawn = VIEWS[name]
        page = view.open(link)
        expect(page.locator(drawn).first).to_be_visible()
        assert findings(page, rules) == [], name
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth") is True, name
        view.picture(f"{name}-{look}")


def test_no_dialog_and_no_message_keeps_anybody_out(window: Open) -> None:
    view = window(bypass_csp=True)
    page = view.open("#/s/orders")
    page.locator("#m345").click()
    expect(page.locator(".inspector .tree")).to_be_visible()
    assert findings(page, within=".inspector") == []
    view.picture("inspector-light")
    for name in ("Append", "Close", "Delete", "New"):
        page.locator("button", has_text=name).first.click()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert findings(page, within="dialog") == [], name
        view.picture(f"dialog-{name.lower()}-light")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)


def test_everything_is_reached_by_keys_and_dialogs_keep_the_focus(window: Open) -> None:
    page = window().open("#/s/orders")
    expect(page.locator(".message").last).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.get_by_role("button", name="Append").first.focus()
    page.keyboard.press("Enter")
    box = page.get_by_role("dialog")
    expect(box).to_be_visible()
    for _ in range(8):
        page.keyboard.press("Tab")
        assert (
            page.evaluate(
                "document.activeElement === document.body || Boolean(document.activeElement.closest('dialog'))"
            )
            is True
        )
    page.keyboard.press("Escape")
    expect(box).to_have_count(0)
    expect(page.get_by_role("button", name="Append").first).to_be_focused()


def test_colours_are_the_systems_until_somebody_chooses(window: Open) -> None:
    page = window(color_scheme="dark").open()
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(paper)
    page.get_by_role("button", name="Colours: system").click()
    assert page.evaluate(paper) != dark
    page.reload()
    expect(page.get_by_role("button", name="Colours: light")).to_be_visible()
