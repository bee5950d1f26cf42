"""Whether a lens may stand between two schemas: each operation against the old schema and the new one.

The proof is shallow, as the protocol describes it: every operation is held against the original old schema, not against
the shape that the operations before it made, and only types, `const` and `enum` are compared. What it accepts can still
fail on a document that its schema allowed; reading says so then.

Mended, against the description of the original; everything that it accepts is accepted:
  * `add`: an explicit default of `null` is one, where the new schema allows null; it counted as missing.
  * `convert`: a map's default of `false`, 0, "" or null makes the map total, too; it counted as missing.
"""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

from streams_node.schema.errors import SchemaRefused
from streams_node.schema.lens import Lens
from streams_node.schema.pointers import Tokens, index_of
from streams_node.schema.pointers import parse as pointer
from streams_node.schema.transforms import PARTIAL
from streams_node.schema.values import key_of, type_name

Schema = Any  # a dict or a bool; None where there is none
Op = Mapping[str, Any]


def prove(lens: Lens, old: Schema, new: Schema) -> dict[str, Any]:
    """The lens document with its defaults filled in, or the first operation that cannot be shown to fit.

    Lists of a schema are made ready once for all operations: to hold thousands of values against thousands, one by one
    and for each operation anew, took hours, and all other declarations of the node waited for it.
    """
    token = _known.set({})
    try:
        return {**lens.document, "ops": _prove_ops(lens.ops, old, new)}
    finally:
        _known.reset(token)


def _prove_ops(ops: Sequence[Op], old: Schema, new: Schema) -> list[dict[str, Any]]:
    return [_PROOFS[op["op"]](op, old, new, ops[:at], ops[at + 1 :]) for at, op in enumerate(ops)]


# --- operations -----------------------------------------------------------------------------------------------------


def _rename(op: Op, old: Schema, new: Schema, _: Sequence[Op], later: Sequence[Op]) -> dict[str, Any]:
    source, target = pointer(op["from"]), pointer(op["to"])
    have, want = _moved(op, old, new, source, target)
    if not compatible(have, want) and not _wrapped_later(have, want, op["to"], later):
        raise SchemaRefused("rename schema incompatible")
    return dict(op)


def _wrapped_later(have: Schema, want: Schema, path: str, later: Sequence[Op]) -> bool:
    return (
        has_type(want, "array")
        and any(op["op"] == "wrap" and op["path"] == path for op in later)
        and compatible(have, items_of(want))
    )


def _copy(op: Op, old: Schema, new: Schema, *_: Sequence[Op]) -> dict[str, Any]:
    have, want = _moved(op, old, new, pointer(op["from"]), pointer(op["to"]))
    _check(compatible(have, want), "copy schema incompatible")
    return dict(op)


def _moved(op: Op, old: Schema, new: Schema, source: Tokens, target: Tokens) -> tuple[Schema, Schema]:
    """The schema of what is moved, and of where it goes."""
    have = loose(old, source)
    _check(have is not None and required(old, source), f"{op['op']} source not required")
    _check_parents(old, target)
    want = loose(new, target)
    _check(want is not None, f"{op['op']} dest missing in new schema")
    return have, want


def _add(op: Op, old: Schema, new: Schema, *_: Sequence[Op]) -> dict[str, Any]:
    path = pointer(op["path"])
    _check_parents(old, path, listed=True)
    want = explicit(new, path)
    _check(want is not None, "add dest missing in new schema")
    default = op.get("default")
    if default is None and not ("default" in op and conforms(None, want)):
        default = _derived(want)
        _check(default is not None, "add missing default")
    _check(conforms(default, want), "add default invalid")
    return {**op, "default": default}


def _derived(want: Schema) -> Any:
    """The new schema's default, or an empty container where its type allows one."""
    if not isinstance(want, dict):
        return None
    if "default" in want:
        return want["default"]
    types = types_of(want) or ()
    return {} if "object" in types else [] if "array" in types else None


def _remove(op: Op, old: Schema, new: Schema, *_: Sequence[Op]) -> dict[str, Any]:
    path = pointer(op["path"])
    _check(explicit(old, path) is not None and required(old, path), "remove path not required")
    _check(not required(new, path), "remove path still required in new schema")
    return dict(op)


def _hoist(op: Op, old: Schema, new: Schema, *_: Sequence[Op]) -> dict[str, Any]:
    host, name, target = pointer(op["host"]), op["name"], pointer(op["to"])
    found = explicit(old, host)
    _check(found is not None and required(old, host) and has_type(found, "object"), "hoist host invalid")
    have = explicit(found, (name,))
    _check(have is not None and required(found, (name,)), "hoist name missing/optional")
    _check_parents(old, target)
    want = explicit(new, target)
    _check(want is not None, "hoist dest missing in new schema")
    _check(compatible(have, want), "hoist schema incompatible")
    if op.get("removeFromHost", True):
        _check(not required(explicit(new, host), (name,)), "hoist removed field still required")
    return dict(op)


