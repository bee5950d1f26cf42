import sqlite3
from contextlib import closing
from pathlib import Path

from streams_node.wal.vacuum import give_back


def free_pages(db: sqlite3.Connection) -> int:
    found: int = db.execute("PRAGMA freelist_count").fetchone()[0]
    return found


def test_pages_go_back_in_the_number_that_is_asked_for(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as db:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, payload BLOB)")
        db.executemany("INSERT INTO t (payload) VALUES (?)", [(b"x" * 40_000,)] * 50)
        db.execute("DELETE FROM t")
        free = free_pages(db)
        give_back(db, 100)
        assert free_pages(db) == free - 100
        give_back(db, 10_000)
        assert free_pages(db) == 0
        give_back(db, 1)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert (tmp_path / "x.db").stat().st_size < 100_000
