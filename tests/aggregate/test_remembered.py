"""What is kept from one aggregation to the next: it is used, it is bounded, and it changes no answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from typing_extensions import override

from indexers.rollups import Rollups
from streams_node.searching.remembered import Kept, Piece, Question, Shelf, Window
from streams_node.testing.inprocess import InProcess
from tests.aggregate.drawn import HOUR, record
from tests.aggregate.test_oracle import Play
from tests.aggregate.world import SEARCH, T0, A, found, recount, shown
from tests.indexing.world import FakeDriver, append, create, indexed, on_loop, sealed
from tests.tiers.bucket import folder_bucket

QUESTIONS: tuple[dict[str, Any], ...] = (
    {"rollup": "req", "interval": "1m", "group_by": ["level", "status"]},
    {"rollup": "req", "interval": "1h", "q": "level:info OR status:503", "group_by": ["status"]},
    {"rollup": "all", "interval": "1m"},
)


class Again(Play):
    """The same questions all the time, of other stretches of time."""

    @override
    def wanted(self) -> dict[str, Any]:
        step = self.random.choice([HOUR, 60_000, 60_000, 1000])
        begin, end = sorted(self.random.sample(range(T0 - HOUR, T0 + 4 * HOUR, step), 2))
        return self.random.choice(QUESTIONS) | {"begin": begin, "to": end}


class Seen:
    """How often something was known, and looked up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.windows = self.pieces = self.decoded = 0
        window, piece, rows_in = Shelf.window, Shelf.piece, Rollups.rows_in

        def seen_window(shelf: Shelf, *args: Any) -> Window | None:
            known = window(shelf, *args)
            self.windows += known is not None
            return known

        def seen_piece(shelf: Shelf, *args: Any) -> Piece | None:
            known = piece(shelf, *args)
            self.pieces += known is not None
            return known

        def decoded(*args: Any) -> Any:
            self.decoded += 1
            return rows_in(*args)

        monkeypatch.setattr(Shelf, "window", seen_window)
        monkeypatch.setattr(Shelf, "piece", seen_piece)
        monkeypatch.setattr(Rollups, "rows_in", decoded)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_kept_changes_no_answer_at_any_stage(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    monkeypatch.setattr("streams_node.indexing.work.MERGED", 3)
    if seed == 2:  # rows of an answer that are in no piece
        monkeypatch.setattr("streams_node.searching.remembered._ROWS_MAX", 40)
    seen, play = Seen(monkeypatch), Again(random)

    async def run() -> None:
        async with indexed(tmp_path / "node", folder_bucket(tmp_path / "objects")) as node:
            await create(node, A, {"schema": True, "search": SEARCH})
            for _ in range(14):
                await play.step(node)
                await play.check(node)
                await play.check(node)
            await play.append(node, 40)  # all that was there may be trimmed
            await sealed(node)
            await FakeDriver(node).finish()
            for _ in range(4):
                await play.check(node)

    asyncio.run(run())
    assert play.used_rollups
    assert seen.windows
    assert seen.pieces


@on_loop
async def test_only_windows_with_new_entries_are_spelled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(1)
    entries = [record(random) for _ in range(300)]
    wanted: dict[str, Any] = QUESTIONS[0] | {"begin": T0, "to": T0 + 2 * HOUR}
    async with _filled(tmp_path, entries) as node:
        first = await found(node, **wanted)
        seen = Seen(monkeypatch)
        assert (await found(node, **wanted))["buckets"] == first["buckets"]
        assert seen.windows == len(first["buckets"]) > 20
        assert not seen.decoded
        fresh = [{"at": next(iter(shown(first)))[0], "level": "info", "status": 200, "ms": 1}]
        await append(node, A, fresh)
        seen.windows = 0
        view = await found(node, **wanted)
        assert shown(view) == recount(entries + fresh, wanted)
        assert seen.windows == len(first["buckets"]) - 1
        assert not seen.decoded


@on_loop
async def test_what_is_kept_is_bounded(tmp_path: Path) -> None:
    random = Random(2)
    async with _filled(tmp_path, [record(random) for _ in range(200)]) as node:
        kept = node.context.aggregates.kept
        for minutes in range(1, 4):
            for question in QUESTIONS:
                await found(node, **question, begin=T0, to=T0 + minutes * 60_000)
        assert 0 < kept.bytes == sum(shelf.size for shelf in kept._shelves.values())
        kept.bound(kept.bytes - 1)
        assert len(kept._shelves) == 2
        kept.bound(0)
        assert not kept.bytes
        view = await found(node, **QUESTIONS[0], begin=T0, to=T0 + HOUR)
        assert view["coverage"]["used_rollups"]
        assert not kept.bytes


def test_a_large_question_leaves_before_others_do() -> None:
    kept = Kept(100_000)
    small, large = (kept.shelf(Question(at, "", "r", 1000, None, (), ())) for at in range(2))
    small.keep_window(0, (0,), Window(b"x" * 100, 1))
    size, table = kept.bytes, pa.table({"start": pa.array(range(2000), pa.int64())})
    piece = large.keep_piece("made", 0, frozenset([1]), table, list(range(2000)), list(range(2001)))
    assert kept.bytes == size == small.size
    assert large.piece("made", 0, frozenset([1])) is piece  # whoever has it goes on
    assert kept.shelf(Question(0, "", "r", 1000, None, (), ())) is small
    assert kept.shelf(Question(1, "", "r", 1000, None, (), ())) is not large


@asynccontextmanager
async def _filled(tmp_path: Path, entries: list[Any]) -> AsyncIterator[InProcess]:
    """A node with these entries in its indexes, in objects of 50."""
    async with indexed(tmp_path / "node", folder_bucket(tmp_path / "objects")) as node:
        await create(node, A, {"schema": True, "search": SEARCH})
        for at in range(0, len(entries), 50):
            await append(node, A, entries[at : at + 50])
            await sealed(node)
        await FakeDriver(node).finish()
        yield node
