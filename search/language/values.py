"""Canonical values: what a record's value, and a query's literal, mean in a field of some kind.

Owns     the one function a kind that says which value it is, or that there is none; their order; their spelling in an
         exact index.
Keeps    null, and whatever a kind can not read, does not exist, in every clause and on every surface. Canonical values
         of one kind compare with Python's own operators, and `order_key` compares as they do. Dates are nanoseconds.
         Integers of 64 bits are exact; beyond them a number is the nearest double, as JSON parsers read it.
"""

import math
import re
from collections.abc import Callable
from struct import Struct

from search.language import limits
from search.language.analysis import trim
from search.language.dates import MS_NS, date_ns, milliseconds_ns
from streams_node.schema.search_config import Field, Kind

Canonical = str | int | float | bool  # int for integers and dates; one kind never mixes them
Canonicalizer = Callable[[object], Canonical | None]

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_RADIX = re.compile(r"0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")
_EXACT_MIN, _EXACT_MAX = -(2**63), 2**64 - 1
_DOUBLE = Struct(">d")
_BITS = Struct(">Q")
_SIGN = 1 << 63
_HEAD = Struct(">H")
_HEAD_ZERO = 0x8000  # above: so many bytes follow of a positive number; below: of a negative one
_FIXED_EXPONENT_MAX, _FIXED_EXPONENT_MIN = 21, -6  # where JavaScript changes to scientific notation


def canonicalizer(field: Field) -> Canonicalizer:
    """The function that reads values of this field. Its argument is never a list: arrays are flattened before."""
    if field.kind is Kind.KEYWORD and field.lowercase:
        return _lowered
    return _BY_KIND[field.kind]


def _same(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _lowered(value: object) -> str | None:
    return value.lower() if isinstance(value, str) else None


def _integer(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if _EXACT_MIN <= value <= _EXACT_MAX else _nearest(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, str):
        text = trim(value)
        short = len(text) <= limits.NUMBER_CHARS_MAX
        return _integer(int(text)) if short and _INTEGER.fullmatch(text) else None
    return None


def _float(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _finite(value)
    if isinstance(value, str):
        text = trim(value)
        if len(text) > limits.NUMBER_CHARS_MAX:
            return None
        if _NUMBER.fullmatch(text):
            return _finite(float(text))
        return _finite(int(text, 0)) if _RADIX.fullmatch(text) else None
    return None


def _date(value: object) -> int | None:
    if isinstance(value, str):
        return date_ns(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return milliseconds_ns(value)
    return None


def _bool(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(trim(value).lower()) if isinstance(value, str) else None


def _nearest(value: int) -> int | None:
    found = _finite(value)
    return None if found is None else int(found)


def _finite(value: float) -> float | None:
    try:
        found = float(value)
    except OverflowError:
        return None
    return found + 0.0 if math.isfinite(found) else None  # -0.0 becomes 0.0


_BY_KIND: dict[Kind, Canonicalizer] = {
    Kind.KEYWORD: _same,
    Kind.TEXT: _same,
    Kind.INTEGER: _integer,
    Kind.FLOAT: _float,
    Kind.DATE: _date,
    Kind.BOOL: _bool,
}


# --- spelling and order ---------------------------------------------------------------------------------------------


def exact_text(kind: Kind, value: Canonical) -> str:
    """The spelling of a value in an exact index and in a key of a rollup: equal values, and no others, share one.

    Dates are milliseconds, with a fraction only if they have one; floats are as JavaScript prints them.
    """
    if kind is Kind.DATE:
        ms, rest = divmod(abs(int(value)), MS_NS)
        fraction = f".{rest:06}".rstrip("0") if rest else ""
        return f"{'-' if int(value) < 0 else ''}{ms}{fraction}"
    if kind is Kind.FLOAT:
        return _number_text(float(value))
    if kind is Kind.BOOL:
        return "true" if value else "false"
    return str(value)


def order_key(kind: Kind, value: Canonical) -> bytes:
    """Bytes that sort as the values of one kind do: for ranges, sorted runs and bounds of files."""
    if kind is Kind.BOOL:
        return b"\1" if value else b"\0"
    if kind is Kind.FLOAT:
        (bits,) = _BITS.unpack(_DOUBLE.pack(value))
        return _BITS.pack(bits ^ (2 * _SIGN - 1) if bits & _SIGN else bits | _SIGN)
    if kind in {Kind.INTEGER, Kind.DATE}:
        return _whole_key(int(value))
    return str(value).encode("utf-8", "surrogatepass")


def _whole_key(value: int) -> bytes:
    """Sign and length, then the digits; a longer negative number is the smaller one, so its digits are inverted."""
    size = (abs(value).bit_length() + 7) // 8
    if value >= 0:
        return _HEAD.pack(_HEAD_ZERO + size) + value.to_bytes(size, "big")
    return _HEAD.pack(_HEAD_ZERO - size) + ((1 << 8 * size) - 1 + value).to_bytes(size, "big")


def _number_text(value: float) -> str:
    """As JavaScript prints a double: the shortest digits that name it, with an exponent from 1e21 and below 1e-6."""
    sign, shortest = ("-" if value < 0 else ""), repr(abs(value))
    mantissa, _, exponent = shortest.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))  # value = 0.digits * 10**point
    digits = digits.rstrip("0")
    if not digits:
        return "0"
    if len(digits) <= point <= _FIXED_EXPONENT_MAX:
        return f"{sign}{digits}{'0' * (point - len(digits))}"
    if 0 < point <= _FIXED_EXPONENT_MAX:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if _FIXED_EXPONENT_MIN < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{'+' if point > 0 else '-'}{abs(point - 1)}"
