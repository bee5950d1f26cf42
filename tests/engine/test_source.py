"""What a search knows of a view beyond its documents: from what its companions say, as far as that goes."""

import random
from pathlib import Path
from typing import Any

import pytest

from search.engine.source import Query, Source
from tests.engine.world import LAYOUT, built, random_records


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
