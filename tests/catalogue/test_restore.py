"""A data folder out of the bucket: what was published, nothing else, and no number given out twice."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typing_extensions import override

from streams_node.errors import CatalogueError, DataFolderError, Fenced, StoreUnavailable
from streams_node.manifest import Chain, Drop, Gone, Unknown, bootstrap, compose, local, look, snapshots
from streams_node.manifest.chain import PUT_BACK
from streams_node.manifest.compose import packed, parse
from streams_node.manifest.records import INDEX_PART, encode
from streams_node.manifest.restore import BUCKET_LEAP, EPOCH_LEAP, RESTORING, STREAM_LEAP
from streams_node.objects import (
    ETag,
    Fault,
    FaultPlan,
    FaultyStore,
    FolderStore,
    Key,
    MemoryStore,
    Stored,
    WriteId,
)
from streams_node.objects.keys import Generation, generation_key, snapshot_key
from streams_node.objects.protocol import Data
from streams_node.wal.connection import open_writer
from streams_node.wal.database import Database
from tests.catalogue.world import NODE, NOW_US, RIVAL, World, facts_of, header, restored, retrying

NAMES = ("x", "y", "z")
Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            "bucket create create create delete append append append close epoch publish publish few snapshot object"
            " drop later dies".split()
        ),
        st.integers(0, 1000),
    ),
    max_size=60,
)


def act(world: World, step: str, number: int) -> None:  # noqa: C901, PLR0912 - a table of steps
    """One step of a history; what cannot be done does nothing."""
    buckets = [row[0] for row in world.db.execute("SELECT id FROM buckets")]
    living = [row[0] for row in world.db.execute("SELECT id FROM streams ORDER BY id")]
    stream = living[number % len(living)] if living else None
    match step:
        case "bucket":
            world.bucket("bcd"[number % 3])
        case "create" if buckets:
            more: dict[str, Any] = {"ttl_s": 60} if number % 5 == 0 else {"expires_us": 5} if number % 7 == 0 else {}
            world.create(buckets[number % len(buckets)], NAMES[number % 3], **more)
        case "object":
            made = f"{number:032x}"
            if made not in world.objects:
                world.publish([facts_of(made)])
        case "drop" if world.objects:
            world.publish([], [sorted(world.objects)[number % len(world.objects)]])
        case "publish":
            world.publish()
        case "few":
            world.publish(limit=1 + number % 3)
        case "dies":
            world.db.execute("REPLACE INTO node VALUES ('heads_through', ?)", (world.rows,))
            world.publish(dies=True)
            world.reconcile()
        case "snapshot" if local(world.db).generation:
            if not any(listed.generation == local(world.db).generation for listed in snapshots(world.store)):
                world.snapshot(1 if number % 2 else 1 << 20)
        case "later":
            world.publish(extra=[Unknown(b'{"t":"later","x":%d}' % number)])
        case "delete" if stream is not None:
            world.delete(stream)
        case "epoch" if stream is not None:
            world.open_epoch(stream)
        case "append" | "close" if stream is not None:
            world.append(stream, number % 4, "pq"[number % 2] if number % 3 else None, close=step == "close")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_what_comes_out_of_the_bucket_is_what_was_published(
    steps: list[Step], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("history")
    world = World(retrying(), folder / "catalogue")
    for step, number in steps:
        act(world, step, number)
    world.publish()
    expected = world.expected()
    world.db.close()
    bootstrap(world.chain, folder / "new", RIVAL, "there", NOW_US)
    assert restored(folder / "new") == expected


@pytest.fixture
def lived(world: World) -> World:
    """Two streams with a past, a snapshot in the middle, and a name that died."""
    bucket = world.bucket("b")
    one, two = world.create(bucket, "one", ttl_s=100), world.create(bucket, "two", expires_us=NOW_US + 9)
    gone = world.create(bucket, "gone")
    world.append(one, 3, "p")
    world.publish([facts_of("1" * 32)], epoch_newest=5)
    world.snapshot()
    world.delete(gone)
    world.append(two, 2)
    world.publish([facts_of("2" * 32)], ["1" * 32], epoch_newest=7)
    world.publish(epoch_newest=7)
    world.snapshot()
    world.append(one, 1)
    world.publish(epoch_newest=8)
    return world


def boot(world: World, data: Path, node: str = RIVAL, **more: Any) -> Any:
    return bootstrap(world.chain, data, node, "there", NOW_US, **more)


# --- what comes out -------------------------------------------------------------------------------------------------


def test_no_number_of_the_former_node_is_used_again(lived: World, tmp_path: Path) -> None:
    lived.publish(epoch_base=8, epoch_newest=20)
    done = boot(lived, tmp_path / "new")
    with closing(sqlite3.connect(tmp_path / "new" / "streams.db")) as db:
        known = local(db)
        through: int = db.execute("SELECT value FROM node WHERE name = 'heads_through'").fetchone()[0]
    assert known.epoch_base == known.epoch_newest == known.epoch_told == 20 + EPOCH_LEAP
    assert known.stream_base == lived.next_stream + STREAM_LEAP - 1
    assert known.bucket_base == 99 + BUCKET_LEAP - 1
    assert known.released_through == through == lived.rows
    assert (known.node, known.fence, known.generation, known.snapshot) == (RIVAL, 2, 6, 3)
    newest = lived.chain.header(6)
    assert (newest.epoch_base, newest.next_stream, newest.fence) == (known.epoch_base, known.stream_base + 1, 2)
    assert (done.streams, done.entries, done.objects, done.lost) == (2, 6, 1, [])


def test_a_bootstrap_after_a_bootstrap_leaps_again(lived: World, tmp_path: Path) -> None:
    boot(lived, tmp_path / "one")
    done = boot(lived, tmp_path / "two", node="c" * 32)
    assert done.header.epoch_base == 8 + 2 * EPOCH_LEAP
    assert done.header.next_stream == lived.next_stream + 2 * STREAM_LEAP
    assert done.fence == 3
    seen = look(lived.store)
    assert seen is not None
    assert seen.owner.node == "c" * 32


def test_the_restored_folder_is_one_that_a_node_opens(lived: World, tmp_path: Path) -> None:
    data = tmp_path / "new"
    boot(lived, data)
    with closing(sqlite3.connect(data / "streams.db")) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("SELECT count(*) FROM unpublished").fetchone() == (0,)
        assert db.execute("SELECT sum(streams) FROM stretches").fetchone() == (2,)
        assert db.execute("SELECT min(recovered), max(epoch_count) FROM streams").fetchone() == (1, 1)
        dies = dict(db.execute("SELECT name, dies_us FROM streams").fetchall())
        assert dies == {"one": NOW_US + 110_000_000, "two": NOW_US + 9}
        heads = db.execute("SELECT last_row, anchor_1, producers, next_seq FROM heads ORDER BY stream").fetchall()
        assert heads == [(0, 0, 1, 4), (0, 0, 0, 2)]
        layout = {name: db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "auto_vacuum")}
    assert layout == layout_of_a_new_one(tmp_path / "fresh.db")
    assert sorted(path.name for path in data.iterdir()) == ["catalogue", "streams.db"]


def layout_of_a_new_one(path: Path) -> dict[str, int]:
    """What the node's own writer makes: these two can not be changed later."""
    import anyio  # noqa: PLC0415 - this one only

    async def make() -> None:
        writer = await open_writer(path, cache_bytes=1 << 20)
        await writer.run(lambda db: db.execute("CREATE TABLE x (y)"))
        await writer.close()

    anyio.run(make)
    with closing(sqlite3.connect(path)) as db:
        return {name: db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "auto_vacuum")}


