"""The search configuration: every refusal, the normal form, the plan hash, the bounds."""

import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_node.schema import search_config
from streams_node.schema.search_config import (
    Binding,
    Count,
    DefaultField,
    Interval,
    Kind,
    SearchConfig,
    SearchConfigError,
    Summary,
    SummaryParts,
    parse,
)

BIND = [{"version": 1, "jsonPointer": "/x"}]
TEXT = {"kind": "text", "bindings": BIND, "analyzer": "unicode_word_v1"}
BASE: dict[str, Any] = {
    "primaryTimestampField": "t",
    "fields": {
        "t": {"kind": "date", "bindings": [{"version": 1, "jsonPointer": "/t"}], "exact": True},
        "k": {"kind": "keyword", "bindings": BIND, "exact": True, "normalizer": "lowercase_v1"},
        "m": TEXT,
        "n": {"kind": "float", "bindings": BIND, "aggregatable": True},
        "i": {"kind": "integer", "bindings": BIND, "exact": True},
        "d": {"kind": "date", "bindings": BIND, "aggregatable": True},
    },
}
MEASURES = {"n": {"kind": "count"}}
ROLLUP: dict[str, Any] = {"intervals": ["1m"], "measures": MEASURES}
PARTS = {f"{name}JsonPointer": f"/{name}" for name in ("count", "sum", "min", "max")}


def field(**members: Any) -> dict[str, Any]:
    """The base with one more field `f`."""
    return {**BASE, "fields": {**BASE["fields"], "f": members}}


def rollup(**members: Any) -> dict[str, Any]:
    return {**BASE, "rollups": {"r": {**ROLLUP, **members}}}


def measure(**members: Any) -> dict[str, Any]:
    return rollup(measures={"m": members})


def refusal(raw: object) -> str:
    with pytest.raises(SearchConfigError) as refused:
        parse(raw)
    return str(refused.value)


