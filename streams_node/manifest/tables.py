"""`catalogue/mirror.db`: the whole catalogue as of one generation, in tables; snapshots and restores come from it.

Owns     the tables of `sql/mirror.sql`. It is a copy of what the bucket says, so it may be deleted at any time.
Keeps    a generation is applied whole or not at all, once, and only on top of the one that it names as its previous.
         Records have their effect by kind, in this order: buckets, streams and ends of names as they come, schemas,
         what is indexed, ends, producers, objects, drops.
Dies     inside a transaction: SQLite takes it back. While a new mirror is built: its file has another name.
"""

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from streams_node.errors import CatalogueError
from streams_node.manifest.compose import Damage, counted_records, numbered_lines, parse
from streams_node.manifest.index_tables import drop_index_objects, put_covers, put_index_objects, put_plans
from streams_node.manifest.records import (
    Bucket,
    Drop,
    End,
    Gone,
    Header,
    Index,
    IndexCovers,
    IndexDrop,
    IndexObject,
    IndexPlan,
    Object,
    Producer,
    Record,
    Schema,
    Stream,
    Unknown,
    decode_header,
    encode,
)
from streams_node.manifest.statements import mirror_layout, mirror_statements
from streams_node.placement.made import ObjectFacts
from streams_node.testing.crashpoints import crash_point

_LAYOUT = 4
_BATCH_ROWS = 5000
_CACHE_KIB = 64 * 1024
_SQL = mirror_statements()
OBJECT_COLUMNS = ObjectFacts.__struct_fields__


class MirrorBroken(CatalogueError):
    """The mirror cannot be moved on: it is damaged, or stands for another history. Build it anew from the bucket."""


class At(NamedTuple):
    """The generation that a mirror stands for, and its checksum; 0 and empty for none."""

    generation: int
    sum: str


def open_mirror(path: Path, *, building: bool = False) -> sqlite3.Connection:
    """The mirror at a path, an empty one if there is none. A mirror that is being built is not kept safe on disk."""
    with _broken(path):
        db = sqlite3.connect(path, isolation_level=None)
        try:
            layout = _layout(db, path)
            db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            db.execute(f"PRAGMA synchronous = {'OFF' if building else 'FULL'}")
            db.execute(f"PRAGMA journal_mode = {'OFF' if building else 'DELETE'}").fetchone()
            if not layout:
                db.executescript(f"BEGIN;\n{mirror_layout()}\nCOMMIT;")
        except BaseException:
            db.close()
            raise
    return db


def _layout(db: sqlite3.Connection, path: Path) -> int:
    layout: int = db.execute("PRAGMA user_version").fetchone()[0]
    if layout not in {0, _LAYOUT}:
        raise MirrorBroken(f"mirror `{path}` has layout {layout}, not {_LAYOUT}")
    return layout


def at(db: sqlite3.Connection) -> At:
    """What it stands for."""
    with _broken("mirror"):
        state = dict(db.execute(_SQL.read_state).fetchall())
    return At(state.get("generation", 0), state.get("sum", ""))


def header_of(db: sqlite3.Connection) -> Header | None:
    """The header of that generation."""
    line = dict(db.execute(_SQL.read_state).fetchall()).get("header")
    return None if line is None else decode_header(line.encode(), "mirror")


def apply(
    db: sqlite3.Connection,
    data: bytes | Path,
    *,
    number: int | None = None,
    damage: Damage | None = None,
    chained: bool = True,
) -> At:
    """Apply one generation in one transaction; one that it stands for already changes nothing.

    `number` is which one it has to be, for who knows that. `chained=False` skips over lost generations.
    """
    checksum = sum_of(data)
    name = f"generation {parse(data)[0].generation if number is None else number}"
    header, records = parse(data, name, damage)
    if number is not None and header.generation != number:
        raise MirrorBroken(f"{name} is damaged: it says that it is generation {header.generation}")
    now = at(db)
    if header.generation <= now.generation:
        if header.generation == now.generation and checksum != now.sum:
            raise MirrorBroken(f"the mirror stands for another {name}")
        return now
    if chained and (header.generation != now.generation + 1 or header.previous != now.sum):
        raise MirrorBroken(f"{name} does not follow generation {now.generation}, which the mirror stands for")
    after = At(header.generation, checksum)
    with _transaction(db):
        _write(db, records, fresh=False)
        if header.complete:
            for statement in (_SQL.forget_orphan_ends, _SQL.forget_orphan_producers, _SQL.forget_orphans):
                db.execute(statement)
        _stand_for(db, header, after)
        crash_point("worker.mirror.inside")
    return after


