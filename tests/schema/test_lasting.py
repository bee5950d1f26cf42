"""What is declared survives restarts, failed commits, and a start from the bucket; and ends with its stream."""

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from msgspec import Raw

from streams_node.errors import OutcomeUnknown
from streams_node.manifest import dump, records, tables
from streams_node.manifest.records import Gone, Schema, Stream
from streams_node.manifest.statements import mirror_layout, mirror_statements
from streams_node.testing.inprocess import InProcess, in_process
from streams_node.wal.migrate import migrate
from tests.schema.messages import OPS, V1, V2, append, create, lens, read, update

SHOWN = b'[{"c":"x","n":7},{"c": "y", "n": 1}]'


async def evolve(node: InProcess) -> bytes:
    await create(node)
    assert (await update(node, {"schema": V1})).status == 200
    assert (await append(node, [{"a": "x"}])).status == 204
    answer = await update(
        node, {"schema": V2, "lens": lens(*OPS), "routingKey": {"jsonPointer": "/c", "required": True}}
    )
    assert answer.status == 200
    assert (await append(node, [{"c": "y", "n": 1}])).status == 204
    return answer.body


async def check(node: InProcess, registry: bytes) -> None:
    shown = await node.request("GET", "/v1/stream/s/_schema")
    assert json.loads(shown.body) == json.loads(registry)
    assert (await append(node, [{"a": "x"}])).status == 400
    assert (await append(node, [{"c": "z", "n": 1}], **{"stream-key": "k"})).status == 400


def test_a_restart_keeps_the_registry_the_boundaries_and_the_version(tmp_path: Path) -> None:
    async def main() -> None:
        async with in_process(tmp_path / "data") as node:
            registry = await evolve(node)
        for _ in range(2):
            async with in_process(tmp_path / "data") as node:
                assert (await read(node)).body == SHOWN
                await check(node, registry)
        async with in_process(tmp_path / "data") as node:
            assert (await node.request("DELETE", "/v1/stream/s")).status == 204
        with sqlite3.connect(tmp_path / "data" / "streams.db") as db:
            assert db.execute("SELECT count(*) FROM schemas").fetchone() == (0,)

    anyio.run(main)


def test_a_declaration_whose_commit_fails_is_not_there_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with in_process(tmp_path / "data") as node:
            await create(node)
            await append(node, [{"a": 1}])
            real = node.context.database.writer.run

            async def failing(*_: Any) -> Any:
                raise sqlite3.OperationalError("disk I/O error")

            monkeypatch.setattr(node.context.ledger.committer, "_writer", _Writer(failing))
            answer = await update(node, {"routingKey": {"jsonPointer": "/k", "required": True}})
            assert (answer.status, json.loads(answer.body)["error"]["code"]) == (503, OutcomeUnknown.code)
            monkeypatch.setattr(node.context.ledger.committer, "_writer", _Writer(real))
            with anyio.fail_after(10):
                while node.context.ledger.broken:
                    await anyio.lowlevel.checkpoint()
            assert b"routingKey" not in (await node.request("GET", "/v1/stream/s/_schema")).body
            assert (await append(node, [{"a": 1}])).status == 204

    anyio.run(main)


class _Writer:
    def __init__(self, run: Any) -> None:
        self.run = run


def test_a_stored_registry_that_cannot_be_used_stops_its_own_stream_only(tmp_path: Path) -> None:
    async def main() -> None:
        async with in_process(tmp_path / "data") as node:
            await evolve(node)
            await create(node, "/v1/stream/t")
        with sqlite3.connect(tmp_path / "data" / "streams.db") as db:
            db.execute("UPDATE schemas SET registry = '{}'")
        db.close()
        async with in_process(tmp_path / "data") as node:
            assert (await read(node)).status == 500
            assert (await node.request("GET", "/v1/stream/s/_schema")).status == 500
            assert (await append(node, [{"c": "y", "n": 1}])).status == 500
            assert (await update(node, {"routingKey": None})).status == 500
            assert (await read(node, "?format=raw")).status == 200
            assert (await append(node, [1], "/v1/stream/t")).status == 204

    anyio.run(main)


def test_a_start_from_the_bucket_keeps_it_and_moves_boundaries_of_lost_entries(tmp_path: Path) -> None:
    bucket: dict[str, Any] = {"object_store_folder": tmp_path / "bucket"}

    async def main() -> None:
        async with in_process(tmp_path / "first", tiers=True, **bucket) as node:
            registry = await evolve(node)
            assert (await node.request("POST", "/v1/stream/s/_flush")).status == 200
            assert (await read(node)).body == SHOWN
        async with in_process(tmp_path / "second", tiers=True, bootstrap_from_store=True, **bucket) as node:
            assert (await read(node)).body == SHOWN
            await check(node, registry)
            assert (await append(node, [{"c": "z", "n": 1}])).status == 204
            assert (await read(node)).body == SHOWN[:-1] + b',{"c": "z", "n": 1}]'

    anyio.run(main)


def test_a_version_that_began_in_the_lost_tail_begins_where_the_stream_goes_on() -> None:
    sql = mirror_statements()
    with sqlite3.connect(":memory:", isolation_level=None) as db:
        migrate(db)
        db.execute("ATTACH DATABASE ':memory:' AS mirror")
        layout = mirror_layout().replace("CREATE TABLE ", "CREATE TABLE mirror.").replace("INDEX ", "INDEX mirror.")
        db.executescript(layout.partition("CREATE TRIGGER")[0])
        registry = {"boundaries": [{"offset": at, "version": number} for number, at in enumerate((0, 5, 9, 12), 1)]}
        db.execute("INSERT INTO main.heads (stream, next_seq) VALUES (1, 7)")
        db.execute("INSERT INTO mirror.schemas VALUES (1, ?, NULL)", (json.dumps(registry),))
        db.execute(sql.restore_schemas)
        db.execute(sql.restore_boundaries)
        text = db.execute("SELECT registry FROM main.schemas").fetchone()[0]
    db.close()
    assert [(each["offset"], each["version"]) for each in json.loads(text)["boundaries"]] == [
        (0, 1), (5, 2), (7, 3), (7, 4),
    ]  # fmt: skip


def test_a_snapshot_of_the_catalogue_holds_what_is_declared_and_forgets_it_with_its_stream(tmp_path: Path) -> None:
    stream = Stream(
        id=1, bucket=1, name="s", content_type="application/json", created_us=0, first_epoch=0, profile="evlog"
    )
    declared = Schema(id=1, registry=Raw(b'{"currentVersion":0}'), config=Raw(b'{"redactKeys":["pin"]}'))
    stray = Schema(id=2, registry=Raw(b"{}"))
    with contextlib.closing(tables.open_mirror(tmp_path / "mirror.db")) as db:
        lines = [records.decode(records.encode(each), "line") for each in (declared, stray, stream)]
        tables._write(db, lines, fresh=False)
        assert [records.encode(each) for each in dump._large(db)] == [records.encode(stream), records.encode(declared)]
        tables._write(db, [Gone(bucket=1, name="s", epoch=0, id=1, deleted_us=0)], fresh=False)
        assert [type(each) for each in dump._large(db)] == [Gone]
