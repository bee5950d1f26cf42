"""Anything at all as an update, a schema, a lens, or entries: a clear answer, and nothing half-written."""

import asyncio
import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams_node.testing.inprocess import InProcess, in_process
from tests.schema.messages import JSON, V1, append, create, lens, read, update

Ask = Callable[[Callable[[InProcess, str], Any]], Any]
FEW = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

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
UPDATES = st.fixed_dictionaries(
    {},
    optional={
        "apiVersion": st.just("durable.streams/schema-registry/v1") | JSON_VALUES,
        "schema": SCHEMAS | JSON_VALUES,
        "lens": OPS.map(lambda ops: lens(*ops)) | JSON_VALUES,
        "routingKey": st.fixed_dictionaries({"jsonPointer": POINTERS, "required": st.booleans()}) | JSON_VALUES,
        "search": JSON_VALUES,
        "other": JSON_VALUES,
    },
) | JSON_VALUES  # fmt: skip


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Runs a coroutine against one node, with a stream of its own."""
    folder: Path = tmp_path_factory.mktemp("fuzz")
    serial = count()
    with asyncio.Runner() as runner:
        opened = in_process(folder / "data")
        node = runner.run(opened.__aenter__())

        def run(what: Callable[[InProcess, str], Any]) -> Any:
            return runner.run(what(node, f"/v1/stream/s{next(serial)}"))

        yield run
        runner.run(opened.__aexit__(None, None, None))


def own(given_update: Any, path: str) -> bytes:
    """The update with the stream's own name, so that lenses fit."""
    return json.dumps(given_update).replace('"schema": "s"', f'"schema": "{path.rpartition("/")[2]}"').encode()


@FEW
@given(st.lists(UPDATES, min_size=1, max_size=4), JSON_VALUES)
def test_an_update_is_taken_whole_or_not_at_all(ask: Ask, updates: list[Any], entry: Any) -> None:
    async def check(node: InProcess, path: str) -> None:
        await create(node, path)
        assert (await update(node, {"schema": V1}, path)).status == 200
        await append(node, [{"a": "x"}], path)
        before = await node.request("GET", f"{path}/_schema")
        for each in updates:
            answer = await update(node, own(each, path), path)
            assert answer.status in {200, 400, 409}, answer
            after = await node.request("GET", f"{path}/_schema")
            assert after.body == (answer.body if answer.status == 200 else before.body)
            before = after
            assert (await append(node, [entry], path)).status in {204, 400}
            assert (await read(node, path=path)).status in {200, 400}
            assert (await read(node, "?format=raw", path)).status == 200

    ask(check)


@FEW
@given(SCHEMAS, st.lists(JSON_VALUES, max_size=4))
def test_entries_are_stored_together_or_not_at_all(ask: Ask, schema: Any, entries: list[Any]) -> None:
    """And each alone is judged as it is together with others."""

    async def check(node: InProcess, path: str) -> None:
        await create(node, path)
        assert (await update(node, {"schema": schema}, path)).status in {200, 400}
        alone = [(await append(node, [entry], path)).status for entry in entries]
        assert set(alone) <= {204, 400}
        together = await append(node, entries, path)
        assert together.status == (204 if entries and set(alone) == {204} else 400), together
        kept = alone.count(204) + (len(entries) if together.status == 204 else 0)
        shown = await read(node, path=path)
        assert (shown.status, len(json.loads(shown.body))) == (200, kept)

    ask(check)


@FEW
@given(st.binary(max_size=60) | st.text(max_size=40).map(str.encode))
def test_any_bytes_are_answered(ask: Ask, body: bytes) -> None:
    async def check(node: InProcess, path: str) -> None:
        await create(node, path)
        assert (await update(node, body, path)).status in {200, 400}
        await update(node, {"schema": True, "routingKey": {"jsonPointer": "/a", "required": False}}, path)
        assert (await node.request("POST", path, JSON, body)).status in {204, 400}

    ask(check)