def load_snapshot(
    db: sqlite3.Connection,
    index: Index,
    parts: Iterable[Path | bytes | CatalogueError],
    damage: Damage | None = None,
) -> At:
    """Fill an empty mirror. With a list for `damage`, damaged lines and the failures of missing parts go there."""
    if at(db).generation:
        raise MirrorBroken("a snapshot is loaded into an empty mirror only")
    name = f"snapshot {index.generation}"
    after = At(index.generation, index.sum)
    header: Header | None = None
    with _transaction(db):
        for described, data in zip(index.parts, parts, strict=True):
            what = f"{name}, part {described.part}"
            if isinstance(data, CatalogueError):
                if damage is None:
                    raise data
                damage.append(data.message)
                continue
            lines = numbered_lines(data, what)
            if described.part == 0:
                header = _snapshot_header(lines, what, index)
            _write(db, counted_records(lines, what, described.records, damage), fresh=True)
        if header is None:
            raise CatalogueError(f"{name} has no header, so it cannot be used")
        db.execute(_SQL.mark_orphans)
        _stand_for(db, header, after)
        crash_point("worker.mirror.inside")
    return after


def sum_of(data: bytes | Path) -> str:
    """SHA-256 in hex."""
    if isinstance(data, bytes):
        return hashlib.sha256(data).hexdigest()
    with data.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- steps ----------------------------------------------------------------------------------------------------------


def _snapshot_header(lines: Iterator[tuple[int, bytes]], what: str, index: Index) -> Header:
    first = next(lines, None)
    if first is None:
        raise CatalogueError(f"{what} is damaged: it is empty, and a header line was expected")
    header = decode_header(first[1], f"{what}, line 1")
    if (header.generation, header.sum, header.parts) != (index.generation, index.sum, len(index.parts)):
        raise CatalogueError(f"{what} does not belong to its index: one of them is of another snapshot")
    return header


def _stand_for(db: sqlite3.Connection, header: Header, after: At) -> None:
    plain = msgspec.structs.replace(header, parts=UNSET, sum=UNSET)
    state = [("header", encode(plain).decode()), ("generation", after.generation), ("sum", after.sum)]
    db.executemany(_SQL.write_state, state)


def _write(db: sqlite3.Connection, records: Iterable[Record], *, fresh: bool) -> None:
    """Bulk: rows of one kind go to SQLite together. Streams and ended names keep their order among themselves."""
    waiting: dict[type, list[Any]] = {kind: [] for kind in _PUT}
    names: type = Stream
    for record in records:
        kind = type(record)
        if kind in _NAMES and kind is not names:
            _flush(db, names, waiting, fresh=fresh)
            names = kind
        batch = waiting[kind]
        batch.append(record)
        if len(batch) >= _BATCH_ROWS and kind is not Drop:
            _flush_through(db, kind, waiting, fresh=fresh)
    for kind in _PUT:
        _flush(db, kind, waiting, fresh=fresh)


def _flush_through(db: sqlite3.Connection, last: type, waiting: dict[type, list[Any]], *, fresh: bool) -> None:
    """A kind, and those that have to be there before it."""
    for kind in _PUT:
        _flush(db, kind, waiting, fresh=fresh)
        if kind is last:
            break


def _flush(db: sqlite3.Connection, kind: type, waiting: dict[type, list[Any]], *, fresh: bool) -> None:
    if waiting[kind]:
        _PUT[kind](db, waiting[kind], fresh)
        waiting[kind].clear()


def _put_buckets(db: sqlite3.Connection, records: list[Bucket], _fresh: object) -> None:
    db.executemany(_SQL.put_bucket, [(each.id, each.name, each.created_us, int(each.alive)) for each in records])


