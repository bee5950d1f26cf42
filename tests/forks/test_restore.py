"""Forks out of the bucket: counted anew, and no longer than what they share."""

import sqlite3
from contextlib import closing
from pathlib import Path

from streams_node.manifest import bootstrap
from tests.catalogue.world import NOW_US, RIVAL, World, retrying


def test_forks_come_back_as_far_as_their_source_was_published(tmp_path: Path) -> None:
    world = World(retrying(), tmp_path / "catalogue")
    world.bucket("b")
    bucket = world.db.execute("SELECT id FROM buckets").fetchone()[0]
    source = world.create(bucket, "source", soft_deleted=1, ttl_s=60)
    world.append(source, 6)
    whole = world.create(bucket, "whole", source=source, fork_seq=4, fork_sub=0)
    cut = world.create(bucket, "cut", source=source, fork_seq=9, fork_sub=2, epoch_count=2)
    world.db.execute("INSERT INTO epochs (stream, epoch, first_seq) VALUES (?, 5, 9)", (cut,))
    again = world.create(bucket, "again", source=cut, fork_seq=8, fork_sub=0)
    within = world.create(bucket, "within", source=cut, fork_seq=5, fork_sub=0)
    alone = world.create(bucket, "alone")
    world.publish()
    world.db.close()
    bootstrap(world.chain, tmp_path / "new", RIVAL, "there", NOW_US)
    with closing(sqlite3.connect(tmp_path / "new" / "streams.db")) as db:
        rows = db.execute(
            "SELECT s.id, s.fork_seq, h.next_seq, s.forks, s.dies_us IS NULL FROM streams AS s"
            " JOIN heads AS h ON h.stream = s.id ORDER BY s.id"
        ).fetchall()
        epochs = db.execute("SELECT stream, epoch, first_seq FROM epochs").fetchall()
    assert rows == [
        (source, None, 6, 2, 1),  # it is kept, and its window is over for good
        (whole, 4, 4, 0, 1),
        (cut, 6, 6, 2, 1),
        (again, 6, 6, 0, 1),
        (within, 5, 5, 0, 1),
        (alone, None, 0, 0, 1),
    ]
    assert epochs == [(cut, 5, 6)]
