"""Sizes, times and counts as people write them: `64MiB`, `3s`, `512`; kept as plain integers.

Plain `int`, not a subclass with a unit: the values are compared on hot paths, where the interpreter is fast only for
exact integers. The unit stands in the field's name and, for the manual, in `Unit`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

KiB = 1024
MiB = 1024 * KiB
GiB = 1024 * MiB

SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS

_QUANTITY = re.compile(r"(\d+) ?([A-Za-z]*)")
_BYTE_UNITS = {"": 1, "B": 1, "KiB": KiB, "MiB": MiB, "GiB": GiB, "kB": 10**3, "MB": 10**6, "GB": 10**9}
_TIME_UNITS = {"": 1, "ms": 1, "s": SECOND_MS, "m": MINUTE_MS, "h": HOUR_MS}


def _quantity(value: object, units: Mapping[str, int], example: str) -> int:
    # `bool` is an `int` in Python: without this line `port = true` would mean port 1.
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in units:
        raise PydanticCustomError("quantity", "not {example}: {given}", {"example": example, "given": repr(value)})
    return int(match[1]) * units[match[2]]


def _bytes(value: object) -> int:
    return _quantity(value, _BYTE_UNITS, "a number of bytes like 1048576 or 64MiB")


def _milliseconds(value: object) -> int:
    return _quantity(value, _TIME_UNITS, "a number of milliseconds like 3000, or 3s")


def _count(value: object) -> int:
    return _quantity(value, {"": 1}, "a whole number")


@dataclass(frozen=True, slots=True)
class Unit:
    """What one step of a number means; read by `describe`."""

    name: str


Bytes = Annotated[int, Unit("bytes"), BeforeValidator(_bytes)]
Milliseconds = Annotated[int, Unit("ms"), BeforeValidator(_milliseconds)]
Count = Annotated[int, BeforeValidator(_count)]
Port = Annotated[Count, Field(ge=0, le=65535)]
