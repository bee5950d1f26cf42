"""The connection that writes: what it costs to give up rows."""

import os
from pathlib import Path

import anyio
import pytest

import sql
from streams_node.wal.batch import Writes, commit
from streams_node.wal.checkpoint import truncate
from streams_node.wal.connection import open_writer
from streams_node.wal.migrate import migrate

ROWS = 40
LARGE = 64 << 10


@pytest.mark.parametrize("size", [LARGE, 300])
def test_rows_are_freed_without_writing_over_them(tmp_path: Path, size: int) -> None:
    """Whatever the SQLite of this machine was built to do."""

    async def main() -> int:
        writer = await open_writer(tmp_path / "streams.db", cache_bytes=1 << 20)
        try:
            await writer.run(migrate)
            writes = Writes(plain_rows=ROWS)
            for row in range(1, ROWS + 1):
                writes.rows += (row, 1, row, 1, row, row - 1, 0, row * size, 0, 1, 0, *[None] * 6, os.urandom(size))
            await writer.run(commit, writes)
            await writer.run(truncate)
            values = {"after": 0, "through": ROWS - 1}
            await writer.run(lambda db: db.execute(sql.queries("placement").release_rows, values).rowcount)
            assert await writer.run(lambda db: db.execute(sql.queries("log").log_size).fetchone()) == (1, ROWS)
            return (tmp_path / "streams.db-wal").stat().st_size
        finally:
            await writer.close()

    assert anyio.run(main) < max(64 << 10, ROWS * size // 20)