FIELD = "search.fields.f"
ROLL = "search.rollups.r"
MEASURE = "search.rollups.r.measures.m"
NAME_RULE = "must match ^[a-zA-Z0-9][a-zA-Z0-9._-]*$"
TYPED = ("integer", "float", "date", "bool")
REFUSED: list[tuple[object, str]] = [
    (None, "search must be an object"),
    ([], "search must be an object"),
    ("x", "search must be an object"),
    ({**BASE, "foo": 1}, "search.foo is not supported"),
    ({**BASE, "indexes": []}, "search.indexes is not supported"),
    ({"fields": {}}, "search.primaryTimestampField must be a string"),
    ({**BASE, "primaryTimestampField": 5}, "search.primaryTimestampField must be a string"),
    ({**BASE, "primaryTimestampField": " "}, "search.primaryTimestampField must not be empty"),
    ({**BASE, "primaryTimestampField": "a b"}, f"search.primaryTimestampField {NAME_RULE}"),
    ({**BASE, "primaryTimestampField": "nix"}, "search.primaryTimestampField must reference a declared field"),
    ({**BASE, "primaryTimestampField": "k"}, "search.primaryTimestampField must reference a date field"),
    ({"primaryTimestampField": "t"}, "search.fields must be a non-empty object"),
    ({"primaryTimestampField": "t", "fields": {}}, "search.fields must be a non-empty object"),
    ({"primaryTimestampField": "t", "fields": []}, "search.fields must be a non-empty object"),
    ({**BASE, "profile": 5}, "search.profile must be a string"),
    ({**BASE, "profile": "x" * 65}, "search.profile too long (max 64)"),
    # names
    ({**BASE, "fields": {"": TEXT}}, "search.fields must not be empty"),
    ({**BASE, "fields": {"x" * 65: TEXT}}, "search.fields too long (max 64)"),
    ({**BASE, "fields": {"-x": TEXT}}, f"search.fields {NAME_RULE}"),
    ({**BASE, "fields": {"é": TEXT}}, f"search.fields {NAME_RULE}"),
    ({**BASE, "fields": {"x\n": TEXT, "x": TEXT}}, "search.fields duplicates x"),
    # fields
    ({**BASE, "fields": {"f": 5}}, f"{FIELD} must be an object"),
    (field(kind="text", foo=1), f"{FIELD}.foo is not supported"),
    (field(bindings=BIND), f"{FIELD}.kind must be keyword, text, integer, float, date, or bool"),
    (field(kind="string", bindings=BIND), f"{FIELD}.kind must be keyword, text, integer, float, date, or bool"),
    (field(kind=["text"], bindings=BIND), f"{FIELD}.kind must be keyword, text, integer, float, date, or bool"),
    (field(kind="bool"), f"{FIELD}.bindings must be a non-empty array"),
    (field(kind="bool", bindings=[]), f"{FIELD}.bindings must be a non-empty array"),
    (field(kind="bool", bindings={}), f"{FIELD}.bindings must be a non-empty array"),
    (field(kind="bool", bindings=[5]), f"{FIELD}.bindings[0] must be an object"),
    (field(kind="bool", bindings=[{**BIND[0], "a": 1}]), f"{FIELD}.bindings[0].a is not supported"),
    *[
        (
            field(kind="bool", bindings=[{"version": version, "jsonPointer": ""}]),
            f"{FIELD}.bindings[0].version must be a positive integer",
        )
        for version in (0, -1, 1.5, True, "1", None, 2**31, 1e400, -1e400, float("nan"))
    ],
    (field(kind="bool", bindings=[{"version": 1}]), f"{FIELD}.bindings[0].jsonPointer must be a string"),
    (field(kind="bool", bindings=[{"version": 1, "jsonPointer": "x"}]), "invalid json pointer"),
    (field(kind="bool", bindings=[{"version": 1, "jsonPointer": "/~2"}]), "invalid json pointer"),
    (
        field(kind="bool", bindings=[{"version": 1, "jsonPointer": "/" * 1025}]),
        f"{FIELD}.bindings[0].jsonPointer too long (max 1024)",
    ),
    (field(kind="bool", bindings=[*BIND, *BIND]), f"{FIELD}.bindings[1].version duplicates 1"),
    (field(kind="keyword", bindings=BIND, normalizer="x"), f"{FIELD}.normalizer must be identity_v1 or lowercase_v1"),
    (field(kind="keyword", bindings=BIND, normalizer=None), f"{FIELD}.normalizer must be identity_v1 or lowercase_v1"),
    (field(kind="text", bindings=BIND, analyzer="x"), f"{FIELD}.analyzer must be unicode_word_v1"),
    (field(kind="text", bindings=BIND), f"{FIELD}.analyzer is required for text fields"),
    *[
        (field(**TEXT, **{flag: True}), f"{FIELD}.{flag} is not supported for text fields")
        for flag in ("column", "sortable", "aggregatable")
    ],
    *[
        (field(kind=kind, bindings=BIND, positions=True), f"{FIELD}.positions is only supported for text fields")
        for kind in ("keyword", *TYPED)
    ],
    (
        field(kind="keyword", bindings=BIND, analyzer="unicode_word_v1"),
        f"{FIELD}.analyzer is not supported for keyword fields",
    ),
    *[
        (field(kind=kind, bindings=BIND, **{name: value}), f"{FIELD}.{name} is not supported for typed fields")
        for kind in TYPED
        for name, value in (("prefix", True), ("contains", True), ("normalizer", "identity_v1"))
    ],
    # default fields, aliases
    ({**BASE, "defaultFields": {}}, "search.defaultFields must be an array"),
    ({**BASE, "defaultFields": ["m"]}, "search.defaultFields[0] must be an object"),
    ({**BASE, "defaultFields": [{"field": "m", "x": 1}]}, "search.defaultFields[0].x is not supported"),
    ({**BASE, "defaultFields": [{}]}, "search.defaultFields[0].field must be a string"),
    ({**BASE, "defaultFields": [{"field": "nix"}]}, "search.defaultFields[0].field must reference a declared field"),
    (
        {**BASE, "defaultFields": [{"field": "i"}]},
        "search.defaultFields[0].field must reference a text or keyword field",
    ),
    *[
        (
            {**BASE, "defaultFields": [{"field": "m"}, {"field": "m", "boost": boost}]},
            "search.defaultFields[1].boost must be a positive number",
        )
        for boost in (0, -1, "2", None, True, float("nan"), float("inf"), 1e10)
    ],
    ({**BASE, "containsDefaultFields": "m"}, "search.containsDefaultFields must be an array"),
    ({**BASE, "containsDefaultFields": [5]}, "search.containsDefaultFields[0] must be a string"),
    ({**BASE, "containsDefaultFields": ["nix"]}, "search.containsDefaultFields[0] must reference a declared field"),
    ({**BASE, "aliases": []}, "search.aliases must be an object"),
    ({**BASE, "aliases": {"a": 5}}, "search.aliases.a must be a string"),
    ({**BASE, "aliases": {"a": "nix"}}, "search.aliases.a must reference a declared field"),
    ({**BASE, "aliases": {"a": ""}}, "search.aliases.a must not be empty"),
    ({**BASE, "aliases": {"a:b": "k"}}, f"search.aliases {NAME_RULE}"),
    # rollups
    ({**BASE, "rollups": []}, "search.rollups must be an object"),
    ({**BASE, "rollups": {"r": 5}}, f"{ROLL} must be an object"),
    ({**BASE, "rollups": {"": ROLLUP}}, "search.rollups must not be empty"),
    (rollup(foo=1), f"{ROLL}.foo is not supported"),
    (rollup(timestampField=5), f"{ROLL}.timestampField must be a string"),
    (rollup(timestampField="nix"), f"{ROLL}.timestampField must reference a declared field"),
    (rollup(timestampField="k"), f"{ROLL}.timestampField must reference a date field"),
    (rollup(include=""), f"{ROLL}.include must be a non-empty string"),
    (rollup(include=5), f"{ROLL}.include must be a non-empty string"),
    (rollup(include="x" * 4097), f"{ROLL}.include too long (max 4096)"),
    (rollup(dimensions="k"), f"{ROLL}.dimensions must be an array"),
    (rollup(dimensions=[5]), f"{ROLL}.dimensions[0] must be a string"),
    (rollup(dimensions=["k", "k "]), f"{ROLL}.dimensions[1] duplicates k"),
    (rollup(dimensions=["nix"]), f"{ROLL}.dimensions[0] must reference a declared field"),
    (rollup(dimensions=["k", "n"]), f"{ROLL}.dimensions[1] must reference an exact-capable field"),
    (rollup(intervals=[]), f"{ROLL}.intervals must be a non-empty array"),
    (rollup(intervals="1m"), f"{ROLL}.intervals must be a non-empty array"),
    ({**BASE, "rollups": {"r": {"measures": MEASURES}}}, f"{ROLL}.intervals must be a non-empty array"),
    (rollup(intervals=[60]), f"{ROLL}.intervals[0] must be a string"),
    *[
        (rollup(intervals=["1h", text]), f"{ROLL}.intervals[1] must be a positive duration string")
        for text in ("", "5", "0m", "-1m", "1.5m", "1M", "m", "1 m", "01m", "1w", "1m1s", "\u0661m", "9" * 16 + "m")
    ],
    (rollup(intervals=["1m", "1m"]), f"{ROLL}.intervals[1] duplicates 1m"),
    (rollup(measures={}), f"{ROLL}.measures must be a non-empty object"),
    (rollup(measures=[]), f"{ROLL}.measures must be a non-empty object"),
    (rollup(measures={"a b": {}}), f"{ROLL}.measures {NAME_RULE}"),
    (rollup(measures={"m": 5}), f"{MEASURE} must be an object"),
    (measure(), f"{MEASURE}.kind must be count, summary, or summary_parts"),
    (measure(kind=["count"]), f"{MEASURE}.kind must be count, summary, or summary_parts"),
    (measure(kind="count", field="n"), f"{MEASURE}.field is not supported"),
    (measure(kind="count", include=" "), f"{MEASURE}.include must be a non-empty string"),
    (measure(kind="summary", include="a"), f"{MEASURE}.include is not supported"),
    (measure(kind="summary"), f"{MEASURE}.field must be a string"),
    (measure(kind="summary", field="nix"), f"{MEASURE}.field must reference a declared search field"),
    (measure(kind="summary", field="i"), f"{MEASURE}.field must reference an aggregatable search field"),
    (measure(kind="summary", field="d"), f"{MEASURE}.field must reference an integer or float field"),
    (measure(kind="summary", field="n", histogram="x"), f"{MEASURE}.histogram must be log2_v1"),
    (measure(kind="summary", field="n", histogram=None), f"{MEASURE}.histogram must be log2_v1"),
    (measure(kind="summary_parts"), f"{MEASURE}.countJsonPointer must be a string"),
    (measure(kind="summary_parts", **PARTS, foo=1), f"{MEASURE}.foo is not supported"),
    (
        measure(kind="summary_parts", **PARTS, histogramJsonPointer=5),
        f"{MEASURE}.histogramJsonPointer must be a string",
    ),
    (measure(kind="summary_parts", **{**PARTS, "sumJsonPointer": "sum"}), "invalid json pointer"),
]


