"""Lifetimes, durations and timestamps: every accepted spelling, every refused one, and the way back."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_node.protocol.times import SECOND_US, TTL_S_MAX, duration_ms, rfc3339, timestamp_us, ttl_seconds

steady = settings(deadline=None)
UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
moments = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))  # noqa: DTZ001 - the zone is drawn beside it
zones = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))


# --- lifetimes ------------------------------------------------------------------------------------------------------


@steady
@given(st.integers(0, TTL_S_MAX))
def test_whole_seconds_are_a_lifetime(seconds: int) -> None:
    assert ttl_seconds(str(seconds)) == seconds


@steady
@given(st.integers(0, 10**6), st.sampled_from(sorted(UNITS)))
def test_a_duration_with_a_unit_is_a_lifetime_if_it_is_whole_seconds(count: int, unit: str) -> None:
    seconds, rest = divmod(count * UNITS[unit], 1000)
    expected = seconds if rest == 0 and seconds <= TTL_S_MAX else None
    assert ttl_seconds(f"{count}{unit}") == expected


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("3600", 3600), ("24h", 86_400), ("30m", 1800), ("15s", 15), ("2d", 172_800), ("3000ms", 3),
     ("0s", 0), (str(TTL_S_MAX), TTL_S_MAX), ("36500d", TTL_S_MAX)],
)  # fmt: skip
def test_a_lifetime(text: str, seconds: int) -> None:
    assert ttl_seconds(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", " ", "abc", "-1", "+3600", "03600", "3600.0", "3.6e3", "00", "1 s", "1S", "1H", "h", "1h30m", "1.5h", "01h",
     "1500ms", "1w", "\u0661", "\u0661s", "1\n", " 1", "0x10", "1_000", str(TTL_S_MAX + 1), "36501d", "9" * 17,
     "9" * 5000, "9999999999999999d"],
)  # fmt: skip
def test_no_lifetime(text: str) -> None:
    assert ttl_seconds(text) is None


@steady
@given(st.text(max_size=12))
def test_any_text_is_a_lifetime_in_its_bounds_or_none(text: str) -> None:
    seconds = ttl_seconds(text)
    assert seconds is None or 0 <= seconds <= TTL_S_MAX


# --- durations ------------------------------------------------------------------------------------------------------


@steady
@given(st.integers(0, 10**15), st.sampled_from(["", *UNITS]))
def test_a_duration_is_milliseconds_unless_it_says_otherwise(count: int, unit: str) -> None:
    assert duration_ms(f"{count}{unit}") == count * UNITS.get(unit, 1)


@pytest.mark.parametrize(
    "text", ["", "ms", "-1", "+1", "1.5s", "01", "1 ms", "1us", "1M", "s1", "\u0663s", "1\n", "9" * 17]
)
def test_no_duration(text: str) -> None:
    assert duration_ms(text) is None


# --- timestamps -----------------------------------------------------------------------------------------------------


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


@steady
@given(moments, zones, st.integers(0, 9), st.sampled_from("Tt "))
def test_a_moment_in_any_zone_is_the_same_moment(naive: datetime, zone: timezone, digits: int, middle: str) -> None:
    moment = naive.replace(tzinfo=UTC).astimezone(zone) if 2 < naive.year < 9998 else naive.replace(tzinfo=zone)
    offset = moment.strftime("%z")
    fraction = f".{moment.microsecond:06d}000"[: digits + 1] if digits else ""
    text = (
        f"{moment.year:04d}-{moment:%m-%d}{middle}{moment:%H:%M:%S}{fraction}{offset[:3]}:{offset[3:5]}"
    )  # fmt: skip
    kept = moment.microsecond // 10 ** max(0, 6 - digits) * 10 ** max(0, 6 - digits)
    assert timestamp_us(text) == micros(moment.replace(microsecond=kept))


@steady
@given(st.integers(0, 10**19 - 1))
def test_plain_digits_are_unix_nanoseconds(nanos: int) -> None:
    assert timestamp_us(str(nanos)) == nanos // 1000


@steady
@given(st.integers(0, 253_402_300_799_999_999))
def test_what_is_written_is_read_again(moment_us: int) -> None:
    assert timestamp_us(rfc3339(moment_us, digits=6)) == moment_us
    assert timestamp_us(rfc3339(moment_us)) == moment_us // 1000 * 1000


@steady
@given(st.integers(0, 253_402_300_799_999_999), st.integers(0, 253_402_300_799_999_999))
def test_written_moments_sort_as_text(one: int, other: int) -> None:
    assert (rfc3339(one, digits=6) < rfc3339(other, digits=6)) == (one < other)


@pytest.mark.parametrize(
    ("text", "moment_us"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:00z", 0),
        ("1970-01-01 00:00:00Z", 0),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:59:59.999999999-00:00", -1),
        ("2026-01-31T12:00:00.123456789Z", 1_769_860_800_123_456),
        ("2016-12-31T23:59:60Z", 1_483_228_800 * SECOND_US),
        ("2016-12-31T18:59:60.5-05:00", 1_483_228_800 * SECOND_US + 500_000),
        ("9999-12-31T23:59:59.999999Z", 253_402_300_799_999_999),
        ("0001-01-01T00:00:00Z", -62_135_596_800 * SECOND_US),
        ("2024-02-29T00:00:00Z", 1_709_164_800 * SECOND_US),
        ("1790000000000000001", 1_790_000_000_000_000),
    ],
)
def test_a_moment(text: str, moment_us: int) -> None:
    assert timestamp_us(text) == moment_us


@pytest.mark.parametrize(
    "text",
    ["", "now", "2026-01-31", "2026-01-31T12:00:00", "2026-01-31T12:00Z", "2026-13-01T00:00:00Z",
     "2026-00-01T00:00:00Z", "2026-02-30T00:00:00Z", "2025-02-29T00:00:00Z", "2026-01-31T24:00:00Z",
     "2026-01-31T12:60:00Z", "2026-01-31T12:00:61Z", "2026-01-31T12:00:00.Z", "2026-01-31T12:00:00.1234567890Z",
     "2026-01-31T12:00:00,5Z", "2026-01-31T12:00:00+24:00", "2026-01-31T12:00:00+00:60", "2026-01-31T12:00:00+0100",
     "2026-01-31T12:00:00 Z", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01",
     "10000-01-01T00:00:00Z", "-1", "1.5", "+1", "9" * 20, "\u0662026-01-31T12:00:00Z", "2026-01-31T12:00:00Z\n",
     " 2026-01-31T12:00:00Z"],
)  # fmt: skip
def test_no_moment(text: str) -> None:
    assert timestamp_us(text) is None


@pytest.mark.parametrize(
    ("moment_us", "text"),
    [(-5, "1970-01-01T00:00:00.000Z"), (10**30, "9999-12-31T23:59:59.999Z"), (1_999_999, "1970-01-01T00:00:01.999Z")],
)
def test_a_moment_outside_the_calendar_shows_its_edge(moment_us: int, text: str) -> None:
    assert rfc3339(moment_us) == text


@steady
@given(st.text(max_size=40))
def test_any_text_is_a_moment_or_none(text: str) -> None:
    found = timestamp_us(text)
    assert found is None or isinstance(found, int)
