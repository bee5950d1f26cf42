"""A metric block tells of each entry the record that was stored."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from indexers import metrics
from indexers.metrics import Metrics, Row
from streams_node.profiles.metrics import normalise
from tests.indexers.files import GOLDEN, in_memory, object_name

numbers = st.one_of(st.integers(0, 2**60), st.floats(0, 1e300), st.integers(0, 9))
times = st.integers(-(2**52), 2**52)
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5).filter(str.strip)


def stored_as(members: dict[str, Any]) -> Any:
    """What the profile makes of a record."""
    whole = {**members, "windowEnd": members["windowStart"] + 9}
    return orjson.loads(normalise([json.dumps(whole).encode()], 0)[0][0])


given_records = st.fixed_dictionaries(
    {"metric": texts, "unit": texts, "windowStart": times, "count": numbers, "sum": numbers},
    optional={
        "min": numbers, "max": numbers, "avg": numbers, "p50": numbers, "stream": texts, "instance": texts,
        "metricKind": texts, "intervalMs": st.integers(0, 9),
        "attributes": st.dictionaries(texts, st.one_of(texts, st.booleans(), st.integers(0, 9)), max_size=3),
        "buckets": st.dictionaries(st.sampled_from(["1", "2", "odd"]), numbers, max_size=3),
    },
).map(stored_as)  # fmt: skip
odd_records = st.one_of(
    st.none(),
    st.dictionaries(texts, st.one_of(st.integers(), st.booleans(), st.just("\ud800")), max_size=3),
    given_records.flatmap(lambda record: st.sampled_from(sorted(record)).map(lambda name: {**record, name: True})),
    given_records.map(lambda record: {**record, "summary": {**record["summary"], "count": True}}),
    given_records.map(lambda record: {**record, "tags": {"other": "x"}}),
    given_records.map(lambda record: {name: record[name] for name in list(record)[1:]}),
)
records = st.lists(st.one_of(given_records, given_records, odd_records), max_size=6)
SOME = [
    {"metric": "cpu", "unit": "s", "windowStart": 1000 * at, "windowEnd": 1000 * at + 999, "count": at, "sum": at / 4,
     "attributes": {"host": f"h{at % 3}"}, "buckets": {"1": at, "8": 2}}
    for at in range(9)
]  # fmt: skip
GOLDEN_RECORDS: list[Any] = [
    *map(orjson.loads, normalise([json.dumps(each).encode() for each in SOME], 0)[0]), None, {"no": "metric"},
]  # fmt: skip
Stored = dict[int, list[Any]]  # the records of each stream


def rows(stored: Stored, first: int = 0) -> list[Any]:
    return [
        metrics.rows_of([stream] * len(found), range(first, first + len(found)), range(len(found)), found)
        for stream, found in stored.items()
    ]


def built(objects: Sequence[Stored]) -> bytes:
    """Every object goes on where the one before it ended."""
    named, ends = list[Any](), dict[int, int]()
    for at, stored in enumerate(objects):
        tables = []
        for stream, found in stored.items():
            tables += rows({stream: found}, ends.get(stream, 0))
            ends[stream] = ends.get(stream, 0) + len(found)
        named.append((object_name(at), tables))
    return block(named)


def block(objects: list[Any]) -> bytes:
    return in_memory(lambda target: metrics.build(objects, target))[0]


def told(reader: Metrics, stream: int, **bounds: int) -> list[Row]:
    return list(reader.records(stream, 0, 1 << 60, **bounds))


def _shape(value: Any) -> int:
    """How many truth values there are."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, bool) + sum(map(_shape, inner))


@settings(deadline=None, max_examples=80)
@given(st.lists(st.dictionaries(st.integers(1, 3), records, max_size=3), min_size=1, max_size=3))
def test_a_block_tells_the_records_that_were_stored(objects: list[Stored]) -> None:
    reader = Metrics(built(objects))
    for stream in (1, 2, 3):
        stored = [record for each in objects for record in each.get(stream, [])]
        found = told(reader, stream)
        assert [each.seq for each in found] == list(range(len(stored)))
        for row, record in zip(found, stored, strict=True):
            assert row.record == record
            assert _shape(row.record) == _shape(record)
        for begin, before in ((0, 2**40), (-(2**53), 0), (5, 5)):
            within = told(reader, stream, begin=begin, before=before)
            starts = [at for at, record in enumerate(stored) if may_start(record, begin, before)]
            assert {each.seq for each in within} >= set(starts)
            assert all(row in found for row in within)


def may_start(record: Any, begin: int, before: int) -> bool:
    start = record.get("windowStart") if record else None
    return isinstance(start, int) and begin <= start < before


@settings(deadline=None, max_examples=40)
@given(st.lists(st.dictionaries(st.integers(1, 3), records, max_size=3), min_size=2, max_size=4), st.randoms())
def test_merged_blocks_hold_what_is_kept(objects: list[Stored], draw: random.Random) -> None:
    ends, parts, living, expected = dict[int, int](), [], [], dict[int, list[tuple[int, Any]]]()
    for at, stored in enumerate(objects):
        tables, ranges = list[Any](), dict[int, list[tuple[int, int]]]()
        for stream, found in stored.items():
            first = ends.get(stream, 0)
            tables += rows({stream: found}, first)
            ends[stream] = first + len(found)
            if draw.random() < 0.7:
                cut = draw.randint(first, ends[stream])
                ranges[stream] = [(cut, ends[stream])]
                kept = [(seq, record) for seq, record in enumerate(found, first) if seq >= cut]
                expected.setdefault(stream, []).extend(kept)
        parts.append(block([(object_name(at), tables)]))
        living.append(ranges)
    whole, _ = in_memory(lambda target: metrics.merge([Metrics(part) for part in parts], target, living))
    for stream in (1, 2, 3):
        assert [(row.seq, row.record) for row in told(Metrics(whole), stream)] == expected.get(stream, [])


def test_row_groups_without_the_window_are_not_read() -> None:
    many = GOLDEN_RECORDS[:9]
    found = [{**many[at % 9], "windowStart": at, "windowEnd": at + 1} for at in range(40_000)]
    shown = [{**record, "intervalMs": 1000} for record in found]
    reader = Metrics(built([{1: shown}]))
    assert reader.groups > 2
    read = list[int]()
    whole = reader.group
    reader.group = lambda number, columns=None: (read.append(number), whole(number, columns))[1]  # type: ignore[method-assign,func-returns-value]
    assert [row.seq for row in told(reader, 1, begin=39_990, before=39_993)] == [39_990, 39_991, 39_992]
    assert read == [reader.groups - 1]


def test_the_golden_block_is_read() -> None:
    reader = Metrics(GOLDEN / "metrics-1.parquet")
    assert [(row.seq, row.record) for row in told(reader, 1)] == list(enumerate(GOLDEN_RECORDS))
    again = Metrics(built([{1: GOLDEN_RECORDS}]))
    assert pa.concat_tables(reader.tables()).equals(pa.concat_tables(again.tables()))


if __name__ == "__main__":
    Path(GOLDEN / "metrics-1.parquet").write_bytes(built([{1: GOLDEN_RECORDS}]))
