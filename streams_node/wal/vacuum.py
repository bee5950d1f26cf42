"""Gives free pages of the database file back to the disk."""

import sqlite3


def give_back(db: sqlite3.Connection, pages: int) -> None:
    """So many free pages at most; on the writer's thread, outside of a transaction.

    Not by `execute`: the pragma is a statement that yields a row without columns for each page, and `execute` stops at
    the first one, whatever is fetched, so that each call gave one page back.
    """
    db.executescript(f"PRAGMA incremental_vacuum({pages})")