@pytest.mark.parametrize(("raw", "message"), REFUSED, ids=[f"{at}" for at in range(len(REFUSED))])
def test_what_is_refused(raw: object, message: str) -> None:
    assert refusal(raw) == message


def test_the_types() -> None:
    raw = {
        **field(
            kind="keyword",
            bindings=[{"version": 2.0, "jsonPointer": "/b"}, {"version": 1, "jsonPointer": ""}],
            exact=True,
            prefix=False,
            exists="yes",
            normalizer="identity_v1",
        ),
        "profile": "evlog",
        "defaultFields": [{"field": "m", "boost": 2}, {"field": " k"}],
        "containsDefaultFields": ["m"],
        "aliases": {" key ": "k", "m": "k"},
        "rollups": {
            "r": {
                "timestampField": "d",
                "include": " k:a ",
                "dimensions": ["k", "i"],
                "intervals": ["90s", "1h", "500ms", "1d"],
                "measures": {
                    "n": {"kind": "count", "include": "k:b"},
                    "s": {"kind": "summary", "field": "n", "histogram": "log2_v1"},
                    "p": {"kind": "summary_parts", **PARTS},
                },
            },
            "q": ROLLUP,
        },
    }
    config = parse(raw)
    found = config.fields["f"]
    assert (found.name, found.kind, found.exact, found.prefix, found.exists) == ("f", Kind.KEYWORD, True, False, False)
    assert found.bindings == (Binding(2, "/b"), Binding(1, ""))
    assert not found.lowercase
    assert config.fields["k"].lowercase
    assert [found.pointer(version) for version in (0, 1, 2, 3)] == [None, "", "/b", "/b"]
    assert config.profile == "evlog"
    assert config.default_fields == (DefaultField("m", 2.0), DefaultField("k", 1.0))
    assert config.contains_default_fields == ("m",)
    assert config.resolve("key") is config.fields["k"]
    assert config.resolve("m") is config.fields["k"]  # an alias wins over the field of its name
    assert config.resolve("nix") is None
    rollup = config.rollups["r"]
    assert (rollup.name, rollup.timestamp_field, rollup.include) == ("r", "d", "k:a")
    assert rollup.dimensions == ("k", "i")
    assert rollup.intervals[0] == Interval("90s", 90_000)
    assert [each.ms for each in rollup.intervals] == [90_000, 3_600_000, 500, 86_400_000]
    assert rollup.measures == {
        "n": Count("k:b"),
        "s": Summary("n", histogram=True),
        "p": SummaryParts(count="/count", sum="/sum", min="/min", max="/max"),
    }
    assert config.rollups["q"].timestamp_field == "t"
    assert list(config.includes()) == [
        ("search.rollups.r.include", "k:a"),
        ("search.rollups.r.measures.n.include", "k:b"),
    ]


