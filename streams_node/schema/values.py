"""Types of JSON values by their names, equality as JSON means it, and JavaScript's text of a scalar."""

from typing import Any

TYPE_NAMES = ("string", "number", "integer", "boolean", "null", "object", "array")
_NAMES: dict[type, str] = {
    str: "string", int: "integer", bool: "boolean", type(None): "null", dict: "object", list: "array",
}  # fmt: skip
_TEXT_BELOW = 1e21  # from here on JavaScript writes an exponent
_TEXT_POWER = -6  # and below this power of ten


def type_name(value: Any) -> str:
    """The narrowest type of a value: whole numbers are integers, however they are written."""
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return _NAMES[type(value)]


def is_of(value: Any, name: str) -> bool:
    """Whether a value has a type; a number may be an integer."""
    own = type_name(value)
    return own == name or (name == "number" and own == "integer")


def key_of(value: Any) -> Any:
    """What is equal, and has one hash, for values that are the same in JSON: `true` is not 1, and 1.0 is."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, list):
        return ("list", *map(key_of, value))
    if isinstance(value, dict):
        return ("dict", frozenset((name, key_of(each)) for name, each in value.items()))
    return value


def text_of(value: Any) -> str:
    """A scalar as JavaScript's `String()` writes it: the keys of a conversion's map."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, float):
        return _number_text(value)
    if isinstance(value, int) and abs(value) >= 2**53:
        return _number_text(float(value))
    return str(value)


def _number_text(value: float) -> str:
    if value == 0:
        return "0"
    if value.is_integer() and abs(value) < _TEXT_BELOW:
        return _whole_text(value)
    digits, _, exponent = repr(value).partition("e")
    if not exponent:
        return digits
    power = int(exponent)
    if _TEXT_POWER <= power < 0:  # Python writes an exponent earlier
        sign, bare = ("-", digits[1:]) if digits[0] == "-" else ("", digits)
        return f"{sign}0.{'0' * (-power - 1)}{bare.replace('.', '')}"
    return f"{digits.removesuffix('.0')}e{'+' if power > 0 else '-'}{abs(power)}"


def _whole_text(value: float) -> str:
    """The shortest digits that mean the number, filled up with zeros."""
    digits, _, exponent = repr(value).partition("e")
    if not exponent:
        return digits.removesuffix(".0")
    whole, _, part = digits.partition(".")
    return whole + part.rstrip("0").ljust(int(exponent), "0") if part != "0" else whole + "0" * int(exponent)