def test_new_rows_come_after_all_published_ones(lived: World, tmp_path: Path) -> None:
    import anyio  # noqa: PLC0415 - this one and the one above

    boot(lived, tmp_path / "new")

    async def marks() -> int:
        database, found = await Database.open(
            tmp_path / "new" / "streams.db", cache_bytes=1 << 20, reader_threads=1, read_queue_max=8
        )
        await database.close()
        return found.last_row

    assert anyio.run(marks) >= lived.rows


def test_the_former_node_is_fenced_and_the_new_one_goes_on(lived: World, tmp_path: Path) -> None:
    boot(lived, tmp_path / "new")
    with pytest.raises(Fenced):
        lived.publish()
    db = sqlite3.connect(tmp_path / "new" / "streams.db", isolation_level=None)
    lived.db, lived.node, lived.fence = db, RIVAL, 2
    lived.folder = tmp_path / "new" / "catalogue"
    lived.create(1, "newer")
    lived.publish()
    assert lived.mirror()["generation"] == 6
    lived.snapshot()
    db.close()


# --- what cannot be -------------------------------------------------------------------------------------------------


def test_a_folder_with_a_database_is_left_alone(lived: World, tmp_path: Path) -> None:
    (tmp_path / "streams.db").write_bytes(b"mine")
    with pytest.raises(DataFolderError, match="begins an empty one"):
        boot(lived, tmp_path)
    assert (tmp_path / "streams.db").read_bytes() == b"mine"
    assert lived.chain.newest() == 4


