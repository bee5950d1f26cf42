import random
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexers import exact
from indexers.exact import STORED_BYTES_MAX, Built, Exact, Filter, may_hold, utf8
from indexers.exact.filter import FilterBuilder
from indexers.exact.write import hash_of
from indexers.runs import IndexDamaged, IndexTooNew
from tests.indexers.files import GOLDEN, TRICKY, in_memory, object_name, peak_of_memory

Rows = list[tuple[int, str, str | None]]

LONG = ["x" * STORED_BYTES_MAX, "x" * STORED_BYTES_MAX + "a", "x" * STORED_BYTES_MAX + "b", "é" * STORED_BYTES_MAX]
values = st.one_of(
    st.sampled_from([*TRICKY, *LONG, "\ud800", "a\udfff", "503", "true"]), st.text(max_size=3), st.none()
)
rows = st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["level", "user.id"]), values), max_size=30)
runs = st.lists(st.lists(rows, max_size=3), min_size=1, max_size=5)
GOLDEN_OBJECTS: list[Rows] = [
    [(1, "level", value) for value in [*TRICKY, *LONG, "\ud800"]],
    [(1, "level", "a"), (1, "level", "a"), (1, "user.id", "a"), (-2, "level", None), (-2, "level", "a")],
    [],
]


def table(entries: Rows) -> Any:
    names = ["stream", "field", "value"]
    columns: list[Any] = [list(column) for column in zip(*entries, strict=True)] or [[], [], []]
    columns[2] = [None if value is None else utf8(value) for value in columns[2]]
    kinds = (pa.int64(), pa.string(), pa.binary())
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)], names=names)


