"""JSON Schema, draft-07, as this protocol uses it: compiled once, and never more work than a bound.

Keeps    `$ref` is refused and `$id` ignored, so no schema reaches another one, or anything outside. Keywords that are
         not draft-07's, formats but `date-time`, and annotations are dropped before compiling: they change nothing.
         Patterns run on the linear engine. What a schema can make of an entry is bounded before it is tried
         (weight.py): the validator holds the interpreter while it runs.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

import jsonschema_rs

from streams_node.schema.errors import EntryRefused, SchemaRefused
from streams_node.schema.jsontext import DEPTH_MAX, depth, dumps, too_deep
from streams_node.schema.quick import Quick, quick_of
from streams_node.schema.transforms import DATE_TIME
from streams_node.schema.values import TYPE_NAMES
from streams_node.schema.weight import NODES_MAX, Weight, nodes_of, weigh

SCHEMA_DEPTH_MAX = 64
PATTERNS_MAX = 64
PATTERN_CHARS_MAX = 1024
PATTERN_BYTES_MAX = 8 << 20  # of one compiled pattern: a class of all letters, 64 times, takes most of it
PATTERNS_CPU_S_MAX = 0.5  # to compile all of them, once, when the schema is installed
UNITS_MAX = 4_000_000  # of one entry: about 0.4 s at worst, and in fact far less
UNITS_TOGETHER_MAX = 40_000_000  # of one append, as all of it waits for one thread
TOGETHER_CPU_S_MAX = 4.0  # and if patterns take that long
UNITS_AT_ONCE = 200_000  # then other threads have their turn
_TEXTS_TOGETHER = 32  # so many usual entries have no more brackets than one may have levels
_ERRORS_MAX = 20
_ERRORS_CHARS_MAX = 2000
_ALL_ERRORS_UNITS = 20_000  # of a larger entry only the first error is told: listing them takes long
# An error holds copies of the value and of its options; a list has one for each, and so has one of alternatives, for
# everything that is wrong with any of them: with 2,000 of them, and a text of 0.1 MB, that was 0.8 GB.
_ALL_ERRORS_COPIED = 8 << 20  # units times bytes, and up to ten times as much memory
_ONE_ERROR_COPIED = 16 << 20
_UNSAID = "must be valid; entry is too large for its schema to say what is wrong with it"
_IS_DATE_TIME = cast("Callable[..., bool]", DATE_TIME.fullmatch)  # a match counts as true
_OPTIONS = jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES_MAX, dfa_size_limit=1 << 18)


class Validator:
    """Validates entries against one version of a schema."""

    __slots__ = ("_alternatives", "_inner", "_options", "_plain", "_quick", "_weight")

    def __init__(self, schema: Any) -> None:
        plain = sanitized(schema)
        self._plain: Any = plain
        self._quick: Quick | None = None
        self._weight: Weight = weigh(plain)
        parts = list(_subschemas(plain))
        self._alternatives = any("anyOf" in part or "oneOf" in part for part in parts)
        self._options = max((_option_bytes(part) for part in parts), default=0)
        # Of an array, so that a batch is one call: a third less than one each.
        self._inner = jsonschema_rs.Draft7Validator(
            {"items": plain},
            formats={"date-time": _IS_DATE_TIME},
            validate_formats=True,
            pattern_options=_OPTIONS,
            offline=True,
        )

    def quick(self) -> Quick | None:
        """What reads batches whose types alone show that they are valid; made when it is asked for first."""
        plain = self._plain
        if plain is not None:  # two threads may make it, both the same
            self._quick = quick_of(plain)
            self._plain = None
        return self._quick

    @property
    def is_quick(self) -> bool:
        """Whether that was made, and takes a few nanoseconds a byte: no texts are held against patterns."""
        return self._quick is not None and not self._quick.has_patterns

    def within(self, text: bytes, units: float) -> bool:
        """Whether it is sure that JSON takes no more units than these: by its size alone, or by what is in it."""
        return self._weight.most(len(text)) <= units or self._weight.units(text) <= units

    def check(self, entries: Sequence[Any], texts: Sequence[bytes]) -> None:
        """Refuse the first entry that is not valid. `texts` are the entries as JSON."""
        parts = int(self._bound(texts) // UNITS_AT_ONCE) + 1
        step = -(-len(entries) // parts)
        ends_s = time.thread_time() + TOGETHER_CPU_S_MAX
        for start in range(0, len(entries), step):
            if time.thread_time() > ends_s:
                raise EntryRefused("entries take too long for the patterns of their schema; append fewer at once")
            part = entries[start : start + step]
            if not self._inner.is_valid(part):
                self._refuse(part, texts[start : start + step])

    def _bound(self, texts: Sequence[bytes]) -> float:
        """Units of all entries together: as many as can be in so many bytes, or counted where those are too many."""
        weight, size = self._weight, sum(map(len, texts))
        whole = weight.most(size)
        # Of what patterns may take at worst next to nothing comes true: their time is measured on the way.
        if whole - weight.text * size <= UNITS_TOGETHER_MAX and weight.most(max(map(len, texts))) <= UNITS_MAX:
            return whole
        whole = weight.units(b",".join(texts)) if len(texts) > 1 else self._units(texts[0])
        steps = whole - weight.text * size
        if steps > UNITS_TOGETHER_MAX:
            raise EntryRefused(
                f"entries are too many for their schema: up to {steps:.0f} steps to validate them, "
                f"{UNITS_TOGETHER_MAX} are allowed; append fewer at once"
            )
        if whole > UNITS_MAX:
            for text in texts:
                self._units(text)
        return whole

    def _units(self, text: bytes) -> float:
        units = self._weight.units(text)
        if units > UNITS_MAX:
            raise EntryRefused(
                f"entry is too large for its schema: up to {units:.0f} steps to validate it, {UNITS_MAX} are allowed"
            )
        return units

    def _refuse(self, entries: Sequence[Any], texts: Sequence[bytes]) -> None:
        for entry, text in zip(entries, texts, strict=True):
            if len(entries) == 1 or not self._inner.is_valid([entry]):
                raise EntryRefused(self._message(entry, text))

    def _message(self, entry: Any, text: bytes) -> str:
        units = self._weight.units(text)
        copied = units * (len(text) + self._options)
        if self._alternatives and copied > _ONE_ERROR_COPIED:
            return _UNSAID
        if units > _ALL_ERRORS_UNITS or copied > _ALL_ERRORS_COPIED:
            try:
                self._inner.validate([entry])
            except jsonschema_rs.ValidationError as error:
                return text_of(error)
        said = "; ".join(map(text_of, islice(self._inner.iter_errors([entry]), _ERRORS_MAX)))
        return said if len(said) <= _ERRORS_CHARS_MAX else f"{said[:_ERRORS_CHARS_MAX]}…"


def check_depth(texts: Sequence[bytes], entries: Sequence[Any]) -> None:
    """Refuse an entry that is nested too deep for what walks it."""
    for start in range(0, len(texts), _TEXTS_TOGETHER):
        together = texts[start : start + _TEXTS_TOGETHER]
        whole = b",".join(together)
        if whole.count(b"{") + whole.count(b"[") <= DEPTH_MAX:
            continue
        for text, entry in zip(together, entries[start : start + _TEXTS_TOGETHER], strict=True):
            if too_deep(text) and depth(entry) > DEPTH_MAX:
                raise EntryRefused(f"entry is nested deeper than {DEPTH_MAX} levels")


def compiled(schema: Any) -> Validator:
    """A schema that a client gives: what is wrong with it is said."""
    _check_bounds(schema)
    plain = sanitized(schema)
    _check_patterns(plain)
    try:
        jsonschema_rs.Draft7Validator(plain, pattern_options=_OPTIONS, offline=True)  # says what is wrong, and where
        return Validator(schema)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as problem:
        raise SchemaRefused(_compile_message(problem)) from None
    except ValueError as problem:
        raise SchemaRefused(f"schema is invalid: {_shown(str(problem))}") from None


# --- what is compiled -----------------------------------------------------------------------------------------------


def sanitized(schema: Any) -> Any:
    """The schema with nothing but what is enforced."""
    if not isinstance(schema, dict):
        return schema
    plain = {word: take(schema[word]) for word, take in _WORDS.items() if word in schema}
    if schema.get("format") == "date-time":
        plain["format"] = "date-time"
    return plain


def _as_is(value: Any) -> Any:
    return value


def _each(value: Any) -> Any:
    return [sanitized(each) for each in value] if isinstance(value, list) else value


def _one_or_each(value: Any) -> Any:
    return _each(value) if isinstance(value, list) else sanitized(value)


def _by_name(value: Any) -> Any:
    return {name: sanitized(each) for name, each in value.items()} if isinstance(value, dict) else value


_WORDS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(
        ("type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
         "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxProperties", "minProperties",
         "required"),
        _as_is,
    ),
    **dict.fromkeys(("additionalItems", "contains", "additionalProperties", "propertyNames", "if", "then", "else",
                     "not"), sanitized),
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), _each),
    **dict.fromkeys(("properties", "patternProperties", "dependencies"), _by_name),
    "items": _one_or_each,
}  # fmt: skip


def _check_bounds(schema: Any) -> None:
    if not isinstance(schema, dict | bool):
        raise SchemaRefused("schema must be object or boolean")
    if depth(schema) > SCHEMA_DEPTH_MAX:
        raise SchemaRefused(f"schema is nested deeper than {SCHEMA_DEPTH_MAX} levels")
    if (nodes := nodes_of(schema)) > NODES_MAX:
        raise SchemaRefused(f"schema has {nodes} values; at most {NODES_MAX} are allowed")
    for part in _objects(schema):
        if "$ref" in part:
            raise SchemaRefused("external $ref is not supported")
    for part in _subschemas(sanitized(schema)):
        kinds = part.get("type")
        for kind in kinds if isinstance(kinds, list) else [] if kinds is None else [kinds]:
            if kind not in TYPE_NAMES:
                raise SchemaRefused(f"type must be JSONType or JSONType[]: {_shown(kinds)}")


def _check_patterns(plain: Any) -> None:
    """Each pattern alone, so that what takes too long is stopped between two of them."""
    patterns: dict[str, None] = {}
    for part in _subschemas(plain):
        found = part.get("pattern")
        if isinstance(found, str):
            patterns[found] = None
        several = part.get("patternProperties")
        if isinstance(several, dict):
            patterns |= dict.fromkeys(several)
    if len(patterns) > PATTERNS_MAX:
        raise SchemaRefused(f"schema has {len(patterns)} patterns; at most {PATTERNS_MAX} are allowed")
    began = time.thread_time()
    for pattern in patterns:
        if len(pattern) > PATTERN_CHARS_MAX:
            raise SchemaRefused(f"a pattern may have {PATTERN_CHARS_MAX} characters, not {len(pattern)}")
        try:
            jsonschema_rs.Draft7Validator({"pattern": pattern}, pattern_options=_OPTIONS, offline=True)
        except (jsonschema_rs.ValidationError, ValueError):
            raise SchemaRefused(f"pattern is invalid, too large, or looks around: {_shown(pattern)}") from None
        if time.thread_time() - began > PATTERNS_CPU_S_MAX:
            raise SchemaRefused("the patterns of the schema take too long to compile")


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def _subschemas(plain: Any) -> Iterator[Mapping[str, Any]]:
    """All schemas of a sanitized one, and no values that only look like schemas."""
    waiting = [plain]
    while waiting:
        each = waiting.pop()
        if not isinstance(each, dict):
            continue
        yield each
        for word, inner in each.items():
            if _WORDS.get(word) is _by_name:
                waiting += inner.values() if isinstance(inner, dict) else []
            elif _WORDS.get(word) in (_each, _one_or_each) and isinstance(inner, list):
                waiting += inner
            elif _WORDS.get(word) in (sanitized, _one_or_each):
                waiting.append(inner)


def _option_bytes(part: Mapping[str, Any]) -> int:
    """What an error tells of the options that a value is none of."""
    return len(dumps([part.get("enum"), part.get("const")]))


def _compile_message(problem: "jsonschema_rs.ValidationError | jsonschema_rs.ReferencingError") -> str:
    if not isinstance(problem, jsonschema_rs.ValidationError):
        return "schema is invalid"
    where = "".join(f"/{step}" for step in problem.instance_path)
    return f"schema is invalid: schema{_shown(where)} {text_of(problem)}"


def _shown(value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{text[:80]}…" if len(text) > 80 else text  # noqa: PLR2004 - as much as one recognises it by


# --- what is said ---------------------------------------------------------------------------------------------------


def text_of(error: "jsonschema_rs.ValidationError") -> str:
    """The usual words for an error, without the entry's own values."""
    kind = error.kind
    if isinstance(kind, _K.FalseSchema) and error.schema_path and error.schema_path[-1] == "additionalProperties":
        return "must NOT have additional properties"
    say = _TEXTS.get(type(kind))
    return say(kind) if say is not None else f'must pass "{kind.name}" keyword validation'


