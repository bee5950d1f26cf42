"""A quick yes: entries whose types alone show that they are valid, read in a third of the time of validating them.

Keeps    what is accepted here is accepted by the validator, and by every reader of JSON in this node; what is not may
         be valid all the same, and is validated as ever. So every value has a type that is checked as it is decoded.
         What a schema leaves open is read narrowly: objects have the members that it names and no others, as most do,
         and what may be anything is neither an array nor an object.
"""

import math
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec

from streams_node.schema.pointers import MISSING, Tokens
from streams_node.schema.transforms import DATE_TIME

PARTS_MAX = 200  # subschemas: each object is a class, which costs some kilobytes
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1  # beyond it, readers differ
_OF_OBJECTS = frozenset(("properties", "required", "additionalProperties"))
_EXACT = 2**53  # a bound as large cannot tell all integers apart once they are doubles
_DATE_TIME = rf"\A(?:{DATE_TIME.pattern})\Z"
_UNSET = msgspec.UNSET


class _Unclear(Exception):
    """The schema says something that types do not."""


class Quick:
    """Decodes the bodies of one schema. Immutable; for any thread."""

    __slots__ = ("_getters", "_many", "_one", "_root", "has_patterns")

    def __init__(self, root: Any, *, has_patterns: bool) -> None:
        self._root = root
        self.has_patterns = has_patterns
        self._many = msgspec.json.Decoder(list[root])
        self._one = msgspec.json.Decoder(root)
        self._getters: dict[Tokens, Callable[[Any], Any] | None] = {}

    def entries(self, body: bytes) -> list[Any] | None:
        """The entries of a body in UTF-8, all of them valid; None if that is not sure."""
        try:
            if body.lstrip(b" \t\n\r")[:1] == b"[":
                return self._many.decode(body)
            return [self._one.decode(body)]
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None

    def reaches(self, tokens: Tokens) -> bool:
        """Whether a pointer is a plain way down through objects."""
        if tokens not in self._getters:
            self._getters[tokens] = _getter(self._root, tokens)
        return self._getters[tokens] is not None

    def values(self, entries: list[Any], tokens: Tokens) -> list[Any] | None:
        """What stands at a pointer in each of them; None if that is not a plain way down through objects."""
        get = self._getters[tokens] if self.reaches(tokens) else None
        if get is None:
            return None
        return [MISSING if value is _UNSET else value for value in map(get, entries)]


def quick_of(plain: Any) -> Quick | None:
    """Of a sanitized schema; None where types do not say all that it says, or it says next to nothing."""
    if _says_nothing(plain):
        return None
    types = _Types()
    try:
        return Quick(types.of(plain), has_patterns=types.has_patterns)
    except (_Unclear, TypeError, ValueError, OverflowError):  # or what cannot be written as a type
        return None


def _says_nothing(schema: Any) -> bool:
    return schema is True or schema == {}


_SCALAR: Any = str | Annotated[int, msgspec.Meta(ge=_INT_MIN, le=_INT_MAX)] | float | bool | None