def test_the_normal_form_keeps_the_order_and_drops_what_is_not_set() -> None:
    raw = {
        "rollups": {
            "q": {"measures": MEASURES, "intervals": ["1m"], "dimensions": [" k"]},
            " b ": {
                "measures": {"s ": {"kind": "summary", "field": "n "}},
                "intervals": ["1m"],
                "timestampField": "d ",
            },
        },
        "fields": {
            "z ": {
                "exists": True,
                "exact": False,
                "sortable": "yes",
                "bindings": [{"jsonPointer": "/z", "version": 1.0}],
                "kind": "bool",
            },
            **BASE["fields"],
        },
        "aliases": {" a": " k "},
        "primaryTimestampField": "t ",
        "defaultFields": [{"boost": 2, "field": " m"}],
    }
    assert json.dumps(parse(raw).document) == json.dumps(
        {
            "rollups": {
                "q": {"timestampField": "t", "measures": MEASURES, "intervals": ["1m"], "dimensions": ["k"]},
                "b": {"measures": {"s": {"kind": "summary", "field": "n"}}, "intervals": ["1m"], "timestampField": "d"},
            },
            "fields": {
                "z": {"exists": True, "bindings": [{"jsonPointer": "/z", "version": 1}], "kind": "bool"},
                **BASE["fields"],
            },
            "aliases": {"a": "k"},
            "primaryTimestampField": "t",
            "defaultFields": [{"boost": 2, "field": "m"}],
        }
    )


