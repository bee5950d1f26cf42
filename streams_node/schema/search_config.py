"""What of a stream's records can be searched: the member `search` of a schema registry.

    parse(raw)  untrusted JSON -> SearchConfig, or SearchConfigError with the message that a client sees

Owns     the types of a search configuration, its normal form, its limits, and its plan hash.
Keeps    every rule is checked here but one: whether an `include` is a query. That needs the query language, which is
         built on these types; `search.language.check_config` does it, and both belong before a configuration is stored.
         A parsed configuration is immutable, can be pickled, and holds nothing that was not checked.
Dies     holds no state.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

# Bounds of our own; the original has only the first. Beyond them a configuration is a mistake or an attack: each field
# costs every record that is indexed, and each product of dimensions a row in every window of a rollup.
NAME_CHARS_MAX = 64
FIELDS_MAX = 512
ALIASES_MAX = 512
BINDINGS_MAX = 256  # of one field: one a schema version is enough
DEFAULT_FIELDS_MAX = 64
ROLLUPS_MAX = 32
DIMENSIONS_MAX = 16
INTERVALS_MAX = 16
MEASURES_MAX = 64
POINTER_CHARS_MAX = 1024
INCLUDE_CHARS_MAX = 4096
PROFILE_CHARS_MAX = 64
SIZE_MAX = 256 * 1024  # bytes of the normal form as ASCII JSON
VERSION_MAX = 2**31 - 1

PLAN_FORMAT = 1  # in the hash: what an index holds for one and the same configuration has changed
UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*")
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")  # RFC 6901
_INTERVAL = re.compile(r"(0|[1-9][0-9]{0,14})(ms|s|m|h|d)")
_FLAGS = ("exact", "prefix", "column", "exists", "sortable", "aggregatable", "contains", "positions")
_TOP = (
    "profile", "primaryTimestampField", "defaultFields", "containsDefaultFields", "aliases", "fields", "rollups",
)  # fmt: skip
_PARTS = ("countJsonPointer", "sumJsonPointer", "minJsonPointer", "maxJsonPointer")


class SearchConfigError(ValueError):
    """A configuration that is refused; the text is what the client sees."""


class Kind(StrEnum):
    KEYWORD = "keyword"
    TEXT = "text"
    INTEGER = "integer"
    FLOAT = "float"
    DATE = "date"
    BOOL = "bool"


TYPED = frozenset({Kind.INTEGER, Kind.FLOAT, Kind.DATE, Kind.BOOL})


@dataclass(frozen=True, slots=True)
class Binding:
    version: int
    pointer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    name: str
    kind: Kind
    bindings: tuple[Binding, ...]
    lowercase: bool = False  # normalizer lowercase_v1
    exact: bool = False
    prefix: bool = False
    column: bool = False
    exists: bool = False
    sortable: bool = False
    aggregatable: bool = False
    contains: bool = False
    positions: bool = False

    def pointer(self, version: int) -> str | None:
        """Where a record of this schema version has the field: the greatest binding that is not newer, if any."""
        known = [binding for binding in self.bindings if binding.version <= version]
        return max(known, key=lambda binding: binding.version).pointer if known else None


@dataclass(frozen=True, slots=True)
class DefaultField:
    field: str
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Interval:
    text: str
    ms: int


@dataclass(frozen=True, slots=True)
class Count:
    include: str | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    field: str
    histogram: bool = False  # log2_v1


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryParts:
    """Numbers that the record carries ready-made; the pointers address the record, not fields."""

    count: str
    sum: str
    min: str
    max: str
    histogram: str | None = None


Measure = Count | Summary | SummaryParts


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollup:
    name: str
    timestamp_field: str
    include: str | None
    dimensions: tuple[str, ...]
    intervals: tuple[Interval, ...]
    measures: Mapping[str, Measure] = field(hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConfig:
    """`document` is the normal form for `GET _schema`: members stand as the client ordered them, flags that are not
    set are dropped, and a rollup names its timestamp field.
    """

    primary_timestamp_field: str
    fields: Mapping[str, Field] = field(hash=False)
    profile: str | None = None
    default_fields: tuple[DefaultField, ...] = ()
    contains_default_fields: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict, hash=False)
    rollups: Mapping[str, Rollup] = field(default_factory=dict, hash=False)
    document: Mapping[str, Any] = field(compare=False)
    plan_hash: str

    def resolve(self, name: str) -> Field | None:
        """The field that a query means: aliases are looked up first, and once."""
        return self.fields.get(self.aliases.get(name, name))

    def includes(self) -> Iterator[tuple[str, str]]:
        """Every `include` query with its path."""
        for rollup in self.rollups.values():
            path = f"search.rollups.{rollup.name}"
            if rollup.include is not None:
                yield f"{path}.include", rollup.include
            for name, measure in rollup.measures.items():
                if isinstance(measure, Count) and measure.include is not None:
                    yield f"{path}.measures.{name}.include", measure.include


def parse(raw: object, path: str = "search") -> SearchConfig:
    """The configuration that `raw` describes. `null` (no configuration) is the caller's case."""
    allowed = (
        "profile",
        "primaryTimestampField",
        "defaultFields",
        "containsDefaultFields",
        "aliases",
        "fields",
        "rollups",
    )
    members = _members(raw, path, allowed)
    primary = _name(_text(members, "primaryTimestampField", path), f"{path}.primaryTimestampField")
    fields = _named(members, "fields", path, FIELDS_MAX, _field, filled=True)
    if primary not in fields:
        _refuse(f"{path}.primaryTimestampField must reference a declared field")
    if fields[primary].kind is not Kind.DATE:
        _refuse(f"{path}.primaryTimestampField must reference a date field")
    typed: dict[str, Any] = {
        "primary_timestamp_field": primary,
        "fields": fields,
        "profile": _profile(members, path),
        "default_fields": _default_fields(members, path, fields),
        "contains_default_fields": _declared(members, "containsDefaultFields", path, fields, DEFAULT_FIELDS_MAX),
        "aliases": _aliases(members, path, fields),
        "rollups": _named(
            members, "rollups", path, ROLLUPS_MAX, lambda name, raw, at: _rollup(name, raw, at, fields, primary)
        ),
    }
    text = json.dumps(_document(members, primary))
    if len(text) > SIZE_MAX:
        _refuse(f"{path} must be at most {SIZE_MAX} bytes")
    document = json.loads(text)  # shares nothing with what the caller may still change
    return SearchConfig(**typed, document=document, plan_hash=_plan_hash(document))


