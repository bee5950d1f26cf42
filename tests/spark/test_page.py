"""The admin page beside a driver with a JVM: what is indexed is seen there, and then found by its indexes."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from spark_index.session import Session
from tests.clients.conftest import started
from tests.spark.test_node import DECLARED, committed, event
from tests.ui.browser import Window, chromium, elsewhere, found
from tests.ui.seeds import Api

pytestmark = [
    pytest.mark.xdist_group("spark"),  # one JVM at a time
    pytest.mark.timeout(300),  # seconds where nobody else works
    pytest.mark.skipif(found() is None, reason="no Chromium: see tests/ui"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Spark leaves sockets to the collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
FAMILIES = 5  # of the schema: four for searches, and the routing keys


def test_an_index_is_seen_to_be_made_and_then_used(session: Session, tmp_path: Path) -> None:
    with started(tmp_path, "--no-auth", "--index-driver", "off") as node, chromium() as browser:
        api = Api(node.url)
        api.create("logs")
        api.call("POST", "/v1/stream/logs/_schema", DECLARED)
        api.append("logs", [event(number) for number in range(900)])
        window = Window(browser, node.url)
        page = window.open("#/s/logs/storage")
        page.get_by_role("button", name="Upload now").click()
        expect(page.locator("dl.facts")).to_contain_text("everything")

        page.get_by_role("link", name="Index").click()
        rows = page.get_by_label("Index families").locator("tbody tr")
        expect(page.get_by_role("heading", name=f"{FAMILIES} indexes are behind")).to_be_visible()
        expect(rows).to_have_text([re.compile("0 of 1")] * FAMILIES)
        window.picture("index-behind")
        page.get_by_role("button", name="Index now").click()
        page.get_by_role("dialog").get_by_role("button", name="Index", exact=True).click()
        expect(page.get_by_text("Asked for.")).to_be_visible()

        said: list[object] = []
        elsewhere(lambda: said.extend(committed(node, session, tmp_path / "log")))
        assert said
        # Without a reload.
        expect(page.get_by_role("heading", name="Everything sealed is indexed")).to_be_visible()
        expect(rows).to_have_text([re.compile("1 of 1.*(just now|ago)")] * FAMILIES)
        expect(page.locator(".tabs .tag")).to_have_count(0)
        window.picture("index-covered")

        page.get_by_role("link", name="Search").click()
        page.get_by_label("Query").fill("level:error")
        page.get_by_label("Query").press("Enter")
        expect(page.locator(".coverage")).to_contain_text("1 part by index")
        expect(page.locator(".hits tbody tr").first).to_contain_text("error")
        expect(page.locator(".histogram-head")).to_contain_text("300 records by at")
        window.picture("index-used")
        window.close()