def built(objects: list[Rows], first: int = 0) -> tuple[bytes, Built]:
    half = [
        (object_name(first + at), [table(entries[: len(entries) // 2]), table(entries[len(entries) // 2 :])])
        for at, entries in enumerate(objects)
    ]
    return whole(lambda target: exact.build(half, target))


def whole(make: Any) -> tuple[bytes, Built]:
    found: list[Built] = []

    def keep(target: Any) -> Any:
        found.append(make(target))
        return found[0].written

    return in_memory(keep)[0], found[0]


def built_all(parts: list[list[Rows]]) -> list[bytes]:
    first, found = 0, []
    for objects in parts:
        found.append(built(objects, first)[0])
        first += len(objects)
    return found


def merged(parts: list[bytes]) -> tuple[bytes, Built]:
    return whole(lambda target: exact.merge([Exact(part) for part in parts], target))


def contents(file: bytes) -> Any:
    reader = Exact(file)
    return reader.objects, [row for each in reader.tables() for row in each.to_pylist()]


def check(readers: list[Exact], objects: list[Rows]) -> None:
    """Against a scan: nothing is missed, and nothing is named in vain (no two of these values collide)."""
    asked = {entry for entries in objects for entry in entries if entry[2] is not None}
    for stream, field, value in [*asked, (1, "level", "absent"), (9, "level", "a"), (1, "none", "a"), (2, "level", "")]:
        assert value is not None
        found = [name for reader in readers for name in reader.objects_of(stream, field, value)]
        assert found == [object_name(at) for at, entries in enumerate(objects) if (stream, field, value) in entries]


@settings(deadline=None, max_examples=60)
@given(runs)
def test_runs_and_their_merge_answer_as_a_scan_does(parts: list[list[Rows]]) -> None:
    objects = [entries for part in parts for entries in part]
    files = built_all(parts)
    check([Exact(file) for file in files], objects)
    file, made = merged(files)
    check([Exact(file, filtered=Filter(made.filter))], objects)
    once, built_once = built(objects)
    assert contents(once) == contents(file)
    for found in (made, built_once):
        assert all(
            may_hold(Filter(found.filter), stream, field, value)
            for entries in objects
            for stream, field, value in entries
            if value is not None
        )
    if len(files) > 2:
        assert contents(merged([merged(files[:2])[0], merged(files[2:])[0]])[0]) == contents(file)


def test_every_row_is_hashed_with_the_seed_of_its_own_stream_and_field() -> None:
    """However many there are, and however unevenly they are spread over the objects."""
    draw = random.Random(4)
    objects: list[Rows] = [
        [(draw.randrange(40), f"f{draw.randrange(5)}", str(draw.randrange(9))) for _ in range(300)] for _ in range(4)
    ]
    for row in contents(built(objects)[0])[1]:
        assert row["hash"] == hash_of(row["stream"], row["field"], row["value"])


def test_counts_are_of_occurrences_in_an_object() -> None:
    objects: list[Rows] = [[(1, "f", "a"), (1, "f", "a"), (1, "f", "b")], [(1, "f", "a")]]
    _, rows = contents(built(objects)[0])
    found = {(row["object"], row["value"].decode()): row["count"] for row in rows}
    assert found == Counter((at, value) for at, entries in enumerate(objects) for _, _, value in entries)


@pytest.mark.parametrize("keys", [0, 1, 41, 700, 20_000])
@pytest.mark.parametrize("bound", [1, 3, 40])
def test_a_filter_never_misses_and_rarely_says_maybe(keys: int, bound: int) -> None:
    draw = random.Random(keys)
    hashes = [draw.getrandbits(64) for _ in range(keys)]
    builder = FilterBuilder(keys * bound)
    for start in range(0, keys, 999):
        builder.add(pa.array(hashes[start : start + 999], pa.uint64()))
    data = builder.finish()
    filtered = Filter(data)
    assert filtered.keys == keys
    assert all(filtered.may_hold_hash(each) for each in hashes)
    assert sum(filtered.may_hold_hash(draw.getrandbits(64)) for _ in range(5000)) < 5000 * 0.02
    assert len(data) <= 28 + 64 + keys * 12 / 8 * (2.1 if bound < 32 else 3.2)


def test_a_damaged_filter_is_refused() -> None:
    data = built([[(1, "f", "a")]])[1].filter
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises(IndexDamaged):
            Filter(bytes(changed))
    for size in range(len(data)):
        with pytest.raises(IndexDamaged):
            Filter(data[:size])
    with pytest.raises(IndexTooNew, match="version 2"):
        Filter(struct.pack("<4sB", b"SNXF", 2) + data[5:])


def test_many_row_groups_are_searched_and_merged_in_bounded_memory(tmp_path: Path) -> None:
    count, parts = 20_000, 8
    files = []
    for number in range(parts):
        path = tmp_path / f"{number}"
        entries: Rows = [(1, "id", f"request-{number}-{at}") for at in range(count)]
        entries += [(1, "level", "info")] * 100
        exact.build([(object_name(number), [table(entries)])], path)
        files.append(path)
    target = tmp_path / "merged"
    with peak_of_memory() as peak:
        made = exact.merge([Exact(path) for path in files], target)
        assert peak() < 64 << 20
    assert made.written.rows == (count + 1) * parts
    with Exact(target, filtered=Filter(made.filter), expected=made.written) as reader:
        assert reader.groups >= 10
        assert len(list(reader.groups_within([(1, 1), ("id", "id"), (7, 7)]))) <= 1
        assert len(reader.objects_of(1, "level", "info")) == parts
        for at in range(0, count, 997):
            assert reader.objects_of(1, "id", f"request-3-{at}") == [object_name(3)]
            assert reader.objects_of(1, "id", f"request-9-{at}") == []


def test_one_input_makes_the_same_bytes_again() -> None:
    assert built(GOLDEN_OBJECTS) == built(GOLDEN_OBJECTS)


def test_the_golden_run_is_read() -> None:
    filtered = Filter((GOLDEN / "exact-1.filter").read_bytes())
    check([Exact(GOLDEN / "exact-1.parquet", filtered=filtered)], GOLDEN_OBJECTS)
    file, made = built(GOLDEN_OBJECTS)
    assert contents((GOLDEN / "exact-1.parquet").read_bytes()) == contents(file)
    assert (GOLDEN / "exact-1.filter").read_bytes() == made.filter


def write_golden() -> None:
    file, made = built(GOLDEN_OBJECTS)
    (GOLDEN / "exact-1.parquet").write_bytes(file)
    (GOLDEN / "exact-1.filter").write_bytes(made.filter)


if __name__ == "__main__":
    write_golden()
