"""The statements of `sql/mirror.sql`: they belong to a database of its own, so they are no room of `sql/queries`."""

from functools import cache
from importlib import resources
from types import SimpleNamespace


@cache
def mirror_layout() -> str:
    """The script that makes an empty mirror."""
    return _text().partition("-- name: ")[0]


@cache
def mirror_statements() -> SimpleNamespace:
    """The named statements, as attributes."""
    named = (block.split("\n", 1) for block in _text().split("-- name: ")[1:])
    return SimpleNamespace(**{name.strip(): _statement(body) for name, body in named})


def _text() -> str:
    return (resources.files("sql") / "mirror.sql").read_text("utf-8")


def _statement(body: str) -> str:
    lines = [line for line in body.splitlines() if not line.startswith("--")]
    return "\n".join(lines).strip().rstrip(";")