FULL = {**rollup(include="k:a", dimensions=["k"]), "defaultFields": [{"field": "m", "boost": 2}], "aliases": {"a": "k"}}


def test_the_normal_form_is_its_own_normal_form() -> None:
    config = parse(FULL)
    again = parse(config.document)
    assert again == config
    assert again.document == config.document
    assert hash(again) == hash(config)
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301 - our own bytes


def test_a_configuration_shares_nothing_with_what_it_was_read_from() -> None:
    raw = copy.deepcopy(FULL)
    config = parse(raw)
    raw["fields"]["k"]["bindings"].clear()
    raw["rollups"]["r"]["dimensions"].append("x")
    assert config.document == parse(FULL).document


# --- plan hash ------------------------------------------------------------------------------------------------------


def changed(path: str, value: object) -> str:
    raw: Any = copy.deepcopy(FULL)
    at = raw
    *parents, last = path.split("/")
    for name in parents:
        at = at[name] if isinstance(at, dict) else at[int(name)]
    if value is ...:
        del at[last]
    elif isinstance(at, list):
        at[int(last)] = value
    else:
        at[last] = value
    return parse(raw).plan_hash


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("profile", "metrics"),
        ("primaryTimestampField", "d"),
        ("fields/k/bindings/0/jsonPointer", "/y"),
        ("fields/k/bindings/0/version", 2),
        ("fields/k/normalizer", "identity_v1"),
        ("fields/k/prefix", True),
        ("fields/new", TEXT),
        ("fields/m/positions", True),
        ("defaultFields/0/boost", 3),
        ("defaultFields", ...),
        ("defaultFields/0/field", "k"),
        ("aliases/a", "m"),  # an `include` may use it
        ("rollups", ...),
        ("rollups/r/include", "k:b"),
        ("rollups/r/include", ...),
        ("rollups/r/dimensions", ["k", "i"]),
        ("rollups/r/intervals", ["1m", "1h"]),
        ("rollups/r/timestampField", "d"),
        ("rollups/r/measures/n/include", "k:b"),
        ("rollups/r/measures/more", {"kind": "count"}),
    ],
)
def test_a_change_of_what_is_indexed_changes_the_hash(path: str, value: object) -> None:
    assert changed(path, value) != parse(FULL).plan_hash


def test_another_field_or_another_kind_changes_the_hash() -> None:
    configs = [BASE, field(**TEXT), field(kind="keyword", bindings=BIND), field(kind="bool", bindings=BIND)]
    assert len({parse(raw).plan_hash for raw in configs}) == len(configs)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("containsDefaultFields", ["m"]),
        ("fields/k/sortable", False),
        ("fields/i/analyzer", "unicode_word_v1"),  # tolerated on a typed kind, and ignored
        ("fields/m/normalizer", "identity_v1"),
        ("rollups/r/timestampField", "t"),  # the one that is filled in
        ("defaultFields/0/boost", 2.0),
    ],
)
def test_a_change_of_nothing_does_not_change_the_hash(path: str, value: object) -> None:
    assert changed(path, value) == parse(FULL).plan_hash


