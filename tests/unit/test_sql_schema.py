"""Migrations: numbered without gaps, applied once, and shown to readers as they are."""

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import sql
from ops.schema import SNAPSHOT, dump
from streams_node.errors import DataFolderError
from streams_node.wal.migrate import migrate

FOLDER = Path(sql.__file__).parent / "migrations"


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    yield connection
    connection.close()


def layout(database: sqlite3.Connection) -> list[str]:
    return list(database.iterdump())


def test_migrations_are_numbered_without_gaps() -> None:
    names = sorted(path.name for path in FOLDER.iterdir() if path.suffix == ".sql")
    assert all(re.fullmatch(r"\d{4}_[a-z0-9_]+\.sql", name) for name in names)
    assert [migration.number for migration in sql.migrations()] == list(range(1, len(names) + 1))


def test_a_new_database_has_the_newest_layout(database: sqlite3.Connection) -> None:
    newest = sql.migrations()[-1].number
    assert migrate(database) == newest
    assert database.execute("PRAGMA user_version").fetchone() == (newest,)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_migrating_again_changes_nothing(database: sqlite3.Connection) -> None:
    migrate(database)
    before = layout(database)
    migrate(database)
    assert layout(database) == before


def test_a_database_of_a_newer_version_is_refused_and_left_alone(database: sqlite3.Connection) -> None:
    migrate(database)
    database.execute("PRAGMA user_version = 9999")
    before = layout(database)
    with pytest.raises(DataFolderError, match="9999"):
        migrate(database)
    assert layout(database) == before


def test_every_table_is_strict(database: sqlite3.Connection) -> None:
    migrate(database)
    tables = [row for row in database.execute("PRAGMA table_list") if not row[1].startswith("sqlite_")]
    assert len(tables) > 5
    assert [row[1] for row in tables if row[2] == "table" and not row[5]] == []


def test_the_snapshot_shows_the_migrated_database() -> None:
    assert SNAPSHOT.read_text("utf-8") == dump(), "run `python -m ops.schema`"
