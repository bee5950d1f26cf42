"""Every statement prepares on a new database, and the hot ones find their rows without looking at others."""

import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import sql
from streams_node.wal.batch import COLUMNS, ROWS_PER_STATEMENT
from streams_node.wal.lookup import NAMES_PER_STATEMENT
from streams_node.wal.migrate import migrate

ROOMS = sorted(path.stem for path in (Path(sql.__file__).parent / "queries").glob("*.sql"))
STATEMENTS = [(room, name) for room in ROOMS for name in vars(sql.queries(room))]
NAMED = re.compile(r"[:@$][a-z_]+\b")
# Asked once at a start, or by a person: these may look at everything. No other statement may, but for the stretches of
# the list of streams, which are a thousandth of the streams.
RARE = {"last_stream_id", "log_size", "next_graves", "list_stretches", "long_stretch", "short_stretches", "all_live"}
RARE |= {"all_subscriptions", "explicit_links", "buried_subscriptions"}
RARE |= {"stuck", "failures", "keep_failures"}  # rows of faults
RARE |= {"packs_of", "node_values", "newest_change", "unpublished", "any_unpublished"}
PROMISED = {"load_streams", "find_by_seq", "find_by_position", "walk_rows", "scan_rows", "list_bucket", "ended_streams"}
# The walk itself, the request itself, a row of values.
SMALL = {"hop", "wanted", "w", "page", "CONSTANT"}


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    yield connection
    connection.close()


def values(statement: str) -> tuple[None, ...] | defaultdict[str, None]:
    """As many NULLs as the statement has parameters: by position or by name, never both."""
    named, positions = NAMED.findall(statement), statement.count("?")
    assert not (named and positions), "a statement takes its values by name or by position"
    return defaultdict(lambda: None) if named else (None,) * positions


def plan(database: sqlite3.Connection, statement: str) -> list[str]:
    return [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {statement}", values(statement))]


def statement_of(name: str) -> str:
    found = [getattr(sql.queries(room), name) for room in ROOMS if hasattr(sql.queries(room), name)]
    assert len(found) == 1, f"`{name}` is there {len(found)} times"
    return str(found[0])


@pytest.mark.parametrize(("room", "name"), STATEMENTS)
def test_a_statement_prepares(database: sqlite3.Connection, room: str, name: str) -> None:
    statement = getattr(sql.queries(room), name)
    assert database.execute(f"EXPLAIN {statement}", values(statement)).fetchone()
    assert plan(database, statement) is not None


@pytest.mark.parametrize(
    ("name", "count"), [("append_rows", ROWS_PER_STATEMENT), ("load_streams", NAMES_PER_STATEMENT)]
)
def test_a_repeated_statement_prepares_at_its_largest(database: sqlite3.Connection, name: str, count: int) -> None:
    statement = sql.repeated(statement_of(name), count)
    assert database.execute(f"EXPLAIN {statement}", values(statement)).fetchone()


def test_a_log_row_has_as_many_values_as_columns() -> None:
    assert statement_of("append_rows").count("?") == COLUMNS


@pytest.mark.parametrize("name", sorted({name for _, name in STATEMENTS} - RARE | PROMISED))
def test_a_statement_looks_at_its_own_rows_only(database: sqlite3.Connection, name: str) -> None:
    steps = plan(database, statement_of(name))
    assert {step.split()[1] for step in steps if step.startswith("SCAN ")} - SMALL == set(), steps


@pytest.mark.parametrize(
    "name", ["list_bucket", "list_streams", "name_after", "ended_streams", "scan_rows", "rows_after"]
)
def test_an_ordered_page_is_read_in_its_order(database: sqlite3.Connection, name: str) -> None:
    assert [step for step in plan(database, statement_of(name)) if "TEMP B-TREE" in step] == []


def test_a_stream_is_found_by_its_name_and_an_end_by_its_time(database: sqlite3.Connection) -> None:
    found = "\n".join(plan(database, statement_of("load_streams")))
    assert "(bucket=? AND name=?)" in found
    assert "streams_by_end" in "\n".join(plan(database, statement_of("ended_streams")))


def test_the_stretch_of_a_name_is_found_by_one_descent(database: sqlite3.Connection) -> None:
    """By its bucket alone it would be a walk through a thousand stretches, and for each ended stream."""
    assert "SEARCH u USING PRIMARY KEY (bucket=? AND name<?)" in plan(database, statement_of("count_ended"))
    assert "SEARCH t USING PRIMARY KEY ((bucket,name)<(?,?))" in plan(database, statement_of("lengthen_stretch"))


@pytest.mark.parametrize("room", ROOMS)
def test_every_statement_says_what_it_is_for(room: str) -> None:
    text = (Path(sql.__file__).parent / "queries" / f"{room}.sql").read_text("utf-8")
    for block in text.split("-- name: ")[1:]:
        name, purpose, *_ = block.splitlines()
        assert re.fullmatch(r"[a-z][a-z_]*", name.strip()), name
        assert re.fullmatch(r"-- [A-Z].*[.:;,\w]", purpose), f"`{name}` has no sentence of purpose"


def test_no_two_statements_share_a_name() -> None:
    names = [name for _, name in STATEMENTS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("statement", "count", "repeated"),
    [
        ("INSERT INTO t VALUES (?, ?)", 2, "INSERT INTO t VALUES (?, ?), (?, ?)"),
        ("WITH w AS (VALUES (?)) x", 3, "WITH w AS (VALUES (?), (?), (?)) x"),
    ],
)
def test_a_values_group_is_repeated(statement: str, count: int, repeated: str) -> None:
    assert sql.repeated(statement, count) == repeated


def test_a_statement_without_a_group_can_not_be_repeated() -> None:
    with pytest.raises(ValueError, match="VALUES"):
        sql.repeated("UPDATE t SET a = ?", 2)
