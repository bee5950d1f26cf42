"""What is accepted by its types alone is valid, and every reader reads the same in it."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_node.schema.pointers import MISSING, resolve
from streams_node.schema.quick import PARTS_MAX, quick_of
from streams_node.schema.validation import Validator, sanitized

NAMES = ("a", "b", "c d", "ünï", "", "m0")
NUMBERS = (
    "0",
    "-0",
    "1",
    "2",
    "3.0",
    "1e2",
    "0.1",
    "-7.5",
    "9007199254740993",
    "9223372036854775808",
    "1e300",
    "1e400",
)
TEXTS = ('""', '"a"', '"ab"', '"abc"', '"\\u00e9"', '"\\ud83d\\ude00"', '"\\ud800"', '"2026-02-29T00:00:00Z"',
         '"2024-02-29T00:00:00.5+01:00"', '"\\u0000"', '"😀"')  # fmt: skip
BOUNDS = st.sampled_from([-7.5, -1, 0, 0.1, 1, 2, 100, 2**53 - 1, 2**53, 1e300])
SIZES = st.sampled_from([0, 1, 2, 3, 2.0])


def schemas(deeper: st.SearchStrategy[Any] | None) -> st.SearchStrategy[Any]:
    def some(**words: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
        return st.fixed_dictionaries({}, optional=words)

    numeric = some(minimum=BOUNDS, maximum=BOUNDS, exclusiveMinimum=BOUNDS, exclusiveMaximum=BOUNDS)
    plain = [
        numeric.map(lambda words: {"type": "integer", **words}),
        numeric.map(lambda words: {"type": "number", **words}),
        numeric.map(lambda words: {"type": ["number", "integer", "null"], **words}),
        some(minLength=SIZES, maxLength=SIZES, format=st.just("date-time")).map(lambda w: {"type": "string", **w}),
        some(minLength=SIZES).map(lambda words: {"type": ["null", "string"], **words}),
        st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"const": 1}, {"enum": ["a", 1, "ab"]}, {}, True]),
        st.sampled_from(
            [{"type": "string", "enum": ["a", "", 1]}, {"enum": [None, 1.0]}, {"type": "string", "not": {}}]
        ),
    ]
    if deeper is None:
        return st.one_of(plain)
    closed = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from(NAMES), deeper, max_size=4)},
        optional={"required": st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
                  "additionalProperties": st.sampled_from([False, False, True, {"type": "string"}, {"minimum": 1}])},
    )  # fmt: skip
    untyped = closed.map(lambda words: {word: words[word] for word in words if word != "type"})
    lists = some(minItems=SIZES, maxItems=SIZES)
    arrays = st.tuples(lists, deeper).map(lambda both: {"type": "array", "items": both[1], **both[0]})
    return st.one_of(*plain, closed, closed, untyped, arrays)


SCHEMAS = schemas(schemas(schemas(None)))


def spelled(name: str) -> st.SearchStrategy[str]:
    """A name as clients may write it."""
    escaped = "".join(f"\\u{ord(character):04x}" for character in name)
    return st.sampled_from([json.dumps(name), json.dumps(name), json.dumps(name, ensure_ascii=False), f'"{escaped}"'])


@st.composite
def texts_for(draw: st.DrawFn, schema: Any) -> str:
    """A text that often fits a schema."""
    kind = schema.get("type", "object" if "properties" in schema else None) if isinstance(schema, dict) else None
    kind = draw(st.sampled_from(kind)) if isinstance(kind, list) else kind
    if draw(st.integers(0, 11)) == 0:
        kind = None
    if kind == "object":
        named = schema.get("properties", {})
        wanted = schema.get("required", [])
        names = [name for name in dict.fromkeys([*wanted, *named]) if name in wanted or draw(st.booleans())]
        if draw(st.integers(0, 7)) == 0:
            names.append(draw(st.sampled_from(NAMES)))
        if names and draw(st.integers(0, 7)) == 0:
            names.insert(draw(st.integers(0, len(names))), draw(st.sampled_from(names)))  # the last one counts
        members = [f"{draw(spelled(name))}:{draw(texts_for(named.get(name, True)))}" for name in names]
        return "{" + ",".join(members) + "}"
    if kind == "array":
        return "[" + ", ".join(draw(st.lists(texts_for(schema["items"]), max_size=3))) + "]"
    if kind in {"integer", "number"}:
        return draw(st.sampled_from(NUMBERS))
    if kind == "string":
        return draw(st.sampled_from(TEXTS))
    return draw(
        st.sampled_from([*NUMBERS, *TEXTS, "null", "true", "false", "[]", "{}", '[{"a":1e400}]', '{"a":1,"a":2}'])
    )


@settings(max_examples=1500, deadline=None)
@given(data=st.data())
def test_what_is_accepted_is_valid_and_read_alike(data: st.DataObject) -> None:
    schema = data.draw(SCHEMAS)
    quick = quick_of(sanitized(schema))
    if quick is None:
        return
    texts = data.draw(st.lists(texts_for(schema), min_size=1, max_size=4))
    body = ("[" + ",".join(texts) + "]").encode()
    found = quick.entries(body)
    if found is None:
        return
    entries = orjson.loads(body)
    Validator(schema).check(entries, [text.encode() for text in texts])
    for name in NAMES:
        for tokens in ((name,), (name, "a")):
            values = quick.values(found, tokens)
            if values is not None:
                for value, entry in zip(values, entries, strict=True):
                    plain = resolve(entry, tokens)
                    # A key is a text; of anything else it matters only that it is there.
                    assert value == plain if isinstance(plain, str) else (value is MISSING) == (plain is MISSING)
                    assert isinstance(value, str) == isinstance(plain, str)


PERSON = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "minLength": 2},
        "age": {"type": "integer", "minimum": 0, "exclusiveMaximum": 150},
        "plan": {"enum": ["free", "paid"]},
        "at": {"type": "string", "format": "date-time"},
        "of": {"type": "object", "properties": {"x": {"type": ["number", "null"]}}, "additionalProperties": False},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
    },
    "required": ["id"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("text", "sure"),
    [
        ('{"id":"ab"}', True),
        (' [{"id":"ab","age":149,"plan":"paid","at":"2024-02-29T00:00:00Z","of":{"x":1},"tags":["a","b"]}] ', True),
        ('[{"id":"ab","of":{"x":null}},{"id":"cd","of":{}}]', True),
        ("[]", True),
        ('{"id":"a"}', False),
        ('{"id":"ab","age":150}', False),
        ('{"id":"ab","age":1.0}', False),  # valid, and not sure
        ('{"id":"ab","plan":"gold"}', False),
        ('{"id":"ab","at":"2023-02-29T00:00:00Z"}', False),
        ('{"id":"ab","of":{"y":1}}', False),
        ('{"id":"ab","tags":["a","b","c"]}', False),
        ('{"age":1}', False),
        ('{"id":"ab","more":1}', False),
        ('[{"id":"ab"},{"id":"ab"', False),
        ('{"id":"\\ud800x"}', False),
    ],
)
def test_what_is_sure(text: str, *, sure: bool) -> None:
    quick = quick_of(sanitized(PERSON))
    assert quick is not None
    assert (quick.entries(text.encode()) is not None) is sure


OPEN = {
    "properties": {
        "id": {"type": "string"},
        "any": {},
        "of": {"type": "object", "properties": {"x": {"type": "integer"}}, "additionalProperties": {"type": "string"}},
    },
    "required": ["id", "key"],
}


@pytest.mark.parametrize(
    ("text", "sure"),
    [
        ('[{"id":"a","key":"k"},{"key":null,"id":"b","any":1.5,"of":{"x":1}}]', True),
        ('{"id":"a","key":9223372036854775807,"any":true,"of":{}}', True),
        ('{"id":"a"}', False),
        ('{"id":1,"key":"k"}', False),
        # All of these are valid, and not sure.
        ('{"id":"a","key":"k","more":1}', False),
        ('{"id":"a","key":["k"]}', False),
        ('{"id":"a","key":"k","any":{}}', False),
        ('{"id":"a","key":9223372036854775808}', False),
        ('{"id":"a","key":"k","of":{"y":"z"}}', False),
        ("5", False),
    ],
)
def test_what_is_sure_of_a_schema_that_leaves_much_open(text: str, *, sure: bool) -> None:
    quick = quick_of(sanitized(OPEN))
    assert quick is not None
    assert (quick.entries(text.encode()) is not None) is sure
    assert quick.reaches(("key",))
    assert not quick.reaches(("more",))


@pytest.mark.parametrize(
    "open_end",
    [
        {},
        True,
        False,
        {"type": "object"},
        {"type": "object", "properties": {"a": {"type": "object"}}},
        {"minLength": 1},
        {**PERSON, "required": ["id", "other"]},
        {**PERSON, "minProperties": 2},
        {"type": "array"},
        {"type": "string", "pattern": "^a"},
        {"type": ["string", "integer"]},
        {"type": "integer", "multipleOf": 2},
        {"type": "number", "maximum": 2**53},
        {"enum": [True, 1]},
        {"anyOf": [{"type": "string"}]},
        {"type": "array", "items": [{"type": "string"}]},
    ],
)
def test_schemas_that_leave_something_open_are_not_read(open_end: Any) -> None:
    assert quick_of(sanitized(open_end)) is None


def test_a_large_schema_is_not_read() -> None:
    names = {f"n{at}": {"type": "string"} for at in range(PARTS_MAX)}
    schema = {"type": "object", "properties": names, "additionalProperties": False}
    assert quick_of(schema) is None
    del names["n0"]
    assert quick_of(schema) is not None
