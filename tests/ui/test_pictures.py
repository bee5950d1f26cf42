"""The two pictures of the README: how the page looks, from the page itself.

`STREAMS_PICTURES=1` writes them anew; without it the test only sees that they can be made and that those that are kept
are pictures of this size.
"""

import os
import struct
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.ui.browser import PICTURES, ROOT, Window

pytestmark = [pytest.mark.xdist_group("browser")]
Open = Callable[..., Window]
KEPT = ROOT / "streams_node" / "docs" / "pictures"
SIZE = (1200, 720)
BYTES_MAX = 200_000
SHOWN = {
    "messages": ("light", "#/s/requests", "#m1490", ".inspector .tree"),
    "search": ("dark", "#/s/requests/search?q=declined level:error", None, ".hits mark"),
}


@pytest.mark.parametrize("name", SHOWN)
def test_the_pictures_of_the_readme_are_made_from_the_page(window: Open, name: str) -> None:
    colours, link, clicked, drawn = SHOWN[name]
    view = window(size=SIZE, color_scheme=colours)
    page = view.open(link)
    if clicked is not None:
        page.locator(clicked).click()
    expect(page.locator(drawn).first).to_be_visible()
    if name == "search":
        expect(page.locator(".histogram canvas")).to_be_visible()
    view.picture(f"readme-{name}")
    made = (PICTURES / f"readme-{name}.png").read_bytes()
    if os.environ.get("STREAMS_PICTURES"):
        KEPT.mkdir(exist_ok=True)
        (KEPT / f"{name}.png").write_bytes(made)
    kept = (KEPT / f"{name}.png").read_bytes()
    assert size_of(made) == size_of(kept) == SIZE
    assert len(kept) <= BYTES_MAX
    assert f"streams_node/docs/pictures/{name}.png" in (ROOT / "README.md").read_text(encoding="utf-8")


def size_of(picture: bytes) -> tuple[int, int]:
    assert picture.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", picture[16:24])
    return width, height
