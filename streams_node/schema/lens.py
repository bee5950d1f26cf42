"""A lens: the operations that make a document of one schema version one of the next.

    parse(raw)            untrusted JSON -> Lens, or what is wrong with it
    lens.apply(doc, room) the new document; the one that was given is used up

Keeps    applying is bounded by the `Room` that a document brings: steps, and bytes that operations add. What an
         operation copies is a copy: no two places of a document are ever the same container, so no document can hold
         itself or double with every operation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from streams_node.schema.errors import LensFailed, SchemaRefused
from streams_node.schema.pointers import MISSING, BadPointer, Tokens, index_of, resolve
from streams_node.schema.pointers import parse as pointer
from streams_node.schema.transforms import transform_of
from streams_node.schema.values import TYPE_NAMES, is_of, type_name

API_VERSION = "durable.lens/v1"
OPS_MAX = 1000  # of one lens, inner ones included
NESTING_MAX = 16  # of `in` and `map`
VERSION_MAX = 2**31 - 1
STEPS_MAX = 1_000_000  # of one document: about a second
_DESCRIPTION_MAX = 4096


class Room:
    """What applying lenses to one document may still cost."""

    __slots__ = ("bytes", "steps")

    def __init__(self, bytes_max: int, steps_max: int = STEPS_MAX) -> None:
        self.bytes = bytes_max
        self.steps = steps_max

    def step(self, count: int) -> None:
        self.steps -= count
        if self.steps < 0:
            raise LensFailed("lens takes too many steps for one document")

    def grow(self, size: int) -> None:
        self.bytes -= size
        if self.bytes < 0:
            raise LensFailed("document grows too large")


Op = Callable[[Any, Room], Any]  # the document after it: another one only where its root was replaced


@dataclass(frozen=True, slots=True)
class Lens:
    """`document` is as it was given; `apply` runs its operations in their order."""

    from_version: int
    to_version: int
    schema: str
    ops: tuple[Mapping[str, Any], ...]
    document: Mapping[str, Any]
    steps: tuple[Op, ...]

    def apply(self, document: Any, room: Room) -> Any:
        room.step(len(self.steps))
        for step in self.steps:
            document = step(document, room)
        return document


def parse(raw: object) -> Lens:
    """A lens, if the text is one."""
    members = _members(raw, "lens", _LENS, _LENS_OPTIONAL)
    if members["apiVersion"] != API_VERSION:
        raise _invalid("lens/apiVersion", "must be equal to constant")
    schema = members["schema"]
    if not isinstance(schema, str) or not schema:
        raise _invalid("lens/schema", "must be a non-empty string")
    for name in ("from", "to"):
        number = members[name]
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= VERSION_MAX:
            raise _invalid(f"lens/{name}", f"must be an integer from 0 to {VERSION_MAX}")
    description = members.get("description", "")
    if not isinstance(description, str) or len(description) > _DESCRIPTION_MAX:
        raise _invalid("lens/description", f"must be a string of at most {_DESCRIPTION_MAX} characters")
    count = _check_ops(members["ops"], "lens/ops", NESTING_MAX)
    if count > OPS_MAX:
        raise _invalid("lens/ops", f"must NOT have more than {OPS_MAX} operations")
    return lens_of(members)


def lens_of(document: Mapping[str, Any]) -> Lens:
    """A lens of a document that has been checked."""
    ops = tuple(document["ops"])
    return Lens(document["from"], document["to"], document["schema"], ops, document, steps_of(ops))


def steps_of(ops: tuple[Mapping[str, Any], ...] | list[Mapping[str, Any]]) -> tuple[Op, ...]:
    """Operations as functions."""
    return tuple(_MAKERS[op["op"]](op) for op in ops)


# --- shape ----------------------------------------------------------------------------------------------------------

_LENS = {"apiVersion", "schema", "from", "to", "ops"}
_LENS_OPTIONAL = {"description"}
_SHAPES: Mapping[str, tuple[set[str], set[str]]] = {
    "rename": ({"from", "to"}, set()),
    "copy": ({"from", "to"}, set()),
    "add": ({"path", "schema"}, {"default"}),
    "remove": ({"path", "schema"}, {"default"}),
    "hoist": ({"host", "name", "to"}, {"removeFromHost"}),
    "plunge": ({"from", "host", "name"}, {"createHost", "removeFromSource"}),
    "wrap": ({"path", "mode"}, {"reverseMode"}),
    "head": ({"path"}, {"reverseMode"}),
    "convert": ({"path", "fromType", "toType", "forward", "backward"}, set()),
    "in": ({"path", "ops"}, set()),
    "map": ({"path", "ops"}, set()),
}


def _check_ops(raw: object, at: str, nesting: int) -> int:
    """How many operations there are, inner ones included."""
    if not isinstance(raw, list):
        raise _invalid(at, "must be array")
    if not raw:
        raise _invalid(at, "must NOT have fewer than 1 items")
    if nesting < 0:
        raise _invalid(at, f"must NOT be nested deeper than {NESTING_MAX} operations")
    return sum(_check_op(op, f"{at}/{number}", nesting) for number, op in enumerate(raw))


def _check_op(raw: object, at: str, nesting: int) -> int:
    if not isinstance(raw, dict):
        raise _invalid(at, "must be object")
    kind = raw.get("op")
    shape = _SHAPES.get(kind) if isinstance(kind, str) else None
    if shape is None:
        raise _invalid(f"{at}/op", f"must be one of {', '.join(_SHAPES)}")
    required, optional = shape
    members = _members(raw, at, required | {"op"}, optional)
    _check_members(members, at)
    if kind in ("wrap", "head"):
        _check_modes(members, at, kind)
    elif kind == "convert":
        _check_convert(members, at)
    return 1 + (_check_ops(members["ops"], f"{at}/ops", nesting - 1) if "ops" in members else 0)


def _check_members(members: Mapping[str, Any], at: str) -> None:
    for name in ("from", "to", "path", "host"):
        if name in members:
            _check_pointer(members[name], f"{at}/{name}")
    if "name" in members and not isinstance(members["name"], str):
        raise _invalid(f"{at}/name", "must be string")
    if "schema" in members and not isinstance(members["schema"], dict | bool):
        raise _invalid(f"{at}/schema", "must be object,boolean")
    for name in ("removeFromHost", "createHost", "removeFromSource"):
        if not isinstance(members.get(name, True), bool):
            raise _invalid(f"{at}/{name}", "must be boolean")


def _check_modes(members: Mapping[str, Any], at: str, kind: str) -> None:
    if kind == "wrap" and members["mode"] != "singleton":
        raise _invalid(f"{at}/mode", "must be equal to constant")
    if members.get("reverseMode", _REVERSE[kind]) != _REVERSE[kind]:
        raise _invalid(f"{at}/reverseMode", "must be equal to constant")


_REVERSE = {"wrap": "first", "head": "singleton"}


def _check_convert(members: Mapping[str, Any], at: str) -> None:
    for name in ("fromType", "toType"):
        if members[name] not in TYPE_NAMES:
            raise _invalid(f"{at}/{name}", f"must be one of {', '.join(TYPE_NAMES)}")
    for name in ("forward", "backward"):
        _check_transform(members[name], f"{at}/{name}")


def _check_transform(raw: object, at: str) -> None:
    if isinstance(raw, dict) and "builtin" in raw:
        if not isinstance(_members(raw, at, {"builtin"}, set())["builtin"], str):
            raise _invalid(f"{at}/builtin", "must be string")
        return
    members = _members(raw, at, {"map"}, {"default"})
    table = members["map"]
    if not isinstance(table, dict) or any(isinstance(value, dict | list) for value in table.values()):
        raise _invalid(f"{at}/map", "must be an object of scalars")
    if isinstance(members.get("default"), dict | list):
        raise _invalid(f"{at}/default", "must be a scalar")


def _check_pointer(raw: object, at: str) -> None:
    try:
        pointer(raw)
    except BadPointer:
        raise _invalid(at, 'must match format "json-pointer"') from None


def _members(raw: object, at: str, required: set[str], optional: set[str]) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise _invalid(at, "must be object")
    for name in sorted(required - raw.keys()):
        raise _invalid(at, f"must have required property '{name}'")
    if raw.keys() - required - optional:
        raise _invalid(at, "must NOT have additional properties")
    return raw


def _invalid(at: str, what: str) -> SchemaRefused:
    return SchemaRefused(f"invalid lens: {at} {what}")


# --- operations -----------------------------------------------------------------------------------------------------


def _rename(op: Mapping[str, Any]) -> Op:
    source, target = pointer(op["from"]), pointer(op["to"])
    if len(source) == len(target) == 1:
        return _rename_member(source[0], target[0])

    def step(document: Any, _: Room) -> Any:
        value = resolve(document, source)
        if value is MISSING:
            raise LensFailed("rename missing source")
        if source == target:
            return document
        if target[: len(source)] == source:
            raise LensFailed("rename into itself")
        changed = put(document, target, value)
        if target == source[: len(target)]:  # it took the place of what held it
            return changed
        return take_out(changed, source, "rename missing source")

    return step


def _rename_member(source: str, target: str) -> Op:
    """The usual case: a member of the root gets another name."""

    def step(document: Any, _: Room) -> Any:
        if type(document) is not dict:
            if resolve(document, (source,)) is MISSING:
                raise LensFailed("rename missing source")
            value = resolve(document, (source,))
            return take_out(put(document, (target,), value), (source,), "rename missing source")
        if source not in document:
            raise LensFailed("rename missing source")
        if source != target:
            document[target] = document.pop(source)
        return document

    return step


def _copy(op: Mapping[str, Any]) -> Op:
    source, target = pointer(op["from"]), pointer(op["to"])

    def step(document: Any, room: Room) -> Any:
        value = resolve(document, source)
        if value is MISSING:
            raise LensFailed("copy missing source")
        return put(document, target, copied(value, room))

    return step


def _add(op: Mapping[str, Any]) -> Op:
    target, default = pointer(op["path"]), op.get("default")
    name = target[0] if len(target) == 1 else None

    def step(document: Any, room: Room) -> Any:
        value = copied(default, room)
        if name is not None and type(document) is dict:
            document[name] = value
            return document
        return put(document, target, value)

    return step


def _remove(op: Mapping[str, Any]) -> Op:
    path = pointer(op["path"])

    def step(document: Any, _: Room) -> Any:
        return take_out(document, path, "remove missing path")

    return step


def _hoist(op: Mapping[str, Any]) -> Op:
    host, name, target = pointer(op["host"]), op["name"], pointer(op["to"])
    removes = op.get("removeFromHost", True)

    def step(document: Any, room: Room) -> Any:
        found = resolve(document, host)
        if not isinstance(found, dict):
            raise LensFailed("hoist host missing or not object")
        if name not in found:
            raise LensFailed("hoist missing name")
        if not removes:
            return put(document, target, copied(found[name], room))
        if target == (*host, name):
            return document
        if target[: len(host) + 1] == (*host, name):
            raise LensFailed("missing parent")
        return put(document, target, found.pop(name))

    return step


def _plunge(op: Mapping[str, Any]) -> Op:
    source, host, name = pointer(op["from"]), pointer(op["host"]), op["name"]
    creates, removes = op.get("createHost", True), op.get("removeFromSource", True)
    target = (*host, name)

    def step(document: Any, room: Room) -> Any:
        value = resolve(document, source)
        if value is MISSING:
            raise LensFailed("plunge missing source")
        found = resolve(document, host)
        if found is MISSING:
            if not creates:
                raise LensFailed("plunge host missing")
            document, found = _create_host(document, host, room)
        if not isinstance(found, dict):
            raise LensFailed("plunge host not object")
        if removes and source == target:
            return document
        if removes and target[: len(source)] == source:  # into itself: the host is the source or below it
            raise LensFailed("plunge host not object")
        found[name] = value if removes else copied(value, room)
        return take_out(document, source, "plunge missing source") if removes else document

    return step


def _create_host(document: Any, host: Tokens, room: Room) -> tuple[Any, Any]:
    for end in range(len(host)):
        room.grow(len(host[end]) + 8)
        if resolve(document, host[: end + 1]) is MISSING:
            document = put(document, host[: end + 1], {})
    return document, resolve(document, host)


def _wrap(op: Mapping[str, Any]) -> Op:
    path = pointer(op["path"])

    def step(document: Any, room: Room) -> Any:
        value = resolve(document, path)
        if value is MISSING:
            raise LensFailed("wrap missing path")
        room.grow(2)
        return put(document, path, [value])

    return step


def _head(op: Mapping[str, Any]) -> Op:
    path = pointer(op["path"])

    def step(document: Any, _: Room) -> Any:
        value = resolve(document, path)
        if not isinstance(value, list) or not value:
            raise LensFailed("head expects non-empty array")
        return put(document, path, value[0])

    return step


def _convert(op: Mapping[str, Any]) -> Op:
    path, from_type, to_type, forward = pointer(op["path"]), op["fromType"], op["toType"], transform_of(op["forward"])
    whole = to_type == "integer"

    def step(document: Any, room: Room) -> Any:
        value = resolve(document, path)
        if value is MISSING:
            raise LensFailed("convert missing path")
        _check_type(value, from_type)
        converted = forward(value)
        _check_type(converted, to_type)
        if isinstance(converted, str):
            room.grow(len(converted))
        elif whole and isinstance(converted, float) and abs(converted) < _INTEGERS_BELOW:
            converted = int(converted)
        return put(document, path, converted)

    return step


_INTEGERS_BELOW = 2**63


def _check_type(value: Any, name: str) -> None:
    if not is_of(value, name):
        raise LensFailed(f"type mismatch: expected {name}, got {type_name(value)}")


def _in(op: Mapping[str, Any]) -> Op:
    path, steps = pointer(op["path"]), steps_of(op["ops"])

    def step(document: Any, room: Room) -> Any:
        inner = resolve(document, path)
        if not isinstance(inner, dict):
            raise LensFailed("in expects object")
        _apply_in_place(steps, inner, room)
        return document

    return step


def _map(op: Mapping[str, Any]) -> Op:
    path, steps = pointer(op["path"]), steps_of(op["ops"])

    def step(document: Any, room: Room) -> Any:
        items = resolve(document, path)
        if not isinstance(items, list):
            raise LensFailed("map expects array")
        for item in items:
            _apply_in_place(steps, item, room)
        return document

    return step


def _apply_in_place(steps: tuple[Op, ...], inner: Any, room: Room) -> None:
    """An operation on the root of what is inside has no effect: there is no place for another root."""
    room.step(len(steps))
    for step in steps:
        step(inner, room)


_MAKERS: Mapping[str, Callable[[Mapping[str, Any]], Op]] = {
    "rename": _rename, "copy": _copy, "add": _add, "remove": _remove, "hoist": _hoist, "plunge": _plunge,
    "wrap": _wrap, "head": _head, "convert": _convert, "in": _in, "map": _map,
}  # fmt: skip


# --- documents ------------------------------------------------------------------------------------------------------


def put(document: Any, path: Tokens, value: Any) -> Any:
    """Set what is at a path; the document, or what takes its place."""
    if not path:
        return value
    parent = resolve(document, path[:-1])
    last = path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list):
        at = len(parent) if last == "-" else index_of(last)
        if at is None or at > len(parent):
            raise LensFailed("array index out of bounds")
        parent[at : at + 1] = [value]
    else:
        raise LensFailed("missing parent")
    return document


def take_out(document: Any, path: Tokens, missing: str) -> Any:
    """Delete what is at a path. Nothing can be taken from where there is only the root: then it becomes null."""
    if not path:
        return None
    parent = resolve(document, path[:-1])
    last = path[-1]
    if isinstance(parent, dict) and last in parent:
        del parent[last]
    elif isinstance(parent, list) and (at := index_of(last)) is not None and at < len(parent):
        del parent[at]
    else:
        raise LensFailed(missing)
    return document


def copied(value: Any, room: Room) -> Any:
    """A value of its own. Its size is what it adds to the document."""
    if isinstance(value, dict):
        room.grow(2)
        made = {}
        for name, each in value.items():
            room.grow(len(name) + 4)
            made[name] = copied(each, room)
        return made
    if isinstance(value, list):
        room.grow(2 + len(value))
        return [copied(each, room) for each in value]
    room.grow(len(value) if isinstance(value, str) else 8)
    return value