def _plunge(op: Op, old: Schema, new: Schema, *_: Sequence[Op]) -> dict[str, Any]:
    source, host, name = pointer(op["from"]), pointer(op["host"]), op["name"]
    have = explicit(old, source)
    _check(have is not None and required(old, source), "plunge source not required")
    if op.get("createHost", True):
        _check_parents(old, host)
    else:
        found = explicit(old, host)
        _check(found is not None and required(old, host) and has_type(found, "object"), "plunge host invalid")
    inside = explicit(new, host)
    _check(inside is not None and has_type(inside, "object"), "plunge host invalid")
    want = explicit(inside, (name,))
    _check(want is not None, "plunge dest missing in new schema")
    _check(compatible(have, want), "plunge schema incompatible")
    if op.get("removeFromSource", True):
        _check(not required(new, source), "plunge removed field still required")
    return dict(op)


def _wrap(op: Op, old: Schema, new: Schema, earlier: Sequence[Op], _: Sequence[Op]) -> dict[str, Any]:
    path = pointer(op["path"])
    have = explicit(old, path) if required(old, path) else None
    if have is None:
        sources = [pointer(each["from"]) for each in earlier if each["op"] == "rename" and each["to"] == op["path"]]
        have = next((loose(old, source) for source in reversed(sources) if required(old, source)), None)
    _check(have is not None, "wrap path not required")
    want = loose(new, path)
    _check(want is not None and has_type(want, "array"), "wrap dest not array")
    _check(compatible(have, items_of(want)), "wrap schema incompatible")
    return dict(op)


def _head(op: Op, old: Schema, new: Schema, *_: Sequence[Op]) -> dict[str, Any]:
    path = pointer(op["path"])
    have = explicit(old, path)
    _check(have is not None and required(old, path), "head path not required")
    _check(has_type(have, "array"), "head path not array")
    _check(_never_empty(have), "head requires minItems")
    want = loose(new, path)
    _check(want is not None, "head dest missing in new schema")
    _check(compatible(items_of(have), want), "head schema incompatible")
    return dict(op)


def _never_empty(schema: Schema) -> bool:
    if not isinstance(schema, dict):
        return False
    listed = _values(schema)
    if listed is not None and listed.never_empty:
        return True
    least = schema.get("minItems")
    return isinstance(least, int | float) and least >= 1


def _convert(op: Op, old: Schema, new: Schema, *_: Sequence[Op]) -> dict[str, Any]:
    path = pointer(op["path"])
    have = explicit(old, path)
    _check(have is not None and required(old, path), "convert path not required")
    forward = op["forward"]
    total = forward["builtin"] not in PARTIAL if "builtin" in forward else "default" in forward
    if not total and (not isinstance(have, dict) or _values(have) is None):
        raise SchemaRefused("schema must be enum/const for non-total transform")
    want = loose(new, path)
    _check(want is not None and compatible({"type": op["toType"]}, want), "convert dest incompatible")
    return dict(op)


def _in(op: Op, old: Schema, new: Schema, *_: Sequence[Op]) -> dict[str, Any]:
    inner = _inner(op, old, new, "object")
    return {**op, "ops": _prove_ops(op["ops"], *inner)}


def _map(op: Op, old: Schema, new: Schema, *_: Sequence[Op]) -> dict[str, Any]:
    before, after = _inner(op, old, new, "array")
    return {**op, "ops": _prove_ops(op["ops"], items_of(before), items_of(after))}


def _inner(op: Op, old: Schema, new: Schema, kind: str) -> tuple[Schema, Schema]:
    path, name = pointer(op["path"]), op["op"]
    before, after = explicit(old, path), explicit(new, path)
    _check(before is not None and required(old, path), f"{name} path not required")
    _check(has_type(before, kind), f"{name} path not {kind}")
    _check(after is not None and has_type(after, kind), f"{name} dest not {kind}")
    return before, after


_PROOFS: Mapping[str, Callable[[Op, Schema, Schema, Sequence[Op], Sequence[Op]], dict[str, Any]]] = {
    "rename": _rename, "copy": _copy, "add": _add, "remove": _remove, "hoist": _hoist, "plunge": _plunge,
    "wrap": _wrap, "head": _head, "convert": _convert, "in": _in, "map": _map,
}  # fmt: skip


def _check(holds: object, message: str) -> None:
    if not holds:
        raise SchemaRefused(message)


def _check_parents(old: Schema, path: Tokens, *, listed: bool = False) -> None:
    """Every parent of a target is there in every old document, and is an object."""
    for end in range(1, len(path)):
        parent = explicit(old, path[:end]) if listed else loose(old, path[:end])
        _check(parent is not None and required(old, path[:end]), "parent path not required")
        _check(has_type(parent, "object"), "parent path not object")


