import re
from collections.abc import Mapping
from pathlib import Path

from tests.tidy.conftest import ROOT

LINES_MAX = 600  # the style asks for 100 to 250; beyond this a file surely has a second room in it
# A package client finds its registry in its own settings. An address in the tree would bind everybody to one.
REGISTRY_ADDRESS = re.compile(
    r"""
      "resolved"\s*:\s*"\w+:/             # an npm lock with download addresses
    | --(?:extra-)?index[-]url | ^index[-]url # pip
    | registry\s*[=:]\s*["']?https?:/     # npm, cargo
    | https?://[^\s/"'<>)]*(?:registry|pypi|pythonhosted|npmjs|crates|maven|goproxy|debian)[^\s/"'<>)]*
    | https?://[^\s"'<>)]+\.(?:whl|tar\.gz|tgz|deb|jar|crate)\b
    """,
    re.VERBOSE | re.MULTILINE,
)
SOMEBODYS_PATH = re.compile(r"(?<![\w.~/-])/(?:home|root|Users|work)/[\w.-]")


def test_no_python_file_is_longer_than_the_limit(python_files: Mapping[str, str]) -> None:
    sizes = {name: text.count("\n") for name, text in python_files.items()}
    assert {name: size for name, size in sizes.items() if size > LINES_MAX} == {}


def test_no_file_names_a_package_registry(tree: Mapping[str, str]) -> None:
    assert _found(REGISTRY_ADDRESS, tree) == []


def test_no_file_names_a_path_of_somebodys_machine(tree: Mapping[str, str]) -> None:
    here = re.compile("|".join(re.escape(f"{path}/") for path in (ROOT, Path.home()) if len(path.parts) > 1))
    assert _found(SOMEBODYS_PATH, tree) + _found(here, tree) == []


def _found(pattern: re.Pattern[str], tree: Mapping[str, str]) -> list[str]:
    return [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match.group()}"
        for name, text in tree.items()
        if name != "tests/tidy/test_files.py"  # the patterns above
        for match in pattern.finditer(text)
    ]
