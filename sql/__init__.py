"""The SQL of the node: numbered migrations and named queries, and the few lines that load them.

Owns     `migrations/NNNN_what.sql` (forward only, never edited), `queries/<room>.sql`, `schema.sql` (a snapshot).
Keeps    no statement lives in Python: a test walks the tree for one, and prepares every query below.
"""

from functools import cache
from importlib import resources
from types import SimpleNamespace
from typing import NamedTuple


class Migration(NamedTuple):
    number: int
    name: str
    script: str


@cache
def queries(room: str) -> SimpleNamespace:
    """The named statements of `queries/<room>.sql` as attributes."""
    text = (resources.files(__name__) / "queries" / f"{room}.sql").read_text("utf-8")
    named = (block.split("\n", 1) for block in text.split("-- name: ")[1:])
    return SimpleNamespace(**{name.strip(): _statement(body) for name, body in named})


@cache
def repeated(statement: str, count: int) -> str:
    """The same statement with its one `VALUES (?, …)` group written `count` times: one statement is one transaction."""
    head, found, rest = statement.rpartition("VALUES (")
    group, closing, tail = rest.partition(")")
    if not found or not closing:
        raise ValueError("the statement has no VALUES group")
    return f"{head}VALUES {', '.join([f'({group})'] * count)}{tail}"


@cache
def migrations() -> tuple[Migration, ...]:
    """Every migration in the order in which it is applied."""
    folder = resources.files(__name__) / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple(Migration(int(name[:4]), name[5:-4], (folder / name).read_text("utf-8")) for name in names)


def _statement(body: str) -> str:
    lines = [line for line in body.splitlines() if not line.startswith("--")]
    return "\n".join(lines).strip().rstrip(";")
