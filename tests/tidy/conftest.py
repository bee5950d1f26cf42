import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def tree() -> Mapping[str, str]:
    """Every text file that is committed, or would be by a careless `git add`: its path in the tree, and its text."""
    if not (ROOT / ".git").exists():
        pytest.skip("an unpacked archive: git cannot tell which files belong to the tree")
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return dict(_texts(name for name in names if name))


@pytest.fixture(scope="session")
def python_files(tree: Mapping[str, str]) -> Mapping[str, str]:
    return {name: text for name, text in tree.items() if name.endswith(".py")}


def _texts(names: Iterator[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        try:
            yield name, (ROOT / name).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):  # binary, or deleted and not committed yet
            continue