# --- fields ---------------------------------------------------------------------------------------------------------


def _field(name: str, raw: object, path: str) -> Field:
    members = _members(raw, path, ("kind", "bindings", "normalizer", "analyzer", *_FLAGS))
    if not isinstance(members.get("kind"), str) or members["kind"] not in set(Kind):
        _refuse(f"{path}.kind must be keyword, text, integer, float, date, or bool")
    kind = Kind(members["kind"])
    bindings = _bindings(members, path)
    normalizer = _one_of(members, "normalizer", path, ("identity_v1", "lowercase_v1"))
    analyzer = _one_of(members, "analyzer", path, ("unicode_word_v1",))
    flags = {flag: members.get(flag) is True for flag in _FLAGS}
    given = {flag for flag, on in flags.items() if on} | ({"normalizer"} if normalizer else set())
    if kind is Kind.TEXT:
        if analyzer is None:
            _refuse(f"{path}.analyzer is required for text fields")
        _refuse_any(given, ("column", "sortable", "aggregatable"), path, "is not supported for text fields")
    else:
        _refuse_any(given, ("positions",), path, "is only supported for text fields")
    if kind is Kind.KEYWORD and analyzer is not None:
        _refuse(f"{path}.analyzer is not supported for keyword fields")
    if kind in TYPED:
        _refuse_any(given, ("prefix", "contains", "normalizer"), path, "is not supported for typed fields")
    return Field(name=name, kind=kind, bindings=bindings, lowercase=normalizer == "lowercase_v1", **flags)


def _bindings(members: Mapping[str, Any], path: str) -> tuple[Binding, ...]:
    bindings: dict[int, Binding] = {}
    for at, raw in _items(members, "bindings", path, BINDINGS_MAX, filled=True):
        binding = _members(raw, at, ("version", "jsonPointer"))
        version = _whole(binding.get("version"))
        if version is None or not 0 < version <= VERSION_MAX:
            _refuse(f"{at}.version must be a positive integer")
        pointer = _pointer(binding, "jsonPointer", at)
        if version in bindings:
            _refuse(f"{at}.version duplicates {version}")
        bindings[version] = Binding(version, pointer)
    return tuple(bindings.values())


