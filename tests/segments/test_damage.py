"""Files that are not whole, not ours, or not of this version are named as such, and never read as something else."""

import base64
import random
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streams_node.errors import ObjectDamaged
from streams_node.segments.directory import Directory
from streams_node.segments.format import DIRECTORY_KEY, FORMAT_KEY, SCHEMA
from streams_node.segments.reader import SealedFile
from streams_node.segments.writer import Written
from tests.segments.entries import batch_of, entries_of, sealed

MADE = "0123456789abcdef" * 2
GOOD = {"format": 1, "made": MADE, "kind": "segment", "level": 0}
ROUNDS = 150


@pytest.fixture
def pack(tmp_path: Path) -> Written:
    source = random.Random(5)
    entries = [
        entry for stream in (3, 5, 9) for entry in entries_of(stream, 0, [source.randbytes(200) for _ in range(99)])
    ]
    return sealed(tmp_path, entries, made=MADE)


def foreign(path: Path, metadata: dict[bytes, bytes], table: Any = None) -> Path:
    table = pa.Table.from_batches([batch_of(entries_of(1, 0, [b"x"]))]) if table is None else table
    writer = pq.ParquetWriter(path, table.schema, store_schema=False)
    writer.write_table(table)
    writer.add_key_value_metadata(metadata)
    writer.close()
    return path


def problem_of(path: Path) -> str:
    with pytest.raises(ObjectDamaged) as caught:
        SealedFile(path, MADE)
    assert MADE in caught.value.message
    return caught.value.message


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({}, "none that a node has sealed"),
        ({FORMAT_KEY: b"{"}, "format line"),
        ({FORMAT_KEY: b"[1]"}, "format line"),
        (
            {FORMAT_KEY: msgspec.json.encode(GOOD | {"format": 2, "new": True})},
            "format 2, this version knows 1; run the newer",
        ),
        ({FORMAT_KEY: msgspec.json.encode(GOOD | {"made": "ff" * 16})}, "says that it is"),
        ({FORMAT_KEY: msgspec.json.encode(GOOD | {"made": "../../etc"})}, "format line"),
        ({FORMAT_KEY: msgspec.json.encode(GOOD | {"kind": "heap"})}, "format line"),
        ({FORMAT_KEY: msgspec.json.encode(GOOD | {"level": "0"})}, "format line"),
        ({FORMAT_KEY: msgspec.json.encode(GOOD | {"kind": "pack"})}, "a pack has a directory"),
        ({FORMAT_KEY: msgspec.json.encode(GOOD), DIRECTORY_KEY: b""}, "a segment has none"),
    ],
)
def test_a_file_that_is_not_ours_or_newer_is_refused(
    tmp_path: Path, metadata: dict[bytes, bytes], problem: str
) -> None:
    assert problem in problem_of(foreign(tmp_path / "a", metadata))


def test_a_file_with_other_columns_is_refused(tmp_path: Path) -> None:
    good = {FORMAT_KEY: msgspec.json.encode(GOOD)}
    table = pa.table({"stream": pa.array([1], pa.int64())})
    assert "columns" in problem_of(foreign(tmp_path / "a", good, table))


def test_a_directory_that_is_no_text_is_damage(tmp_path: Path) -> None:
    metadata = {FORMAT_KEY: msgspec.json.encode(GOOD | {"kind": "pack"}), DIRECTORY_KEY: b"*"}
    with SealedFile(foreign(tmp_path / "a", metadata), MADE) as file, pytest.raises(ObjectDamaged, match="directory"):
        file.directory()


@pytest.mark.parametrize("content", [b"", b"P", b"PAR1", b"PAR1PAR1", bytes(5000), b"hello " * 100])
def test_what_is_no_parquet_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    problem_of(path)


def test_every_cut_is_noticed(pack: Written, tmp_path: Path) -> None:
    blob = pack.file.read_bytes()
    path = tmp_path / "cut"
    for size in random.Random(1).sample(range(len(blob)), ROUNDS):
        path.write_bytes(blob[:size])
        problem_of(path)


def test_a_flipped_bit_in_the_data_is_never_read_as_data(pack: Written, tmp_path: Path) -> None:
    """Whatever lies in a page is under its checksum. The footer is not: an object's SHA-256 covers it, at the fill."""
    source = random.Random(2)
    blob = pack.file.read_bytes()
    good = contents(pack.file)
    footer_size = int.from_bytes(blob[-8:-4], "little") + 8
    path = tmp_path / "flipped"
    refused = 0
    for _ in range(ROUNDS):
        flipped = bytearray(blob)
        flipped[source.randrange(4, len(blob) - footer_size)] ^= 1 << source.randrange(8)
        path.write_bytes(flipped)
        try:
            assert contents(path) == good
        except ObjectDamaged:
            refused += 1
    assert refused > ROUNDS // 2


def test_a_flipped_bit_in_the_footer_does_nothing_worse_than_damage(pack: Written, tmp_path: Path) -> None:
    source = random.Random(3)
    blob = pack.file.read_bytes()
    footer_size = int.from_bytes(blob[-8:-4], "little") + 8
    path = tmp_path / "flipped"
    for _ in range(ROUNDS):
        flipped = bytearray(blob)
        flipped[len(blob) - 1 - source.randrange(footer_size)] ^= 1 << source.randrange(8)
        path.write_bytes(flipped)
        try:
            contents(path)
        except ObjectDamaged:
            continue


def contents(path: Path) -> list[Any]:
    with SealedFile(path, MADE) as file:
        Directory.unpack(file.directory() or b"", MADE)
        return [
            file.group(number).entries(*file.footer.starts[number : number + 2]) for number in range(file.groups)
        ] + [row for batch in file.batches() for row in batch.to_pylist()]


def test_a_missing_file_is_missing_and_not_damaged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SealedFile(tmp_path / "gone", MADE)


def test_the_schema_is_the_documented_one() -> None:
    assert SCHEMA.names == ["stream", "seq", "append_ts", "append_start", "schema_version", "key", "payload"]
    assert base64.b64encode(b"\x01") == b"AQ=="
