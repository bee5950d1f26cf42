"""A bucket is readable without the node: plain pyarrow and DuckDB, and none of our code."""

import json
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from streams_node.segments.writer import Written
from tests.segments.entries import BIRTH_US, entries_of, sealed

MESSAGES = [json.dumps({"n": number, "text": "ä" * number}).encode() for number in range(30)]


@pytest.fixture
def pack(tmp_path: Path) -> Written:
    return sealed(tmp_path, entries_of(4, 100, [b"\x00\xff"]) + entries_of(7, 5, MESSAGES) + entries_of(8, 0, [b"z"]))


def test_pyarrow_reads_a_streams_messages(pack: Written) -> None:
    table = pq.read_table(pack.file, filters=[("stream", "=", 7)], columns=["seq", "payload"])
    assert table.column("payload").to_pylist() == MESSAGES
    assert table.column("seq").to_pylist() == list(range(5, 35))


def test_duckdb_reads_a_streams_messages(pack: Written) -> None:
    query = (
        "from read_parquet($file) select seq, decode(payload), key, epoch_us(append_ts) where stream = 7 order by seq"
    )
    rows = duckdb.execute(query, {"file": str(pack.file)}).fetchall()
    assert [row[1].encode() for row in rows] == MESSAGES
    assert rows[1] == (6, MESSAGES[1].decode(), "key-1", BIRTH_US + 6)


def test_duckdb_reads_the_format_line(pack: Written) -> None:
    query = "from parquet_kv_metadata($file) select decode(key), decode(value)"
    found = dict(duckdb.execute(query, {"file": str(pack.file)}).fetchall())
    assert json.loads(found["streams.format"]) == {"format": 1, "made": pack.made, "kind": "pack", "level": 0}
    assert found["streams.directory"].isascii()


def test_statistics_say_where_streams_and_times_are_and_nothing_of_payloads(pack: Written) -> None:
    group = pq.read_metadata(pack.file).row_group(0)
    columns = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    with_statistics = {name for name, column in columns.items() if column.is_stats_set}
    assert with_statistics == {"stream", "seq", "append_ts", "key"}
    assert (columns["stream"].statistics.min, columns["stream"].statistics.max) == (4, 8)
    assert not columns["payload"].has_dictionary_page
    assert {column.compression for column in columns.values()} == {"ZSTD"}