def _default_fields(members: Mapping[str, Any], path: str, fields: Mapping[str, Field]) -> tuple[DefaultField, ...]:
    found = []
    for at, raw in _items(members, "defaultFields", path, DEFAULT_FIELDS_MAX):
        entry = _members(raw, at, ("field", "boost"))
        name = _name(_text(entry, "field", at), f"{at}.field")
        boost = entry.get("boost", 1)
        # `not boost > 0` also holds for a NaN; the upper bound keeps every sum of scores finite.
        if isinstance(boost, bool) or not isinstance(boost, int | float) or not 0 < boost <= 1e9:  # noqa: PLR2004
            _refuse(f"{at}.boost must be a positive number")
        if name not in fields:
            _refuse(f"{at}.field must reference a declared field")
        if fields[name].kind not in {Kind.TEXT, Kind.KEYWORD}:
            _refuse(f"{at}.field must reference a text or keyword field")
        found.append(DefaultField(name, float(boost)))
    return tuple(found)


def _aliases(members: Mapping[str, Any], path: str, fields: Mapping[str, Field]) -> dict[str, str]:
    def alias(_: str, raw: object, at: str) -> str:
        if not isinstance(raw, str):
            _refuse(f"{at} must be a string")
        name = _name(raw, at)
        if name not in fields:
            _refuse(f"{at} must reference a declared field")
        return name

    return _named(members, "aliases", path, ALIASES_MAX, alias)


def _profile(members: Mapping[str, Any], path: str) -> str | None:
    if "profile" not in members:
        return None
    profile = _text(members, "profile", path)
    if len(profile) > PROFILE_CHARS_MAX:
        _refuse(f"{path}.profile too long (max {PROFILE_CHARS_MAX})")
    return profile


# --- rollups --------------------------------------------------------------------------------------------------------


def _rollup(name: str, raw: object, path: str, fields: Mapping[str, Field], primary: str) -> Rollup:
    members = _members(raw, path, ("timestampField", "include", "dimensions", "intervals", "measures"))
    at = f"{path}.timestampField"
    timestamp = _name(_text(members, "timestampField", path), at) if "timestampField" in members else primary
    if timestamp not in fields:
        _refuse(f"{at} must reference a declared field")
    if fields[timestamp].kind is not Kind.DATE:
        _refuse(f"{at} must reference a date field")
    include = _include(members, path)
    dimensions = _declared(members, "dimensions", path, fields, DIMENSIONS_MAX, distinct=True)
    for index, dimension in enumerate(dimensions):
        if not fields[dimension].exact or fields[dimension].kind is Kind.TEXT:
            _refuse(f"{path}.dimensions[{index}] must reference an exact-capable field")
    return Rollup(
        name=name,
        timestamp_field=timestamp,
        include=include,
        dimensions=dimensions,
        intervals=_intervals(members, path),
        measures=_named(
            members, "measures", path, MEASURES_MAX, lambda _, raw, at: _measure(raw, at, fields), filled=True
        ),
    )


def _intervals(members: Mapping[str, Any], path: str) -> tuple[Interval, ...]:
    intervals: dict[str, Interval] = {}
    for at, text in _items(members, "intervals", path, INTERVALS_MAX, filled=True):
        if not isinstance(text, str):
            _refuse(f"{at} must be a string")
        ms = interval_ms(text)
        if not ms:
            _refuse(f"{at} must be a positive duration string")
        if text in intervals:
            _refuse(f"{at} duplicates {text}")
        intervals[text] = Interval(text, ms)
    return tuple(intervals.values())


def interval_ms(text: str) -> int | None:
    """None: it is no duration."""
    found = _INTERVAL.fullmatch(text)
    return None if found is None else int(found[1]) * UNIT_MS[found[2]]


def _measure(raw: object, path: str, fields: Mapping[str, Field]) -> Measure:
    if not isinstance(raw, dict):
        _refuse(f"{path} must be an object")
    if raw.get("kind") == "count":
        return Count(_include(_members(raw, path, ("kind", "include")), path))
    if raw.get("kind") == "summary":
        members = _members(raw, path, ("kind", "field", "histogram"))
        return Summary(_number_field(members, path, fields), histogram=_histogram(members, path))
    if raw.get("kind") == "summary_parts":
        members = _members(raw, path, ("kind", *_PARTS, "histogramJsonPointer"))
        count, total, least, most = (_pointer(members, name, path) for name in _PARTS)
        histogram = _pointer(members, "histogramJsonPointer", path) if "histogramJsonPointer" in members else None
        return SummaryParts(count=count, sum=total, min=least, max=most, histogram=histogram)
    raise SearchConfigError(f"{path}.kind must be count, summary, or summary_parts")


