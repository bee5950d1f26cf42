"""Lines that rest on others find them, however many there are."""

import contextlib
import json
from pathlib import Path

import msgspec

from streams_node.manifest import Bucket, Schema, Stream, compose
from streams_node.manifest.records import IndexCovers, IndexObject, IndexPlan, Record
from streams_node.manifest.tables import apply, open_mirror
from tests.catalogue.world import header

MANY = 9_999  # streams; twice the rows that go to SQLite together, but one
OWN = 5_000  # of them, the last ones, with declarations and indexes
MADE = "0" * 32


def test_declarations_and_indexes_of_the_last_of_many_streams_are_kept(tmp_path: Path) -> None:
    last = range(MANY - OWN, MANY)
    records: list[Record] = [Bucket(id=1, name="b", created_us=1, alive=True)]
    records += [
        Stream(
            id=each, bucket=1, name=f"s{each}", content_type="application/json", created_us=1, first_epoch=0,
            profile="generic",
        )
        for each in range(MANY)
    ]  # fmt: skip
    records += [Schema(id=each, registry=msgspec.Raw(json.dumps({"schema": ""}).encode())) for each in last]
    records += [IndexPlan(id=each, generation=1, configs={"lexicon": "c"}, since_us=1) for each in last]
    records.append(
        IndexObject(made=MADE, family="lexicon", level=0, bytes=1, sum="", rows=1, payload_bytes=1, made_us=1)
    )
    records += [
        IndexCovers(made=MADE, configs=("c",), covers=((each, 0, 1, 0, 0, 1, 1, 1, 1, 0),)) for each in last
    ]  # fmt: skip
    with contextlib.closing(open_mirror(tmp_path / "mirror.db", building=True)) as db:
        apply(db, compose(header(), records))
        for table in ("schemas", "index_plans", "index_covers"):
            found = [stream for (stream,) in db.execute(f"SELECT stream FROM {table} ORDER BY stream")]  # noqa: S608 - ours
            assert found == list(last), table
