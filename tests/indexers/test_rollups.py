import json
import math
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexers import rollups
from indexers.rollups import (
    INTERVAL_MS_MAX,
    Counted,
    Measure,
    Part,
    Parts,
    Rollups,
    Summarised,
    Summary,
    Window,
    windows,
)
from indexers.rollups.cells import _log2_buckets
from indexers.runs import IndexDamaged
from tests.indexers.files import GOLDEN, in_memory, object_name, peak_of_memory

INTERVALS = [1, 1000, 2500, 5000, 60_000, INTERVAL_MS_MAX]  # two chains: 2500 is no multiple of 1000
DATE_MS_MAX = 8_640_000_000_000_000


class Entry(NamedTuple):
    stream: int
    time: int
    level: str | None
    code: str | None
    value: float  # in quarters: sums are exact in any order
    taken: int
    histogram: dict[str, float]


quarters = st.integers(-(10**6), 10**6).map(lambda value: value / 4)
labels = st.sampled_from([None, "a", "b", "", 'q"', "é", "\U0001f600", "\ud800", "null"])
entries = st.builds(
    Entry,
    stream=st.integers(1, 2),
    time=st.one_of(st.integers(-3000, 130_000), st.sampled_from([-DATE_MS_MAX, DATE_MS_MAX, -60_000, -1, 0])),
    level=labels,
    code=labels,
    value=quarters,
    taken=st.integers(0, 1),
    histogram=st.dictionaries(st.sampled_from(["", "1", "2", "\ud800", "odd"]), quarters, max_size=2),
)
objects_of = st.lists(st.lists(entries, max_size=20), max_size=3)
runs = st.lists(objects_of, min_size=1, max_size=4)
GOLDEN_OBJECTS = [
    [
        Entry(1, -1, "a", None, 0.25, 1, {"1": 2.5}),
        Entry(1, 0, "a", None, -7.5, 0, {}),
        Entry(2, 5, "é", "x", 1, 1, {}),
    ],
    [Entry(1, 61_000, None, "b", 4.5, 1, {"4": 1}), Entry(1, 61_500, None, "b", 1024.0, 1, {"": 1, "4": 2})],
]