def _number_field(members: Mapping[str, Any], path: str, fields: Mapping[str, Field]) -> str:
    name = _name(_text(members, "field", path), f"{path}.field")
    if name not in fields:
        _refuse(f"{path}.field must reference a declared search field")
    if not fields[name].aggregatable:
        _refuse(f"{path}.field must reference an aggregatable search field")
    if fields[name].kind not in {Kind.INTEGER, Kind.FLOAT}:
        _refuse(f"{path}.field must reference an integer or float field")
    return name


def _histogram(members: Mapping[str, Any], path: str) -> bool:
    if "histogram" in members and members["histogram"] != "log2_v1":
        _refuse(f"{path}.histogram must be log2_v1")
    return "histogram" in members


def _include(members: Mapping[str, Any], path: str) -> str | None:
    if "include" not in members:
        return None
    include = members["include"]
    if not isinstance(include, str) or not include.strip():
        _refuse(f"{path}.include must be a non-empty string")
    if len(include) > INCLUDE_CHARS_MAX:
        _refuse(f"{path}.include too long (max {INCLUDE_CHARS_MAX})")
    return include.strip()


# --- normal form and hash -------------------------------------------------------------------------------------------


def _document(members: Mapping[str, Any], primary: str) -> dict[str, Any]:
    """Members that passed every check, in the client's order; what was trimmed for the check is trimmed here."""
    shapes: dict[str, Callable[[Any], Any]] = {
        "profile": lambda text: text,
        "primaryTimestampField": str.strip,
        "defaultFields": lambda entries: [{**entry, "field": entry["field"].strip()} for entry in entries],
        "containsDefaultFields": lambda names: [name.strip() for name in names],
        "aliases": lambda aliases: {alias.strip(): name.strip() for alias, name in aliases.items()},
        "fields": lambda fields: {name.strip(): _field_document(each) for name, each in fields.items()},
        "rollups": lambda rollups: {name.strip(): _rollup_document(each, primary) for name, each in rollups.items()},
    }
    return {name: shapes[name](value) for name, value in members.items()}


def _field_document(members: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in members.items() if name not in _FLAGS or value is True}
    kept["bindings"] = [{**binding, "version": int(binding["version"])} for binding in members["bindings"]]
    return kept


def _rollup_document(members: Mapping[str, Any], primary: str) -> dict[str, Any]:
    found: dict[str, Any] = {} if "timestampField" in members else {"timestampField": primary}
    for name, value in members.items():
        if name in {"timestampField", "include"}:
            found[name] = value.strip()
        elif name == "dimensions":
            found[name] = [dimension.strip() for dimension in value]
        elif name == "measures":
            found[name] = {measure.strip(): _measure_document(each) for measure, each in value.items()}
        else:
            found[name] = value
    return found


def _measure_document(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.strip() if name in {"include", "field"} else value for name, value in members.items()}


