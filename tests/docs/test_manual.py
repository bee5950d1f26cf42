"""The manual as a text: complete, up to date with the code, and without a link that leads nowhere."""

import re
from pathlib import Path

import pytest

from ops import docs
from streams_node.config import Settings, describe
from streams_node.http import paths
from streams_node.http.operations import CODES
from streams_node.http.routes import ROUTES

ROOT = Path(__file__).resolve().parents[2]
MANUAL = ROOT / "streams_node" / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(MANUAL.rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
# Words in backticks that end like a setting and are none.
NO_SETTINGS = {
    "callback_url",
    "jwks_url",
    "lease_ttl_ms",
    "timeout_ms",
    "max_bytes",
    "min_hot_bytes",
    "created_at_ms",
    "last_write_at_ms",
    "visible_through_primary_timestamp_max",
    "read_bytes",
    "due_bytes",
    "oldest_ms",
    "lease_ms",
    "took_ms",
    "interval_ms",
    "runtime_bytes",
}


def text_of(page: Path) -> str:
    """The page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The places of a page that a link can name, as code hosts make them from headings."""
    headings = re.findall(r"^#+ (.*)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_internal_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(text_of(page)):
        if re.match(r"https?:", target):
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


def test_every_page_is_reached_from_the_first_one() -> None:
    seen, new = set[Path](), {ROOT / "README.md"}
    while new:
        page = new.pop()
        seen.add(page)
        links = {(page.parent / target.partition("#")[0]).resolve() for target in LINK.findall(text_of(page))}
        new |= {link for link in links if link.suffix == ".md" and link.is_file()} - seen
    assert set(PAGES) - seen == set()


@pytest.mark.parametrize("page", docs.made(), ids=lambda page: page.name)
def test_what_is_made_from_code_is_as_the_code_is(page: Path) -> None:
    assert page.read_text("utf-8") == docs.made()[page], "run `python -m ops.docs`"


def test_settings_routes_codes_metrics_and_commands_are_all_there() -> None:
    def missing(page: str, names: list[str]) -> list[str]:
        return [name for name in names if f"`{name}`" not in (MANUAL / page).read_text("utf-8")]

    assert missing("settings.md", [row.name for row in describe()]) == []
    assert missing("routes.md", [route.pattern for route in ROUTES]) == []
    assert missing("errors.md", list(CODES)) == []
    assert len(docs.metrics_page().splitlines()) > 30
    commands = "create append read tail close rm ls".split()
    assert [
        name for name in commands if f"streams-node stream {name}" not in (MANUAL / "cli.md").read_text("utf-8")
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_that_a_page_names_exist(page: Path) -> None:
    words = set(
        re.findall(
            r"`([a-z]+(?:_[a-z]+)*_(?:max|ms|bytes|url|port|host|store|auth|certfile|keyfile|proxy))`", text_of(page)
        )
    )
    unknown = words - set(Settings.model_fields) - NO_SETTINGS
    assert {word for word in unknown if not word.startswith("streams_")} == set()  # those are metrics


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_error_codes_that_a_page_names_exist(page: Path) -> None:
    assert set(re.findall(r"\b[45]\d\d `([a-z_]+)`", text_of(page))) - set(CODES) == set()


def test_names_that_the_node_keeps_are_listed() -> None:
    text = (MANUAL / "concepts.md").read_text("utf-8")
    kept = (
        {"/".join(sub) for sub in paths.SUBS_OF_TWO | paths.SUBS_OF_THREE} | paths.SUBS_OF_ONE | paths.RESERVED_BUCKETS
    )
    kept |= {f"{sub}/…" for sub in paths.SUBS_WITH_ARGUMENT}
    assert {name for name in kept if f"`{name}`" not in text} == set()
