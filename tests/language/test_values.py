"""Canonical values: what each kind reads, how values are spelled and ordered."""

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.language import canonicalizer, exact_text, limits, order_key
from search.language.dates import DATE_MS_MAX, date_ns
from streams_node.schema.search_config import Binding, Field, Kind

steady = settings(deadline=None)
MS = 10**6
S = 10**9
MARCH = 1_774_396_800 * S  # 2026-03-25
CLOCK = MARCH + (10 * 60 + 4) * 60 * S  # 10:04


def read(kind: Kind, value: Any, *, lowercase: bool = False) -> Any:
    return canonicalizer(Field(name="f", kind=kind, bindings=(Binding(1, ""),), lowercase=lowercase))(value)


NONE_OF_ALL = [None, {}, {"a": 1}]


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("value", NONE_OF_ALL)
def test_null_and_objects_are_no_values(kind: Kind, value: object) -> None:
    assert read(kind, value) is None


@pytest.mark.parametrize(
    ("value", "lowercase", "expected"),
    [("Aé", False, "Aé"), ("AÉ", True, "aé"), ("ΟΔΟΣ", True, "οδος"), ("İ", True, "i\u0307"), ("", True, ""),
     (" a ", True, " a "), ("\ud800", False, "\ud800"), (5, False, None), (True, False, None)],
)  # fmt: skip
def test_keywords(value: object, lowercase: bool, expected: object) -> None:  # noqa: FBT001
    assert read(Kind.KEYWORD, value, lowercase=lowercase) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(5, 5), (-5, -5), (0, 0), (5.0, 5), (-0.0, 0), (1e21, 10**21), ("5", 5), ("-5", -5), (" 5\n", 5),
     ("\ufeff5\u00a0", 5),
     ("-0", 0), (2**53 + 1, 2**53 + 1), (str(2**53 + 1), 2**53 + 1), (2**64 - 1, 2**64 - 1), (-(2**63), -(2**63)),
     (2**64 + 1, 2**64), (str(2**64 + 1), 2**64), (float(2**64), 2**64), (str(10**300), int(1e300)), (10**400, None),
     ("1" * 400, None), ("1" * 5000, None), (5.5, None), (math.nan, None), (math.inf, None), ("5.0", None), ("05",
     None),
     ("+5", None), ("", None), ("5 6", None), ("0x5", None), ("1_0", None), ("\u0665", None), ("5\x1c", None),
     (True, None), (False, None)],
)  # fmt: skip
def test_integers(value: object, expected: object) -> None:
    found = read(Kind.INTEGER, value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(5, 5.0), (1.5, 1.5), (-0.0, 0.0), (2**53 + 1, 2.0**53), (10**400, None), ("1.5", 1.5), (" 1.5 ", 1.5),
     ("1e3", 1000.0),
     (".5", 0.5), ("5.", 5.0), ("+5", 5.0), ("-5", -5.0), ("0x10", 16.0), ("0b11", 3.0), ("0o17", 15.0), ("007", 7.0),
     ("1e400", None), ("-1e-400", 0.0), ("", None), (" ", None), (".", None), ("e5", None), ("1_0", None), ("nan",
     None),
     ("Infinity", None), ("-0x10", None), ("1,5", None), ("\u0665", None), ("1" * 400, None),
     ("0." + "0" * 2000 + "1", None),
     (math.nan, None), (math.inf, None), (True, None)],
)  # fmt: skip
def test_floats(value: object, expected: float | None) -> None:
    found = read(Kind.FLOAT, value)
    assert found == expected
    assert type(found) is type(expected)
    assert str(found) != "-0.0"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, True), (False, False), ("true", True), ("FALSE", False), (" True ", True), ("yes", None), ("1", None),
     (1, None),
     (0, None), ("", None)],
)  # fmt: skip
def test_booleans(value: object, expected: object) -> None:
    assert read(Kind.BOOL, value) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (1774433040000, CLOCK),
        (1774433040000.9, CLOCK),
        (-1.9, -MS),
        (DATE_MS_MAX, DATE_MS_MAX * MS),
        (DATE_MS_MAX + 1, None),
        (10**400, None),
        (math.nan, None),
        (-math.inf, None),
        (True, None),
        # ISO 8601, RFC 3339
        ("2026-03-25T10:04:00Z", CLOCK),
        ("2026-03-25T10:04Z", CLOCK),
        ("2026-03-25T10:04:00", CLOCK),
        ("2026-03-25 10:04:00", CLOCK),
        ("2026-03-25t10:04:00z", CLOCK),
        (" 2026-03-25T10:04:00Z\n", CLOCK),
        ("2026-03-25T10:04:00.5Z", CLOCK + 500 * MS),
        ("2026-03-25T10:04:00.000000001Z", CLOCK + 1),
        ("2026-03-25T10:04:00.1234567899Z", CLOCK + 123_456_789),
        ("2026-03-25T12:04:00+02:00", CLOCK),
        ("2026-03-25T04:34:00-0530", CLOCK),
        ("2026-03-25T12:04:00.25+02", CLOCK + 250 * MS),
        ("2026-03-26T09:03:00+22:59", CLOCK),
        ("2026-03-25T10:03:60Z", None),  # a leap second ends an hour
        ("2026-03-25T09:59:60Z", MARCH + 10 * 3600 * S),
        ("2026-03-25T24:00:00Z", MARCH + 86_400 * S),
        ("2026-03-25T24:00:00.1Z", None),
        ("2026-03-25T24:01Z", None),
        ("2026-03-25T25:00Z", None),
        ("2026-03-25T10:60Z", None),
        ("2026-03-25T10:04:61Z", None),
        ("2026-03-25T10:04:00+24:00", None),
        ("2026-03-25T10:04:00+02:60", None),
        ("2026-03-25T10", None),
        ("2026-03-25T", None),
        ("2026-3-5", None),
        ("2026-03-25", MARCH),
        ("2026-03", MARCH - 24 * 86_400 * S),
        ("2026", 1_767_225_600 * S),
        ("2026-02-29", None),
        ("2024-02-29", 1_709_164_800 * S),
        ("1900-02-29", None),
        ("2000-02-29", 951_782_400 * S),
        ("2026-13-01", None),
        ("2026-00-01", None),
        ("2026-01-00", None),
        ("2026-04-31", None),
        ("0000", -62_167_219_200 * S),
        ("+012026-01-01T00:00:00Z", 317_336_745_600 * S),
        ("-000001-01-01T00:00:00Z", -62_198_755_200 * S),
        ("-000000-01-01", None),
        ("+275760-09-13", DATE_MS_MAX * MS),
        ("+275760-09-13T00:00:00.000000001Z", None),
        ("-271821-04-20", -DATE_MS_MAX * MS),
        ("-271821-04-19", None),
        # mail, HTTP, JavaScript
        ("Wed, 25 Mar 2026 10:04:00 GMT", CLOCK),
        ("25 Mar 2026 11:04 +0100", CLOCK),
        ("March 25, 2026", MARCH),
        ("mar 25 2026 10:04:00", CLOCK),
        ("Wed Mar 25 2026 11:04:00 GMT+0100 (Central European Standard Time)", CLOCK),
        ("Foo 25 2026", None),
        ("Mayo 25 2026", None),
        ("Feb 30 2026", None),
        # epoch milliseconds: any digits but four
        ("1774433040000", CLOCK),
        ("0", 0),
        ("-1", -MS),
        ("12345", 12345 * MS),
        ("20260325", 20260325 * MS),
        ("02026", None),
        ("9" * 17, None),
        ("1774433040000.5", None),
        ("1e12", None),
        ("", None),
        (" ", None),
        ("soon", None),
        ("2026-03-25T10:04:00Z" + " " * 100, None),
        ("\u0662\u0660\u0662\u0666", None),
        ("2026-03-25T10:04:00." + "1" * 200 + "Z", None),
    ],
)
def test_dates(value: object, expected: int | None) -> None:
    assert read(Kind.DATE, value) == expected


