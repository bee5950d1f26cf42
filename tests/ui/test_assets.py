"""How the page comes to a browser: its files, their addresses, and what it is allowed to do. No browser needed."""

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable
from html import unescape
from pathlib import Path
from typing import Any, TypeVar

import pytest

from streams_node.http.ui import FOLDER, assets
from streams_node.testing.inprocess import Answer, InProcess, in_process
from tests.ui.browser import elsewhere

VENDOR = FOLDER / "vendor"
OWN = sorted(path for path in FOLDER.rglob("*.js") if VENDOR not in path.parents)
LINES_MAX = 250
KEY = "an-invented-key-0123456789"


Found = TypeVar("Found")


def ask(folder: Path, act: Callable[[InProcess], Awaitable[Found]], **settings: Any) -> Found:
    found: list[Found] = []

    async def inside() -> None:
        async with in_process(folder, **settings) as node:
            found.append(await act(node))

    elsewhere(lambda: asyncio.run(inside()))
    return found[0]


def test_the_document_is_asked_for_each_time_and_its_files_are_kept_for_good(tmp_path: Path) -> None:
    async def walk(node: InProcess) -> list[Answer]:
        page = await node.request("GET", "/ui")
        (script,) = re.findall(r'src="([^"]+)"', page.body.decode())
        file = await node.request("GET", script)
        again = {"if-none-match": page.headers["etag"]}, {"if-none-match": file.headers["etag"]}
        unchanged = await node.request("GET", "/ui", again[0]), await node.request("GET", script, again[1])
        heads = await node.request("HEAD", "/ui"), await node.request("HEAD", script)
        return [page, file, *unchanged, *heads]

    page, file, page_again, file_again, page_head, file_head = ask(tmp_path, walk)
    assert (page.status, file.status, page_again.status, file_again.status) == (200, 200, 304, 304)
    assert page.headers["cache-control"] == page_again.headers["cache-control"] == "no-cache"
    assert file.headers["cache-control"] == file_again.headers["cache-control"]
    assert "immutable" in file.headers["cache-control"]
    assert (page_again.body, file_again.body, page_head.body, file_head.body) == (b"", b"", b"", b"")
    assert (page_head.headers["etag"], file_head.headers["etag"]) == (page.headers["etag"], file.headers["etag"])
    assert file.headers["content-type"] == "text/javascript; charset=utf-8"


def test_every_file_is_served_as_it_is_and_nothing_else(tmp_path: Path) -> None:
    digest = assets().digest

    async def walk(node: InProcess) -> tuple[dict[str, bytes], list[int]]:
        served = {name: (await node.request("GET", f"/ui/{digest}/{name}")).body for name in assets().files}
        others = (
            f"/ui/{digest}/nothing.js", "/ui/0123456789abcdef0123/app.js", f"/ui/{digest}/index.html", f"/ui/{digest}",
            f"/ui/{digest}/vendor/vendored.json", f"/ui/{digest}/../../http/ui.py", f"/ui/{digest}/%2e%2e/docs/docs.js",
        )  # fmt: skip
        return served, [(await node.request("GET", path)).status for path in others]

    served, others = ask(tmp_path, walk)
    assert served == {name: (FOLDER / name).read_bytes() for name in assets().files}
    assert set(others) <= {400, 404}


def test_the_page_runs_only_its_own_files_and_makes_no_markup_of_text(tmp_path: Path) -> None:
    page = ask(tmp_path, lambda node: node.request("GET", "/ui"))
    policy = dict(part.strip().partition(" ")[::2] for part in page.headers["content-security-policy"].split(";"))
    assert policy == {
        "default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "img-src": "'self' data:",
        "connect-src": "'self'", "require-trusted-types-for": "'script'", "trusted-types": "'none'",
        "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'",
    }  # fmt: skip
    html = page.body.decode()
    assert re.findall(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|<style|javascript:", html) == []
    assert page.headers["referrer-policy"] == "no-referrer"


def test_the_page_is_open_and_knows_no_key(tmp_path: Path) -> None:
    page = ask(tmp_path, lambda node: node.request("GET", "/ui"), no_auth=False, api_key=KEY)
    assert page.status == 200
    assert KEY.encode() not in page.body
    assert place(page)["key"] is True


def test_beside_an_operators_listener_the_page_asks_the_public_one_for_streams(tmp_path: Path) -> None:
    page = ask(tmp_path, lambda node: node.request("GET", "/ui"), operator_port=1, public_url="https://s.example/")
    assert place(page)["public"] == "https://s.example"
    assert "connect-src 'self' https://s.example;" in page.headers["content-security-policy"]


def test_an_address_that_is_markup_stays_text(tmp_path: Path) -> None:
    page = ask(
        tmp_path, lambda node: node.request("GET", "/ui"), operator_port=1, public_url="http://x.example/<i>&\"'"
    )
    assert b"<i>" not in page.body
    assert place(page)["public"] == "http://x.example/<i>&\"'"


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_a_module_is_one_component_that_loads_only_what_is_beside_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("// "), "the first line says what the module is for"
    assert text.count("\n") <= LINES_MAX
    for name in re.findall(r'\bfrom "([^"]+)"|\bimport\("([^"]+)"\)', text):
        assert (path.parent / "".join(name)).resolve().is_relative_to(FOLDER)
        assert (path.parent / "".join(name)).is_file()
    assert (
        re.findall(
            r"\beval\(|new Function|innerHTML|dangerouslySetInnerHTML|document\.write|\bhttps?://(?!www\.w3\.org)", text
        )
        == []
    )


def test_the_modules_of_others_are_what_was_published_and_have_their_licences() -> None:
    told = json.loads((VENDOR / "vendored.json").read_bytes())
    files = {path.name for path in VENDOR.iterdir() if path.suffix in {".js", ".css"}}
    assert set(told) == files
    for name, entry in told.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == entry["sha256"], name
        assert (VENDOR / entry["license"]).stat().st_size > 500


def place(page: Answer) -> dict[str, Any]:
    (content,) = re.findall(r'<meta name="streams-node" content="([^"]*)">', page.body.decode())
    found: dict[str, Any] = json.loads(unescape(content))
    return found