def parts_of(found: Sequence[Entry]) -> list[Part]:
    """Of each stream one part, but in two halves."""
    halves = [found[: len(found) // 2], found[len(found) // 2 :]]
    return [part([each for each in half if each.stream == stream], stream) for stream in (1, 2) for half in halves]


def part(found: Sequence[Entry], stream: int) -> Part:
    values = [each.value for each in found]
    return Part(
        stream=stream,
        rollup="requests",
        intervals=INTERVALS,
        times=[each.time for each in found],
        dimensions=[[each.level for each in found], [each.code for each in found]],
        measures={
            "all": Counted(),
            "some": Counted([each.taken for each in found]),
            "plain": Summarised(values),
            "binned": Summarised(pa.array(values, pa.float64()), histogram=True),
            "given": Parts(values, values, values, values, [each.histogram for each in found]),
        },
    )


def built(objects: Sequence[Sequence[Entry]], first: int = 0) -> bytes:
    named = [(object_name(first + at), parts_of(each)) for at, each in enumerate(objects)]
    return in_memory(lambda target: rollups.build(named, target))[0]


def built_all(parts: Sequence[Sequence[Sequence[Entry]]]) -> list[bytes]:
    first, found = 0, []
    for objects in parts:
        found.append(built(objects, first))
        first += len(objects)
    return found


def merged(files: Sequence[bytes]) -> bytes:
    return in_memory(lambda target: rollups.merge([Rollups(file) for file in files], target))[0]


def contents(file: bytes) -> Any:
    reader = Rollups(file)
    return reader.objects, [row for each in reader.tables() for row in each.to_pylist()]


def recount(found: Sequence[Entry], stream: int, interval: int, begin: int, end: int) -> list[Window]:
    """Straight from the definition."""
    made: dict[tuple[int, tuple[str | None, ...]], dict[str, Summary]] = {}
    for each in found:
        start = each.time // interval * interval
        if each.stream != stream or start < begin or start + interval > end:
            continue
        names = ("all", "some", "plain", "binned", "given")
        measures = made.setdefault((start, (each.level, each.code)), {name: Summary() for name in names})
        measures["all"] += Summary(1)
        measures["some"] += Summary(each.taken)
        value = each.value
        measures["plain"] += Summary(1, value, value, value)
        bucket = 2 ** math.floor(math.log2(max(1, abs(value))))
        measures["binned"] += Summary(1, value, value, value, {str(bucket): 1})
        measures["given"] += Summary(value, value, value, value, dict(each.histogram))
    return [Window(*key, measures) for key, measures in made.items()]


def by_window(found: Sequence[Window]) -> dict[Any, Any]:
    assert [each.start for each in found] == sorted(each.start for each in found)
    assert len({(each.start, each.dimensions) for each in found}) == len(found)
    return {(each.start, each.dimensions): each.measures for each in found}


def check(readers: Sequence[Rollups], found: Sequence[Entry]) -> None:
    for stream in (1, 2, 3):
        for interval in INTERVALS:
            for begin, end in ((-(1 << 60), 1 << 60), (0, 60_000), (-1000, 61_001), (5, 5), (999, 61_999)):
                expected = recount(found, stream, interval, begin, end)
                expected.sort(key=lambda window: window.start)
                answer = list(windows([(each, None) for each in readers], stream, "requests", interval, begin, end))
                assert by_window(answer) == by_window(expected)
                if len(readers) == 1:
                    assert list(readers[0].windows(stream, "requests", interval, begin, end)) == answer


@settings(deadline=None, max_examples=20)
@given(runs)
def test_runs_and_their_merge_tell_what_a_recount_tells(parts: list[list[list[Entry]]]) -> None:
    found = [each for objects in parts for entries in objects for each in entries]
    files = built_all(parts)
    check([Rollups(file) for file in files], found)
    whole = merged(files)
    check([Rollups(whole)], found)
    assert contents(whole) == contents(built([entries for objects in parts for entries in objects]))
    if len(files) > 2:
        assert contents(merged([merged(files[:2]), merged(files[2:])])) == contents(whole)


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_buckets_are_powers_of_two_below_the_value(values: list[float]) -> None:
    keys, codes = _log2_buckets(pa.array(values, pa.float64()))
    for value, code in zip(values, codes.to_pylist(), strict=True):
        text = keys[code]
        assert text is not None
        bucket, size = int(text), max(1.0, abs(value))
        assert bucket.bit_count() == 1
        assert bucket <= size < 2 * bucket


@pytest.mark.parametrize(
    ("value", "bucket"), [(0, 1), (-0.0, 1), (1.99, 1), (2, 2), (-5, 4), (2**49 - 2**-4, 2**48), (1e308, 2**1023)]
)
def test_a_bucket_by_example(value: float, bucket: int) -> None:
    assert _log2_buckets(pa.array([value], pa.float64()))[0] == [str(bucket).encode()]


def test_a_rollup_without_dimensions_or_entries() -> None:
    bare = Part(stream=1, rollup="r", intervals=[1000], times=[5, 6], dimensions=[], measures={"n": Counted()})
    none = Part(stream=1, rollup="q", intervals=[1000], times=[], dimensions=[[]], measures={"n": Counted()})
    file, written = in_memory(lambda target: rollups.build([(object_name(1), [bare, none])], target))
    with Rollups(file, expected=written) as reader:
        assert list(reader.windows(1, "r", 1000, 0, 1000)) == [Window(0, (), {"n": Summary(2)})]
        assert list(reader.windows(1, "q", 1000, 0, 1000)) == []


@pytest.mark.parametrize("interval", [0, -1, INTERVAL_MS_MAX + 1])
def test_an_interval_that_no_window_has_is_refused(interval: int) -> None:
    bad = Part(stream=1, rollup="r", intervals=[interval], times=[5], dimensions=[], measures={"n": Counted()})
    with pytest.raises(ValueError, match="interval"):
        in_memory(lambda target: rollups.build([(object_name(1), [bad])], target))


def test_many_windows_are_merged_in_bounded_memory(tmp_path: Path) -> None:
    count, files = 30_000, []
    for number in range(8):
        times = [at * 1000 + number for at in range(count)]
        each = Part(stream=1, rollup="r", intervals=[1000], times=times, dimensions=[], measures={"n": Counted()})
        files.append(tmp_path / f"{number}")
        rollups.build([(object_name(number), [each])], files[-1])
    readers = [Rollups(file) for file in files]
    with peak_of_memory() as peak:
        written = rollups.merge(readers, tmp_path / "merged")
        assert peak() < 64 << 20
    assert written.rows == 8 * count
    with Rollups(tmp_path / "merged", expected=written) as reader:
        assert len(list(reader.numbers_within(1, "r", 1000, 0, 9000))) == 1
        assert [each.measures["n"].count for each in reader.windows(1, "r", 1000, 7_000_000, 7_003_000)] == [8, 8, 8]


def at_times(times: Sequence[int], intervals: Sequence[int], owners: Sequence[str]) -> Part:
    measures: dict[str, Measure] = {
        "n": Counted(),
        "ms": Summarised([float(at) for at in range(len(times))], histogram=True),
    }
    return Part(stream=1, rollup="r", intervals=intervals, times=times, dimensions=[owners], measures=measures)


def kinds_of(*parts: Part) -> set[tuple[int, int]]:
    file, _ = in_memory(lambda target: rollups.build([(object_name(1), parts)], target))
    return {(row["interval"], row["longest"]) for row in contents(file)[1]}


def test_longer_windows_are_written_where_they_are_fewer() -> None:
    times, intervals = range(0, 1000, 10), [10, 20, 30, 60, 600]
    alone = [f"owner-{at}" for at in times]
    assert kinds_of(at_times(times, intervals[:2], alone)) == {(10, 20)}
    assert kinds_of(at_times(times, intervals, alone)) == {(10, 20), (30, 600)}
    assert kinds_of(at_times(times, [600, 10, 60, 60], alone)) == {(10, 600)}
    assert kinds_of(at_times(times, [10, 60, 600], ["one"] * 100)) == {(10, 10), (60, 60), (600, 600)}
    pairs = [f"owner-{at // 600}" for at in times]
    assert kinds_of(at_times(times, [10, 1_000_000], pairs)) == {(10, 10), (1_000_000, 1_000_000)}
    assert kinds_of(at_times(times, [600, 6000], pairs)) == {(600, 6000)}


def test_objects_of_many_and_of_few_windows_are_one_answer() -> None:
    """In one run, and merged, an object has windows that another one leaves out."""
    times, intervals = range(-600, 600, 10), [10, 60, 600]
    many = at_times(times, intervals, [f"owner-{at % 70}" for at in times])
    parts = [many, at_times(times, intervals, ["owner-0"] * len(times)), many]
    objects = [(object_name(at), [part]) for at, part in enumerate(parts)]
    files = [in_memory(partial(rollups.build, [each]))[0] for each in objects]
    whole, _ = in_memory(partial(rollups.build, objects))
    assert contents(merged(files)) == contents(whole)
    kinds = {(row["interval"], row["longest"], row["object"] == 1) for row in contents(whole)[1]}
    assert kinds == {(10, 60, False), (600, 600, False), (10, 10, True), (60, 60, True), (600, 600, True)}
    spans = ((-600, 600), (-595, 595), (0, 0), (1, 2), (60, 120))
    choices: list[set[int] | None] = [{0}, {1}, {0, 2}, None]
    with Rollups(whole) as reader:
        for interval, (begin, end), ordinals in product(intervals, spans, choices):
            expected = dict[tuple[int, Any], Summary]()
            for ordinal, part in enumerate(parts):
                for at, (time, owner) in enumerate(zip(times, part.dimensions[0], strict=True)):
                    start = time // interval * interval
                    if begin <= start <= end - interval and (ordinals is None or ordinal in ordinals):
                        bucket = str(2 ** int(math.log2(max(1, at))))
                        summary = expected.setdefault((start, owner), Summary())
                        summary += Summary(1, at, at, at, {bucket: 1})
            found = list(reader.windows(1, "r", interval, begin, end, ordinals))
            assert {(each.start, each.dimensions[0]): each.measures["ms"] for each in found} == expected
            assert all(each.measures["n"].count == each.measures["ms"].count for each in found)


def test_an_entry_that_is_alone_in_its_windows_makes_a_row_for_each_measure() -> None:
    alone = at_times([5], [1, 10, 100], ["a"])
    file, _ = in_memory(lambda target: rollups.build([(object_name(1), [alone])], target))
    assert [(row["interval"], row["longest"], row["measure"], row["bucket"]) for row in contents(file)[1]] == [
        (1, 100, "ms", b"1"),
        (1, 100, "n", None),
    ]


def test_parts_of_an_object_are_added_up_before_windows_are_chosen() -> None:
    times = range(0, 600, 10)
    halves = [at_times(times, [10, 600], [f"owner-{at}" for at in times]) for _ in range(2)]
    assert kinds_of(*halves) == kinds_of(halves[0])


@pytest.mark.parametrize("count", [1, 3])
def test_texts_of_dimensions_are_those_of_json(count: int) -> None:
    texts = [None, "", "null", 'q"', "back\\slash", "\n", "é", "\U0001f600", "a,b", "]"]
    columns: list[Any] = [texts, texts[::-1], pa.array(texts).dictionary_encode(null_encoding="encode")][:count]
    rows = list(zip(*(texts if at != 1 else texts[::-1] for at in range(count)), strict=True))
    part = Part(stream=1, rollup="r", intervals=[1], times=range(10), dimensions=columns, measures={"n": Counted()})
    found = [table.sort_by("start").column("dimensions").to_pylist() for table in rollups.parts_of([part])]
    assert found == [[json.dumps(row, separators=(",", ":")) for row in rows]]


def test_a_run_of_the_format_before_is_refused_with_what_to_do() -> None:
    with pytest.raises(IndexDamaged, match="format 1, this version reads 2; rebuild the index"):
        Rollups(GOLDEN / "rollups-1.parquet")


def test_one_input_makes_the_same_bytes_again() -> None:
    assert built(GOLDEN_OBJECTS) == built(GOLDEN_OBJECTS)


def test_the_golden_run_is_read() -> None:
    check([Rollups(GOLDEN / "rollups-2.parquet")], [each for entries in GOLDEN_OBJECTS for each in entries])
    assert contents((GOLDEN / "rollups-2.parquet").read_bytes()) == contents(built(GOLDEN_OBJECTS))


if __name__ == "__main__":
    (GOLDEN / "rollups-2.parquet").write_bytes(built(GOLDEN_OBJECTS))
