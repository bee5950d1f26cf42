"""Lifetimes, durations and timestamps as the wire spells them; everything becomes whole microseconds or seconds."""

import re
from datetime import UTC, datetime, timedelta

SECOND_US = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CANONICAL = re.compile(r"0|[1-9][0-9]{0,15}")
_WITH_UNIT = re.compile(r"(0|[1-9][0-9]{0,15})(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_RFC3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_NANOS = re.compile(r"[0-9]{1,19}")
_LEAP = 60
_DAY_HOURS, _HOUR_MINUTES = 24, 60
TTL_S_MAX = 100 * 365 * 86_400  # a hundred years: an end beyond it does not fit the date formats of clients


def ttl_seconds(text: str) -> int | None:
    """`Stream-TTL`: canonical whole seconds, or one `<int><unit>` that is whole seconds; None when it is neither."""
    if _CANONICAL.fullmatch(text):
        seconds, rest = int(text), 0
    else:
        ms = duration_ms(text)
        if ms is None or text.isdigit():
            return None
        seconds, rest = divmod(ms, 1000)
    return seconds if rest == 0 and seconds <= TTL_S_MAX else None


def duration_ms(text: str) -> int | None:
    """`timeout`: bare digits are milliseconds, otherwise one `<int>(ms|s|m|h|d)`."""
    if _CANONICAL.fullmatch(text):
        return int(text)
    found = _WITH_UNIT.fullmatch(text)
    return int(found[1]) * _UNIT_MS[found[2]] if found else None


def timestamp_us(text: str) -> int | None:
    """RFC 3339 with up to nine digits of fraction, or Unix nanoseconds; what is finer than a microsecond is cut."""
    if _NANOS.fullmatch(text):
        return int(text) // 1000
    found = _RFC3339.fullmatch(text)
    if not found:
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    leap = second == _LEAP
    try:
        moment = datetime(year, month, day, hour, minute, 59 if leap else second, tzinfo=UTC)
        moment -= _zone(found[8])
        whole = (moment - _EPOCH) // timedelta(seconds=1) + leap
    except (ValueError, OverflowError):
        return None
    return whole * SECOND_US + int((found[7] or "0").ljust(9, "0")) // 1000


def rfc3339(moment_us: int, *, digits: int = 3) -> str:
    """A moment as `2026-01-31T12:00:00.000Z`; moments outside the calendar show its edge."""
    edge = 253_402_300_800 * SECOND_US - 1
    moment = _EPOCH + timedelta(microseconds=max(0, min(moment_us, edge)))
    fraction = f"{moment.microsecond:06d}"[:digits]
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{fraction}Z"


def _zone(text: str) -> timedelta:
    if text in "Zz":
        return timedelta()
    hours, minutes = int(text[1:3]), int(text[4:6])
    if hours >= _DAY_HOURS or minutes >= _HOUR_MINUTES:
        raise ValueError(text)
    offset = timedelta(hours=hours, minutes=minutes)
    return -offset if text[0] == "-" else offset
