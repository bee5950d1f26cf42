import ast
import re
from collections.abc import Iterator, Mapping

import pytest

# Upper case is SQL wherever it stands at the start of a string, unless a path follows: `DELETE /v1/...` is a request.
# In lower case only whole shapes are SQL, because `select` and `update` are English, too.
STATEMENT = re.compile(
    r"""\s*(?:
      (?:SELECT|INSERT|UPDATE|DELETE|CREATE|WITH)\s+(?![/<{]|https?:)\S
    | (?i: select\s.+\sfrom\s+\w
         | insert\s+(?:or\s+\w+\s+)?into\s
         | update\s+\w+\s+set\s
         | delete\s+from\s
         | create\s+(?:\w+\s+)?(?:table|index|view|trigger)\s+(?:if\s+not\s+exists\s+)?\w+\s*(?:on|as|\() )
    )""",
    re.VERBOSE | re.DOTALL,
)


def test_sql_lives_in_the_sql_room(python_files: Mapping[str, str]) -> None:
    rooms = {name: text for name, text in python_files.items() if not name.startswith(("sql/", "tests/"))}
    assert [f"{name}:{line}" for name, text in rooms.items() for line in statements(text)] == []


@pytest.mark.parametrize(
    "code",
    [
        'x = "SELECT 1"',
        'x = f"INSERT INTO {table} VALUES (1)"',
        'x = """\n  WITH tail AS (SELECT 1)"""',
        'x = "delete from log where row_id < :row_id"',
    ],
)
def test_a_statement_is_seen(code: str) -> None:
    assert list(statements(code)) != []


@pytest.mark.parametrize(
    "code",
    ['"""SELECT in a docstring is talk."""', 'x = "DELETE"', 'x = f"DELETE {path}"', 'x = "select a stream"'],
)
def test_talk_is_no_statement(code: str) -> None:
    assert list(statements(code)) == []


def statements(code: str) -> Iterator[int]:
    """Lines of string literals that begin like a statement; docstrings and other bare strings are talk."""
    module = ast.parse(code)
    talk = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in talk:
            yield from [node.lineno] if STATEMENT.match(node.value) else []
