"""A data folder made from the bucket: the published prefix of every stream, in an empty folder of a new node.

    catalogue of the bucket → mirror.db → streams.db.restoring → ownership → a generation of its own → streams.db

Keeps    nothing of the bucket changes before everything else is ready. No offset, epoch or id of the former node is
         used again, published or not: the first generation of the new one leaps over all that it may have given out.
Dies     before the last rename: a folder without a database; a new bootstrap removes what is there, and begins anew,
         under another node id. After it: a folder like any other.
"""

import contextlib
import sqlite3
from pathlib import Path
from typing import NamedTuple

import sql
from streams_node.errors import CatalogueError, DataFolderError, Fenced
from streams_node.manifest.chain import Chain
from streams_node.manifest.compose import Damage, compose
from streams_node.manifest.dump import dump
from streams_node.manifest.feed import snapshot_folder
from streams_node.manifest.mirror import PART_BYTES, put_in_place
from streams_node.manifest.owner import take_over
from streams_node.manifest.rebuild import Rebuilt, extend, rebuild
from streams_node.manifest.records import FORMAT, Header
from streams_node.manifest.snapshots import put_snapshot
from streams_node.manifest.statements import mirror_statements
from streams_node.manifest.tables import apply, at, header_of, open_mirror
from streams_node.testing.crashpoints import crash_point
from streams_node.wal.folder import DATABASE
from streams_node.wal.migrate import migrate

EPOCH_LEAP = 2**20  # a node may use so many epochs beyond the newest one that it published
STREAM_LEAP = 2**40  # more streams than a node can make between two publishes, or in its life
BUCKET_LEAP = 2**20
RESTORING = f"{DATABASE}.restoring"
_CACHE_KIB = 64 * 1024  # of each of the two databases: names are looked up in another order than they lie in
_SQL = mirror_statements()
_PLACEMENT = sql.queries("placement")


class Restored(NamedTuple):
    """What came out of the bucket. `lost` is damaged and was left out; for `passed_over` something else stood in."""

    header: Header
    fence: int
    buckets: int
    streams: int
    objects: int
    entries: int
    lost: Damage
    passed_over: Damage


class Base(NamedTuple):
    """Where the new node begins to count."""

    epoch: int
    next_stream: int
    next_bucket: int
    through_row: int


def bootstrap(chain: Chain, data: Path, node: str, host: str, now_us: int, *, accept_loss: bool = False) -> Restored:
    """Fill an empty data folder, and take the bucket over. `node` is a new id. The folder is ready to be opened."""
    newest = _begin_anew(chain, data)
    catalogue = data / "catalogue"
    mirrored = rebuild(chain, catalogue, newest, accept_loss=accept_loss)
    fence: int | None = None
    while True:
        base, lost = _fill(data / RESTORING, mirrored.path, newest, now_us, accept_loss=accept_loss)
        if fence is None:
            fence = take_over(chain.store, node, host, now_us)
        late = chain.newest(newest)
        header = None if late > newest else begin(chain, mirrored, newest, base, (node, fence), now_us)
        if header is not None:
            break
        # The former owner's last publish, which was under way while the bucket changed hands.
        newest = max(late, newest + 1)
        extend(chain, mirrored.path, newest)
    counts = _finish(chain, data, mirrored, header)
    return Restored(header, fence, *counts, [*mirrored.lost, *lost], mirrored.passed_over)


def begin(
    chain: Chain, mirrored: Rebuilt, newest: int, base: Base, owner: tuple[str, int], now_us: int
) -> Header | None:
    """Publish the generation from which the new node counts; None when the former owner's last one is in its place."""
    with contextlib.closing(open_mirror(mirrored.path)) as db:
        known = at(db)
        node, fence = owner
        header = Header(
            format=FORMAT,
            generation=newest + 1,
            node=node,
            fence=fence,
            previous=known.sum if known.generation == newest else "",
            made_us=now_us,
            through_row=base.through_row,
            next_stream=base.next_stream,
            next_bucket=base.next_bucket,
            epoch_base=base.epoch,
            epoch_newest=base.epoch,
            records=0,
        )
        data = compose(header, [])
        try:
            chain.commit(header, data)
        except Fenced as rival:
            theirs = rival.facts.get("fence")
            if isinstance(theirs, int) and theirs < fence:
                return None
            raise
        crash_point("restore.inside")
        apply(db, data, chained=False)
    return header


# --- steps ----------------------------------------------------------------------------------------------------------


def _begin_anew(chain: Chain, data: Path) -> int:
    """Check that there is nothing to lose and something to begin with; remove what a former bootstrap left."""
    if (data / DATABASE).exists():
        raise DataFolderError(
            f"data folder `{data}` has a database, and --bootstrap-from-store begins an empty one; start without it, "
            "or choose another --data"
        )
    newest = chain.newest()
    if not newest:
        raise CatalogueError(
            f"{chain.store.place} holds no catalogue, so there is nothing to begin with; start without "
            "--bootstrap-from-store, or look at where it points to (s3_bucket, s3_prefix, object_store_folder)"
        )
    (data / "catalogue").mkdir(parents=True, exist_ok=True)
    return newest


