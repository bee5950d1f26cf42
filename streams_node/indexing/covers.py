"""What is indexed of a stream, and how it should be: for whoever answers from indexes."""

import sqlite3
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

import sql
from indexers.plan import Family

_INDEX = sql.queries("index")
_configs = msgspec.json.Decoder(dict[Family, str])


class Plan(NamedTuple):
    """How a stream should be indexed: `configs` has its configured families, each with its configuration's hash."""

    generation: int
    configs: Mapping[Family, str]
    since_us: int


class Covering(NamedTuple):
    """Entries [first_seq, end_seq) of a stream that an index object holds, and that object."""

    family: Family
    config: str
    first_seq: int
    end_seq: int
    ordinal: int  # of the source in the object's own list
    entries: int
    payload_bytes: int
    min_ts: int
    max_ts: int
    skipped: int
    made: str
    level: int
    bytes: int
    sum: str
    rows: int
    filter_bytes: int
    filter_sum: str
    made_us: int


NO_PLAN = Plan(0, {}, 0)


def plan_of_stream(db: sqlite3.Connection, stream: int) -> Plan:
    """The plan as it is now; NO_PLAN for a stream that is not indexed."""
    row = db.execute(_INDEX.plan_of, (stream,)).fetchone()
    return NO_PLAN if row is None else Plan(row[0], decode_configs(row[1]), row[2])


def covers_of(
    db: sqlite3.Connection, stream: int, family: Family | None = None, config: str | None = None
) -> list[Covering]:
    """What covers a stream: by family, configuration and sequence.

    Under one configuration covers never overlap. Those under another one than the plan's serve until it covers as much.
    """
    if family is None:
        rows = db.execute(_INDEX.covers_of, {"stream": stream})
    elif config is None:
        rows = db.execute(_INDEX.covers_in_family, {"stream": stream, "family": family})
    else:
        rows = db.execute(_INDEX.covers_in_config, {"stream": stream, "family": family, "config": config})
    return [Covering(*row) for row in rows]


def decode_configs(text: str) -> Mapping[Family, str]:
    return _configs.decode(text)
