"""How streams should be indexed: decided as they are declared; for those that an older version declared, later."""

import sqlite3
from typing import Any

import msgspec

import sql
from indexers.plan import plan_of
from streams_node.protocol.content_types import is_json
from streams_node.schema.jsontext import loads
from streams_node.schema.registry import Registry, decode
from streams_node.wal.batch import rollback

_INDEX = sql.queries("index")
_NO_FAMILIES = "{}"


def configs_of(registry: Registry, profile: str, *, is_json: bool) -> str:
    """The configurations of a stream's families, as they are stored."""
    return msgspec.json.encode(plan_of(registry, profile, is_json=is_json).configs, order="sorted").decode()


def plan_statement(stream: int, configs: str, now_us: int) -> tuple[str, tuple[Any, ...]]:
    """For the transaction that stores what a stream is declared to be."""
    return _INDEX.put_plan, (stream, int(configs != _NO_FAMILIES), configs, now_us)


def plan_some(db: sqlite3.Connection, after: int, limit: int, now_us: int) -> int | None:
    """Make plans of some streams that have none as they are made now; returns where to go on, None at the end.

    A registry that cannot be read gets no plan: its stream answers with the reason.
    """
    rows = db.execute(_INDEX.unplanned, {"after": after, "limit": limit}).fetchall()
    db.execute("BEGIN IMMEDIATE")
    try:
        for stream, registry, profile, content_type in rows:
            try:
                decoded = decode(loads(registry.encode()))
            except (ValueError, KeyError, TypeError):
                continue
            db.execute(*plan_statement(stream, configs_of(decoded, profile, is_json=is_json(content_type)), now_us))
        db.execute("COMMIT")
    except BaseException:
        rollback(db)
        raise
    return rows[-1][0] if len(rows) == limit else None