_K = jsonschema_rs.ValidationErrorKind
_TEXTS: Mapping[type, Callable[[Any], str]] = {
    _K.AdditionalItems: lambda kind: f"must NOT have more than {kind.limit} items",
    _K.AdditionalProperties: lambda _: "must NOT have additional properties",
    _K.AnyOf: lambda _: "must match a schema in anyOf",
    _K.Constant: lambda _: "must be equal to constant",
    _K.Contains: lambda _: "must contain at least 1 valid item(s)",
    _K.Enum: lambda _: "must be equal to one of the allowed values",
    _K.ExclusiveMaximum: lambda kind: f"must be < {_number(kind.limit)}",
    _K.ExclusiveMinimum: lambda kind: f"must be > {_number(kind.limit)}",
    _K.FalseSchema: lambda _: "boolean schema is false",
    _K.Format: lambda kind: f'must match format "{kind.format}"',
    _K.MaxItems: lambda kind: f"must NOT have more than {kind.limit} items",
    _K.Maximum: lambda kind: f"must be <= {_number(kind.limit)}",
    _K.MaxLength: lambda kind: f"must NOT have more than {kind.limit} characters",
    _K.MaxProperties: lambda kind: f"must NOT have more than {kind.limit} properties",
    _K.MinItems: lambda kind: f"must NOT have fewer than {kind.limit} items",
    _K.Minimum: lambda kind: f"must be >= {_number(kind.limit)}",
    _K.MinLength: lambda kind: f"must NOT have fewer than {kind.limit} characters",
    _K.MinProperties: lambda kind: f"must NOT have fewer than {kind.limit} properties",
    _K.MultipleOf: lambda kind: f"must be multiple of {_number(kind.multiple_of)}",
    _K.Not: lambda _: "must NOT be valid",
    _K.OneOfMultipleValid: lambda _: "must match exactly one schema in oneOf",
    _K.OneOfNotValid: lambda _: "must match exactly one schema in oneOf",
    _K.Pattern: lambda kind: f'must match pattern "{_shown(kind.pattern)}"',
    _K.PropertyNames: lambda _: "property name must be valid",
    _K.Required: lambda kind: f"must have required property '{_shown(kind.property)}'",
    _K.Type: lambda kind: f"must be {','.join(sorted(kind.types, key=TYPE_NAMES.index))}",
    _K.UniqueItems: lambda _: "must NOT have duplicate items",
}


def _number(limit: Any) -> str:
    return str(limit).removesuffix(".0")
