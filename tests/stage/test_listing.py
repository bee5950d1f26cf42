"""Pages of the list of all streams against a plain sorted list, while streams come, go, hide and end."""

import random
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sql
from streams_node.wal import listing, stretches
from streams_node.wal.listing import list_streams
from streams_node.wal.migrate import migrate
from streams_node.wal.stretches import STREAMS_MAX, STREAMS_TARGET, Place, find_place, tend, uneven

_BUCKETS, _STREAMS = sql.queries("buckets"), sql.queries("streams")
NOW_US = 1000
# Names that sort differently by bytes, by letters and by UTF-16; a bucket whose name is the beginning of another's.
BUCKETS = ("_default", "a", "aa", "Ä", "z", "\uffee", "\U0001f600")
STREAMS = ("0", "a", "a/b", "aa", "B", "ä", "\uffee", "\U0001f600", "~")
names = st.tuples(st.sampled_from(BUCKETS), st.sampled_from(STREAMS))
ends = st.sampled_from([None, NOW_US - 1, NOW_US, NOW_US + 1])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("create"), names, ends),
        st.tuples(st.just("delete"), names, st.none()),
        st.tuples(st.just("hide"), names, st.none()),
        st.tuples(st.just("tend"), st.none(), st.none()),
    ),
    max_size=120,
)


class Listed:
    """A database, and beside it what it should say: each stream's end and whether it is hidden."""

    def __init__(self, path: Path | str = ":memory:") -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        migrate(self.db)
        self.streams: dict[tuple[str, str], tuple[int | None, bool]] = {}
        self._ids = iter(range(1, 1 << 30))
        self._buckets: dict[str, int] = {}

    def create(self, name: tuple[str, str], dies_us: int | None = None) -> None:
        if name in self.streams:
            return
        stream, bucket = next(self._ids), self._bucket(name[0])
        values = (bucket, name[1], stream, "text/plain", 0, None, None, dies_us, 0)
        self.db.execute(_STREAMS.insert_stream, values)
        self.db.execute(_STREAMS.insert_head, (stream, 0))
        self.db.execute(_BUCKETS.count_streams, (1, bucket))
        self.streams[name] = dies_us, False

    def delete(self, name: tuple[str, str]) -> None:
        if self.streams.pop(name, None) is not None:
            self.db.execute(_STREAMS.delete_stream, (self._buckets[name[0]], name[1]))
            self.db.execute(_BUCKETS.count_streams, (-1, self._buckets[name[0]]))

    def hide(self, name: tuple[str, str]) -> None:
        """Or show again: what a deletion does to a stream with forks."""
        if name in self.streams:
            dies_us, hidden = self.streams[name]
            where = (int(not hidden), self._buckets[name[0]], name[1])
            self.db.execute("UPDATE streams SET soft_deleted = ? WHERE bucket = ? AND name = ?", where)
            self.streams[name] = dies_us, not hidden

    def plain(self) -> list[tuple[str, str]]:
        """The whole list as it should be."""
        shown = [name for name, (ends, hidden) in self.streams.items() if not hidden and (ends or NOW_US + 1) > NOW_US]
        return sorted(shown, key=lambda name: (name[0].encode(), name[1].encode()))

    def page(self, limit: int, offset: int) -> list[tuple[str, str]]:
        return [(entry.bucket, entry.name) for entry in list_streams(self.db, limit, offset, NOW_US)]

    def stretches(self) -> list[tuple[str, str, int]]:
        return self.db.execute(_BUCKETS.list_stretches).fetchall()

    def check(self, limits: tuple[int, ...] = (0, 1, 3, 100)) -> None:
        """Every page of it, and the counts that lead to them."""
        plain = self.plain()
        for offset in range(len(plain) + 2):
            for limit in limits:
                assert self.page(limit, offset) == plain[offset : offset + limit], (limit, offset)
        counted = sum(not hidden for _, hidden in self.streams.values())
        assert sum(streams for *_, streams in self.stretches()) == counted

    def _bucket(self, name: str) -> int:
        if name not in self._buckets:
            self._buckets[name] = len(self._buckets) + 1
            self.db.execute(_BUCKETS.insert_bucket, (self._buckets[name], name, 0))
        return self._buckets[name]


