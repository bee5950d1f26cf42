"""JSON values as the client wrote them: read without rounding, and the few readings that profiles need.

A number with a fraction or an exponent stays its own text (`msgspec.Raw`); a whole number is an `int`, however large.
So what passes through a profile is written back with the value that was sent, digit for digit.
"""

import math
import re
import sys
from typing import Any

import msgspec

from streams_node.errors import BadProfile

Number = int | msgspec.Raw
SAFE_MAX = 2**53 - 1  # beyond it JSON's readers round whole numbers
_DIGITS_MAX = 400  # of a number given as text: no finite number needs more before its point
_EXPONENT_FROM = 1e21  # JavaScript writes larger numbers with an exponent

_DECODE = msgspec.json.Decoder(float_hook=msgspec.Raw).decode
encode = msgspec.json.Encoder().encode
_INTEGER = re.compile(r"-?[0-9]{1,16}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def decode(raw: bytes, what: str) -> Any:
    """The value of one entry."""
    try:
        return _DECODE(raw)
    except RecursionError:
        raise BadProfile(f"{what} is nested too deeply") from None
    except ValueError as problem:  # msgspec's errors are ValueErrors
        raise BadProfile(f"{what} must be valid JSON; {problem}") from None


def text(value: object) -> str | None:
    """A string that says something, without the white space around it."""
    return value.strip() or None if type(value) is str else None


def real(number: Number) -> float:
    """The nearest double; infinite when there is none."""
    try:
        return float(number if type(number) is int else bytes(number))
    except OverflowError:
        return math.inf


def number(value: object) -> Number | None:
    """A number, or text that is one, if a double can hold it."""
    if type(value) is int:
        return value if abs(value) <= sys.float_info.max else None
    if type(value) is msgspec.Raw:
        return value if math.isfinite(real(value)) else None
    if type(value) is str and len(value) <= _DIGITS_MAX and _NUMBER.fullmatch(stripped := value.strip()):
        return _number_of(stripped)
    return None


def _number_of(digits: str) -> Number | None:
    nearest = float(digits)
    if not math.isfinite(nearest):
        return None
    if not _JSON_NUMBER.fullmatch(digits):  # `+1`, `.5`, `1.`, `007`
        return int(nearest) if nearest.is_integer() and abs(nearest) <= SAFE_MAX else msgspec.Raw(repr(nearest))
    return int(digits) if digits.lstrip("-").isdigit() else msgspec.Raw(digits)


def whole(value: object) -> int | None:
    """An integer, or text that is one, as far as every reader of JSON can hold it."""
    if type(value) is msgspec.Raw:
        nearest = real(value)
        value = int(nearest) if nearest.is_integer() else None
    elif type(value) is str and _INTEGER.fullmatch(stripped := value.strip()):
        value = int(stripped)
    return value if type(value) is int and -SAFE_MAX <= value <= SAFE_MAX else None


def truncated(value: object) -> int | None:
    """A number, or text that is one, without its fraction."""
    found = number(value)
    if found is None:
        return None
    cut = found if isinstance(found, int) else int(real(found))
    return cut if -SAFE_MAX <= cut <= SAFE_MAX else None


def number_text(value: Number) -> str:
    """One text for one number, as JavaScript writes it: `1.0` and `1` label the same thing."""
    if type(value) is int:
        return str(value)
    nearest = real(value)
    if nearest.is_integer() and abs(nearest) < _EXPONENT_FROM:
        return str(int(nearest))
    return re.sub(r"e([+-])0+", r"e\1", repr(nearest))
