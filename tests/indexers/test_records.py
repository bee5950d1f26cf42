"""Columns hold what the evaluator reads of each record, however many records are read at once."""

import json
from typing import Any

import msgspec
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexers.messages import Meaning
from indexers.records import Documents, Subject, Table, parsed
from indexers.records.arrays import arrays
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


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("pointer", ["/v", "/in/v"])
@settings(deadline=None, max_examples=60)
@given(found=st.one_of(one_type, mixed), lacking=st.booleans())
def test_payloads_are_read_as_the_evaluator_reads_them(
    name: str,
    pointer: str,
    found: list[Any],
    lacking: bool,  # noqa: FBT001
) -> None:
    records: list[Any] = [{"v": value, "in": {"v": value}} for value in found]
    if lacking:
        records.insert(len(records) // 2, {"in": None})
    declared = field(FIELDS[name], pointer)
    payloads = [json.dumps(record).encode() for record in records]
    of = Subject(meaning(FIELDS[name], pointer))
    documents = of.documents(range(len(payloads)), pa.array(payloads, pa.binary()))
    column, read = Table(documents, 1).column(declared), values(declared, 1)
    expected = [read(parsed(payload)) for payload in payloads]
    assert [column.of(at) for at in range(len(records))] == expected
    assert [list(map(type, column.of(at))) for at in range(len(records))] == [
        list(map(type, each)) for each in expected
    ]
    assert column.known().to_pylist() == [bool(each) for each in expected]
    assert documents.records == [parsed(payload) or {} for payload in payloads]


def test_usual_payloads_are_read_without_a_parsed_record() -> None:
    payloads = [b'{"i":-1,"f":2,"b":true,"t":"\\u00e9","in":{"t":"x"}}', b'{"i":null,"in":null,"other":[{"i":"x"}]}']
    types = {"/i": pa.int64(), "/f": pa.float64(), "/b": pa.bool_(), "/t": pa.string(), "/in/t": pa.string()}
    found = arrays(pa.array(payloads, pa.binary()), types)
    assert found is not None
    assert {name: each.to_pylist() for name, each in found.items()} == {
        "/i": [-1, None], "/f": [2.0, None], "/b": [True, None], "/t": ["é", None], "/in/t": ["x", None]
    }  # fmt: skip


def test_what_no_column_is_of_may_be_a_number_that_no_double_can_hold() -> None:
    payloads = [b'{"v":1,"other":123e307}', b'{"v":2}']
    documents = Subject(meaning(FIELDS["integer"], "/v")).documents([0, 1], pa.array(payloads, pa.binary()))
    assert documents.arrays, "Arrow does not look at it"
    assert documents.records == [{"v": 1, "other": float("inf")}, {"v": 2}]
    assert not documents.plain


@pytest.mark.parametrize(
    "payloads",
    [
        [b'{"a":1}{"a":2}', b""], [b'{"a":[1,', b'{"b":1}]}{}'], [b'{"a":"}', b'{"}{}'], [b'{"c":{"a":1}', b'{"a":1}}'],
        [b'{"c":[{}', b"{}]}{}{}"], [b'{"a":1,"a":2}'], [b'{"a":1.0}'], [b'{"a":9223372036854775808}'], [b'{"a":"1"}'],
        [b'{"a":[1]}'], [b'{"c":NaN}'], [b'{"c":[-Infinity]}'], [b'{"c":"\xff"}'], [b'{"c":"\\ud800"}'], [b"[]"],
        [b"1"], [b'{"c":' + b"[" * 1000 + b"]" * 1000 + b"}"],
        [b'\xef\xbb\xbf{"a":1}'], [b'{"a":01}'], [b'{"c":1e999}'], [b'{"f":1.7976931348623159e308}'], [b'{"a":{}}'],
        [b'{"a":1} x', b"{}"], [b"{'a':1}"], [b'{"a":1,}'], [b"null"], [],
    ],
)  # fmt: skip
def test_what_arrow_may_read_otherwise_is_not_read_by_it(payloads: list[bytes]) -> None:
    assert arrays(pa.array(payloads, pa.binary()), {"/a": pa.int64(), "/f": pa.float64()}) is None


def test_pointers_through_one_another_are_not_read_by_arrow() -> None:
    payloads = pa.array([b'{"a":{}}'], pa.binary())
    for other in ({"/a": pa.int64(), "/a/b": pa.int64()}, {"/a/b": pa.int64(), "/a": pa.int64()}, {"": pa.int64()}):
        assert arrays(payloads, other) is None


def meaning(members: dict[str, Any], pointer: str) -> Meaning:
    date = {"kind": "date", "bindings": [{"version": 1, "jsonPointer": "/d"}]}
    search = {"primaryTimestampField": "d", "fields": {
        "d": date, "x": {**members, "bindings": [{"version": 1, "jsonPointer": pointer}]}
    }}  # fmt: skip
    registry = {
        "apiVersion": "durable.streams/schema-registry/v1", "schema": "s", "currentVersion": 1, "search": search,
        "boundaries": [{"offset": 0, "version": 1}], "schemas": {"1": {}}, "lenses": {},
    }  # fmt: skip
    raw = msgspec.Raw(msgspec.json.encode(registry))
    return Meaning(registry=raw, profile="generic", content_type="application/json", configs={})


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
