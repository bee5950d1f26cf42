"""Covers that are kept from one question to the next, while they change: nobody is told what was true before."""

import asyncio
import random
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from streams_node.indexing import covers as covers_module
from streams_node.indexing import known as known_module
from streams_node.indexing.known import KnownCovers
from streams_node.wal.database import Database
from tests.indexing.world import on_loop


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Database]:
    database, _ = await Database.open(folder / "streams.db", cache_bytes=8 << 20, reader_threads=2, read_queue_max=99)
    try:
        yield database
    finally:
        await database.close()


def put(db: sqlite3.Connection, stream: int, first: int) -> None:
    """An object that covers ten entries."""
    db.execute("BEGIN IMMEDIATE")
    made = f"{stream:016x}{first:016x}"
    (number,) = db.execute(
        "INSERT INTO index_objects (made, family, level, bytes, sum, rows, filter_bytes, filter_sum, sections,"
        " payload_bytes, made_us) VALUES (?, 'companion', 0, 1, '', 1, 0, '', '{}', 1, 1) RETURNING id",
        (made,),
    ).fetchone()
    db.execute(
        "INSERT INTO index_covers (stream, family, config, first_seq, end_seq, object, ordinal, entries, payload_bytes,"
        " min_ts, max_ts, skipped) VALUES (?, 'companion', 'c', ?, ?, ?, 0, 10, 1, 0, 0, 0)",
        (stream, first, first + 10, number),
    )
    db.execute("COMMIT")


def clear(db: sqlite3.Connection, stream: int) -> None:
    db.execute("DELETE FROM index_covers WHERE stream = ?", (stream,))


def firsts(covers: Any) -> list[int]:
    return [cover.first_seq for cover in covers]


@on_loop
async def test_what_is_known_is_what_a_look_would_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random changes and questions; so few are kept that answers leave all the time."""
    monkeypatch.setattr(known_module, "_COVERS_MAX", 60)
    draw, truth = random.Random(3), dict[int, list[int]]()
    async with opened(tmp_path) as database:
        known = KnownCovers(database)
        for step in range(600):
            stream = draw.randrange(1, 9)
            if draw.random() < 0.1:
                await known.change(clear, stream)
                truth[stream] = []
            elif draw.random() < 0.2:
                await known.change(put, stream, 10 * step)
                truth.setdefault(stream, []).append(10 * step)
            assert firsts(await known.of(stream, "companion", "c")) == truth.get(stream, [])
            assert firsts(await known.of(stream, "companion", "other")) == []
            assert known._kept <= 60
            assert known._kept == sum(len(each.covers) + 8 for each in known._answers.values())


@on_loop
async def test_nobody_looks_twice_for_what_has_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def counted(db: sqlite3.Connection, stream: int, *more: Any) -> Any:
        looks.append(stream)
        return covers_module.covers_of(db, stream, *more)

    monkeypatch.setattr(known_module, "covers_of", counted)
    async with opened(tmp_path) as database:
        known = KnownCovers(database)
        await known.change(put, 1, 0)
        for _ in range(5):
            assert firsts(await known.of(1, "companion", "c")) == [0]
        assert looks == [1]
        await known.change(put, 2, 0)  # one counter for all: a change is rare, and a look is cheap
        assert firsts(await known.of(1, "companion", "c")) == [0]
        assert looks == [1, 1]


@on_loop
async def test_a_change_counts_though_nobody_waits_for_it_any_more(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        known, goes_on = KnownCovers(database), threading.Event()

        def slow(db: sqlite3.Connection) -> None:
            goes_on.wait(20)
            put(db, 1, 0)

        change = asyncio.create_task(known.change(slow))
        await asyncio.sleep(0.05)
        change.cancel()
        with pytest.raises(asyncio.CancelledError):
            await change
        assert firsts(await known.of(1, "companion", "c")) == []  # as it is, and kept
        goes_on.set()
        await database.writer.run(lambda _: None)  # behind it
        assert firsts(await known.of(1, "companion", "c")) == [0]


@on_loop
async def test_what_was_read_while_it_changed_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader has its moment before the commit, and its answer arrives behind it."""
    has_read, may_end = threading.Event(), threading.Event()

    def stale(db: sqlite3.Connection, stream: int, *more: Any) -> Any:
        found = covers_module.covers_of(db, stream, *more)
        has_read.set()
        may_end.wait(20)
        return found

    async with opened(tmp_path) as database:
        known = KnownCovers(database)
        monkeypatch.setattr(known_module, "covers_of", stale)
        asked = asyncio.create_task(known.of(1, "companion", "c"))
        await asyncio.to_thread(has_read.wait, 20)
        await known.change(put, 1, 0)
        may_end.set()
        assert firsts(await asked) == []
        assert firsts(await known.of(1, "companion", "c")) == [0]


@on_loop
async def test_a_change_that_fails_counts_too(tmp_path: Path) -> None:
    """It may have failed behind its commit."""

    def fails(db: sqlite3.Connection) -> None:
        put(db, 1, 0)
        raise ValueError("behind it")

    async with opened(tmp_path) as database:
        known = KnownCovers(database)
        assert firsts(await known.of(1, "companion", "c")) == []
        with pytest.raises(ValueError, match="behind it"):
            await known.change(fails)
        assert firsts(await known.of(1, "companion", "c")) == [0]


@on_loop
async def test_a_stream_with_very_many_covers_does_not_drive_out_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_module, "_COVERS_MAX", 60)
    async with opened(tmp_path) as database:
        known = KnownCovers(database)
        for first in range(20):
            await known.change(put, 1, 10 * first)
        await known.change(put, 2, 0)
        for _ in range(3):
            assert len(await known.of(1, "companion", "c")) == 20
            assert firsts(await known.of(2, "companion", "c")) == [0]
        assert [key[0] for key in known._answers] == [2]
