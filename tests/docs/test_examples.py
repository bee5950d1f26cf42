"""The README and the manual are run against a real node, and print what they say."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ops.node_runtime import node_environment
from tests.clients.conftest import HERE as NODE_HOME
from tests.clients.conftest import Node, install_client, started
from tests.docs.examples import Example, examples, fits, printed, script

ROOT = Path(__file__).resolve().parents[2]
MANUAL = ROOT / "streams_node" / "docs"
PAGES = [ROOT / "README.md", MANUAL / "quickstart.md", MANUAL / "operate.md", MANUAL / "search.md"]
ADDRESS = "127.0.0.1:4437"

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="the examples use curl, which is not here")


@pytest.fixture(scope="session")
def node_js() -> Mapping[str, str]:
    environment = node_environment()
    install_client(environment)
    return environment


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_print_what_it_says(page: Path, tmp_path: Path, node_js: Mapping[str, str]) -> None:
    wanted = list(examples(page))
    assert wanted, "nothing to run: a mistake in the marks"
    with started(tmp_path) as node:
        (tmp_path / "streams-data").symlink_to(tmp_path / "data")
        (tmp_path / ".venv").symlink_to(sys.prefix)
        seen = run(wanted, node, node_js)
    assert len(seen) == len(wanted)
    for example, text in zip(wanted, seen, strict=True):
        assert example.output is None or fits(example.output, text), f"{example.code}\nprinted\n{text}"


def run(wanted: list[Example], node: Node, environment: Mapping[str, str]) -> list[str]:
    here = f"127.0.0.1:{node.port}"
    done = subprocess.run(
        ["bash", "-s"],
        input=script(wanted).replace(ADDRESS, here),
        cwd=node.folder,
        env={
            **{name: value for name, value in environment.items() if not name.startswith("STREAMS_")},
            "STREAMS_URL": node.url,
            "PYTHON": sys.executable,
            "NODE_HOME": os.fspath(NODE_HOME),
        },
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return printed(done.stdout.replace(here, ADDRESS))


@pytest.mark.parametrize(
    ("output", "seen", "right"),
    [
        ("a\n", "a\n", True),
        ("a…c\n", "abc", True),
        ("a…c\n", "ab\nc", False),
        ("a\n…\nc\n", "a\nb\nb\nc", True),
        ("a\n", "a\nb", False),
        ("a.c\n", "abc", False),
    ],
)
def test_an_expected_output_is_compared_in_full(output: str, seen: str, *, right: bool) -> None:
    assert fits(output, seen) is right