def _put_streams(db: sqlite3.Connection, records: list[Stream], fresh: object) -> None:
    if not fresh:
        db.executemany(_SQL.make_room, [(each.bucket, each.name, each.id) for each in records])
        db.executemany(_SQL.lift_tombstone, [(each.bucket, each.name) for each in records])
    rows = [
        (
            each.id, each.bucket, each.name, each.content_type, each.created_us, each.ttl_s, each.expires_us,
            each.first_epoch, _epochs(each), each.profile, int(each.soft_deleted), each.source, each.fork_seq,
            each.fork_sub, each.earliest_seq, each.ts,
        )
        for each in records
    ]  # fmt: skip
    db.executemany(_SQL.put_stream, rows)


def _epochs(stream: Stream) -> str:
    return msgspec.json.encode(stream.epochs).decode() if stream.epochs else "[]"


def _put_gone(db: sqlite3.Connection, records: list[Gone], fresh: object) -> None:
    if not fresh:
        db.executemany(_SQL.drop_name, [(each.bucket, each.name) for each in records])
    rows = [(each.bucket, each.name, each.epoch, each.id, each.deleted_us) for each in records]
    db.executemany(_SQL.put_tombstone, rows)


def _put_schemas(db: sqlite3.Connection, records: list[Schema], _fresh: object) -> None:
    """Of streams that are still there: a schema is told together with its stream."""
    rows = [
        (bytes(each.registry).decode(), None if each.config is UNSET else bytes(each.config).decode(), each.id)
        for each in records
    ]
    db.executemany(_SQL.put_schema, rows)


def _put_ends(db: sqlite3.Connection, records: list[End], fresh: object) -> None:
    db.executemany(_SQL.put_end, [_end_row(each) for each in records])
    _mark_orphans(db, records, fresh)


def _end_row(end: End) -> tuple[Any, ...]:
    values = (end.closed, end.closed_by, end.closed_epoch, end.closed_seq, end.stream_seq)
    optional = (None if value is UNSET else value for value in values)
    return (end.id, end.next_seq, end.ordinal, end.position, end.ts, end.schema_version, *optional)


def _put_producers(db: sqlite3.Connection, records: list[Producer], fresh: object) -> None:
    rows = [(each.id, each.producer, each.epoch, each.seq, each.next_seq) for each in records]
    db.executemany(_SQL.put_producer, rows)
    _mark_orphans(db, records, fresh)


def _mark_orphans(db: sqlite3.Connection, records: Iterable[End | Producer], fresh: object) -> None:
    if not fresh:
        db.executemany(_SQL.mark_orphan, [{"stream": each.id} for each in records])


_object_row = attrgetter(*OBJECT_COLUMNS)


def _put_objects(db: sqlite3.Connection, records: list[Object], _fresh: object) -> None:
    db.executemany(_SQL.put_object, map(_object_row, records))


def _drop_objects(db: sqlite3.Connection, records: list[Drop], _fresh: object) -> None:
    db.executemany(_SQL.drop_object, [(each.made,) for each in records])


def _put_facts(db: sqlite3.Connection, records: list[Unknown], _fresh: object) -> None:
    db.executemany(_SQL.put_fact, [(each.line,) for each in records])


# In the order of their effect. Ends come after all names: an end of a stream that is gone must not be taken for one.
_PUT: dict[type, Callable[[sqlite3.Connection, list[Any], object], None]] = {
    Bucket: _put_buckets,
    Stream: _put_streams,
    Gone: _put_gone,
    Schema: _put_schemas,
    IndexPlan: put_plans,
    IndexDrop: drop_index_objects,
    IndexObject: put_index_objects,
    IndexCovers: put_covers,
    End: _put_ends,
    Producer: _put_producers,
    Object: _put_objects,
    Drop: _drop_objects,
    Unknown: _put_facts,
}
_NAMES = (Stream, Gone)


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    with _broken("mirror"):
        db.execute("BEGIN IMMEDIATE")
        try:
            yield
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


@contextmanager
def _broken(what: object) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as problem:
        if isinstance(problem, sqlite3.OperationalError) and _is_disk(problem):
            raise CatalogueError(f"{what} cannot be written: {problem}") from problem
        raise MirrorBroken(f"{what} is damaged: {problem}") from problem


def _is_disk(problem: sqlite3.OperationalError) -> bool:
    return problem.sqlite_errorname in {"SQLITE_FULL", "SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_BUSY"}