@pytest.fixture
def listed() -> Iterator[Listed]:
    one = Listed()
    with closing(one.db):
        yield one


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretches of a few streams, so that a few names have many of them."""
    for name, value in (("STREAMS_TARGET", 3), ("STREAMS_MAX", 5), ("_JOINED_MAX", 2), ("_CUTS", 2)):
        monkeypatch.setattr(stretches, name, value)


@pytest.mark.usefixtures("short")
@settings(deadline=None, max_examples=200)
@given(steps)
def test_a_page_is_that_part_of_the_plain_list_whatever_has_changed(
    steps: list[tuple[str, tuple[str, str], int | None]],
) -> None:
    listed = Listed()
    with closing(listed.db):
        for what, name, ends in steps:
            match what:
                case "create":
                    listed.create(name, ends)
                case "tend":
                    tend(listed.db)
                case _:
                    getattr(listed, what)(name)
        listed.check()
        while uneven(listed.db):
            tend(listed.db)
        listed.check()


@pytest.mark.usefixtures("short")
def test_stretches_stay_short_and_few_while_names_come_and_go(listed: Listed) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}", file=sys.stderr)  # noqa: T201 - shown with a failure
    choice = random.Random(seed)
    alive: list[tuple[str, str]] = []
    for round_index in range(30):
        fresh = [(choice.choice(BUCKETS), f"{round_index:02d}-{at:02d}") for at in range(choice.randrange(40))]
        for name in fresh:
            listed.create(name)
        alive += fresh
        choice.shuffle(alive)
        for name in alive[len(alive) // 3 :] if round_index % 5 == 4 else ():
            listed.delete(name)
        del alive[len(alive) // 3 if round_index % 5 == 4 else len(alive) :]
        while uneven(listed.db):
            tend(listed.db)
        listed.check(limits=(2,))
        lengths = [streams for *_, streams in listed.stretches()]
        assert max(lengths) <= stretches.STREAMS_MAX
        assert all(one + next_one > stretches._JOINED_MAX for one, next_one in pairwise(lengths))
    for name in alive:
        listed.delete(name)
    while uneven(listed.db):
        tend(listed.db)
    assert listed.stretches() == [("", "", 0)]


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("broken", [("", 1), ("", -1), ("~", 0)], ids=["more", "fewer", "elsewhere"])
def test_the_comparison_notices_a_stretch_that_is_wrong(listed: Listed, broken: tuple[str, int]) -> None:
    for at in range(20):
        listed.create(("a", f"{at:02d}"))
    while uneven(listed.db):
        tend(listed.db)
    listed.check()
    third = listed.stretches()[2][1]
    listed.db.execute("UPDATE stretches SET name = name || ?, streams = streams + ? WHERE name = ?", (*broken, third))
    with pytest.raises(AssertionError):
        listed.check()


def test_a_page_walks_through_one_stretch_at_most(listed: Listed) -> None:
    """However deep it lies; a list that came to the table all at once is cut in slices."""
    count = 5 * STREAMS_MAX
    listed.db.execute("BEGIN")
    for at in range(count):
        listed.create(("a" if at % 2 else "b", f"{at:06d}"))
    listed.db.execute("COMMIT")
    while uneven(listed.db):
        tend(listed.db)
    assert len(listed.stretches()) >= count // STREAMS_MAX
    plain = listed.plain()
    for offset in (0, 1, STREAMS_TARGET, count // 2 - 1, count // 2, count - 1):
        place = find_place(listed.db, offset, NOW_US)
        assert place is not None
        assert place.skip < STREAMS_MAX
        assert listed.page(2, offset) == plain[offset : offset + 2]
    assert find_place(listed.db, count, NOW_US) is None


@settings(deadline=None, max_examples=300)
@given(
    st.sets(
        st.text(st.sampled_from("ab~Ä\ud7ff\ue000\uffee\U0001f600\U0010ffff"), min_size=1, max_size=3), max_size=30
    ),
    st.text(st.sampled_from("ab\ud7ff\U0010ffff"), max_size=2),
    st.text(st.sampled_from("ab~\ue000\U0010ffff"), max_size=2),
    st.integers(1, 6),
)
def test_a_page_of_a_bucket_is_that_part_of_its_plain_list(
    there: set[str], prefix: str, after: str, limit: int
) -> None:
    listed = Listed()
    with closing(listed.db):
        for name in there:
            listed.create(("a", name))
            listed.create(("b", name))
        page = listing.list_bucket(listed.db, 1, prefix, after, limit, NOW_US)
        plain = sorted((name for name in there if name.startswith(prefix)), key=str.encode)
        expected = [name for name in plain if name.encode() > after.encode()][:limit]
        assert [entry.name for entry in page] == expected


def test_a_page_of_a_bucket_walks_through_its_own_streams_only(listed: Listed) -> None:
    """However many are before its prefix, and behind it."""
    listed.db.execute("BEGIN")
    for at in range(5000):
        listed.create(("a", f"{at:04d}"))
    listed.db.execute("COMMIT")
    spent = 0

    def count() -> None:
        nonlocal spent
        spent += 1

    def steps(prefix: str, after: str) -> int:
        nonlocal spent
        spent = 0
        listing.list_bucket(listed.db, 1, prefix, after, 10, NOW_US)
        return spent

    listed.db.set_progress_handler(count, 10)
    first = steps("", "")
    assert 0 < first < 100
    for prefix, after in (("", "4980"), ("49", ""), ("4999", ""), ("0", "0500"), ("zzz", ""), ("2", "1"), ("2", "3")):
        assert steps(prefix, after) <= first + 2, (prefix, after)


def test_place_and_page_are_of_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = Listed(tmp_path / "streams.db")
    for name in "abcd":
        listed.create(("x", name))
    with closing(listed.db), closing(sqlite3.connect(tmp_path / "streams.db", isolation_level=None)) as reader:

        def overtaken(db: sqlite3.Connection, offset: int, now_us: int) -> Place | None:
            place = find_place(db, offset, now_us)
            listed.delete(("x", "a"))
            return place

        monkeypatch.setattr(listing, "find_place", overtaken)
        assert [entry.name for entry in list_streams(reader, 2, 1, NOW_US)] == ["b", "c"]
        monkeypatch.undo()
        assert [entry.name for entry in list_streams(reader, 2, 1, NOW_US)] == ["c", "d"]


def test_a_database_from_before_stretches_has_all_its_streams_in_one() -> None:
    fresh = sqlite3.connect(":memory:", isolation_level=None)
    with closing(fresh):
        fresh.executescript(sql.migrations()[0].script + "PRAGMA user_version = 1;")
        fresh.execute(_BUCKETS.insert_bucket, (1, "a", 0))
        fresh.execute(_BUCKETS.count_streams, (7, 1))
        for at in range(7):
            fresh.execute(_STREAMS.insert_stream, (1, str(at), at + 1, "text/plain", 0, None, None, None, 0))
            fresh.execute(_STREAMS.insert_head, (at + 1, 0))
        migrate(fresh)
        assert fresh.execute(_BUCKETS.list_stretches).fetchall() == [("", "", 7)]
        assert [entry.name for entry in list_streams(fresh, 3, 5, NOW_US)] == ["5", "6"]