def _plan_hash(document: Mapping[str, Any]) -> str:
    """Equal for configurations whose indexes are interchangeable.

    Aliases count only where an `include` may use them: a rollup is built with what its query means. `defaultFields`
    count because a bare term in an `include` means them. The order of members does not count.
    """
    rollups = document.get("rollups", {})
    includes = any("include" in part for rollup in rollups.values() for part in (rollup, *rollup["measures"].values()))
    planned = {
        "format": PLAN_FORMAT,
        "profile": document.get("profile"),
        "primary": document["primaryTimestampField"],
        "fields": {name: _field_plan(members) for name, members in document["fields"].items()},
        "defaultFields": [
            [entry["field"], float(entry.get("boost", 1))] for entry in document.get("defaultFields", [])
        ],
        "rollups": rollups,
        "aliases": document.get("aliases", {}) if includes else {},
    }
    return hashlib.sha256(json.dumps(planned, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _field_plan(members: Mapping[str, Any]) -> dict[str, Any]:
    """A normaliser that says what is the case without it, an analyser that a typed kind ignores: not a new plan."""
    plan = {name: value for name, value in members.items() if name not in {"normalizer", "analyzer", "bindings"}}
    plan["lowercase"] = members.get("normalizer") == "lowercase_v1"
    plan["bindings"] = sorted([binding["version"], binding["jsonPointer"]] for binding in members["bindings"])
    return plan


# --- shapes ---------------------------------------------------------------------------------------------------------


def _members(raw: object, path: str, allowed: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(raw, dict):
        _refuse(f"{path} must be an object")
    for name in raw:
        if name not in allowed:
            _refuse(f"{path}.{name[:NAME_CHARS_MAX]} is not supported")
    return raw


def _named(
    members: Mapping[str, Any],
    name: str,
    path: str,
    count_max: int,
    read: Callable[[str, object, str], T],
    *,
    filled: bool = False,
) -> dict[str, T]:
    """An object whose member names are names: `fields`, `aliases`, `rollups`, `measures`."""
    at, found = f"{path}.{name}", dict[str, T]()
    raw = members.get(name, {})
    if not isinstance(raw, dict) or (filled and not raw):
        _refuse(f"{at} must be {'a non-empty object' if filled else 'an object'}")
    if len(raw) > count_max:
        _refuse(f"{at} must have at most {count_max} members")
    for key, value in raw.items():
        trimmed = _name(key, at)
        if trimmed in found:
            _refuse(f"{at} duplicates {trimmed}")
        found[trimmed] = read(trimmed, value, f"{at}.{trimmed}")
    return found


def _items(
    members: Mapping[str, Any], name: str, path: str, count_max: int, *, filled: bool = False
) -> Iterator[tuple[str, Any]]:
    """The items of an array, each with its path."""
    raw = members.get(name, [])
    if not isinstance(raw, list) or (filled and not raw):
        _refuse(f"{path}.{name} must be {'a non-empty array' if filled else 'an array'}")
    if len(raw) > count_max:
        _refuse(f"{path}.{name} must have at most {count_max} items")
    for index, item in enumerate(raw):
        yield f"{path}.{name}[{index}]", item


def _declared(
    members: Mapping[str, Any],
    name: str,
    path: str,
    fields: Mapping[str, Field],
    count_max: int,
    *,
    distinct: bool = False,
) -> tuple[str, ...]:
    """An array of names of fields."""
    found: list[str] = []
    for at, raw in _items(members, name, path, count_max):
        if not isinstance(raw, str):
            _refuse(f"{at} must be a string")
        field_name = _name(raw, at)
        if distinct and field_name in found:
            _refuse(f"{at} duplicates {field_name}")
        if field_name not in fields:
            _refuse(f"{at} must reference a declared field")
        found.append(field_name)
    return tuple(found)


def _name(raw: str, path: str) -> str:
    name = raw.strip()
    if not name:
        _refuse(f"{path} must not be empty")
    if len(name) > NAME_CHARS_MAX:
        _refuse(f"{path} too long (max {NAME_CHARS_MAX})")
    if not _NAME.fullmatch(name):
        _refuse(f"{path} must match ^{_NAME.pattern}$")
    return name


def _text(members: Mapping[str, Any], name: str, path: str) -> str:
    value = members.get(name)
    if not isinstance(value, str):
        _refuse(f"{path}.{name} must be a string")
    return value


def _pointer(members: Mapping[str, Any], name: str, path: str) -> str:
    pointer = _text(members, name, path)
    if len(pointer) > POINTER_CHARS_MAX:
        _refuse(f"{path}.{name} too long (max {POINTER_CHARS_MAX})")
    if not _POINTER.fullmatch(pointer):
        _refuse("invalid json pointer")
    return pointer


def _one_of(members: Mapping[str, Any], name: str, path: str, known: tuple[str, ...]) -> str | None:
    if name not in members:
        return None
    value = members[name]
    if not isinstance(value, str) or value not in known:
        _refuse(f"{path}.{name} must be {' or '.join(known)}")
    return value


def _whole(value: object) -> int | None:
    """JSON knows one kind of number: `1.0` is 1."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value == value // 1 else None


def _refuse_any(given: set[str], names: tuple[str, ...], path: str, why: str) -> None:
    for name in names:
        if name in given:
            _refuse(f"{path}.{name} {why}")


def _refuse(message: str) -> NoReturn:
    raise SearchConfigError(message)
