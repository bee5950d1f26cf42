"""Dates as people write them -> nanoseconds since the Unix epoch.

Owns     the spellings that are a date. In this order:
           ISO 8601 and RFC 3339   2026, 2026-03, 2026-03-25, 2026-03-25T10:04, ...:05.123456789, Z or +02:00, a space
                                   for the T, lower-case t and z, years of six digits with a sign
           mail, HTTP, JavaScript  Wed, 25 Mar 2026 10:04:05 GMT; Mar 25, 2026; Wed Mar 25 2026 10:04:05 GMT+0100
           epoch                   a whole number of milliseconds: any digits but exactly four, which are a year
Keeps    a date without a zone is UTC (JavaScript would take the server's zone for a date with a time). Digits behind
         the ninth of a fraction are cut. A day or an hour that no calendar has is no date. Nothing lies more than 100
         million days from the epoch, as in JavaScript.
"""

import re
from functools import lru_cache

from search.language import limits
from search.language.analysis import WHITESPACE, trim

MS_NS = 1_000_000
SECOND_NS = 1_000_000_000
DAY_NS = 86_400 * SECOND_NS
DATE_MS_MAX = 8_640_000_000_000_000
_DATE_NS_MAX = DATE_MS_MAX * MS_NS

_ISO = re.compile(
    r"(\d{4}|[+-]\d{6})(?:-(\d\d)(?:-(\d\d))?)?"
    r"(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?([Zz]|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)
# What programs write: four times as fast as the general one, since the records of a minute share a look-up.
_USUAL = re.compile(r"(\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):[0-5]\d):([0-5]\d)(?:\.(\d{1,9}))?Z", re.ASCII)
_WORDY = re.compile(
    r"(?:[a-z]{3,9},?\s+)?(?:(\d\d?)\s+([a-z]{3,9})|([a-z]{3,9})\s+(\d\d?)),?\s+(\d{4})"
    r"(?:,?\s+(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?"
    r"(?:\s*(?:z|gmt|utc|ut))?\s*([+-]\d\d:?\d\d)?(?:\s*\([^()]*\))?",
    re.ASCII | re.IGNORECASE,
)
_EPOCH_MS = re.compile(r"-?(?:0|[1-9][0-9]{0,15})")
_MONTHS = "january february march april may june july august september october november december".split()
_MONTH_CHARS_MIN = 3
_NUMBERS = {month[:length]: at for at, month in enumerate(_MONTHS, 1) for length in range(_MONTH_CHARS_MIN, 10)}
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_HOURS, _MINUTES, _LEAP = 24, 60, 60


def date_ns(text: str) -> int | None:
    """The moment that a text names, or None."""
    usual = _USUAL.fullmatch(text)
    if usual is not None:
        minute, second, fraction = usual.groups()
        minute_ns = _minute(minute)
        if minute_ns is None:
            return None
        return minute_ns + int(second) * SECOND_NS + (int(fraction.ljust(9, "0")) if fraction else 0)
    return _unusual(text)


def milliseconds_ns(ms: float) -> int | None:
    """Milliseconds since the epoch; a fraction of one is cut. None outside the bounds, and for what is no number."""
    return int(ms) * MS_NS if -DATE_MS_MAX <= ms <= DATE_MS_MAX else None


def _unusual(text: str) -> int | None:
    if len(text) > limits.DATE_CHARS_MAX:
        return None
    found = _ISO.fullmatch(text) or _ISO.fullmatch(text.strip(WHITESPACE))
    if found is not None:
        year, month, day, *clock = found.groups()
        return _moment(_day(year, month or "01", day or "01"), *clock)
    return _wordy(trim(text))


def _wordy(text: str) -> int | None:
    if _EPOCH_MS.fullmatch(text):
        return milliseconds_ns(int(text))
    found = _WORDY.fullmatch(text)
    if found is None:
        return None
    day, month, month_first, day_second, year, *clock = found.groups()
    number = _NUMBERS.get((month or month_first).lower())
    return None if number is None else _moment(_day(year, f"{number:02}", (day or day_second).zfill(2)), *clock)


def _moment(
    day_ns: int | None, hour: str | None, minute: str | None, second: str | None, fraction: str | None, zone: str | None
) -> int | None:
    if day_ns is None:
        return None
    clock = _clock_ns(int(hour or 0), int(minute or 0), int(second or 0), fraction)
    offset = _zone_ns(zone)
    if clock is None or offset is None:
        return None
    moment = day_ns + clock - offset
    return moment if -_DATE_NS_MAX <= moment <= _DATE_NS_MAX else None


def _clock_ns(hour: int, minute: int, second: int, fraction: str | None) -> int | None:
    nanos = int(fraction[:9].ljust(9, "0")) if fraction else 0
    if hour > _HOURS or minute >= _MINUTES or second > _LEAP or (second == _LEAP and minute != _MINUTES - 1):
        return None
    if hour == _HOURS and (minute or second or nanos):  # 24:00 is the end of the day
        return None
    return ((hour * 60 + minute) * 60 + second) * SECOND_NS + nanos


def _zone_ns(zone: str | None) -> int | None:
    if zone is None or zone in "Zz":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
    if hours >= _HOURS or minutes >= _MINUTES:
        return None
    return (hours * 60 + minutes) * 60 * SECOND_NS * (-1 if zone[0] == "-" else 1)


@lru_cache(maxsize=4096)
def _minute(text: str) -> int | None:
    """`2026-03-25T10:04`, in UTC."""
    return _moment(_day(text[:4], text[5:7], text[8:10]), text[11:13], text[14:], "0", None, None)


@lru_cache(maxsize=4096)
def _day(year: str, month: str, day: str) -> int | None:
    y, m, d = int(year), int(month), int(day)
    if year == "-000000" or not 1 <= m <= len(_DAYS):
        return None
    leap = y % 4 == 0 and (y % 100 != 0 or y % 400 == 0)
    if not 1 <= d <= _DAYS[m - 1] + (leap and m == 2):  # noqa: PLR2004
        return None
    return _days_from_civil(y, m, d) * DAY_NS


def _days_from_civil(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the Gregorian calendar for any year; the year begins in March, so February ends it."""
    year -= month <= 2  # noqa: PLR2004
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1  # noqa: PLR2004
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
