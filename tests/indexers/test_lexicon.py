from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from indexers import lexicon
from indexers.lexicon import Lexicon, first_keys, key_page
from tests.indexers.files import GOLDEN, TRICKY, in_memory, object_name, peak_of_memory

Rows = list[tuple[int, str | None]]

keys = st.one_of(st.sampled_from(TRICKY), st.text(st.characters(exclude_categories=["Cs"]), max_size=4), st.none())
rows = st.lists(st.tuples(st.integers(1, 3), keys), max_size=30)
runs = st.lists(st.lists(rows, max_size=3), min_size=1, max_size=5)  # runs of objects of rows
GOLDEN_OBJECTS: list[Rows] = [[(1, key) for key in TRICKY], [(1, "a"), (1, "a"), (2, None), (2, "a"), (-5, "x")], []]


def table(entries: Rows) -> Any:
    streams, keys = [stream for stream, _ in entries], [key for _, key in entries]
    return pa.table({"stream": pa.array(streams, pa.int64()), "key": pa.array(keys, pa.string())})


def built(objects: list[Rows], first: int = 0) -> bytes:
    half = [
        (object_name(first + at), [table(entries[: len(entries) // 2]), table(entries[len(entries) // 2 :])])
        for at, entries in enumerate(objects)
    ]
    return in_memory(lambda target: lexicon.build(half, target))[0]


def built_all(parts: list[list[Rows]]) -> list[bytes]:
    first, found = 0, []
    for objects in parts:
        found.append(built(objects, first))
        first += len(objects)
    return found


def merged(parts: list[bytes]) -> bytes:
    return in_memory(lambda target: lexicon.merge([Lexicon(part) for part in parts], target))[0]


def in_order(found: set[str]) -> list[str]:
    return sorted(found, key=lambda key: key.encode())


def check(readers: list[Lexicon], objects: list[Rows]) -> None:
    """Against a scan of all entries."""
    for stream in range(5):
        expected = in_order({key for entries in objects for at, key in entries if at == stream and key is not None})
        after, seen = None, list[str]()
        while True:
            page = key_page(readers, stream, after=after, limit=3)
            seen += page.keys
            after = page.next_after
            if after is None:
                break
            assert len(page.keys) == 3
        assert seen == expected
        for key in [*expected, "absent"]:
            holding = {name for reader in readers for name in reader.objects_of(stream, key)}
            assert holding == {object_name(at) for at, entries in enumerate(objects) if (stream, key) in entries}
        for key in ["", "b", "\uffff", "\U0001f600"]:
            assert key_page(readers, stream, after=key, limit=1000).keys == [
                each for each in expected if each.encode() > key.encode()
            ]


@settings(deadline=None, max_examples=60)
@given(runs)
def test_runs_and_their_merge_answer_as_a_scan_does(parts: list[list[Rows]]) -> None:
    objects = [entries for part in parts for entries in part]
    files = built_all(parts)
    check([Lexicon(file) for file in files], objects)
    whole = merged(files)
    check([Lexicon(whole)], objects)
    if len(files) > 2:
        assert same(merged([merged(files[:2]), merged(files[2:])]), whole)


def same(left: bytes, right: bytes) -> bool:
    return bool(contents(left) == contents(right))


def contents(file: bytes) -> Any:
    reader = Lexicon(file)
    return reader.objects, [row for each in reader.tables() for row in each.to_pylist()]


@settings(deadline=None, max_examples=30)
@given(runs)
def test_a_merge_holds_what_one_build_holds(parts: list[list[Rows]]) -> None:
    files = built_all(parts)
    assert same(merged(files), built([entries for part in parts for entries in part]))


def test_counts_are_of_entries() -> None:
    objects: list[Rows] = [[(1, "a"), (1, "a"), (1, "b")], [(1, "a"), (1, None)]]
    expected = Counter(key for entries in objects for _, key in entries if key is not None)
    for file in (built(objects), merged(built_all([[each] for each in objects]))):
        found = {row["key"]: row["count"] for each in Lexicon(file).tables() for row in each.to_pylist()}
        assert found == expected


def test_many_row_groups_are_read_page_by_page_in_order_and_merged_in_bounded_memory(tmp_path: Path) -> None:
    count, parts = 20_000, 8
    names = [
        [f"{'kK'[at % 2]}{at}-{TRICKY[at % len(TRICKY)]}" for at in range(number, count * parts, parts)]
        for number in range(parts)
    ]
    files = []
    for number, each in enumerate(names):
        path = tmp_path / f"{number}"
        lexicon.build([(object_name(number), [table([(1, key) for key in each])])], path)
        files.append(path)
    target = tmp_path / "merged"
    readers = [Lexicon(path) for path in files]
    with peak_of_memory() as peak:
        written = lexicon.merge(readers, target)
        assert peak() < 48 << 20
    assert written.size == target.stat().st_size
    assert (written.min_stream, written.max_stream, written.rows) == (1, 1, count * parts)
    with Lexicon(target, expected=written) as reader:
        assert reader.groups > 4
        assert list(reader.keys(1)) == in_order({key for each in names for key in each})
        assert reader.objects_of(1, names[3][77]) == [object_name(3)]


def test_two_runs_of_one_object_keep_their_places() -> None:
    """Each is of other entries: which ones, the covers with its ordinal say."""
    both = Lexicon(merged([built([[(1, "a")]]), built([[(1, "b"), (1, "a")]])]))
    assert both.objects == (object_name(0), object_name(0))
    assert both.ordinals_of(1, "a") == [0, 1]
    assert both.ordinals_of(1, "b") == [1]


def test_one_input_makes_the_same_bytes_again() -> None:
    assert built(GOLDEN_OBJECTS) == built(GOLDEN_OBJECTS)


def test_the_golden_run_is_read() -> None:
    check([Lexicon(GOLDEN / "lexicon-1.parquet")], GOLDEN_OBJECTS)
    assert same((GOLDEN / "lexicon-1.parquet").read_bytes(), built(GOLDEN_OBJECTS))


if __name__ == "__main__":
    (GOLDEN / "lexicon-1.parquet").write_bytes(built(GOLDEN_OBJECTS))


@given(
    st.lists(st.lists(st.sets(st.text("ab\ud800é", max_size=3), min_size=1), max_size=4), max_size=5),
    st.integers(0, 40),
)
def test_the_first_keys_of_runs_are_those_of_all_of_them(drawn: list[list[set[str]]], most: int) -> None:
    """Blocks of a run follow one another; the same key may be in several runs."""
    every = [sorted(set().union(*run)) for run in drawn]
    asked = 0

    def blocks(keys: list[str], sizes: list[int]) -> Iterator[list[str]]:
        nonlocal asked
        for size in sizes:
            some, keys = keys[:size], keys[size:]
            if some:
                asked += 1
                yield some
        if keys:
            yield keys

    runs = [blocks(keys, [len(each) for each in run]) for keys, run in zip(every, drawn, strict=True)]
    assert first_keys(runs, most) == sorted(set().union(*every))[:most]
    assert most or asked <= len(runs)  # no more than the first block of each