def _fill(path: Path, mirror: Path, newest: int, now_us: int, *, accept_loss: bool) -> tuple[Base, Damage]:
    """Make the database from the mirror, in one transaction of few statements."""
    for file in (path, Path(f"{path}-journal")):
        file.unlink(missing_ok=True)
    with contextlib.closing(_open_new(path)) as db:
        migrate(db)
        db.execute(_SQL.attach_mirror, (str(mirror),))
        db.execute(f"PRAGMA mirror.cache_size = -{_CACHE_KIB}")
        homeless = [
            f"stream {stream} (`{name}`) is in bucket {bucket}, which no record names"
            for stream, bucket, name in db.execute(_SQL.homeless_streams)
        ]
        if homeless and not accept_loss:
            raise CatalogueError(f"the catalogue cannot be restored as a whole: {'; '.join(homeless)}", damage=homeless)
        db.execute("BEGIN")
        db.execute(_SQL.restore_buckets)
        db.execute(_SQL.restore_streams, {"now_us": now_us})
        db.execute(_SQL.restore_heads)
        db.execute(_SQL.restore_fork_points)
        while db.execute(_SQL.restore_fork_ends).rowcount:
            db.execute(_SQL.restore_fork_points)
        for statement in (
            _SQL.restore_fork_counts,
            _SQL.restore_schemas,
            _SQL.restore_boundaries,
            _SQL.restore_index_plans,
            _SQL.restore_index_objects,
            _SQL.restore_covers,
            _SQL.restored_indexes_told,
            _SQL.restore_epochs,
            _SQL.restore_fork_epochs,
            _SQL.restore_producers,
            _SQL.restore_tombstones,
            _SQL.restore_objects,
            _SQL.restored_told,
        ):
            db.execute(statement)
        crash_point("restore.inside")
        db.execute("COMMIT")
        found = db.execute(_SQL.restored_newest).fetchone()
    with contextlib.closing(open_mirror(mirror)) as db:
        header = header_of(db)
    if header is None:
        raise CatalogueError("the catalogue has no generation that can be read")
    return _base(header, newest, *found), homeless


def _base(header: Header, newest: int, stream: int, bucket: int, epoch: int, row: int) -> Base:
    # Each generation that could not be read may have told of as many as the former node was allowed to use.
    leaps = 1 + newest - header.generation
    return Base(
        epoch=max(header.epoch_newest, header.epoch_base, epoch) + leaps * EPOCH_LEAP,
        next_stream=max(header.next_stream, stream + 1) + leaps * STREAM_LEAP,
        next_bucket=max(header.next_bucket, bucket + 1) + leaps * BUCKET_LEAP,
        through_row=max(header.through_row, row),
    )


def _finish(chain: Chain, data: Path, mirrored: Rebuilt, header: Header) -> tuple[int, int, int, int]:
    """Tell the new database who it is, and give it its name."""
    with contextlib.closing(open_mirror(mirrored.path)) as mirror:
        checksum, snapshot = at(mirror).sum, mirrored.snapshot
        if mirrored.lost:  # so that nobody has to find a way around the damage again
            made = dump(mirror, snapshot_folder(mirrored.path.parent), PART_BYTES)
            put_snapshot(chain.store, made.generation, made.parts)
            snapshot = made.generation
    values = {
        "node": header.node,
        "fence": header.fence,
        "generation": header.generation,
        "generation_sum": checksum,
        "snapshot": snapshot,
        "released_through": header.through_row,
        "heads_through": header.through_row,  # there is no row up to it: new ones get higher numbers
        "epoch_base": header.epoch_base,
        "epoch_newest": header.epoch_newest,
        "epoch_told": header.epoch_newest,
        "stream_base": header.next_stream - 1,
        "bucket_base": header.next_bucket - 1,
    }
    with contextlib.closing(_open_new(data / RESTORING)) as db:
        db.execute("BEGIN")
        db.executemany(_PLACEMENT.set_node_value, [(value, name) for name, value in values.items()])
        db.execute("COMMIT")
        buckets, streams, objects, entries = db.execute(_SQL.restored_counts).fetchone()
    put_in_place(data / RESTORING, data / DATABASE)
    crash_point("restore.after")
    return buckets, streams, objects, entries


def _open_new(path: Path) -> sqlite3.Connection:
    """Without care for the disk until it gets its name. The page layout cannot be changed later: as open_writer's."""
    db = sqlite3.connect(path, isolation_level=None)
    for pragma in (
        "page_size = 4096",
        "auto_vacuum = INCREMENTAL",
        "journal_mode = OFF",
        "synchronous = OFF",
        f"cache_size = -{_CACHE_KIB}",
    ):
        db.execute(f"PRAGMA {pragma}").fetchall()
    return db
