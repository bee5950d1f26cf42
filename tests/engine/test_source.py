"""What a search knows of a view beyond its documents: from what its companions say, as far as that goes."""

import random
from pathlib import Path
from typing import Any

import pytest

from indexers.companion import View, zones
from indexers.companion.layout import ROW
from search.engine import Entry
from search.engine import source as source_module
from search.engine.source import Query, Source
from tests.engine.world import CONFIG, LAYOUT, STREAM, built, pack, random_records


@pytest.mark.parametrize("seed", range(20))
def test_full_and_single_columns_are_those_that_counting_finds(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    world = built(tmp_path / "world", random_records(draw), draw)
    for view in world.views:
        source = Source(view, LAYOUT)
        for columns in LAYOUT.columns:
            if columns.fast:
                having = source.count(Query.exists_query(columns.column))
                counted = source.searcher.aggregate(
                    Query.all_query(), {"n": {"value_count": {"field": columns.column}}}
                )
                assert source.full(columns) == (having == source.docs), columns.field.name
                assert source.single(columns) == (int(counted["n"]["value"]) == having), columns.field.name


def test_what_companions_say_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every entry a view may be a new one."""
    draw = random.Random(1)
    records = [{"eventTime": 1000 * at, "status": [at, at + 1], "dur": at or None} for at in range(40)]
    world = built(tmp_path / "world", records, draw)
    while not world.packs or {each.directory.covers[0].stream for each in world.packs} != {7}:
        world = built(tmp_path / f"world-{draw.random()}", records, draw)
    (view,) = world.views
    counts, count = list[Any](), Source.count

    def noted(self: Source, query: Any) -> int:
        counts.append(query)
        return count(self, query)

    monkeypatch.setattr(Source, "count", noted)
    source = Source(view, LAYOUT)
    assert source.full(LAYOUT.of("eventTime"))
    assert source.single(LAYOUT.of("eventTime"))
    assert not counts
    assert not source.full(LAYOUT.of("dur"))
    assert not source.single(LAYOUT.of("status"))
    assert counts


def test_one_companion_is_looked_at_by_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("BLOCK_BITS", 3), ("ENTRIES_MIN", 10)):
        monkeypatch.setattr(zones, name, value)
    monkeypatch.setattr(zones, "_RUN_MIN", 1)
    entries = [Entry(seq, seq, {"status": 400 + seq, "dur": (-seq) / 3}) for seq in range(5, 205)]
    source = Source(View([pack(tmp_path, STREAM, entries)], tmp_path / "view"), LAYOUT)
    for name, descending, spans in (
        ("status", True, [(192, 200), (200, 205)]), ("status", False, [(5, 8), (8, 16)]),
        ("dur", False, [(192, 200), (200, 205)]), ("dur", True, [(5, 8), (8, 16)]),
    ):  # fmt: skip
        found = source.foremost(CONFIG.fields[name], STREAM, 10, descending=descending)
        assert found is not None
        assert sorted(found.spans) == spans
        assert found.entries == sum(end - first for first, end in spans)
    found = source.foremost(None, STREAM, 10, descending=True)
    assert found is not None
    assert sorted(found.spans) == [(192, 200), (200, 205)]


def test_where_blocks_are_in_no_order_companions_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came from many at a time, say."""
    for name, value in (("BLOCK_BITS", 1), ("ENTRIES_MIN", 10), ("_RUN_MIN", 1)):
        monkeypatch.setattr(zones, name, value)
    packs = []
    for first in (0, 200, 400):
        values = [first + 199 * (at % 2) for at in range(200)]
        entries = [Entry(first + at, first + at, {"status": value}) for at, value in enumerate(values)]
        packs.append(pack(tmp_path, STREAM, entries))
    source = Source(View(packs, tmp_path / "view"), LAYOUT)
    found = source.foremost(CONFIG.fields["status"], STREAM, 150, descending=True)
    assert found is not None
    assert list(found.spans) == [(400, 600)]


@pytest.mark.parametrize("most", [1, 4, 1000])
def test_rows_are_those_asked_for(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zones, "BLOCK_BITS", 3)
    monkeypatch.setattr(source_module, "_BLOCKS_MAX", most)
    packs = [
        pack(tmp_path, STREAM, [Entry(seq, seq, {"status": seq}) for seq in range(first, end)])
        for first, end in ((3, 40), (40, 41), (41, 100))
    ]
    source = Source(View(packs, tmp_path / "view"), LAYOUT)
    draw = random.Random(3)
    edges = [0, 3, 7, 8, 15, 16, 39, 40, 63, 64, 99, 2**64 - 1]
    for _ in range(200):
        first, last = (draw.choice([*edges, draw.randrange(110)]) for _ in range(2))
        hits = source.searcher.search(
            source.rows_query(first - draw.choice([0, 0, 200]) * (first == 0), last), 200
        ).hits
        found = sorted(int(row) for row in source.values(ROW, [address for _, address in hits]))
        assert found == [row for row in range(3, 100) if first <= row <= last]


def test_documents_of_one_score_come_in_the_order_of_their_places(tmp_path: Path) -> None:
    """How many there are is guessed by that: if others came first, pages would be slower, and not wrong."""
    packs = [
        pack(tmp_path, STREAM, [Entry(seq, seq, {"message": "card" if seq % 3 else "other"}) for seq in range(at, end)])
        for at, end in ((0, 500), (500, 600), (600, 1100))
    ]
    source = Source(View(packs, tmp_path / "view"), LAYOUT)
    query = Query.term_query(source.schema, LAYOUT.of("message").column, "card", "freq")
    for size in (10, 400, 700):
        found = source.searcher.search(query, limit=size, count=False).hits
        assert len({score for score, _ in found}) == 1
        assert [source.place_of(address) for _, address in found] == [at for at in range(1100) if at % 3][:size]


def test_blocks_hold_all_rows_that_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zones, "BLOCK_BITS", 3)
    entries = [Entry(seq, seq, {"status": seq}) for seq in range(5, 60)]
    source = Source(View([pack(tmp_path, STREAM, entries)], tmp_path / "view"), LAYOUT)
    for first, last, rows in (
        (20, 20, range(16, 24)),
        (5, 9, range(5, 16)),
        (-3, 70, range(5, 60)),
        (57, 59, range(56, 60)),
    ):
        hits = source.searcher.search(source.blocks_query(first, last), limit=100).hits
        assert sorted(source.values(ROW, [address for _, address in hits])) == list(rows)
