"""The routing key of an entry, where a registry says where it stands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streams_node.schema.errors import EntryRefused, SchemaRefused
from streams_node.schema.pointers import MISSING, BadPointer, Tokens, resolve
from streams_node.schema.pointers import parse as pointer

_MEMBERS = ("jsonPointer", "required")


@dataclass(frozen=True, slots=True)
class RoutingKey:
    """Where the key stands, and whether it has to be there."""

    json_pointer: str
    required: bool
    tokens: Tokens

    def document(self) -> dict[str, Any]:
        return {"jsonPointer": self.json_pointer, "required": self.required}

    def keys(self, entries: Sequence[Any], bytes_max: int) -> list[str | None]:
        """The key of each entry; the first entry that has none it may have is refused."""
        tokens = self.tokens
        if len(tokens) == 1:  # the usual case
            name = tokens[0]
            found = [entry.get(name, MISSING) if type(entry) is dict else resolve(entry, tokens) for entry in entries]
        else:
            found = [resolve(entry, tokens) for entry in entries]
        return self.checked(found, bytes_max)

    def checked(self, found: Sequence[Any], bytes_max: int) -> list[str | None]:
        """What stands where the key of each entry should."""
        return [
            key if type(key) is str and len(key) <= bytes_max >> 2 else self._checked(key, bytes_max) for key in found
        ]

    def _checked(self, key: Any, bytes_max: int) -> str | None:
        if key is MISSING:
            if self.required:
                raise EntryRefused("routing key missing")
            return None
        return checked_key(key, bytes_max)


def checked_key(key: Any, bytes_max: int) -> str:
    """A value that is to be a routing key."""
    if not isinstance(key, str):
        raise EntryRefused("routing key must be string")
    if (size := len(key.encode("utf-8"))) > bytes_max:
        raise EntryRefused(f"routing key has {size} bytes; at most {bytes_max} are allowed")
    return key


def parse(raw: object) -> RoutingKey:
    """The member `routingKey` of an update."""
    if not isinstance(raw, Mapping):
        raise SchemaRefused("routingKey must be an object")
    for name in raw:
        if name not in _MEMBERS:
            raise SchemaRefused(f"routingKey.{name[:64]} is not supported")
    where, required = raw.get("jsonPointer"), raw.get("required")
    if not isinstance(where, str):
        raise SchemaRefused("routingKey.jsonPointer must be a string")
    if not isinstance(required, bool):
        raise SchemaRefused("routingKey.required must be boolean")
    try:
        return RoutingKey(where, required, pointer(where))
    except BadPointer as problem:
        raise SchemaRefused(str(problem)) from None
