"""What the mirror keeps of indexes: the tables `index_plans`, `index_objects` and `index_covers`, and their lines."""

import sqlite3
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from streams_node.manifest.indexes import of_covers
from streams_node.manifest.records import IndexCovers, IndexDrop, IndexObject, IndexPlan, OfIndex
from streams_node.manifest.statements import mirror_statements

_SQL = mirror_statements()


def put_plans(db: sqlite3.Connection, records: list[IndexPlan], fresh: object) -> None:
    """Of streams that are still there."""
    rows = [(each.generation, _json(each.configs), each.since_us, _json(each.kept), each.id) for each in records]
    db.executemany(_SQL.put_index_plan, rows)
    if not fresh:
        db.executemany(
            _SQL.retire_covers,
            [
                {"stream": each.id, "used": _json([f"{family}/{config}" for family, config in _used(each)])}
                for each in records
            ],
        )


def drop_index_objects(db: sqlite3.Connection, records: list[IndexDrop], _fresh: object) -> None:
    db.executemany(_SQL.drop_index_object, [(each.made,) for each in records])


def put_index_objects(db: sqlite3.Connection, records: list[IndexObject], fresh: object) -> None:
    if not fresh:
        db.executemany(_SQL.drop_index_object, [(each.made,) for each in records])
    rows = [
        (
            each.made, each.family, each.level, each.bytes, each.sum, each.rows, each.filter_bytes, each.filter_sum,
            _json(each.sections), each.payload_bytes, each.made_us,
        )
        for each in records
    ]  # fmt: skip
    db.executemany(_SQL.put_index_object, rows)


def put_covers(db: sqlite3.Connection, records: list[IndexCovers], _fresh: object) -> None:
    """Of streams and objects that are still there."""
    for each in records:
        rows = [(each.configs[cover[3]], cover[1], cover[2], *cover[4:], each.made, cover[0]) for cover in each.covers]
        db.executemany(_SQL.put_cover, rows)


def of_indexes(db: sqlite3.Connection) -> Iterator[OfIndex]:
    """All lines, for a snapshot."""
    for stream, generation, configs, since_us, kept in db.execute(_SQL.all_index_plans):
        yield IndexPlan(
            id=stream,
            generation=generation,
            configs=msgspec.json.decode(configs, type=dict[str, str]),
            since_us=since_us,
            kept=msgspec.json.decode(kept, type=dict[str, tuple[str, ...]]),
        )
    for row in db.execute(_SQL.all_index_objects):
        made, family, level, size, checksum, rows, filter_bytes, filter_sum, sections, payload_bytes, made_us = row
        yield IndexObject(
            made=made, family=family, level=level, bytes=size, sum=checksum, rows=rows, filter_bytes=filter_bytes,
            filter_sum=filter_sum, sections=msgspec.json.decode(sections, type=dict[str, int]),
            payload_bytes=payload_bytes, made_us=made_us,
        )  # fmt: skip
    for made, covers in groupby(db.execute(_SQL.all_covers), itemgetter(0)):
        yield from of_covers(made, [row[1:] for row in covers])


def _used(plan: IndexPlan) -> Iterator[tuple[str, str]]:
    yield from plan.configs.items()
    for family, configs in plan.kept.items():
        yield from ((family, config) for config in configs)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
