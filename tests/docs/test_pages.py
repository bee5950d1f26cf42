"""The pages a browser gets: complete in themselves, and allowed to run nothing but their own script."""

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from streams_node import __version__
from streams_node.testing.inprocess import Answer, InProcess, in_process

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
KEY = "an-invented-key-0123456789"
LINKS = {"/ui", "/docs", "/openapi.json", "/metrics", "/health", "/readyz"}
PAGES = pytest.mark.parametrize("path", ["/", "/docs"])


def ask(folder: Path, act: Callable[[InProcess], Awaitable[Answer]], **settings: Any) -> Answer:
    async def inside() -> Answer:
        async with in_process(folder, **settings) as node:
            return await act(node)

    return asyncio.run(inside())


def page(folder: Path, path: str, **settings: Any) -> Answer:
    return ask(folder, lambda node: node.request("GET", path, BROWSER), **settings)


@PAGES
def test_a_page_runs_its_own_script_and_style_and_nothing_else(tmp_path: Path, path: str) -> None:
    answer = page(tmp_path, path)
    html = answer.body.decode()
    policy = dict(part.strip().partition(" ")[::2] for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", html, re.DOTALL)
    assert policy["style-src"] == digest(style)
    assert policy["script-src"] == (digest(scripts[0]) if scripts else "'none'")
    assert len(scripts) <= 1
    assert re.findall(r"\son\w+=|\sstyle=|javascript:", html) == []


@PAGES
def test_a_page_needs_nothing_from_elsewhere(tmp_path: Path, path: str) -> None:
    answer = page(tmp_path, path)
    html = answer.body.decode()
    loaded = re.findall(r"(?:src|href)=\"([^\"]*)\"|\burl\(([^)]*)\)|@import|import\(", html)
    assert {first or second for first, second in loaded} <= {"data:,", "#content", "/openapi.json", *LINKS}
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


def test_the_first_address_tells_a_program_where_to_begin(tmp_path: Path) -> None:
    answer = ask(tmp_path, lambda node: node.request("GET", "/"))
    said = json.loads(answer.body)
    assert (said["name"], said["version"]) == ("streams-node", __version__)
    assert set(said["links"].values()) == LINKS
    assert said["hint"].startswith("curl ")
    assert answer.headers["vary"] == "Accept"


def test_every_link_of_the_first_page_is_answered(tmp_path: Path) -> None:
    async def statuses() -> dict[str, int]:
        async with in_process(tmp_path) as node:
            return {link: (await node.request("GET", link)).status for link in LINKS}

    assert asyncio.run(statuses()) == dict.fromkeys(LINKS, 200)


def test_an_address_that_is_markup_stays_text(tmp_path: Path) -> None:
    answer = page(tmp_path, "/", public_url="http://x.example/<script>&")
    assert b"<script>" not in answer.body
    assert b"&lt;script&gt;&amp;" in answer.body


def test_a_node_with_a_key_shows_its_first_page_and_says_how_the_key_is_sent(tmp_path: Path) -> None:
    answer = page(tmp_path, "/", no_auth=False, api_key=KEY)
    assert answer.status == 200
    assert b"Authorization: Bearer $STREAMS_API_KEY" in answer.body
    assert KEY.encode() not in answer.body
    (tmp_path / "other").mkdir()
    assert page(tmp_path / "other", "/openapi.json", no_auth=False, api_key=KEY).status == 401


def test_a_node_with_a_key_shows_the_page_that_asks_for_it_and_the_document_to_who_has_it(tmp_path: Path) -> None:
    """A browser has no way to send a key with an address that somebody typed."""

    async def asked() -> list[Answer]:
        async with in_process(tmp_path, no_auth=False, api_key=KEY) as node:
            bearer = {"authorization": f"Bearer {KEY}"}
            plan = [("/docs", BROWSER), ("/openapi.json", BROWSER), ("/openapi.json", bearer)]
            return [await node.request("GET", path, headers) for path, headers in plan]

    docs, refused, document = asyncio.run(asked())
    assert (docs.status, refused.status, document.status) == (200, 401, 200)
    assert b'id="key"' in docs.body
    assert json.loads(document.body)["paths"]


def test_a_public_listener_does_not_point_to_the_operators_pages(tmp_path: Path) -> None:
    answer = page(tmp_path, "/", operator_port=1)
    assert b"/docs" not in answer.body
    assert b"/health" in answer.body


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
