"""Columns hold what the evaluator reads of each record, however many records are read at once."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexers.records import Documents, Table, parsed
from search.language import values
from search.language.dates import date_ns
from streams_node.schema.search_config import Field, parse

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.text(max_size=4),
    st.sampled_from(["2026-03-25T10:04:05.123456789Z", "2026", "12", "-0", "0x1f", " 5 ", "TRUE", "1e400", 1.0, -0.0,
                     2**63, 2**64, 8.64e15, "ǅ", "\ud800"]),
)  # fmt: skip
one_type = st.one_of(
    *(st.lists(st.one_of(st.none(), each), max_size=6) for each in (
        st.text(max_size=3), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False),
        st.booleans(), st.sampled_from(["2026-01-01", "2026-13-01", "1999-12-31T23:59:59Z"]),
    ))
)  # fmt: skip
moments = [
    "1999-12-31T23:59:59Z", "2024-02-29T00:00:00.1Z", "2023-02-29T00:00:00.1Z", "1969-12-31T23:59:59.999999999Z",
    "2262-04-11T23:47:16.854775807Z", "2262-04-11T23:47:16.854775808Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
    "2026-03-25T24:00:00Z", "2026-03-25T10:04:60Z", "2026-03-25T10:04:05.1234567891Z", "2026-03-25T10:04:05.Z",
    "2026-03-25T10:04:05.12Z\n", "2026-00-01T00:00:00Z", "2026-01-00T00:00:00Z", "٢٠٢٦-03-25T10:04:05Z",
    "0000-01-01T00:00:00Z",
]  # fmt: skip
mixed = st.lists(
    st.one_of(scalars, st.lists(st.one_of(scalars, st.lists(scalars, max_size=2)), max_size=3)), max_size=6
)
FIELDS = {
    "keyword": {"kind": "keyword"}, "lower": {"kind": "keyword", "normalizer": "lowercase_v1"},
    "text": {"kind": "text", "analyzer": "unicode_word_v1"}, "integer": {"kind": "integer"}, "float": {"kind": "float"},
    "date": {"kind": "date"}, "bool": {"kind": "bool"},
}  # fmt: skip


def field(members: dict[str, Any], pointer: str) -> Field:
    made = {**members, "bindings": [{"version": 1, "jsonPointer": pointer}]}
    date = {"kind": "date", "bindings": [{"version": 1, "jsonPointer": "/d"}]}
    return parse({"primaryTimestampField": "d", "fields": {"d": date, "x": made}}).fields["x"]


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("pointer", ["/v", "/in/0/v"])
@settings(deadline=None, max_examples=60)
@given(found=st.one_of(one_type, mixed), lacking=st.booleans())
def test_a_column_is_what_the_evaluator_reads(name: str, pointer: str, found: list[Any], lacking: bool) -> None:  # noqa: FBT001
    declared = field(FIELDS[name], pointer)
    records: list[Any] = [{"v": value, "in": [{"v": value}]} for value in found]
    if lacking:
        records.insert(len(records) // 2, {"in": "x"})
    read = values(declared, 1)
    expected = [read(record) for record in records]
    for plain in {False, all(is_plain(record) for record in records)}:
        column = Table(Documents(list(records), [], plain), 1).column(declared)
        assert [column.of(at) for at in range(len(records))] == expected
        assert [list(map(type, column.of(at))) for at in range(len(records))] == [
            list(map(type, each)) for each in expected
        ]
        assert column.present() == sum(map(bool, map(len, expected)))
        assert sorted(map(repr, filter(lambda value: value is not None, column.flat()))) == sorted(
            repr(value) for each in expected for value in each
        )


@settings(deadline=None, max_examples=200)
@given(st.lists(st.sampled_from(moments[:4]) | st.datetimes().map(lambda at: f"{at.isoformat()}Z"), min_size=1))
def test_many_moments_at_once_are_read_as_one_by_one(found: list[str]) -> None:
    declared = field(FIELDS["date"], "/v")
    column = Table(Documents([{"v": text} for text in found], [], plain=True), 1).column(declared)
    assert column.values == [date_ns(text) for text in found]


@pytest.mark.parametrize("text", moments)
def test_a_moment_is_read_the_same_alone_and_among_others(text: str) -> None:
    declared = field(FIELDS["date"], "/v")
    for found in ([text], [moments[0], text]):
        column = Table(Documents([{"v": each} for each in found], [], plain=True), 1).column(declared)
        assert column.values == [date_ns(each) for each in found]


def is_plain(record: Any) -> bool:
    """Whether it is as orjson would have read it."""
    try:
        return bool(orjson.loads(orjson.dumps(record)) == record)
    except TypeError:
        return False


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        (b'{"a":"\\ud800"}', {"a": "\ud800"}), (b'{"a":1e999}', {"a": float("inf")}), (b"NaN", None), (b"", None),
        (b"{", None), (b"\xff", None), (b"[" * 5000, None), (b'"\\ud83d\\ude00"', "\U0001f600"), (b"-0", 0),
        (b'["\\ud800",123456789012345678901234567890,18446744073709551615]',
         ["\ud800", 1.2345678901234568e29, 2**64 - 1]),
        (b'["\\ud800",' + b"9" * 5000 + b"]", ["\ud800", float("inf")]), (b' {"a": [1, 2.5]} ', {"a": [1, 2.5]}),
    ],
)  # fmt: skip
def test_what_is_json_is_read_and_nothing_else_is(payload: bytes, value: Any) -> None:
    found = parsed(payload)
    assert found == value
    assert type(found) is type(value)


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_no_payload_raises(payload: bytes) -> None:
    try:
        expected = json.loads(payload.decode(), parse_constant=lambda _: None)
    except ValueError:
        expected = None
    assert parsed(payload) == expected
