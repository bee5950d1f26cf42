"""Takes secrets out of a record before it is stored: values of members with certain names, wherever they are.

    Redaction(names).apply(value)   changes the value in place; returns where it did

Keeps    no value of such a member is left, at any depth; a value that is nested deeper than is looked at is refused.
         The list of places has a limit, so that a small body cannot make a huge one; the redaction itself has none.
"""

from collections.abc import Iterable
from typing import Any

from streams_node.errors import BadProfile

REDACTED = "[REDACTED]"
ALWAYS = ("password", "token", "secret", "authorization", "cookie", "apikey")
DEPTH_MAX = 64  # of nested objects and arrays: each is a frame of the walk
PLACES_MAX = 1000  # listed
PLACES_CHARS_MAX = 64 * 1024  # of the list: a long name may lead to many places
MORE = "…"  # ends a list that is not complete

Place = tuple["Place | None", "str | int"]  # where it is: the place around it, and its name or index there


class Redaction:
    """The names to look for, in lower case."""

    __slots__ = ("names",)

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names = frozenset((*ALWAYS, *names))

    def hides(self, path: Iterable[str]) -> bool:
        """Whether what is at this path is not to be seen."""
        return any(name.lower() in self.names for name in path)

    def apply(self, value: Any, what: str) -> list[str]:
        """Redact, and list where, as dotted paths in the order of the document."""
        found: list[Place] = []
        self._walk(value, None, 1, found, what)
        return _listed(found) if found else []

    def _walk(self, value: Any, place: Place | None, depth: int, found: list[Place], what: str) -> None:
        if depth > DEPTH_MAX:
            raise BadProfile(f"{what} must be nested at most {DEPTH_MAX} levels deep")
        if type(value) is dict:
            names = self.names
            for name, inner in value.items():
                if name.lower() in names:
                    value[name] = REDACTED  # no new member, so the walk over them goes on
                    found.append((place, name))
                elif type(inner) is dict or type(inner) is list:
                    self._walk(inner, (place, name), depth + 1, found, what)
        else:
            for index, inner in enumerate(value):
                if type(inner) is dict or type(inner) is list:
                    self._walk(inner, (place, index), depth + 1, found, what)


def _listed(found: list[Place]) -> list[str]:
    listed: list[str] = []
    left = PLACES_CHARS_MAX
    for place in found[:PLACES_MAX]:
        path = _path(place)
        left -= len(path)
        if left < 0:
            break
        listed.append(path)
    return listed if len(listed) == len(found) else [*listed, MORE]


def _path(place: Place) -> str:
    names: list[str] = []
    around: Place | None = place
    while around is not None:
        around, name = around
        names.append(str(name))
    return ".".join(reversed(names))