def test_order_does_not_change_the_hash_and_aliases_only_with_an_include() -> None:
    def reversed_members(raw: Any) -> Any:
        if isinstance(raw, dict):
            return {name: reversed_members(value) for name, value in reversed(list(raw.items()))}
        return raw

    assert parse(reversed_members(FULL)).plan_hash == parse(FULL).plan_hash
    plain = {**rollup(dimensions=["k"]), "aliases": {"a": "k"}}
    assert parse(plain).plan_hash == parse({**plain, "aliases": {"b": "k"}}).plan_hash


def test_the_hash_stays_what_it_is() -> None:
    """Index objects are named by it: another value here means that every index of every stream is built again."""
    assert parse(FULL).plan_hash == "d081224bab44489c3e5729726249aa88ce28697dbea1c76259b04d11ca253173"


# --- bounds ---------------------------------------------------------------------------------------------------------


def many(count: int, value: object) -> dict[str, Any]:
    return {f"n{index}": value for index in range(count)}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({**BASE, "fields": many(513, TEXT)}, "search.fields must have at most 512 members"),
        ({**BASE, "aliases": many(513, "k")}, "search.aliases must have at most 512 members"),
        ({**BASE, "rollups": many(33, ROLLUP)}, "search.rollups must have at most 32 members"),
        (rollup(dimensions=["k"] * 17), f"{ROLL}.dimensions must have at most 16 items"),
        (rollup(intervals=[f"{n}m" for n in range(1, 18)]), f"{ROLL}.intervals must have at most 16 items"),
        (rollup(measures=many(65, {"kind": "count"})), f"{ROLL}.measures must have at most 64 members"),
        ({**BASE, "defaultFields": [{"field": "m"}] * 65}, "search.defaultFields must have at most 64 items"),
        ({**BASE, "containsDefaultFields": ["m"] * 65}, "search.containsDefaultFields must have at most 64 items"),
        (
            field(kind="bool", bindings=[{"version": n, "jsonPointer": ""} for n in range(1, 258)]),
            f"{FIELD}.bindings must have at most 256 items",
        ),
        (
            {
                **BASE,
                "fields": BASE["fields"] | many(300, {**TEXT, "bindings": [{"version": 1, "jsonPointer": "/" * 1000}]}),
            },
            "search must be at most 262144 bytes",
        ),
    ],
)
def test_bounds(raw: object, message: str) -> None:
    assert refusal(raw) == message


def test_the_largest_configuration_is_read() -> None:
    fields = BASE["fields"] | many(search_config.FIELDS_MAX - len(BASE["fields"]), TEXT)
    assert len(parse({**BASE, "fields": fields}).fields) == 512


# --- anything -------------------------------------------------------------------------------------------------------

_names = st.sampled_from(
    [*BASE, "profile", "defaultFields", "containsDefaultFields", "aliases", "rollups", "kind", "bindings", "version",
     "jsonPointer", "analyzer", "exact", "intervals", "measures", "dimensions", "include", "field", "boost", "t",
     "k", "f"]
)  # fmt: skip
_leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["text", "date", "count", "summary", "unicode_word_v1", "/x", "1m", "t", "k", "\ud800"])
)
_json = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=6), max_leaves=20
)


@st.composite
def broken(draw: st.DrawFn) -> Any:
    """The full configuration with something else in one place."""
    raw: Any = copy.deepcopy(FULL)
    at, depth = raw, draw(st.integers(0, 5))
    for _ in range(depth):
        inner = [value for value in (at.values() if isinstance(at, dict) else at) if isinstance(value, dict | list)]
        if not inner:
            break
        at = draw(st.sampled_from(inner))
    if isinstance(at, dict):
        at[draw(_names | st.sampled_from(list(at) or ["x"]))] = draw(_json)
    else:
        at.append(draw(_json))
    return raw


@settings(deadline=None, max_examples=1000)
@given(_json | broken())
def test_anything_is_a_configuration_or_refused(raw: object) -> None:
    found = outcome(raw)
    if isinstance(found, SearchConfig):
        assert parse(found.document) == found
        json.dumps(found.document, allow_nan=False)
    else:
        assert 0 < len(str(found)) < 1000


def outcome(raw: object) -> SearchConfig | SearchConfigError:
    try:
        return parse(raw)
    except SearchConfigError as refused:
        return refused
