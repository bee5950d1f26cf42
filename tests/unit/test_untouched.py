"""A database is thrown away for a start from the bucket only if nothing in it was ever acknowledged."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from streams_node.tiering.bootstrap import _untouched
from streams_node.wal.migrate import migrate

USED = {
    "a bucket was claimed": "UPDATE node SET value = 1 WHERE name = 'fence'",
    "a generation is known": "INSERT OR REPLACE INTO node (name, value) VALUES ('generation', 1)",
    "a bucket was made": "INSERT INTO buckets (id, name, created_us) VALUES (1, 'shop', 5)",
    "a stream was deleted": "INSERT INTO tombstones VALUES (1, 'a', 0, 1, 5)",
    "somebody subscribes": "INSERT INTO subscriptions (number, id, kind, lease_ms, digest, base, created_us, since_row)"
    " VALUES (7, 's', 'webhook', 1, '', '', 5, 0)",
}


@pytest.mark.parametrize("change", [None, *USED])
def test_what_is_untouched(tmp_path: Path, change: str | None) -> None:
    file = tmp_path / "streams.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        migrate(db)
        if change is not None:
            db.execute(USED[change])
    assert _untouched(file) is (change is None)


def test_what_cannot_be_read_is_not_untouched(tmp_path: Path) -> None:
    file = tmp_path / "streams.db"
    file.write_bytes(b"no database" * 100)
    assert not _untouched(file)
