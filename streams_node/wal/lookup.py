"""Loads what decisions about streams need, for all names that are waiting in one hop and one statement."""

import sqlite3
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

import sql
from streams_node.protocol.producers import Producer

_STREAMS = sql.queries("streams")
_BUCKETS = sql.queries("buckets")
_SCHEMAS = sql.queries("schemas")
_FORKS = sql.queries("forks")
NAMES_PER_STATEMENT = 64


class Name(NamedTuple):
    """How a stream is called: its bucket and its id there."""

    bucket: str
    stream: str


class Configured(NamedTuple):
    """A row of `streams`, without its name."""

    stream: int
    content_type: str
    created_us: int
    ttl_s: int | None
    expires_us: int | None
    dies_us: int | None
    first_epoch: int
    epoch_count: int
    profile: str
    soft_deleted: int
    earliest_seq: int
    recovered: int
    meaning: int = 0  # counts what was declared of it; 0 for nothing, ever
    forks: int = 0
    source: int | None = None
    fork_seq: int | None = None
    fork_sub: int | None = None


class Head(NamedTuple):
    """A row of `heads`, without the stream."""

    next_seq: int
    last_row: int
    ordinal: int
    position: int
    ts: int
    anchor_1: int
    anchor_2: int
    anchor_3: int
    anchor_4: int
    closed: int
    schema_version: int
    producers: int
    stream_seq: str | None
    closed_by: str | None
    closed_epoch: int | None
    closed_seq: int | None


class Found(NamedTuple):
    """What is known of a name: its bucket, the epoch it died in last, and its stream if it lives."""

    bucket: int | None
    dead_epoch: int | None
    config: Configured | None
    head: Head | None
    producers: dict[str, Producer]
    later_epochs: list[tuple[int, int]]
    declared: tuple[str, str | None] | None = None  # its row of `schemas`
    source_name: Name | None = None  # of a fork


class FoundBucket(NamedTuple):
    bucket: int
    streams: int
    created_us: int
    alive: int


_MADE = tuple.__new__  # a named tuple at half of its price
_CONFIG_AT = 3
_EPOCH_AT = _CONFIG_AT + len(Configured._fields)
_HEAD_AT = _EPOCH_AT + 1


def load_streams(db: sqlite3.Connection, names: list[Name]) -> list[Found]:
    """One `Found` a name, in the order of the names."""
    found: list[Found] = []
    for start in range(0, len(names), NAMES_PER_STATEMENT):
        found += _load_some(db, names[start : start + NAMES_PER_STATEMENT])
    return found


def load_bucket(db: sqlite3.Connection, name: str) -> FoundBucket | None:
    row = db.execute(_BUCKETS.load_bucket, (name,)).fetchone()
    return None if row is None else FoundBucket(*row)


def _load_some(db: sqlite3.Connection, names: list[Name]) -> list[Found]:
    slots = 1 << (len(names) - 1).bit_length()  # few statement texts, so all stay prepared
    values: list[Any] = []
    for slot in range(slots):
        values += (slot, *names[slot]) if slot < len(names) else (slot, "", "")
    rows: list[list[Any]] = orjson.loads(db.execute(sql.repeated(_STREAMS.load_streams, slots), values).fetchone()[0])
    rows.sort(key=itemgetter(0))
    return [_found(db, row) for row in rows[: len(names)]]


def _found(db: sqlite3.Connection, row: list[Any]) -> Found:
    bucket = row[1] if row[2] else None
    if row[_CONFIG_AT] is None:
        return Found(bucket, row[_EPOCH_AT], None, None, {}, [])
    config = _MADE(Configured, row[_CONFIG_AT:_EPOCH_AT])
    head = _MADE(Head, row[_HEAD_AT:])
    producers: dict[str, Producer] = {}
    if head.producers:
        producers = {name: Producer(*last) for name, *last in db.execute(_STREAMS.load_producers, (config.stream,))}
    later = db.execute(_STREAMS.load_epochs, (config.stream,)).fetchall() if config.epoch_count > 1 else []
    declared = db.execute(_SCHEMAS.load_schema, (config.stream,)).fetchone() if config.meaning else None
    source = db.execute(_FORKS.load_source, (config.source,)).fetchone() if config.source is not None else None
    source_name = None if source is None else Name(*source)
    return _MADE(Found, (bucket, row[_EPOCH_AT], config, head, producers, later, declared, source_name))
