"""The node's database beside the catalogue: what it tells, and the one transaction that nothing tears."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from streams_node.errors import CatalogueError, Fenced, InvariantBroken
from streams_node.manifest import Bucket, Gone, Stream, changes, local, published, take_over
from streams_node.objects import FolderStore, Generation
from streams_node.objects.keys import GENERATIONS, generation_key
from tests.catalogue.world import NOW_US, RIVAL, World, facts_of, header, new_database, retrying


def untold(world: World) -> int:
    return int(world.db.execute("SELECT count(*) FROM unpublished").fetchone()[0])


# --- changes --------------------------------------------------------------------------------------------------------


def test_changes_are_told_as_they_are_now_and_once(world: World) -> None:
    bucket = world.bucket("b")
    kept, ended = world.create(bucket, "kept"), world.create(bucket, "ended")
    world.open_epoch(kept)
    world.open_epoch(kept)
    world.delete(ended)
    told = changes(world.db)
    assert told.complete
    assert told.records == [
        Bucket(id=bucket, name="b", created_us=NOW_US, alive=True),
        Stream(
            id=kept, bucket=bucket, name="kept", content_type="application/json", created_us=NOW_US + kept,
            first_epoch=0, epochs=((1, 1), (2, 2)), profile="generic",
        ),
        Gone(bucket=bucket, name="ended", epoch=0, id=ended, deleted_us=NOW_US),
    ]  # fmt: skip
    world.publish()
    assert changes(world.db).records == []
    world.db.execute("UPDATE streams SET dies_us = 5 WHERE id = ?", (kept,))  # a touch of a window is no news
    assert changes(world.db).records == []
    world.db.execute("UPDATE buckets SET alive = 0 WHERE id = ?", (bucket,))
    assert [type(each) for each in changes(world.db).records] == [Bucket]


def test_many_changes_are_told_in_slices_oldest_first(world: World) -> None:
    bucket = world.bucket("b")
    for number in range(10):
        world.create(bucket, f"s{number}")
    seen: list[str] = []
    while True:
        told = changes(world.db, 4)
        seen += [each.name for each in told.records if isinstance(each, Stream)]
        world.publish(limit=4)
        if told.complete:
            break
    assert seen == [f"s{number}" for number in range(10)]
    assert untold(world) == 0


def test_what_changes_after_it_was_read_is_told_by_the_next_one(world: World) -> None:
    bucket = world.bucket("b")
    world.create(bucket, "s")
    known, told = local(world.db), changes(world.db)
    world.create(bucket, "later")
    made = header(known.generation + 1, known.generation_sum)
    published(world.db, made, "0" * 64, [], [], told.newest_change, NOW_US)
    assert [each.name for each in changes(world.db).records if isinstance(each, Stream)] == ["later"]


# --- the transaction ------------------------------------------------------------------------------------------------


def test_a_publish_moves_everything_at_once_and_only_forward(world: World) -> None:
    world.rows = 40
    world.publish([facts_of("1" * 32), facts_of("2" * 32)], epoch_newest=3)
    done = world.publish([facts_of("3" * 32)], ["1" * 32])
    rows = world.db.execute("SELECT made, dead_us FROM objects ORDER BY made").fetchall()
    assert rows == [("1" * 32, NOW_US), ("2" * 32, None), ("3" * 32, None)]
    known = local(world.db)
    assert (known.generation, known.released_through, known.epoch_told) == (2, 40, 3)
    assert known.generation_sum == done.sum


def test_doing_it_again_changes_nothing_and_another_order_is_a_bug(world: World) -> None:
    done = world.publish([facts_of("1" * 32)])
    before = list(world.db.iterdump())
    published(world.db, done.header, done.sum, [facts_of("1" * 32)], [], 10**6, NOW_US + 1)
    assert list(world.db.iterdump()) == before
    with pytest.raises(InvariantBroken):
        published(world.db, header(3, done.sum), "0" * 64, [], [], 0, NOW_US)
    with pytest.raises(InvariantBroken):
        published(world.db, header(2, "1" * 64), "0" * 64, [], [], 0, NOW_US)
    assert list(world.db.iterdump()) == before


# --- reconciling ----------------------------------------------------------------------------------------------------


def test_a_publish_that_died_before_its_transaction_is_applied_at_the_next_look(world: World) -> None:
    bucket = world.bucket("b")
    world.append(world.create(bucket, "s"))
    world.publish([facts_of("1" * 32)])
    world.append(1)
    world.db.execute("REPLACE INTO node VALUES ('heads_through', 2)")
    world.publish([facts_of("2" * 32)], ["1" * 32], dies=True)
    assert local(world.db).generation == 1
    assert world.reconcile() == 1
    assert world.reconcile() == 0
    known = local(world.db)
    assert (known.generation, known.released_through) == (2, 2)
    rows = world.db.execute("SELECT made, dead_us IS NULL FROM objects ORDER BY made").fetchall()
    assert rows == [("1" * 32, 0), ("2" * 32, 1)]
    world.publish([facts_of("3" * 32)])
    assert local(world.db).generation == 3


def test_names_are_told_again_after_a_publish_whose_end_nobody_saw(world: World) -> None:
    world.create(world.bucket("b"), "s")
    world.publish(dies=True)
    world.reconcile()
    assert untold(world) == 2
    world.publish()
    assert untold(world) == 0
    assert world.mirror()["generation"] == 2


def test_somebody_elses_generation_above_ours_fences_us(world: World) -> None:
    world.publish()
    take_over(world.store, RIVAL, "there", NOW_US)
    node, fence = world.node, world.fence
    world.node, world.fence = RIVAL, 2
    world.publish(dies=True)
    world.node, world.fence = node, fence
    with pytest.raises(Fenced, match=f"node `{RIVAL}`"):
        world.reconcile()


def test_a_bucket_and_a_folder_of_different_times_are_kept_apart(world: World) -> None:
    world.publish()
    data = world.chain.fetch(1)
    world.publish(dies=True)
    world.db.execute("UPDATE node SET value = ? WHERE name = 'generation_sum'", ("0" * 64,))
    with pytest.raises(CatalogueError, match="does not follow the one that this node knows"):
        world.reconcile()
    for generation in (1, 2):
        world.store.delete(generation_key(Generation(generation)))
    with pytest.raises(CatalogueError, match=r"generation 1 .* is not in memory any more"):
        world.reconcile()
    assert data


def test_a_folder_that_is_an_older_copy_is_refused_before_it_gives_places_away_twice(world: World) -> None:
    world.rows = 10
    world.publish()
    world.rows = 500
    world.publish(dies=True)
    with pytest.raises(CatalogueError, match="log rows up to 500, and this data folder has none after 10"):
        world.reconcile()
    assert local(world.db).generation == 1


_PUBLISHER = """
import sys
from pathlib import Path
from streams_node.objects import FolderStore
from tests.catalogue.world import World, facts_of, new_database, retrying
folder = Path(sys.argv[1])
world = World(retrying(FolderStore.open(folder / "objects")), folder / "catalogue", new_database(folder / "streams.db"))
bucket = world.bucket("b")
for number in range(1, 6):
    world.append(world.create(bucket, f"s{number}"))
    world.db.execute("REPLACE INTO node VALUES ('heads_through', ?)", (world.rows,))
    world.publish([facts_of(f"{number:032x}")])
    world.mirror()
"""


@pytest.mark.parametrize(
    "moment", ["owner.claimed:1", "publish.inside:1", "publish.inside:4", "worker.mirror.inside:2"]
)
def test_a_killed_publisher_is_reconciled(moment: str, tmp_path: Path) -> None:
    environment = os.environ | {"STREAMS_CRASH_AT": moment}
    ended = subprocess.run([sys.executable, "-c", _PUBLISHER, str(tmp_path)], env=environment, check=False)
    assert ended.returncode == -signal.SIGKILL
    store = retrying(FolderStore.open(tmp_path / "objects"))
    with closing(new_database(tmp_path / "streams.db")) as db:
        world = World(store, tmp_path / "catalogue", db)
        there = len(store.list(GENERATIONS).objects)
        world.reconcile()
        assert local(db).generation == there
        count = db.execute("SELECT count(*) FROM objects").fetchone()[0]
        assert count == there
        world.next_stream = 100
        world.publish()
        answer = world.mirror()
        assert "broken" in answer or answer["generation"] == there + 1
        assert world.mirror(anew=True)["sum"] == local(db).generation_sum
        assert sqlite3.connect(world.folder / "mirror.db").execute("PRAGMA integrity_check").fetchone() == ("ok",)