class _Types:
    """Makes the types of one schema."""

    def __init__(self) -> None:
        self._parts = 0
        self.has_patterns = False

    def of(self, schema: Any) -> Any:
        self._parts += 1
        if self._parts > PARTS_MAX:
            raise _Unclear
        if _says_nothing(schema):
            return _SCALAR
        if not isinstance(schema, Mapping):
            raise _Unclear
        words = set(schema)
        if words <= {"enum", "type"} and "enum" in words:
            return _literal(schema["enum"], schema.get("type"))
        if words <= {"const", "type"} and "const" in words:
            return _literal([schema["const"]], schema.get("type"))
        kinds = schema.get("type", "object" if words <= _OF_OBJECTS else None)
        if isinstance(kinds, list):
            plain = {word: value for word, value in schema.items() if word != "type"}
            return self._union(sorted(set(kinds) - {"null"}), plain, "null" in kinds)
        make = _MAKERS.get(kinds)
        if make is None:
            raise _Unclear
        return make(self, {word: value for word, value in schema.items() if word != "type"})

    def _union(self, kinds: list[str], plain: Mapping[str, Any], null: bool) -> Any:  # noqa: FBT001 - private, and read where it is called
        if kinds == ["integer", "number"]:
            kinds = ["number"]
        if len(kinds) != 1 or not null:
            raise _Unclear
        return self.of({**plain, "type": kinds[0]}) | None

    def text(self, words: Mapping[str, Any]) -> Any:
        _only(words, "minLength", "maxLength", "format")
        meta = _sizes(words, "minLength", "maxLength")
        if "format" in words:
            meta["pattern"] = _DATE_TIME
            self.has_patterns = True
        return Annotated[str, msgspec.Meta(**meta)] if meta else str

    def integer(self, words: Mapping[str, Any]) -> Any:
        low, high = _bounds(words)
        least = _INT_MIN if low is None else max(_INT_MIN, math.floor(low[0]) + 1 if low[1] else math.ceil(low[0]))
        most = _INT_MAX if high is None else min(_INT_MAX, math.ceil(high[0]) - 1 if high[1] else math.floor(high[0]))
        return Annotated[int, msgspec.Meta(ge=least, le=most)]

    def number(self, words: Mapping[str, Any]) -> Any:
        low, high = _bounds(words)
        meta: dict[str, Any] = {}
        if low is not None:
            meta["gt" if low[1] else "ge"] = float(low[0])
        if high is not None:
            meta["lt" if high[1] else "le"] = float(high[0])
        return Annotated[float, msgspec.Meta(**meta)] if meta else float

    def truth(self, words: Mapping[str, Any]) -> Any:
        _only(words)
        return bool

    def null(self, words: Mapping[str, Any]) -> Any:
        _only(words)
        return None

    def array(self, words: Mapping[str, Any]) -> Any:
        _only(words, "items", "minItems", "maxItems")
        inside: Any = list[self.of(words.get("items"))]  # type: ignore[misc]
        meta = _sizes(words, "minItems", "maxItems")
        return Annotated[inside, msgspec.Meta(**meta)] if meta else inside

    def object(self, words: Mapping[str, Any]) -> Any:
        _only(words, *_OF_OBJECTS)
        others, required = words.get("additionalProperties", True), list(words.get("required", ()))
        named = {**dict.fromkeys(required, others), **words.get("properties", {})}
        if not named and others is not False:  # any object: to look for one without members would be in vain
            raise _Unclear
        fields = []
        for at, (name, inner) in enumerate(named.items()):
            kind = self.of(inner)
            fields.append((f"m{at}", kind) if name in required else (f"m{at}", kind | msgspec.UnsetType, _UNSET))
        return msgspec.defstruct(
            "Entry",
            fields,
            rename={f"m{at}": name for at, name in enumerate(named)},
            forbid_unknown_fields=True,
            kw_only=True,
            gc=False,
        )


_MAKERS: Mapping[Any, Callable[[_Types, Mapping[str, Any]], Any]] = {
    "string": _Types.text,
    "integer": _Types.integer,
    "number": _Types.number,
    "boolean": _Types.truth,
    "null": _Types.null,
    "array": _Types.array,
    "object": _Types.object,
}


def _only(words: Mapping[str, Any], *known: str) -> None:
    if not set(words) <= set(known):
        raise _Unclear


def _sizes(words: Mapping[str, Any], least: str, most: str) -> dict[str, Any]:
    """Bounds of a length. They may be written as doubles."""
    meta = {}
    for word, name in ((least, "min_length"), (most, "max_length")):
        if word in words:
            if words[word] != int(words[word]) or words[word] > _INT_MAX:
                raise _Unclear
            meta[name] = int(words[word])
    return meta


def _bounds(words: Mapping[str, Any]) -> tuple[tuple[float, bool] | None, tuple[float, bool] | None]:
    """The lower and the upper bound, and whether they are left out themselves."""
    _only(words, "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
    if any(isinstance(value, bool) or abs(value) >= _EXACT for value in words.values()):
        raise _Unclear
    low = [(words[word], word != "minimum") for word in ("minimum", "exclusiveMinimum") if word in words]
    high = [(words[word], word != "maximum") for word in ("maximum", "exclusiveMaximum") if word in words]
    return (
        max(low, default=None),
        min(high, key=lambda bound: (bound[0], not bound[1]), default=None),
    )


def _literal(options: Any, kind: Any) -> Any:
    """Texts and integers: of all else, equal values are written in more than one way."""
    wanted = {"string": str, "integer": int}.get(kind) if isinstance(kind, str) else None
    if kind is not None and wanted is None:
        raise _Unclear
    if not isinstance(options, list) or not options or any(type(each) not in {str, int} for each in options):
        raise _Unclear
    fitting = [each for each in options if wanted is None or type(each) is wanted]
    if not fitting or any(type(each) is int and not _INT_MIN <= each <= _INT_MAX for each in fitting):
        raise _Unclear
    return Literal[tuple(fitting)]


def _getter(root: Any, tokens: Tokens) -> Callable[[Any], Any] | None:
    """A way down through members that have to be there, to one that may be missing."""
    if not tokens:
        return None
    steps, here = [], root
    for place, token in enumerate(tokens):
        if not (isinstance(here, type) and issubclass(here, msgspec.Struct)):
            return None
        field = next((each for each in msgspec.structs.fields(here) if each.encode_name == token), None)
        if field is None or (not field.required and place < len(tokens) - 1):
            return None
        steps.append(field.name)
        here = field.type
    return attrgetter(".".join(steps))
