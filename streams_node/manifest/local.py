"""The catalogue's side of the node's database: what it has not been told yet, and the one transaction after a publish.

Keeps    a generation is applied once; its objects, the released stretch of the log and what it was told move together.
Dies     before that transaction: reconcile.py applies the published generation at the next look. Names stay in
         `unpublished` and are told again, which changes nothing.
"""

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from msgspec import UNSET

import sql
from streams_node.errors import invariant
from streams_node.manifest.indexes import Told, forget, untold
from streams_node.manifest.records import Bucket, Gone, Header, Record, Schema, Stream
from streams_node.placement.made import ObjectFacts
from streams_node.testing.crashpoints import crash_point
from streams_node.wal.batch import rollback

_CATALOGUE = sql.queries("catalogue")
_PLACEMENT = sql.queries("placement")
CHANGES_MAX = 50_000  # in one generation: some 10 MB of lines,
SCHEMA_BYTES_MAX = 32 << 20  # and so much of schemas, if it is not of one stream
_epochs = msgspec.json.Decoder(tuple[tuple[int, int], ...])


class Changes(NamedTuple):
    """Records of what changed, as it is now. `complete`: nothing else had changed when they were read."""

    records: list[Record]
    newest_change: int
    complete: bool
    told: tuple[Told, ...] = ()  # of indexes


class Local(NamedTuple):
    """What the database knows of the catalogue."""

    node: str
    fence: int
    generation: int
    generation_sum: str
    snapshot: int
    released_through: int
    epoch_base: int
    epoch_newest: int
    epoch_told: int
    stream_base: int
    bucket_base: int


def local(db: sqlite3.Connection) -> Local:
    values = dict(db.execute(_PLACEMENT.node_values).fetchall())
    return Local(*(values[name] for name in Local._fields))


def own(db: sqlite3.Connection, node: str, fence: int) -> None:
    """Remember who this node is in the bucket, once it has claimed it."""
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute(_PLACEMENT.set_node_value, (node, "node"))
        db.execute(_PLACEMENT.set_node_value, (fence, "fence"))
        db.execute("COMMIT")
    except BaseException:
        rollback(db)
        raise


def changes(db: sqlite3.Connection, limit: int = CHANGES_MAX) -> Changes:
    """What the oldest `limit` untold changes are about, read at one moment.

    Read them after the seals of the same generation were built: then whatever has entries there is told here, or was
    before, as long as `complete` is true.
    """
    db.execute("BEGIN")
    try:
        newest, more = _through(db, limit)
        through = {"through": newest}
        records: list[Record] = [
            Bucket(id=bucket, name=name, created_us=created_us, alive=bool(alive))
            for bucket, name, created_us, alive in db.execute(_CATALOGUE.changed_buckets, through)
        ]
        records += map(_stream, db.execute(_CATALOGUE.changed_streams, through))
        records += map(_schema, db.execute(_CATALOGUE.changed_schemas, through))
        records += [
            Gone(bucket=bucket, name=name, epoch=epoch, id=stream, deleted_us=deleted_us)
            for bucket, name, epoch, stream, deleted_us in db.execute(_CATALOGUE.changed_tombstones, through)
        ]
        of_indexes = None if more else untold(db)  # after the streams that they are about
    finally:
        rollback(db)
    if of_indexes is None:
        return Changes(records, newest, complete=False)
    return Changes([*records, *of_indexes.records], newest, complete=True, told=tuple(of_indexes.told))


def _through(db: sqlite3.Connection, limit: int) -> tuple[int, bool]:
    """How far one generation goes, and whether there is more: as many changes as fit, but one."""
    while True:
        newest, more = db.execute(_CATALOGUE.changes_through, {"limit": limit}).fetchone()
        size: int = db.execute(_CATALOGUE.changed_schema_bytes, {"through": newest}).fetchone()[0]
        if size <= SCHEMA_BYTES_MAX or limit <= 1:
            return newest, more
        limit //= 2


def published(
    db: sqlite3.Connection,
    header: Header,
    sha256: str,
    objects: Iterable[ObjectFacts],
    drops: Iterable[str],
    newest_change: int,
    now_us: int,
    told: Iterable[Told] = (),
) -> None:
    """The one transaction after a generation was committed. Doing it again changes nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        before = local(db)
        if (before.generation, before.generation_sum) != (header.generation, sha256):
            invariant(
                header.generation == before.generation + 1 and header.previous == before.generation_sum,
                "generations are applied in their order",
                generation=header.generation,
                after=before.generation,
            )
            _apply(db, header, sha256, objects, drops, newest_change, now_us)
            forget(db, list(told))
        crash_point("publish.inside")
        db.execute("COMMIT")
    except BaseException:
        rollback(db)
        raise


def _apply(
    db: sqlite3.Connection,
    header: Header,
    sha256: str,
    objects: Iterable[ObjectFacts],
    drops: Iterable[str],
    newest_change: int,
    now_us: int,
) -> None:
    db.executemany(_PLACEMENT.insert_object, [msgspec.structs.asdict(each) for each in objects])
    db.executemany(_PLACEMENT.kill_object, [(now_us, made) for made in drops])
    db.execute(_PLACEMENT.set_node_value, (header.generation, "generation"))
    db.execute(_PLACEMENT.set_node_value, (sha256, "generation_sum"))
    for name, value in (("released_through", header.through_row), ("epoch_told", header.epoch_newest)):
        db.execute(_CATALOGUE.raise_node_value, {"name": name, "value": value})
    db.execute(_PLACEMENT.told, (newest_change,))


def _schema(row: tuple[int, str, str | None]) -> Schema:
    stream, registry, config = row
    return Schema(
        id=stream,
        registry=msgspec.Raw(registry.encode()),
        config=UNSET if config is None else msgspec.Raw(config.encode()),
    )


def _stream(row: tuple[object, ...]) -> Stream:
    (stream, bucket, name, content_type, created_us, ttl_s, expires_us, first_epoch, epochs, profile, soft_deleted,
     source, fork_seq, fork_sub, earliest_seq, ts) = row  # fmt: skip
    return msgspec.convert(
        {
            "t": "stream", "id": stream, "bucket": bucket, "name": name, "content_type": content_type,
            "created_us": created_us, "ttl_s": ttl_s, "expires_us": expires_us, "first_epoch": first_epoch,
            "epochs": _epochs.decode(epochs) if isinstance(epochs, str) else (), "profile": profile,
            "soft_deleted": bool(soft_deleted), "source": source, "fork_seq": fork_seq, "fork_sub": fork_sub,
            "earliest_seq": earliest_seq, "ts": ts,
        },
        Stream,
    )  # fmt: skip
