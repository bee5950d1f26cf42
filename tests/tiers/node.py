"""A node with its tiers in this process, and the few things that tests of races and of failures do with it."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from streams_node.testing.inprocess import InProcess, in_process
from streams_node.tiering import Tiering
from tests.http.wire import Reply, ask
from tests.tiers.bucket import Bucket

JSON = {"content-type": "application/json"}
TEXT = {"content-type": "text/plain"}
PATIENCE_S = 30.0
SMALL: dict[str, Any] = {
    "flush_bytes": 64 << 10, "flush_bytes_max": 64 << 10, "publish_ms_min": 0, "publish_metadata_ms": 50,
    "compaction_packs": 2, "compaction_pause_ms": 0, "read_page_bytes": 2048, "disk_floor_bytes": 0,
    "request_ms_max": 60_000,
}  # fmt: skip


@asynccontextmanager
async def tiered(folder: Path, bucket: Bucket, **settings: Any) -> AsyncIterator[InProcess]:
    """Its stages run, its other duties only if asked for."""
    chosen = SMALL | bucket.settings | settings
    async with in_process(folder, tiers=True, store=bucket.connect, **chosen) as node:
        yield node


def tiers_of(node: InProcess) -> Tiering:
    return cast("Tiering", node.context.tiers)


async def until(holds: Callable[[], Awaitable[object] | object], what: str, seconds: float = PATIENCE_S) -> None:
    """Wait for something that the stages do by themselves."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                found = holds()
                if (await found) if isinstance(found, Awaitable) else found:
                    return
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not within {seconds} s: {what}") from None


async def rows(node: InProcess) -> int:
    """In the log."""
    return int(await value(node, "SELECT count(*) FROM log"))


async def value(node: InProcess, statement: str) -> Any:
    return await node.context.database.readers.run(lambda db: db.execute(statement).fetchone()[0])


async def objects(node: InProcess) -> list[tuple[str, str, int]]:
    """Made, kind and level of what the catalogue names."""

    def look(db: sqlite3.Connection) -> list[tuple[str, str, int]]:
        return db.execute("SELECT made, kind, level FROM objects WHERE dead_us IS NULL ORDER BY id").fetchall()

    return await node.context.database.readers.run(look)


async def publish(node: InProcess) -> None:
    """Everything up to now is in the bucket, and nothing of it in the log."""
    committer = node.context.ledger.committer
    await committer.settled()
    through = committer.committed_through
    async with asyncio.timeout(PATIENCE_S):
        await tiers_of(node).flush(through)
    await until(lambda: _released(node, through), "the log is released")


async def _released(node: InProcess, through: int) -> bool:
    return not await value(node, f"SELECT EXISTS (SELECT 1 FROM log WHERE row_id <= {int(through)})")  # noqa: S608


async def evict(node: InProcess) -> None:
    """Readers have nothing but the bucket."""
    tiers = tiers_of(node)
    assert tiers.cache is not None
    assert tiers.reader is not None
    for made in list(tiers.cache._shelf._copies):
        await tiers.cache.drop(made)
        tiers.reader.groups.drop(made)
        tiers.reader.directories.forget(made)


async def create(node: InProcess, path: str, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
    reply = await ask(node, "PUT", path, headers or JSON, body)
    assert reply.status == 201, reply


async def append(node: InProcess, path: str, *entries: object) -> str:
    reply = await ask(node, "POST", path, JSON, json.dumps(entries).encode())
    assert reply.status == 204, reply
    return reply.headers["stream-next-offset"]


async def page(node: InProcess, path: str, offset: str = "-1", **query: object) -> Reply:
    asked = "".join(f"&{name}={given}" for name, given in query.items())
    return await ask(node, "GET", f"{path}?offset={offset}{asked}")


async def walk(
    node: InProcess, path: str, between: Callable[[], Awaitable[object]] | None = None, **query: object
) -> list[Any]:
    """All entries of a JSON stream, page by page, with something done after each page."""
    found: list[Any] = []
    offset = "-1"
    while True:
        reply = await page(node, path, offset, **query)
        assert reply.status == 200, reply
        entries = json.loads(reply.body)
        found += entries
        offset = reply.headers["stream-next-offset"]
        if "stream-up-to-date" in reply.headers:
            return found
        assert entries, "an empty page in the middle of a stream"
        if between is not None:
            await between()


def error_of(reply: Reply) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(reply.body)["error"]
    return found
