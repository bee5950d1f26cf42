"""Brings a database to the newest layout, one numbered step a transaction."""

import sqlite3

import sql
from streams_node.errors import DataFolderError
from streams_node.testing.crashpoints import crash_point


def migrate(db: sqlite3.Connection) -> int:
    """Apply what is missing; the layout number lives in `user_version`, set in the same transaction as its step."""
    at: int = db.execute("PRAGMA user_version").fetchone()[0]
    newest = sql.migrations()[-1].number
    if at > newest:
        raise DataFolderError(
            f"the database has layout {at}, this version knows {newest}; run the newer version that wrote it"
        )
    for step in sql.migrations():
        if step.number > at:
            db.executescript(f"BEGIN IMMEDIATE;\n{step.script}\nPRAGMA user_version = {step.number};")
            crash_point("migrate.inside")
            db.execute("COMMIT")
    return newest
