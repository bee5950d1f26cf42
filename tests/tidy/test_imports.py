import re
import tomllib
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

from tests.tidy.conftest import ROOT

# Rooms that no layer holds, and why.
OUTSIDE_LAYERS = {
    "testing": "fakes and fixtures of every level; the contract `testing-stays-out` keeps it out of the server",
    "docs": "text",
    "ui": "text",
}


def test_imports_keep_their_direction(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    status = lint_imports(config_filename="pyproject.toml", no_cache=True)
    assert status == 0, capsys.readouterr().out


def test_every_room_of_the_server_has_a_layer() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["id"] == "layers")
    known = {room for layer in layers for room in re.findall(r"\w+", layer)}
    assert {_room(path) for path in (ROOT / "streams_node").iterdir()} - known - set(OUTSIDE_LAYERS) - {""} == set()


def _room(path: Path) -> str:
    """The name that an import would use; empty for what is no room."""
    return path.stem if not path.name.startswith(("_", ".")) and (path.is_dir() or path.suffix == ".py") else ""