@steady
@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), st.integers(-1439, 1439))  # noqa: DTZ001
def test_every_moment_is_read_in_every_zone(naive: datetime, minutes: int) -> None:
    moment = naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    expected = (moment - epoch) // timedelta(microseconds=1) * 1000
    assert date_ns(moment.isoformat()) == expected
    in_utc = moment.astimezone(UTC).replace(tzinfo=None).isoformat()
    assert date_ns(f"{in_utc}Z") == expected
    assert date_ns(f"{in_utc}") == expected


@settings(deadline=None, max_examples=1000)
@given(st.sampled_from(Kind), st.text() | st.from_regex(r"[-+]?\d{1,6}(-\d\d){0,2}([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?Z?"))
def test_any_text_has_a_value_or_none(kind: Kind, text: str) -> None:
    value = read(kind, text)
    if value is not None:
        assert read(kind, value if kind is not Kind.DATE else text) == value
        exact_text(kind, value)
        order_key(kind, value)


# --- spelling and order ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (Kind.KEYWORD, "Aé", "Aé"),
        (Kind.INTEGER, 2**53 + 1, "9007199254740993"),
        (Kind.INTEGER, -5, "-5"),
        (Kind.BOOL, True, "true"),
        (Kind.BOOL, False, "false"),
        (Kind.DATE, CLOCK, "1774433040000"),
        (Kind.DATE, CLOCK + 1, "1774433040000.000001"),
        (Kind.DATE, CLOCK + 500_000, "1774433040000.5"),
        (Kind.DATE, -1, "-0.000001"),
        (Kind.DATE, -MS, "-1"),
        # floats as JavaScript prints them; seen with Node
        (Kind.FLOAT, 0.0, "0"),
        (Kind.FLOAT, 1.0, "1"),
        (Kind.FLOAT, -1.5, "-1.5"),
        (Kind.FLOAT, 100.0, "100"),
        (Kind.FLOAT, 0.1, "0.1"),
        (Kind.FLOAT, 1e20, "100000000000000000000"),
        (Kind.FLOAT, 123456789012345680000.0, "123456789012345680000"),
        (Kind.FLOAT, 1e21, "1e+21"),
        (Kind.FLOAT, 1.5e300, "1.5e+300"),
        (Kind.FLOAT, 0.000001, "0.000001"),
        (Kind.FLOAT, 1.25e-6, "0.00000125"),
        (Kind.FLOAT, 1e-7, "1e-7"),
        (Kind.FLOAT, -2.5e-9, "-2.5e-9"),
        (Kind.FLOAT, 5e-324, "5e-324"),
        (Kind.FLOAT, 1.7976931348623157e308, "1.7976931348623157e+308"),
        (Kind.FLOAT, 1234.5678, "1234.5678"),
    ],
)
def test_spelling(kind: Kind, value: Any, expected: str) -> None:
    assert exact_text(kind, value) == expected


