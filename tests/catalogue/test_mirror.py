"""The mirror stands for exactly one generation, whatever is done to it, and a snapshot says all that it says."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import sql
from streams_node.errors import CatalogueError
from streams_node.manifest import End, Producer, Unknown, compose, feed, local, snapshots
from streams_node.manifest.dump import dump
from streams_node.manifest.feed import MIRROR, clear, delta_file, keep, peek
from streams_node.manifest.mirror import command_apply
from streams_node.manifest.records import INDEX_PART, encode_all
from streams_node.manifest.snapshots import fetch_index, fetch_part, put_snapshot
from streams_node.manifest.statements import mirror_layout, mirror_statements
from streams_node.manifest.tables import MirrorBroken, apply, at, load_snapshot, open_mirror
from streams_node.objects import FaultyStore, Generation
from streams_node.objects.keys import generation_key, snapshot_key
from streams_node.wal.migrate import migrate
from tests.catalogue.world import World, facts_of, header

TABLES = ("state", "buckets", "streams", "tombstones", "ends", "producers", "objects", "facts", "orphans")


def contents(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(path)) as db:
        found = {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES[1:]}  # noqa: S608 - own words
    return {table: sorted(rows, key=repr) for table, rows in found.items()}


@pytest.fixture
def busy(world: World) -> World:
    """Three generations of everything."""
    bucket = world.bucket("b")
    streams = [world.create(bucket, name) for name in ("one", "two", "three")]
    world.append(streams[0], 3, "p")
    world.append(streams[1], 5, close=True)
    world.publish([facts_of("1" * 32)], extra=[Unknown(b'{"t":"later","x":1}')])
    world.delete(streams[2])
    world.open_epoch(streams[0])
    world.publish([facts_of("2" * 32)], ["1" * 32])
    world.create(bucket, "three")
    world.append(streams[0], 1, "q")
    world.publish()
    return world


# --- statements -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(vars(mirror_statements())))
def test_a_statement_of_the_mirror_prepares(name: str) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        if name.startswith(("restore", "homeless")):
            migrate(db)
            db.execute("ATTACH DATABASE ':memory:' AS mirror")
            layout = mirror_layout().replace("CREATE TABLE ", "CREATE TABLE mirror.").replace("INDEX ", "INDEX mirror.")
            db.executescript(layout.partition("CREATE TRIGGER")[0])
        else:
            db.executescript(mirror_layout())
            db.execute(mirror_statements().make_covered)
        statement = getattr(mirror_statements(), name)
        if name not in {"make_covered", "attach_mirror", "detach_mirror"}:
            values = {"now_us": 1, "stream": 1, "used": "[]"} if ":" in statement else (None,) * 17
            count = statement.count("?") if "?1" not in statement else 11
            found = db.execute(f"EXPLAIN {statement}", values if isinstance(values, dict) else values[:count])
            assert found.fetchone()


def test_every_table_of_the_mirror_is_strict_and_every_statement_says_what_it_is_for() -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(mirror_layout())
        tables = [row for row in db.execute("PRAGMA table_list") if row[1] in TABLES]
        assert len(tables) == len(TABLES)
        assert all(row[5] for row in tables)
    text = (Path(sql.__file__).parent / "mirror.sql").read_text("utf-8")
    for block in text.split("-- name: ")[1:]:
        assert block.splitlines()[1].startswith("-- "), block


# --- applying -------------------------------------------------------------------------------------------------------


def test_a_generation_is_applied_once(busy: World) -> None:
    assert busy.mirror()["generation"] == 3
    before = contents(busy.folder / MIRROR)
    with closing(open_mirror(busy.folder / MIRROR)) as db:
        for number in (1, 2, 3):
            assert apply(db, busy.chain.fetch(number)).generation == 3
    assert contents(busy.folder / MIRROR) == before
    assert before["orphans"] == []
    assert {row[0] for row in before["objects"]} == {"2" * 32}


def test_a_gap_and_another_history_are_refused_and_change_nothing(busy: World) -> None:
    busy.mirror()
    before = contents(busy.folder / MIRROR)
    with closing(open_mirror(busy.folder / MIRROR)) as db:
        for made in (header(5, "0" * 64), header(4, "0" * 64), header(3, "0" * 64)):
            with pytest.raises(MirrorBroken):
                apply(db, compose(made, []))
        assert at(db).generation == 3
    assert contents(busy.folder / MIRROR) == before


def test_a_damaged_line_takes_the_whole_generation_back(busy: World) -> None:
    busy.mirror()
    before = contents(busy.folder / MIRROR)
    good = End(id=1, next_seq=99, ordinal=9, position=9, ts=9, schema_version=0)
    data = compose(header(4, local(busy.db).generation_sum), [], encode_all([good]) * 6000 + b'{"t":"end"}\n')
    with closing(open_mirror(busy.folder / MIRROR)) as db, pytest.raises(CatalogueError, match="line 6002"):
        apply(db, data)
    assert contents(busy.folder / MIRROR) == before


def test_optional_fields_of_an_end_stay_as_they_were(world: World) -> None:
    stream = world.create(world.bucket("b"), "s")
    first = {"closed": True, "closed_by": "p", "closed_epoch": 1, "closed_seq": 2, "stream_seq": "x"}
    world.waiting = [End(id=stream, next_seq=1, ordinal=1, position=1, ts=1, schema_version=0, **first)]  # type: ignore[arg-type]
    world.publish()
    world.waiting = [End(id=stream, next_seq=2, ordinal=2, position=2, ts=2, schema_version=0)]
    world.publish()
    world.mirror()
    assert contents(world.folder / MIRROR)["ends"] == [(stream, 2, 2, 2, 2, 0, 1, "p", 1, 2, "x")]


def test_ends_of_streams_that_were_never_told_of_wait_and_then_go(world: World) -> None:
    """Deleted before its creation was published: without this, snapshots would carry its end for ever."""
    bucket = world.bucket("b")
    gone, late = world.create(bucket, "x"), world.create(bucket, "y")
    world.append(gone, 1, "p")
    world.append(late, 1)
    world.delete(gone)
    world.create(bucket, "x")
    assert not world.publish(limit=1).header.complete
    world.mirror()
    assert len(contents(world.folder / MIRROR)["ends"]) == len(contents(world.folder / MIRROR)["orphans"]) == 2
    assert world.publish().header.complete
    world.mirror()
    found = contents(world.folder / MIRROR)
    assert [row[0] for row in found["ends"]] == [late]
    assert found["producers"] == found["orphans"] == []


def test_a_name_that_lives_again_takes_nothing_of_its_former_life(world: World) -> None:
    bucket = world.bucket("b")
    first = world.create(bucket, "s")
    world.append(first, 4, "p")
    world.publish()
    world.delete(first)
    second = world.create(bucket, "s")
    world.publish()
    world.mirror()
    found = contents(world.folder / MIRROR)
    assert [row[0] for row in found["streams"]] == [second]
    assert found["ends"] == found["producers"] == found["tombstones"] == []


# --- snapshots ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part_bytes", [1, 1 << 20])
def test_a_snapshot_says_all_that_the_mirror_says(busy: World, part_bytes: int, tmp_path: Path) -> None:
    for number in range(3000):
        busy.create(1, f"many-{number}-{random.randbytes(100).hex()}")
    busy.publish(limit=10_000)
    assert busy.snapshot(part_bytes) == 4
    index = fetch_index(busy.store, 4)
    assert len(index.parts) == 2 if part_bytes > 1 else len(index.parts) > 3
    with closing(open_mirror(tmp_path / "other.db")) as db:
        load_snapshot(db, index, [fetch_part(busy.store, 4, part) for part in index.parts])
    assert contents(tmp_path / "other.db") == contents(busy.folder / MIRROR)


def test_the_same_mirror_gives_the_same_snapshot_so_a_cut_off_one_can_be_finished(busy: World, tmp_path: Path) -> None:
    busy.mirror()
    made = []
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        with closing(open_mirror(busy.folder / MIRROR)) as db:
            made.append(dump(db, tmp_path / name, 1 << 20))
    assert [part._replace(file=Path()) for part in made[0].parts] == [
        part._replace(file=Path()) for part in made[1].parts
    ]
    put_snapshot(busy.store, 3, made[0].parts[:1])
    assert [listed.complete for listed in snapshots(busy.store)] == [False]
    put_snapshot(busy.store, *made[1])
    assert [(listed.generation, listed.complete) for listed in snapshots(busy.store)] == [(3, True)]


def test_a_snapshot_is_never_mixed_with_another_attempt(busy: World, tmp_path: Path) -> None:
    busy.mirror()
    with closing(open_mirror(busy.folder / MIRROR)) as db:
        made = dump(db, tmp_path, 1 << 20)
    made.parts[1].file.write_bytes(b"other")
    put_snapshot(busy.store, 3, [made.parts[1]._replace(sha256="0" * 64)])
    with closing(open_mirror(busy.folder / MIRROR)) as db:
        made = dump(db, tmp_path, 1 << 20)
    with pytest.raises(CatalogueError, match="another attempt"):
        put_snapshot(busy.store, *made)
    assert not snapshots(busy.store)[0].complete


# --- feeding --------------------------------------------------------------------------------------------------------


def test_a_mirror_goes_on_from_where_it_is_and_fetches_nothing_that_was_kept(busy: World) -> None:
    busy.mirror()
    done = busy.publish()
    keep(busy.folder, 4, done.data)
    arguments = feed(busy.chain, busy.folder, 4, done.sum)
    assert (arguments["snapshot"], arguments["deltas"]) == (None, [str(delta_file(busy.folder, 4))])
    assert command_apply(arguments)["generation"] == 4
    assert not delta_file(busy.folder, 4).exists()


@pytest.mark.parametrize("damage", ["missing", "garbage", "cut off", "torn delta", "wrong delta", "other layout"])
def test_a_mirror_in_doubt_is_made_anew_from_the_bucket(busy: World, damage: str) -> None:
    busy.snapshot()
    done = busy.publish()
    path = busy.folder / MIRROR
    match damage:
        case "missing":
            path.unlink()
        case "garbage":
            path.write_bytes(b"garbage" * 1000)
        case "cut off":
            path.write_bytes(path.read_bytes()[:9000])
        case "torn delta":
            delta_file(busy.folder, 4).write_bytes(done.data[:30])
        case "wrong delta":
            delta_file(busy.folder, 4).write_bytes(compose(header(4, "0" * 64), []))
        case "other layout":
            with closing(sqlite3.connect(path)) as db:
                db.execute("PRAGMA user_version = 7")
    answer = busy.mirror()
    if "broken" in answer:
        answer = busy.mirror(anew=True)
    assert answer == {"generation": 4, "sum": done.sum}
    clear(busy.folder)
    before = contents_after(busy)
    assert contents(path) == before


def contents_after(world: World) -> dict[str, list[tuple[object, ...]]]:
    assert "broken" not in world.mirror(anew=True)
    return contents(world.folder / MIRROR)


def test_a_mirror_that_is_too_old_begins_with_a_snapshot(busy: World) -> None:
    busy.mirror()
    for _ in range(3):
        busy.publish()
    other = World.__new__(World)
    other.__dict__ = busy.__dict__ | {"folder": busy.folder.parent / "other"}
    other.folder.mkdir()
    other.snapshot()
    for number in (4, 5):
        busy.store.delete(generation_key(Generation(number)))
    assert peek(busy.folder).generation == 3  # type: ignore[union-attr]
    assert busy.mirror()["generation"] == 6
    assert contents(busy.folder / MIRROR) == contents(other.folder / MIRROR)


def test_a_damaged_snapshot_is_passed_over(busy: World) -> None:
    busy.snapshot()
    busy.publish()
    busy.snapshot()
    busy.store.delete(snapshot_key(Generation(4), 1))
    assert busy.mirror(anew=True)["generation"] == 4
    busy.store.delete(snapshot_key(Generation(3), INDEX_PART))
    assert busy.mirror(anew=True)["generation"] == 4


def test_a_store_that_is_away_leaves_the_mirror_as_it_is(busy: World) -> None:
    busy.mirror()
    assert not isinstance(busy.store.bare, FaultyStore)
    before = contents(busy.folder / MIRROR)
    assert busy.mirror() == {"generation": 3, "sum": local(busy.db).generation_sum}
    assert contents(busy.folder / MIRROR) == before


@pytest.mark.parametrize("seed", range(3))
def test_a_hundred_thousand_ends_are_told_in_a_moment(world: World, seed: int) -> None:
    """A bound far above what it takes, so that only another order of growth fails."""
    draw = random.Random(seed)
    ends = [
        End(id=draw.randrange(10**6), next_seq=1, ordinal=1, position=1, ts=1, schema_version=0) for _ in range(20_000)
    ]
    world.waiting = [*ends, Producer(id=1, producer="p", epoch=0, seq=0, next_seq=1)]
    world.publish(limit=0)
    assert world.mirror()["generation"] == 1
