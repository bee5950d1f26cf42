"""aiosqlite, wrapped: a connection lives on one thread, and a whole function runs there in one hop.

aiosqlite's public calls hop once a statement. A group commit is one function and wants one hop (measured: 40 % more
appends a second), so this file, and only this file, uses `Connection._execute`, the primitive that all of them share.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

import aiosqlite

P = ParamSpec("P")
T = TypeVar("T")
_PAGE_BYTES = 4096  # larger pages gained nothing at 200 B rows and had a worse tail at 64 KB
_STATEMENTS_CACHED = 1024  # the multi-row insert has one text per batch size
_BUSY_S = 5.0


class Connection:
    """One SQLite connection on its own thread. `begun` numbers its work; `changed` is the newest that changed rows."""

    def __init__(self, inner: aiosqlite.Connection) -> None:
        self._inner = inner
        self.begun = 0
        self.changed = 0

    async def run(self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work(connection, …)` on the connection's thread, in the order of the calls."""
        inner = self._inner
        execute: Any = inner._execute  # noqa: SLF001 - see above
        result: T = await execute(self._counted, inner._conn, work, *args, **kwargs)  # noqa: SLF001 - see above
        return result

    def _counted(
        self,
        db: sqlite3.Connection,
        work: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """On the connection's thread: checkpoint.py must know what began and ended there, in that order."""
        self.begun = number = self.begun + 1
        before = db.total_changes
        result = work(db, *args, **kwargs)
        if db.total_changes != before:
            self.changed = number
        return result

    async def close(self) -> None:
        await self._inner.close()


async def open_writer(
    path: Path, *, cache_bytes: int, check: Callable[[sqlite3.Connection], None] = lambda _: None
) -> Connection:
    """The one connection that writes. FULL: a commit returns after its fsync, which is what an answer promises.

    `check` sees the database before anything about it is changed, be it only its journal.
    """

    def prepare(db: sqlite3.Connection, cache_bytes: int) -> None:
        check(db)
        _prepare_writer(db, cache_bytes)

    inner = await aiosqlite.connect(path, isolation_level=None, cached_statements=_STATEMENTS_CACHED, timeout=_BUSY_S)
    return await _prepared(Connection(inner), prepare, cache_bytes)


async def open_reader(path: Path, *, cache_bytes: int) -> Connection:
    """A connection that cannot write."""
    uri = f"file:{quote(str(path))}?mode=ro"
    inner = await aiosqlite.connect(uri, uri=True, isolation_level=None, cached_statements=256, timeout=_BUSY_S)
    return await _prepared(Connection(inner), _prepare_reader, cache_bytes)


async def _prepared(
    connection: Connection, prepare: Callable[[sqlite3.Connection, int], None], cache_bytes: int
) -> Connection:
    """Closed if it cannot be used: its thread would keep the process alive."""
    try:
        await connection.run(prepare, cache_bytes)
    except BaseException:
        await connection.close()
        raise
    return connection


def _prepare_writer(db: sqlite3.Connection, cache_bytes: int) -> None:
    pragmas: dict[str, Any] = {
        "page_size": _PAGE_BYTES,
        "auto_vacuum": "INCREMENTAL",  # stands before the first table; freed pages go back to the disk in slices
        "journal_mode": "WAL",
        "synchronous": "FULL",
        "cache_size": -(cache_bytes >> 10),
        "temp_store": "MEMORY",
        "wal_autocheckpoint": 0,  # checkpoints run off the commit path, see checkpoint.py
        "trusted_schema": "OFF",
        "cell_size_check": "ON",
        "secure_delete": "OFF",  # Debian's SQLite would write zeros over every page that is freed (decisions/0002)
    }
    for name, value in pragmas.items():
        db.execute(f"PRAGMA {name} = {value}")


def _prepare_reader(db: sqlite3.Connection, cache_bytes: int) -> None:
    for pragma in (f"cache_size = {-(cache_bytes >> 10)}", "query_only = ON", "trusted_schema = OFF"):
        db.execute(f"PRAGMA {pragma}")
