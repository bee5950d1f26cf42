"""The two pictures of the README: how the page looks, from the page itself.

`STREAMS_PICTURES=1` writes them anew; without it those that are kept have to look like the page: the numbers in them
are of another hour, but every part is where it was, in its size and its colours. Machines with other fonts cannot tell.
"""

import base64
import os
import struct
from collections.abc import Callable

import pytest
from playwright.sync_api import Route, expect

from tests.ui.browser import PICTURES, ROOT, Window

pytestmark = [pytest.mark.xdist_group("browser")]
Open = Callable[..., Window]
KEPT = ROOT / "streams_node" / "docs" / "pictures"
SIZE = (1200, 720)
BYTES_MAX = 200_000
CELLS = (40, 24)  # of 30 by 30 pixels
DIFFERENT = 10  # of 255, the mean of a cell
# Measured: other numbers and another histogram change 1.5 % of the cells, a list that is 26 px wider 22 %, a head that
# is 10 px higher 18 %.
DIFFERENT_SHARE_MAX = 0.06
WIDTH = """() => {
  const brush = document.createElement("canvas").getContext("2d");
  brush.font = "100px system-ui";
  return brush.measureText("Streams Node 0123456789").width;
}"""
KEPT_WIDTH = 1374.7  # with the fonts of the pictures that are kept: DejaVu Sans
COMPARE = """async ([pictures, cells, different]) => {
  const [made, kept] = await Promise.all(pictures.map(async (picture) => {
    const image = new Image();
    image.src = `data:image/png;base64,${picture}`;
    await image.decode();
    const canvas = new OffscreenCanvas(...cells);
    const brush = canvas.getContext("2d");
    brush.imageSmoothingQuality = "high";
    brush.drawImage(image, 0, 0, ...cells);
    return brush.getImageData(0, 0, ...cells).data;
  }));
  let count = 0;
  for (let at = 0; at < made.length; at += 4)
    if ([0, 1, 2].some((each) => Math.abs(made[at + each] - kept[at + each]) > different)) count += 1;
  return count / (made.length / 4);
}"""
SHOP = (
    "audit-log", "blobs", "clicks", "inventory", "notes", "orders", "requests", "payments/refunds", "payments/settled",
    "sensors/berlin",
)  # fmt: skip
SHOWN = {
    "messages": ("light", "#/s/requests", "#m1490", ".inspector .tree"),
    "search": ("dark", "#/s/requests/search?q=declined level:error", None, ".hits mark"),
}


@pytest.mark.parametrize("name", SHOWN)
def test_the_pictures_of_the_readme_are_made_from_the_page(window: Open, name: str) -> None:
    colours, link, clicked, drawn = SHOWN[name]
    view = window(size=SIZE, color_scheme=colours)
    view.page.route("**/v1/streams?*", of_the_shop)
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
    if abs(page.evaluate(WIDTH) - KEPT_WIDTH) > 1:
        return  # other fonts
    pictures = [base64.b64encode(each).decode() for each in (made, kept)]
    share = view.context.new_page().evaluate(COMPARE, [pictures, CELLS, DIFFERENT])
    assert share <= DIFFERENT_SHARE_MAX, f"run with STREAMS_PICTURES=1: {share:.0%} of the picture looks otherwise"
    assert f"streams_node/docs/pictures/{name}.png" in (ROOT / "README.md").read_text(encoding="utf-8")


def of_the_shop(route: Route) -> None:
    """Without what other tests have made beside it."""
    route.fulfill(json=[each for each in route.fetch().json() if each["name"] in SHOP])


def size_of(picture: bytes) -> tuple[int, int]:
    assert picture.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", picture[16:24])
    return width, height
