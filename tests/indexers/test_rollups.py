import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexers import rollups
from indexers.rollups import INTERVAL_MS_MAX, Counted, Part, Parts, Rollups, Summarised, Summary, Window, windows
from indexers.rollups.write import _log2_buckets
from tests.indexers.files import GOLDEN, in_memory, object_name, peak_of_memory

INTERVALS = [1, 1000, 60_000, INTERVAL_MS_MAX]
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
    for value, text in zip(values, _log2_buckets(pa.array(values, pa.float64())).to_pylist(), strict=True):
        bucket, size = int(text), max(1.0, abs(value))
        assert bucket.bit_count() == 1
        assert bucket <= size < 2 * bucket


@pytest.mark.parametrize(
    ("value", "bucket"), [(0, 1), (-0.0, 1), (1.99, 1), (2, 2), (-5, 4), (2**49 - 2**-4, 2**48), (1e308, 2**1023)]
)
def test_a_bucket_by_example(value: float, bucket: int) -> None:
    assert _log2_buckets(pa.array([value], pa.float64())).to_pylist() == [str(bucket).encode()]


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
        assert len(list(reader.groups_within([(1, 1), ("r", "r"), (1000, 1000), (0, 9000)]))) == 1
        assert [each.measures["n"].count for each in reader.windows(1, "r", 1000, 7_000_000, 7_003_000)] == [8, 8, 8]


def test_one_input_makes_the_same_bytes_again() -> None:
    assert built(GOLDEN_OBJECTS) == built(GOLDEN_OBJECTS)


def test_the_golden_run_is_read() -> None:
    check([Rollups(GOLDEN / "rollups-1.parquet")], [each for entries in GOLDEN_OBJECTS for each in entries])
    assert contents((GOLDEN / "rollups-1.parquet").read_bytes()) == contents(built(GOLDEN_OBJECTS))


if __name__ == "__main__":
    (GOLDEN / "rollups-1.parquet").write_bytes(built(GOLDEN_OBJECTS))