# --- schemas --------------------------------------------------------------------------------------------------------


def explicit(schema: Schema, path: Tokens) -> Schema:
    """The schema at a path of listed properties and of items; None when one is not listed."""
    for token in path:
        schema = _step(schema, token, loosely=False)
        if schema is None:
            return None
    return schema


def loose(schema: Schema, path: Tokens) -> Schema:
    """The same, where a property that is not listed has the schema of `additionalProperties`."""
    for token in path:
        schema = _step(schema, token, loosely=True)
        if schema is None:
            return None
    return schema


def _step(schema: Schema, token: str, *, loosely: bool) -> Schema:
    if schema is True:
        return True if loosely else None
    if not isinstance(schema, dict):
        return None
    listed = _listed(schema)
    if token in listed:
        return listed[token]
    if index_of(token) is not None and "array" in (types_of(schema) or ("array",)) and "properties" not in schema:
        return items_of(schema)
    if not loosely:
        return None
    others = schema.get("additionalProperties", True)
    return None if others is False else others


def _listed(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def items_of(schema: Schema) -> Schema:
    """The schema of an array's items; of a tuple nothing is known."""
    items = schema.get("items", True) if isinstance(schema, dict) else schema
    return True if isinstance(items, list) else items


def required(schema: Schema, path: Tokens) -> bool:
    """Whether every step through an object is a required property; steps into arrays do not matter."""
    for token in path:
        if not isinstance(schema, dict):
            return False
        if token not in _required(schema) and (index_of(token) is None or token in _listed(schema)):
            return False
        schema = _step(schema, token, loosely=True)
    return True


def types_of(schema: Schema) -> tuple[str, ...] | None:
    """The types that a schema names, if it does."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(kind, str):
        return (kind,)
    return tuple(each for each in kind if isinstance(each, str)) if isinstance(kind, list) else None


def has_type(schema: Schema, name: str) -> bool:
    """Whether a schema is of a type; an untyped one is an object and an array."""
    if schema is True:
        return True
    if not isinstance(schema, dict):
        return False
    types = types_of(schema)
    return types is None or name in types


def compatible(have: Schema, want: Schema) -> bool:
    """Whether what one schema allows is, as far as types, `const` and `enum` say, allowed by the other."""
    if want is True:
        return True
    if not isinstance(want, dict):
        return False
    values, options = _values(have), _values(want)
    if values is not None:
        types = types_of(want)
        return (options is None or values.keys <= options.allowed) and (
            types is None or all(_fits(each, types) for each in values.types)
        )
    sources, targets = types_of(have), types_of(want)
    if sources is not None and targets is not None:
        return all(_fits(source, targets) for source in sources)
    return options is None


def _fits(source: str, targets: Sequence[str]) -> bool:
    return source in targets or (source == "integer" and "number" in targets)


def conforms(value: Any, want: Schema) -> bool:
    """Whether a value has the type, and is one of the values, that a schema names."""
    if not isinstance(want, dict):
        return want is True
    options = _values(want)
    if options is not None and key_of(value) not in options.allowed:
        return False
    types = types_of(want)
    return types is None or _fits(type_name(value), types)


class _Values:
    """All values that a schema lists."""

    __slots__ = ("allowed", "keys", "never_empty", "types")

    def __init__(self, lists: Sequence[Sequence[Any]]) -> None:
        """`const` before `enum`: it is the only value, and is allowed if both say so."""
        values = lists[0]
        self.keys = frozenset(map(key_of, values))
        self.allowed = self.keys.intersection(*(map(key_of, each) for each in lists[1:]))
        self.types = frozenset(map(type_name, values))
        self.never_empty = all(isinstance(value, list) and value for value in values)


_known: ContextVar[dict[int, tuple[Any, Any]] | None] = ContextVar("known", default=None)  # by identity, of one proof
T = TypeVar("T")


def _once(part: Any, make: Callable[[], T]) -> T:
    """What is made of a part of a schema, made once in a proof. The part is kept with it, so no other one is there."""
    known = _known.get()
    if known is None:
        return make()
    found = known.get(id(part))
    if found is None:
        found = known[id(part)] = (part, make())
    made: T = found[1]
    return made


def _values(schema: Schema) -> _Values | None:
    """All values that a schema allows, if it lists them."""
    if not isinstance(schema, dict):
        return None
    options = schema.get("enum")
    lists = [each for each in ([schema["const"]] if "const" in schema else None, options) if isinstance(each, list)]
    return _once(schema, lambda: _Values(lists)) if lists else None


def _required(schema: Mapping[str, Any]) -> frozenset[Any]:
    """The names that a schema requires."""
    names = schema.get("required")
    return _once(names, lambda: frozenset(map(key_of, names))) if isinstance(names, list) else frozenset()
