"""Which index objects are merged: sixteen that fit together are found among however many others."""

import sqlite3
from collections.abc import Iterator

import pytest

import sql
from streams_node.indexing.work import merges
from streams_node.wal.migrate import migrate

CONFIGS = 40
_INDEX = sql.queries("index")


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    db = sqlite3.connect(":memory:", isolation_level=None)
    migrate(db)
    yield db
    db.close()


class Table:
    """Index objects of level 0, one after the other."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.count = 0

    def add(self, family: str, config: str, rows: int = 1) -> str:
        self.count += 1
        made = f"{self.count:032x}"
        object_ = (made, family, 0, 1000, "", rows, 0, "", "{}", 1, 1)
        number = self._db.execute(_INDEX.insert_index_object, object_).fetchone()[0]
        row = (1, family, config, self.count, self.count + 1, number, 0, 1, 1, 1, 1, 0)
        self._db.execute(_INDEX.insert_cover, row)
        return made

    def merged(self) -> list[tuple[str, list[str]]]:
        found = merges(self._db, set(), 1 << 30, 1 << 30, 8)
        return [(each.family, [one.made for one in each.inputs]) for each in found]


def test_companions_of_many_configurations_do_not_hide_those_that_can_be_merged(database: sqlite3.Connection) -> None:
    """Round after round each configuration gets one more: 600 come before there are sixteen of any."""
    table = Table(database)
    rounds = [[table.add("companion", f"config-{each}") for each in range(CONFIGS)] for _ in range(15)]
    assert table.merged() == []
    last = table.add("companion", "config-7")
    assert table.merged() == [("companion", [*(each[7] for each in rounds), last])]


def test_runs_that_cover_too_much_do_not_hide_those_that_can_be_merged(database: sqlite3.Connection) -> None:
    table = Table(database)
    for _ in range(600):
        table.add("lexicon", "c")
    database.execute("UPDATE index_objects SET covers = 4000")  # as many as a merge may have
    fresh = [table.add("lexicon", "c") for _ in range(16)]
    assert table.merged() == [("lexicon", fresh)]


def test_of_sixteen_companions_those_are_merged_that_become_one_segment(database: sqlite3.Connection) -> None:
    table = Table(database)
    sizes = [40_000, 73_000] * 7 + [41_000, 36_000]
    made = [table.add("companion", "c", rows) for rows in sizes]
    small = [each for each, rows in zip(made, sizes, strict=True) if rows < 50_000]
    assert table.merged() == [("companion", small)]
    assert len(small) == 9


def test_companions_of_all_sizes_are_merged_all_the_same(database: sqlite3.Connection) -> None:
    table = Table(database)
    made = [table.add("companion", "c", 20_000 * 2**at) for at in range(9)]
    made += [table.add("companion", "c", rows) for rows in (1, 70, 10_000, 100, 1000, 5, 9)]
    assert table.merged() == [("companion", made)]
    made.append(table.add("companion", "c", 7_000))
    assert table.merged() == [("companion", made[:16])]


def test_what_is_left_of_sixteen_is_merged_with_the_next(database: sqlite3.Connection) -> None:
    table = Table(database)
    large = [table.add("companion", "c", 73_000) for _ in range(9)]
    small = [table.add("companion", "c", 40_000) for _ in range(7)]
    small += [table.add("companion", "c", 40_000) for _ in range(9)]
    assert table.merged() == [("companion", large), ("companion", small)]
    runs = [table.add("exact", "c", rows) for rows in [40_000, 73_000] * 8]
    assert ("exact", runs) in table.merged()
