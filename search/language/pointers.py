"""JSON pointers (RFC 6901) into parsed records.

Keeps    a pointer is taken apart once. A record that is no object has nothing anywhere, and no pointer raises: a member
         of a string, an index behind the end, `-`, and an index with leading zeros are all missing.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

MISSING: Any = type("Missing", (), {"__repr__": lambda _: "MISSING", "__bool__": lambda _: False})()

Getter = Callable[[object], Any]
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")


@lru_cache(4096)  # of all schemas in use; each hit that is shown has its fields looked up
def segments(pointer: str) -> tuple[str, ...]:
    if not _POINTER.fullmatch(pointer):
        raise ValueError("invalid json pointer")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])


def getter(pointer: str, missing: object = None) -> Getter:
    """The function from a record to the value at the pointer, or to `missing`."""
    path = segments(pointer)
    if not path:
        return lambda record: record if record.__class__ is dict else missing
    if len(path) == 1:
        (name,) = path

        def member(record: object) -> Any:
            return record.get(name, missing) if record.__class__ is dict else missing

        return member
    steps = tuple((name, int(name) if _INDEX.fullmatch(name) else None) for name in path)

    def walk(record: object) -> Any:
        if record.__class__ is not dict:
            return missing
        found: Any = record
        for name, index in steps:
            if found.__class__ is dict:
                found = found.get(name, MISSING)
            elif found.__class__ is list and index is not None and index < len(found):
                found = found[index]
            else:
                return missing
        return missing if found is MISSING else found

    return walk


def flat(values: list[Any]) -> Iterator[Any]:
    """The items of an array and of all arrays in it, in their order, without recursion."""
    stack = [iter(values)]
    while stack:
        for value in stack[-1]:
            if value.__class__ is list:
                stack.append(iter(value))
                break
            yield value
        else:
            stack.pop()
