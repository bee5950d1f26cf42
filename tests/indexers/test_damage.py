"""A run that is not whole is refused, never read as an answer."""

import random
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from indexers import exact, lexicon
from indexers.exact import Exact
from indexers.lexicon import Lexicon
from indexers.metrics import Metrics
from indexers.rollups import Rollups
from indexers.runs import IndexDamaged, IndexTooNew, RunReader, RunWriter, Written
from indexers.runs.files import METADATA_KEY
from tests.indexers.files import GOLDEN, in_memory, object_name

FAMILIES = pytest.mark.parametrize(
    ("name", "reader"),
    [("lexicon", Lexicon), ("exact", Exact), ("rollups", Rollups), ("metrics", Metrics)],
    ids=lambda each: str(each)[:8],
)
KEYS = pa.table({"stream": pa.array([1, 1], pa.int64()), "key": ["b", "a"]})


def golden(name: str) -> Path:
    """Of the format that is written now."""
    return max(GOLDEN.glob(f"{name}-*.parquet"))


def contents(reader: RunReader) -> list[Any]:
    with reader:
        return [reader.objects, *(table.to_pylist() for table in reader.tables())]


def rewritten(family: Any, metadata: bytes | None, table: Any = None) -> bytes:
    sink = BytesIO()
    table = family.schema.empty_table() if table is None else table
    pq.write_table(table.replace_schema_metadata(None if metadata is None else {METADATA_KEY: metadata}), sink)
    return sink.getvalue()


@FAMILIES
def test_a_changed_byte_is_noticed_or_changes_nothing(name: str, reader: Any) -> None:
    """Page checksums guard the pages. The footer has none: that is what the checksum of the whole is for."""
    good = (golden(name)).read_bytes()
    pages_end = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    expected = contents(reader(good))
    draw = random.Random(1)
    for at in [*range(pages_end), *draw.sample(range(pages_end, len(good)), 300)]:
        changed = bytearray(good)
        changed[at] ^= 1 << draw.randrange(8)
        try:
            found = contents(reader(bytes(changed)))
        except IndexDamaged:
            continue
        assert found == expected or at >= pages_end


@FAMILIES
def test_a_truncated_run_is_refused(name: str, reader: Any, tmp_path: Path) -> None:
    good = (golden(name)).read_bytes()
    for size in range(0, len(good), 7):
        with pytest.raises(IndexDamaged):
            reader(good[:size])
    (tmp_path / "cut").write_bytes(good[:-1])
    with pytest.raises(IndexDamaged, match="cut"):
        reader(tmp_path / "cut")
    with pytest.raises(FileNotFoundError):
        reader(tmp_path / "absent")


def test_the_checksum_of_the_whole_guards_every_byte(tmp_path: Path) -> None:
    good, written = in_memory(lambda target: lexicon.build([(object_name(1), [KEYS])], target))
    assert contents(Lexicon(good, expected=written)) == contents(Lexicon(good))
    for at in range(len(good)):
        changed = bytearray(good)
        changed[at] ^= 1
        with pytest.raises(IndexDamaged, match="checksum"):
            Lexicon(bytes(changed), expected=written)
    (tmp_path / "run").write_bytes(good + b"\0")
    with pytest.raises(IndexDamaged, match=f"should have {len(good)}"):
        Lexicon(tmp_path / "run", expected=written)


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        (None, "no run of an index"),
        (b"{", "truncated"),
        (b'{"family":"lexicon"}', "format"),
        (b'{"family":"exact","format":1,"objects":[]}', "family `exact`"),
        (b'{"family":"lexicon","format":1,"objects":[1]}', "Expected `str`"),
    ],
)
def test_a_file_that_is_no_run_of_the_family_is_refused(metadata: bytes | None, reason: str) -> None:
    with pytest.raises(IndexDamaged, match=reason):
        Lexicon(rewritten(lexicon.FAMILY, metadata))


def test_a_newer_format_is_named_as_such_whatever_else_it_holds() -> None:
    with pytest.raises(IndexTooNew, match="has format 2, this version knows 1"):
        Lexicon(rewritten(exact.FAMILY, b'{"family":"lexicon","format":2,"more":true}'))


def test_other_columns_are_refused() -> None:
    metadata = msgspec.json.encode({"family": "lexicon", "format": 1, "objects": []})
    with pytest.raises(IndexDamaged, match="columns"):
        Lexicon(rewritten(exact.FAMILY, metadata))


def test_a_writer_that_is_left_early_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), RunWriter(lexicon.FAMILY, tmp_path / "run", []):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    lexicon.build([], tmp_path / "run")
    with pytest.raises(FileExistsError):
        lexicon.build([], tmp_path / "run")


@pytest.mark.parametrize("ordinal", [-1, 1])
def test_rows_of_an_object_that_the_run_does_not_cover_are_damage(ordinal: int) -> None:
    run, _ = in_memory(lambda target: write_one(target, ordinal))
    with pytest.raises(IndexDamaged, match="name objects"):
        Lexicon(run).objects_of(1, "a")


def write_one(target: Any, ordinal: int) -> Written:
    with RunWriter(lexicon.FAMILY, target, ["x"]) as writer:
        writer.write(pa.table([[1], ["a"], [[ordinal]], [1]], schema=lexicon.FAMILY.schema))
        return writer.finish()


def test_rows_out_of_order_are_refused() -> None:
    row = pa.table([[1], ["a"], [[0]], [1]], schema=lexicon.FAMILY.schema)
    with RunWriter(lexicon.FAMILY, BytesIO(), ["x"]) as writer:
        writer.write(row)
        with pytest.raises(ValueError, match="order"):
            writer.write(row)