def test_a_place_without_a_catalogue_is_said_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match="holds no catalogue, so there is nothing to begin with"):
        bootstrap(Chain(retrying()), tmp_path, NODE, "here", NOW_US)


def test_a_newer_format_is_never_taken_for_damage(lived: World, tmp_path: Path) -> None:
    line = encode(header(5, records=0)).replace(b'"format":1', b'"format":2')
    lived.store.put(generation_key(Generation(5)), packed([line + b"\n"]), write_id=WriteId("x"))
    with pytest.raises(CatalogueError, match="written by a newer version"):
        boot(lived, tmp_path / "new", accept_loss=True)
    assert lived.fence == 1
    assert look(lived.store).owner.node == NODE  # type: ignore[union-attr]


# --- damage ---------------------------------------------------------------------------------------------------------


def damaged(world: World, key: Key, how: str) -> None:
    data = world.store.get(key).data
    world.store.delete(key)
    match how:
        case "missing":
            return
        case "truncated":
            data = data[: len(data) // 2]
        case "garbage":
            data = b"garbage"
        case "foreign":
            data = compose(header(77), [Drop(made="f" * 32)])
    world.store.put(key, data, write_id=WriteId("damaged"))


@pytest.mark.parametrize("part", [0, 1, INDEX_PART])
@pytest.mark.parametrize("how", ["missing", "truncated", "garbage", "foreign"])
def test_a_damaged_snapshot_is_replaced_by_the_one_before_it_and_more_generations(
    lived: World, tmp_path: Path, part: int, how: str
) -> None:
    expected = lived.expected()
    damaged(lived, snapshot_key(Generation(3), part), how)
    done = boot(lived, tmp_path / "new")
    assert restored(tmp_path / "new") == expected
    assert done.lost == []
    # Without its index a snapshot is one that was never finished: there is nothing to report.
    assert done.passed_over or (part, how) == (INDEX_PART, "missing")


@pytest.mark.parametrize("how", ["missing", "truncated", "garbage", "foreign"])
def test_a_damaged_generation_is_named_and_left_out_only_if_somebody_says_so(
    lived: World, tmp_path: Path, how: str
) -> None:
    lived.create(1, "late")
    lived.publish()
    lived.append(2, 5)
    lived.publish()
    damaged(lived, generation_key(Generation(5)), how)
    with pytest.raises(CatalogueError, match=r"generation 5.*accept the loss") as caught:
        boot(lived, tmp_path / "new")
    assert PUT_BACK not in caught.value.message.partition("To go on")[0]
    assert look(lived.store).owner.node == NODE  # type: ignore[union-attr] # nothing was taken over
    assert not (tmp_path / "new" / "streams.db").exists()
    done = boot(lived, tmp_path / "new", accept_loss=True)
    assert len(done.lost) >= 1
    assert "5" in done.lost[0]
    found = restored(tmp_path / "new")
    assert {row[1] for row in found["streams"]} == {"one", "two"}
    assert [row[1] for row in found["heads"]] == [4, 7]
    # The way around the damage is in the bucket from now on.
    again = boot(lived, tmp_path / "again", node="c" * 32)
    assert again.lost == []
    assert restored(tmp_path / "again") == found


def test_a_damaged_newest_generation_makes_the_leap_longer(lived: World, tmp_path: Path) -> None:
    lived.publish(epoch_newest=9)
    damaged(lived, generation_key(Generation(5)), "garbage")
    done = boot(lived, tmp_path / "new", accept_loss=True)
    assert done.header.generation == 6
    assert done.header.epoch_base == 8 + 2 * EPOCH_LEAP
    assert done.header.next_stream == lived.next_stream + 2 * STREAM_LEAP
    boot(lived, tmp_path / "again", node="c" * 32)


def test_one_damaged_line_stops_no_other(world: World, tmp_path: Path) -> None:
    bucket = world.bucket("b")
    for name in ("one", "two", "three"):
        world.append(world.create(bucket, name))
    world.publish([facts_of("1" * 32), facts_of("2" * 32)])
    data = world.chain.fetch(1)
    lines = [encode(each) for each in parse(data)[1]]
    wrong = [
        line.replace(b'"name":"two"', b'"name":2').replace(b'"made":"' + b"1" * 32, b'"made":"?') for line in lines
    ]
    assert sum(a != b for a, b in zip(lines, wrong, strict=True)) == 2
    made = parse(data)[0]
    key = generation_key(Generation(1))
    world.store.delete(key)
    world.store.put(key, packed([encode(made) + b"\n", *(line + b"\n" for line in wrong)]), write_id=WriteId("x"))
    with pytest.raises(CatalogueError, match=r"line 4 is damaged.*line 6 is damaged"):
        boot(world, tmp_path / "new")
    done = boot(world, tmp_path / "new", accept_loss=True)
    assert [each.partition(" is ")[0] for each in done.lost] == ["generation 1, line 4", "generation 1, line 6"]
    found = restored(tmp_path / "new")
    assert [row[1] for row in found["streams"]] == ["one", "three"]
    assert [row[0] for row in found["objects"]] == ["2" * 32]


def test_streams_of_a_bucket_that_nobody_names_are_listed(world: World, tmp_path: Path) -> None:
    world.create(world.bucket("b"), "one")
    world.db.execute("DELETE FROM unpublished WHERE name IS NULL")
    world.publish()
    with pytest.raises(CatalogueError, match=r"stream 1 .`one`. is in bucket 1, which no record names"):
        boot(world, tmp_path / "new")
    done = boot(world, tmp_path / "new", accept_loss=True)
    assert (done.streams, len(done.lost)) == (0, 1)


# --- races and faults -----------------------------------------------------------------------------------------------


def test_a_publish_of_the_former_node_that_was_under_way_is_taken_along(lived: World, tmp_path: Path) -> None:
    """Its owner check came before the take-over, its put after: both orders of put and first generation."""
    known = local(lived.db)
    for put_at in ("owner", "generation"):
        store = LastWord(lived, put_at)
        late = World.__new__(World)
        late.__dict__ = lived.__dict__ | {"store": retrying(store)}
        late.chain = Chain(late.store)
        store.data = compose(
            header(known.generation + 1, known.generation_sum, next_stream=50),
            [Gone(bucket=1, name="one", epoch=0, id=1, deleted_us=1)],
        )
        store.inner = copy_of(lived)
        done = bootstrap(late.chain, tmp_path / put_at, RIVAL, "there", NOW_US)
        assert done.header.generation == known.generation + 2
        assert [row[1] for row in restored(tmp_path / put_at)["streams"]] == ["two"]


def copy_of(world: World) -> MemoryStore:
    other, bare = MemoryStore(), world.store.bare
    for listed in bare.list(GENERATIONS_AND_ALL).objects:
        found = bare.get(listed.key)
        other.put(listed.key, found.data, write_id=found.stored.write_id or WriteId("x"))
    return other


GENERATIONS_AND_ALL: Any = ""


class LastWord(MemoryStore):
    """Another store, in which somebody puts a generation right before, or after, the bucket changes hands."""

    inner: MemoryStore
    data: bytes

    def __init__(self, world: World, put_at: str) -> None:
        super().__init__()
        self.key = generation_key(Generation(local(world.db).generation + 1))
        self.put_at = put_at
        self.said = False

    @override
    def put(self, key: Key, data: Data, *, write_id: WriteId, if_match: ETag | None = None) -> Stored:
        if not self.said and ((self.put_at == "owner" and key == "owner") or key == self.key):
            self.said = True
            self.inner.put(self.key, self.data, write_id=WriteId("late"))
        return self.inner.put(key, data, write_id=write_id, if_match=if_match)

    @override
    def get(self, key: Key, start: int = 0, end: int | None = None) -> Any:
        return self.inner.get(key, start, end)

    @override
    def head(self, key: Key) -> Stored | None:
        return self.inner.head(key)

    @override
    def list(self, prefix: Any, after: Key | None = None, limit: int = 1000) -> Any:
        return self.inner.list(prefix, after, limit)


@pytest.mark.parametrize("seed", range(10))
def test_a_bad_line_to_the_store_costs_attempts_and_nothing_else(lived: World, tmp_path: Path, seed: int) -> None:
    expected = lived.expected()
    chances = {Fault.BUSY: 0.02, Fault.LOST: 0.2, Fault.TRUNCATED: 0.05, Fault.CORRUPT: 0.05, Fault.STALE: 0.5}
    chain = Chain(retrying(FaultyStore(lived.store.bare, FaultPlan(seed, chances))))
    for attempt in range(20):
        try:
            bootstrap(chain, tmp_path / "new", f"{attempt:032x}", "there", NOW_US)
            break
        except (StoreUnavailable, CatalogueError):
            continue
    assert restored(tmp_path / "new") == expected


_BOOT = """
import sys
from pathlib import Path
from streams_node.manifest import Chain, bootstrap
from streams_node.objects import FolderStore
from tests.catalogue.world import NOW_US, retrying
folder = Path(sys.argv[1])
bootstrap(Chain(retrying(FolderStore.open(folder / "objects"))), folder / "new", sys.argv[2], "there", NOW_US)
"""


@pytest.mark.parametrize("moment", ["restore.inside:1", "owner.claimed:1", "restore.inside:2", "restore.after:1"])
def test_a_killed_bootstrap_begins_anew_or_is_done(moment: str, tmp_path: Path) -> None:
    world = World(retrying(FolderStore.open(tmp_path / "objects")), tmp_path / "catalogue")
    world.append(world.create(world.bucket("b"), "s"), 3)
    world.publish([facts_of("1" * 32)])
    expected = world.expected()
    environment = os.environ | {"STREAMS_CRASH_AT": moment}
    command = [sys.executable, "-c", _BOOT, str(tmp_path)]
    for node in (RIVAL, "c" * 32):
        assert subprocess.run([*command, node], env=environment, check=False).returncode == -signal.SIGKILL
        if moment.startswith("restore.after"):
            break
        assert not (tmp_path / "new" / "streams.db").exists()
    else:
        assert subprocess.run([*command, "e" * 32], check=False).returncode == 0
    assert restored(tmp_path / "new") == expected
    assert not (tmp_path / "new" / RESTORING).exists()
    with closing(sqlite3.connect(tmp_path / "new" / "streams.db")) as db:
        known = local(db)
    assert world.chain.newest() == known.generation
    seen = look(world.store)
    assert seen is not None
    assert (seen.owner.node, seen.owner.fence) == (known.node, known.fence)
