"""A snapshot: every line of a mirror in a few files, and an index of them that is uploaded last.

Keeps    the same mirror gives the same bytes: a snapshot that was cut off is finished by making it again.
"""

import sqlite3
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from streams_node.errors import CatalogueError, invariant
from streams_node.manifest.compose import packed
from streams_node.manifest.index_tables import of_indexes
from streams_node.manifest.records import (
    FORMAT,
    INDEX_PART,
    Bucket,
    End,
    Gone,
    Header,
    Index,
    Object,
    Part,
    Producer,
    Record,
    Schema,
    Stream,
    Unknown,
    encode,
    encode_all,
)
from streams_node.manifest.statements import mirror_statements
from streams_node.manifest.tables import OBJECT_COLUMNS, at, header_of, sum_of

_SQL = mirror_statements()
_LINES_AT_ONCE = 1000
_epochs = msgspec.json.Decoder(tuple[tuple[int, int], ...])


class PartFile(NamedTuple):
    """A part of a snapshot on its way to the bucket."""

    part: int
    file: Path
    sha256: str
    bytes: int


class Snapshot(NamedTuple):
    """Parts in the order in which they have to be put: the index is the last one."""

    generation: int
    parts: list[PartFile]


def dump(db: sqlite3.Connection, folder: Path, part_bytes: int) -> Snapshot:
    """Write all parts into a folder; a part ends when its file has so many bytes."""
    header, now = header_of(db), at(db)
    if header is None:
        raise CatalogueError("there is no snapshot of a catalogue that nothing was published to")
    # Part 0 has the header, which counts the parts: it holds the small tables only, and is written when that is known.
    first = encode_all(_small(db))
    written = [*_write_parts(_large(db), folder, part_bytes)]
    total = first.count(b"\n") + sum(part.records for part in written)
    header = msgspec.structs.replace(header, records=total, parts=1 + len(written), sum=now.sum)
    start = _write_part(folder, 0, header, first)
    described = (start, *written)
    index = Index(format=FORMAT, generation=now.generation, sum=now.sum, records=total, parts=described)
    files = [_part_file(folder, part.part) for part in described]
    for part, file in zip(described, files, strict=True):
        invariant(part.sha256 == file.sha256, "a part is what its index says", part=part.part)
    end = _file(folder, INDEX_PART)
    end.write_bytes(packed([encode(index) + b"\n"]))
    return Snapshot(now.generation, [*files, _part_file(folder, INDEX_PART)])


# --- lines ----------------------------------------------------------------------------------------------------------


def _small(db: sqlite3.Connection) -> Iterator[Record]:
    for bucket, name, created_us, alive in db.execute(_SQL.all_buckets):
        yield Bucket(id=bucket, name=name, created_us=created_us, alive=bool(alive))
    for (line,) in db.execute(_SQL.all_facts):
        yield Unknown(line)


def _large(db: sqlite3.Connection) -> Iterator[Record]:
    yield from map(_stream, db.execute(_SQL.all_streams))
    yield from map(_schema, db.execute(_SQL.all_schemas))
    yield from of_indexes(db)
    yield from map(_gone, db.execute(_SQL.all_tombstones))
    yield from map(_end, db.execute(_SQL.all_ends))
    yield from map(_producer, db.execute(_SQL.all_producers))
    for row in db.execute(_SQL.all_objects):
        yield Object(**dict(zip(OBJECT_COLUMNS, row, strict=True)))


def _stream(row: tuple[Any, ...]) -> Stream:
    (stream, bucket, name, content_type, created_us, ttl_s, expires_us, first_epoch, epochs, profile, soft_deleted,
     source, fork_seq, fork_sub, earliest_seq, ts) = row  # fmt: skip
    return Stream(
        id=stream, bucket=bucket, name=name, content_type=content_type, created_us=created_us, ttl_s=ttl_s,
        expires_us=expires_us, first_epoch=first_epoch, epochs=() if epochs == "[]" else _epochs.decode(epochs),
        profile=profile, soft_deleted=bool(soft_deleted), source=source, fork_seq=fork_seq, fork_sub=fork_sub,
        earliest_seq=earliest_seq, ts=ts,
    )  # fmt: skip


def _schema(row: tuple[Any, ...]) -> Schema:
    stream, registry, config = row
    return Schema(
        id=stream,
        registry=msgspec.Raw(registry.encode()),
        config=UNSET if config is None else msgspec.Raw(config.encode()),
    )


def _gone(row: tuple[Any, ...]) -> Gone:
    bucket, name, epoch, stream, deleted_us = row
    return Gone(bucket=bucket, name=name, epoch=epoch, id=stream, deleted_us=deleted_us)


def _end(row: tuple[Any, ...]) -> End:
    stream, next_seq, ordinal, position, ts, schema_version, closed, by, epoch, seq, stream_seq = row
    return End(
        id=stream, next_seq=next_seq, ordinal=ordinal, position=position, ts=ts, schema_version=schema_version,
        closed=True if closed else UNSET, closed_by=UNSET if by is None else by,
        closed_epoch=UNSET if epoch is None else epoch, closed_seq=UNSET if seq is None else seq,
        stream_seq=UNSET if stream_seq is None else stream_seq,
    )  # fmt: skip


def _producer(row: tuple[Any, ...]) -> Producer:
    stream, producer, epoch, seq, next_seq = row
    return Producer(id=stream, producer=producer, epoch=epoch, seq=seq, next_seq=next_seq)


# --- files ----------------------------------------------------------------------------------------------------------


def _write_parts(records: Iterator[Record], folder: Path, part_bytes: int) -> Iterator[Part]:
    import pyarrow as pa  # noqa: PLC0415 - the node, which loads the room, makes no snapshots

    part, more = 1, next(records, None)
    while more is not None:
        count = 0
        with pa.OSFile(str(_file(folder, part)), "wb") as sink, pa.CompressedOutputStream(sink, "zstd") as stream:
            while more is not None and sink.tell() < part_bytes:
                batch = [more, *islice(records, _LINES_AT_ONCE - 1)]
                stream.write(encode_all(batch))
                count += len(batch)
                more = next(records, None)
        file = _part_file(folder, part)
        yield Part(part=part, sha256=file.sha256, bytes=file.bytes, records=count)
        part += 1


def _write_part(folder: Path, part: int, header: Header, lines: bytes) -> Part:
    _file(folder, part).write_bytes(packed([encode(header) + b"\n", lines]))
    file = _part_file(folder, part)
    return Part(part=part, sha256=file.sha256, bytes=file.bytes, records=lines.count(b"\n"))


def _file(folder: Path, part: int) -> Path:
    return folder / f"{part:06d}"


def _part_file(folder: Path, part: int) -> PartFile:
    file = _file(folder, part)
    return PartFile(part, file, sum_of(file), file.stat().st_size)
