"""JSON as this room reads and writes it: bounded in depth, so that nothing which walks a document can run away."""

from typing import Any

import orjson

DEPTH_MAX = 100  # levels of a document; the encoder can take 254, the validator about as many


class BadJson(ValueError):
    """The text is no JSON, or is nested too deep."""


def loads(text: bytes) -> Any:
    """The value of a JSON text. Numbers are 64-bit integers or doubles; of equal keys the last one counts."""
    try:
        value = orjson.loads(text)
    except ValueError as problem:
        raise BadJson(str(problem)) from None
    if too_deep(text) and depth(value) > DEPTH_MAX:
        raise BadJson(f"nested deeper than {DEPTH_MAX} levels")
    return value


def dumps(value: Any) -> bytes:
    """The compact text of a value; members keep their order."""
    return orjson.dumps(value)


def too_deep(text: bytes) -> bool:
    """Whether a text has so many brackets that it may be nested too deep. Cheap, and never wrong about a no."""
    return text.count(b"[") + text.count(b"{") > DEPTH_MAX


def depth(value: Any) -> int:
    """How many levels of arrays and objects a value has."""
    level, here = 0, [value]
    while True:
        inner = [each for each in here if isinstance(each, dict | list)]
        if not inner:
            return level
        level += 1
        here = [part for each in inner for part in (each.values() if isinstance(each, dict) else each)]
