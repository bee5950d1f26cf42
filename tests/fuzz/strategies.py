"""What is drawn: updates of schemas, profiles, entries, and selections, mostly nearly right."""

import json
from typing import Any

from hypothesis import strategies as st

from streams_node.profiles import KINDS
from tests.profiles.entries import values, words
from tests.profiles.test_documents import REFUSED
from tests.schema.messages import lens

NAMES = st.sampled_from(["a", "b", "c", "x", "/", "~", ""])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6) | NAMES
JSON_VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
TYPES = st.sampled_from(["string", "number", "integer", "boolean", "null", "object", "array"])
SIZES = st.integers(0, 3)
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.booleans() | st.fixed_dictionaries({}, optional={"type": TYPES, "const": SCALARS, "minLength": SIZES}),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$", "[^x]"]), inner, max_size=2),
            "additionalProperties": inner,
            "required": st.lists(NAMES, max_size=2, unique=True),
            "items": inner | st.lists(inner, max_size=2),
            "additionalItems": inner,
            "enum": st.lists(JSON_VALUES, min_size=1, max_size=3),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "contains": inner,
            "propertyNames": inner,
            "dependencies": st.dictionaries(NAMES, inner | st.lists(NAMES, max_size=2, unique=True), max_size=2),
            "uniqueItems": st.booleans(),
            "minItems": SIZES,
            "maxProperties": SIZES,
            "minimum": st.integers(-3, 3),
            "multipleOf": st.sampled_from([1, 2, 0.5]),
            "pattern": st.sampled_from(["^a", "(a|b)*c", "\\p{L}+"]),
            "format": st.sampled_from(["date-time", "email"]),
            "default": JSON_VALUES,
        },
    ),
    max_leaves=6,
)
POINTERS = st.lists(NAMES | st.sampled_from(["0", "-"]), max_size=3).map(
    lambda tokens: "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens)
)
MOVES = st.sampled_from(["rename", "copy"])
OPS = st.lists(
    st.one_of(
        st.builds(lambda a, b, k: {"op": k, "from": a, "to": b}, POINTERS, POINTERS, MOVES),
        st.builds(lambda a, s, d: {"op": "add", "path": a, "schema": s, "default": d}, POINTERS, SCHEMAS, JSON_VALUES),
        st.builds(lambda a, s: {"op": "remove", "path": a, "schema": s}, POINTERS, SCHEMAS),
        st.builds(lambda a: {"op": "wrap", "path": a, "mode": "singleton"}, POINTERS),
        st.builds(lambda a: {"op": "head", "path": a}, POINTERS),
        st.dictionaries(st.sampled_from(["op", "path", "from", "to", "ops", "schema"]), JSON_VALUES),
    ),
    min_size=1,
    max_size=3,
)  # fmt: skip
# Steps that the entries in the streams can go, so that some lenses are taken.
GOOD = st.sampled_from([
    ({"required": ["b"], "properties": {"b": {"type": "string"}}}, [{"op": "rename", "from": "/a", "to": "/b"}]),
    ({"properties": {"a": {"type": "string"}, "n": {"type": "integer", "default": 1}}, "required": ["a", "n"]},
     [{"op": "add", "path": "/n", "schema": {"type": "integer"}}]),
    (True, [{"op": "copy", "from": "/a", "to": "/c"}]),
])  # fmt: skip
FIELDS = st.dictionaries(
    words.filter(bool) | NAMES,
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["keyword", "text", "integer", "float", "date", "bool"]),
         "bindings": st.builds(lambda at: [{"version": 1, "jsonPointer": at}], POINTERS)},
        optional={flag: st.booleans() for flag in ("exact", "prefix", "column", "sortable", "aggregatable", "exists")},
    ), max_size=3,
)  # fmt: skip
AT: dict[str, Any] = {"at": {"kind": "date", "bindings": [{"version": 1, "jsonPointer": "/at"}], "column": True}}
SEARCHES: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"primaryTimestampField": st.just("at"), "fields": FIELDS.map(lambda fields: fields | AT)},
    optional={
        "aliases": st.dictionaries(NAMES, NAMES, max_size=2), "defaultFields": JSON_VALUES, "rollups": JSON_VALUES,
    },
)  # fmt: skip
UPDATES: st.SearchStrategy[Any] = st.one_of(
    st.fixed_dictionaries(
        {},
        optional={
            "apiVersion": st.just("durable.streams/schema-registry/v1") | JSON_VALUES,
            "schema": SCHEMAS | JSON_VALUES,
            "lens": OPS.map(lambda ops: lens(*ops)) | JSON_VALUES,
            "routingKey": st.fixed_dictionaries({"jsonPointer": POINTERS, "required": st.booleans()}) | JSON_VALUES,
            "search": JSON_VALUES,
            "other": JSON_VALUES,
        },
    ),
    st.builds(lambda good: {"schema": good[0], "lens": lens(*good[1])}, GOOD),
    SEARCHES.map(lambda search: {"search": search}),
    JSON_VALUES,
)
CONFIGS = st.fixed_dictionaries(
    {"kind": st.one_of(st.sampled_from(KINDS), values)},
    optional={
        "redactKeys": st.one_of(values, st.lists(words, max_size=70)),
        "correlation": st.one_of(
            values,
            st.dictionaries(
                st.sampled_from(["requestIdFields", "traceContextFields", "parseTraceparent"]),
                st.one_of(values, st.lists(words, max_size=4), st.booleans()),
            ),
        ),
        "observability": st.one_of(values, st.fixed_dictionaries({"request": values})),
        "touch": values,
    },
)
DOCUMENTS = st.one_of(
    values,
    st.fixed_dictionaries({"profile": st.one_of(CONFIGS, values)}, optional={"apiVersion": words, "more": values}),
)
PROFILES = st.one_of(
    DOCUMENTS.map(lambda value: json.dumps(value).encode()),
    DOCUMENTS.map(lambda value: json.dumps(value, ensure_ascii=False).encode()[:-1]),
    st.binary(max_size=40),
    st.sampled_from([body for body, _ in REFUSED]),
    st.sampled_from(KINDS).map(lambda kind: b'{"profile":{"kind":"%b"}}' % kind.encode()),
)
PIECES = st.sampled_from(
    ["service", "n", "ok", "at", "low", "has", ":", "(", ")", "AND", "OR", "NOT", "-", ">=", "<", "=", '"', "\\", " ",
     "1", "1e999", "2026-01-01", "true", "ü", "\ud7ff", "*", "nobody", "9" * 2000]
)  # fmt: skip
LIKELY = st.lists(PIECES, max_size=14).map(" ".join) | st.lists(PIECES, max_size=14).map("".join)
CLAUSES = st.sampled_from(["service:api", "n:>=2", "has:n", "-ok:true", "low:API", "(n:1 OR n:2)", "at:<2027-01-01"])
QUERIES = st.lists(CLAUSES, min_size=1, max_size=4).map(" ".join)
TEXTS = (LIKELY | QUERIES | st.text(max_size=40)).map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(
    max_size=30
)
ODD = (b'{"n":1}', b"null", b'"\\ud800"', b"[[[]]]", b'{"n":1e999}', b'{"service":"\\ud800"}', b"1" * 5000,
       b'{"n":' + b"9" * 5000 + b"}", b"[" * 90 + b"]" * 90,
       b'{"at":"2026-01-01","n":[1,[2,null]],"ok":"TRUE "}')  # fmt: skip
