"""What is wrong with an entry is said in little memory: the errors of the validator hold copies of it."""

from typing import Any

import orjson
import pytest

from streams_node.schema.errors import EntryRefused
from streams_node.schema.validation import Validator

UNSAID = "must be valid; entry is too large for its schema to say what is wrong with it"
MANY = [{"type": "object", "required": [f"k{at}"]} for at in range(2000)]
LONG = "a" * 300_000  # its errors would hold more than two gigabytes, and take seconds


def said(schema: Any, entry: Any) -> str:
    with pytest.raises(EntryRefused) as refusal:
        Validator(schema).check([entry], [orjson.dumps(entry)])
    return str(refusal.value)


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
def test_alternatives_are_told_of_small_entries_and_never_copy_a_large_one_for_each(word: str) -> None:
    usual = f"must match {'a schema in anyOf' if word == 'anyOf' else 'exactly one schema in oneOf'}"
    assert said({word: MANY}, "short") == usual
    assert said({word: MANY[:50]}, ["a" * 10] * 20) == usual
    for schema in ({word: MANY}, {"if": {}, "then": {"not": {}, word: MANY}}, {word: [{word: MANY}]}):
        assert said(schema, LONG) == UNSAID
    assert said({"items": {word: MANY[:100]}}, ["a" * 1000] * 100) == UNSAID


@pytest.mark.parametrize(
    ("schema", "entry", "first"),
    [
        ({"required": [f"k{at}" for at in range(2000)]}, {"x": LONG}, "must have required property 'k0'"),
        ({"allOf": MANY}, LONG, "must be object"),
        ({"items": {"enum": ["z" * 900_000]}}, [1] * 1000, "must be equal to one of the allowed values"),
        ({"items": {"const": "z" * 900_000}}, [1] * 1000, "must be equal to constant"),
        (
            {"propertyNames": {"maxLength": 1}},
            {f"k{at}": "a" * 50 for at in range(2000)},
            "property name must be valid",
        ),
    ],
)
def test_of_large_entries_the_first_error_is_told(schema: Any, entry: Any, first: str) -> None:
    assert said(schema, entry) == first


def test_all_errors_of_a_usual_entry_are_told() -> None:
    schema = {"properties": {f"k{at}": {"type": "integer"} for at in range(10)}, "required": ["z"]}
    found = said(schema, {f"k{at}": "a" * 300 for at in range(10)})
    assert sorted(found.split("; ")) == ["must be integer"] * 10 + ["must have required property 'z'"]
