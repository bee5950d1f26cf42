"""What a mirror says, for people."""

import sqlite3
from collections.abc import Iterator
from typing import Any

from streams_node.errors import CatalogueError
from streams_node.manifest.statements import mirror_statements
from streams_node.manifest.tables import header_of
from streams_node.protocol.times import rfc3339

_SQL = mirror_statements()
_STREAM = (
    "bucket", "name", "id", "content_type", "created_us", "entries", "bytes", "newest_us", "closed", "first_epoch",
    "epochs",
)  # fmt: skip
_INDEXES = ("family", "level", "number", "entries", "bytes", "payload_bytes")
_OBJECTS = ("kind", "level", "number", "entries", "bytes", "payload_bytes")


def summary(db: sqlite3.Connection) -> dict[str, Any]:
    """One generation in numbers."""
    header = header_of(db)
    if header is None:
        raise CatalogueError("the catalogue has no generation that can be read")
    buckets, streams, gone, producers, entries, facts = db.execute(_SQL.mirror_counts).fetchone()
    return {
        "generation": header.generation,
        "made": rfc3339(header.made_us),
        "node": header.node,
        "fence": header.fence,
        "through_row": header.through_row,
        "epoch_base": header.epoch_base,
        "epoch_newest": header.epoch_newest,
        "buckets": buckets,
        "streams": streams,
        "deleted_names": gone,
        "producers": producers,
        "entries": entries,
        "unknown_lines": facts,
        "objects": [dict(zip(_OBJECTS, row, strict=True)) for row in db.execute(_SQL.objects_by_kind)],
        "indexes": [dict(zip(_INDEXES, row, strict=True)) for row in db.execute(_SQL.indexes_by_family)],
    }


def streams_like(db: sqlite3.Connection, pattern: str) -> Iterator[dict[str, Any]]:
    """Streams whose bucket and name match a pattern."""
    for row in db.execute(_SQL.streams_like, (pattern,)):
        yield dict(zip(_STREAM, row, strict=True))