_of_kind: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.KEYWORD: st.text(st.characters(exclude_categories=())),
    Kind.TEXT: st.text(),
    Kind.INTEGER: st.integers(-(2**70), 2**70) | st.integers(-300, 300) | st.just(int(1.7e308)),
    Kind.FLOAT: st.floats(allow_nan=False, allow_infinity=False).map(lambda value: value + 0.0),
    Kind.DATE: st.integers(-DATE_MS_MAX * MS, DATE_MS_MAX * MS) | st.integers(-(10**7), 10**7),
    Kind.BOOL: st.booleans(),
}
pairs = st.sampled_from(Kind).flatmap(lambda kind: st.tuples(st.just(kind), _of_kind[kind], _of_kind[kind]))


@settings(deadline=None, max_examples=1000)
@given(pairs)
def test_keys_sort_and_spellings_differ_as_the_values_do(pair: tuple[Kind, Any, Any]) -> None:
    kind, one, other = pair
    assert (order_key(kind, one) < order_key(kind, other)) == (one < other)
    assert (order_key(kind, one) == order_key(kind, other)) == (one == other)
    assert (exact_text(kind, one) == exact_text(kind, other)) == (one == other)


@steady
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_spelled_float_is_read_as_itself(value: float) -> None:
    text = exact_text(Kind.FLOAT, value)
    assert float(text) == value
    assert "." not in text or not text.split("e")[0].endswith("0")


def test_a_long_text_is_no_number() -> None:
    assert read(Kind.FLOAT, "0" * limits.NUMBER_CHARS_MAX) == 0.0
    assert read(Kind.FLOAT, "0" * (limits.NUMBER_CHARS_MAX + 1)) is None
