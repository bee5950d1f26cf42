"""Brings a database to the newest layout, one numbered step a transaction."""

import sqlite3

import sql
from streams_node.errors import DataFolderError
from streams_node.testing.crashpoints import crash_point

_EMPTY_TABLES = 2  # what SQLite lists of a new database: its own two


def check_layout(db: sqlite3.Connection) -> None:
    """Refuse a database that this version cannot serve; nothing in it has been changed by then."""
    at: int = db.execute("PRAGMA user_version").fetchone()[0]
    newest = sql.migrations()[-1].number
    if at > newest:
        raise DataFolderError(f"it has layout {at}, this version knows {newest}; run the newer version that wrote it")
    if not at and db.execute("PRAGMA table_list").fetchall()[_EMPTY_TABLES:]:
        raise DataFolderError("it has tables and no layout number, so no node made it; choose another --data")


def migrate(db: sqlite3.Connection) -> int:
    """Apply what is missing; the layout number lives in `user_version`, set in the same transaction as its step."""
    check_layout(db)
    at: int = db.execute("PRAGMA user_version").fetchone()[0]
    newest = sql.migrations()[-1].number
    for step in sql.migrations():
        if step.number > at:
            db.executescript(f"BEGIN IMMEDIATE;\n{step.script}\nPRAGMA user_version = {step.number};")
            crash_point("migrate.inside")
            db.execute("COMMIT")
    return newest
