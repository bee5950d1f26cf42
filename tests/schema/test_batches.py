"""Batches that are accepted by their types alone are stored as if every entry had been validated."""

import json
from typing import Any

import pytest

from streams_node.meaning.common import Commons
from streams_node.meaning.entries import Bounds, prepared, prepared_at_once
from streams_node.meaning.meaning import Meaning
from streams_node.meaning.standing import Standing
from streams_node.schema.quick import Quick
from streams_node.schema.registry import decode

BOUNDS = Bounds(1000, 400, 16)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "who": {"type": ["string", "null"]},
        "in": {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False},
    },
    "additionalProperties": False,
}


OPEN = {"type": "object", "properties": {"who": {"type": ["string", "null"]}, "in": SCHEMA["properties"]["in"]}}


def meaning_of(key: dict[str, Any] | None, schema: dict[str, Any]) -> Meaning:
    declared = {
        "schema": "s", "currentVersion": 1, "boundaries": [{"offset": 0, "version": 1}], "schemas": {"1": schema},
        "lenses": {}, "routingKey": key,
    }  # fmt: skip
    return Meaning.of(Standing(decode(declared)), Commons())


BODIES = [
    [{"who": f"w{at % 3}", "in": {"n": at}} for at in range(40)],
    [{"who": "ünï" * at} for at in range(16)],  # keys of more bytes than allowed
    [{"in": {"n": at}} for at in range(20)],  # keys that are missing
    [{"who": None} for _ in range(20)],  # keys that are no text
    [{"who": "a"}] * 19 + [{"who": 1}],
    [{"who": "a"}] * 19 + [{"more": 1}],
    [{"in": {"n": 1.0}} for _ in range(20)],
]


@pytest.mark.parametrize("pointer", ["/who", "/in/n", "/in", "/none", None])
@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("stream_key", [b"\x01k", None])
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("schema", [SCHEMA, OPEN], ids=["closed", "open"])
def test_the_quick_way_and_the_long_one_store_alike(
    monkeypatch: pytest.MonkeyPatch,
    pointer: str | None,
    *,
    required: bool,
    stream_key: bytes | None,
    indent: int | None,
    schema: dict[str, Any],
) -> None:
    meaning = meaning_of(None if pointer is None else {"jsonPointer": pointer, "required": required}, schema)
    bodies = [json.dumps(body, indent=indent).encode() for body in BODIES]
    quick = [prepared(meaning, body, stream_key, 0, BOUNDS) for body in bodies]
    at_once = [prepared_at_once(meaning, body, stream_key, BOUNDS) for body in bodies]
    sure: list[bytes] = []
    monkeypatch.setattr(Quick, "entries", lambda _, body: sure.append(body))
    for body, found, soon in zip(bodies, quick, at_once, strict=True):
        assert soon is None or soon == found
        said = prepared(meaning, body, stream_key, 0, BOUNDS)
        assert said.pieces == found.pieces
        assert (str(said.wrong), str(said.refused)) == (str(found.wrong), str(found.refused))
    plain = pointer in {"/who", "/in"}  # others are not a plain way through members that have to be there
    is_quick = pointer is None or (plain and stream_key is None)
    assert bool(sure) is is_quick
    assert is_quick or not any(at_once)
    assert any(at_once) or not is_quick or (required and pointer == "/in")


def at_once(schema: dict[str, Any], entries: list[Any]) -> bool:
    meaning, bounds = meaning_of(None, schema), Bounds(100_000, 1 << 20, 16)
    body = json.dumps(entries).encode()
    assert prepared_at_once(meaning, body, None, bounds) is None, "what is to look at it was not made yet"
    assert prepared(meaning, body, None, 0, bounds).pieces
    return prepared_at_once(meaning, body, None, bounds) is not None


def test_only_what_is_soon_done_is_done_at_once() -> None:
    text = {"type": "object", "properties": {"t": {"type": "string"}}, "additionalProperties": False}
    time = {"type": "object", "properties": {"t": {"type": "string", "format": "date-time"}}}
    assert at_once(text, [{"t": "x" * 300}] * 1000)
    assert not at_once(text, [{"t": "x" * 300}] * 1100), "more bytes"
    assert at_once(text, [{}] * 16_001)
    assert not at_once(text, [{}] * 16_002), "more of them, however short"
    assert not at_once(time, [{"t": "2026-01-01T00:00:00Z"}] * 20), "each is held against a pattern"
