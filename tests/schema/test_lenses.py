"""Lenses: each operation on documents, each rule of the proof, and that promotion is the composition of lenses."""

import copy
import tracemalloc
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_node.schema import lens as lenses
from streams_node.schema import proof
from streams_node.schema.errors import LensFailed, SchemaRefused
from streams_node.schema.lens import STEPS_MAX, Room
from streams_node.schema.promotion import Promoter
from streams_node.schema.proof import compatible, prove
from streams_node.schema.values import TYPE_NAMES, is_of, key_of
from tests.schema.messages import lens

BIG = 1 << 20


def applied(document: Any, *ops: Any) -> Any:
    return lenses.parse(lens(*ops)).apply(copy.deepcopy(document), Room(BIG))


def conv(**more: Any) -> dict[str, Any]:
    op = {"op": "convert", "path": "/a", "fromType": "string", "toType": "string", "forward": {"builtin": "lowercase"},
          "backward": {"builtin": "uppercase"}}  # fmt: skip
    return op | more


def op(kind: str, **members: Any) -> dict[str, Any]:
    return {"op": kind, **members}


DONE = [
    ({"a": 1}, op("rename", **{"from": "/a", "to": "/b"}), {"b": 1}),
    ({"a": {"x": 1}, "b": {}}, op("rename", **{"from": "/a/x", "to": "/b/y"}), {"a": {}, "b": {"y": 1}}),
    ({"a": {"x": 1}}, op("rename", **{"from": "/a", "to": ""}), {"x": 1}),
    ({"a": [1]}, op("copy", **{"from": "/a", "to": "/b"}), {"a": [1], "b": [1]}),
    ({"a": 1}, op("copy", **{"from": "", "to": "/b"}), {"a": 1, "b": {"a": 1}}),
    ({"a": 1}, op("add", path="/a", schema=True, default=[2]), {"a": [2]}),
    ({"a": 1, "b": 2}, op("remove", path="/a", schema={}), {"b": 2}),
    ({"h": {"n": 1, "m": 2}}, op("hoist", host="/h", name="n", to="/n"), {"h": {"m": 2}, "n": 1}),
    ({"h": {"n": 1}}, op("hoist", host="/h", name="n", to="/n", removeFromHost=False), {"h": {"n": 1}, "n": 1}),
    ({"a": 1}, op("plunge", **{"from": "/a", "host": "/h/i", "name": "n"}), {"h": {"i": {"n": 1}}}),
    ({"a": 1, "h": {}}, op("plunge", **{"from": "/a", "host": "/h", "name": "n", "removeFromSource": False}),
     {"a": 1, "h": {"n": 1}}),
    ({"a": 1}, op("wrap", path="/a", mode="singleton"), {"a": [1]}),
    ({"a": 1}, op("wrap", path="", mode="singleton"), [{"a": 1}]),
    ({"a": [1, 2]}, op("head", path="/a"), {"a": 1}),
    ({"a": "X"}, conv(), {"a": "x"}),
    ({"a": "x"}, conv(forward={"builtin": "uppercase"}), {"a": "X"}),
    ({"a": " 12z"}, conv(toType="integer", forward={"builtin": "string_to_int"}), {"a": 12}),
    ({"a": 12}, conv(fromType="number", forward={"builtin": "int_to_string"}), {"a": "12"}),
    ({"a": "1970-01-01T01:00:00.25+01:00"}, conv(toType="integer", forward={"builtin": "rfc3339_to_unix_millis"}),
     {"a": 250}),
    ({"a": 250}, conv(fromType="integer", forward={"builtin": "unix_millis_to_rfc3339"}),
     {"a": "1970-01-01T00:00:00.250Z"}),
    ({"a": True}, conv(fromType="boolean", forward={"map": {"true": "yes"}}), {"a": "yes"}),
    ({"a": 1.0}, conv(fromType="integer", forward={"map": {"1": "one"}}), {"a": "one"}),
    ({"a": None}, conv(fromType="null", forward={"map": {"x": "y"}, "default": "z"}), {"a": "z"}),
    ({"a": {"x": 1}}, op("in", path="/a", ops=[op("rename", **{"from": "/x", "to": "/y"})]), {"a": {"y": 1}}),
    ({"a": [{"x": 1}, {"x": 2}]}, op("map", path="/a", ops=[op("rename", **{"from": "/x", "to": "/y"})]),
     {"a": [{"y": 1}, {"y": 2}]}),
    ({"a": {"x": 1}}, op("in", path="/a", ops=[op("wrap", path="", mode="singleton")]), {"a": {"x": 1}}),
    ({"a": [0, 1]}, op("add", path="/a/1", schema=True, default=5), {"a": [0, 5]}),
]  # fmt: skip


@pytest.mark.parametrize(("before", "step", "after"), DONE)
def test_an_operation_makes_of_a_document(before: Any, step: Any, after: Any) -> None:
    assert applied(before, step) == after


FAILED = [
    ({}, op("rename", **{"from": "/a", "to": "/b"}), "rename missing source"),
    ({"a": 1}, op("rename", **{"from": "", "to": "/b"}), "rename into itself"),
    ({}, op("copy", **{"from": "/a", "to": "/b"}), "copy missing source"),
    ({}, op("remove", path="/a", schema=True), "remove missing path"),
    ({}, op("hoist", host="/h", name="n", to="/n"), "hoist host missing or not object"),
    ({"h": 1}, op("hoist", host="/h", name="n", to="/n"), "hoist host missing or not object"),
    ({"h": {}}, op("hoist", host="/h", name="n", to="/n"), "hoist missing name"),
    ({}, op("plunge", **{"from": "/a", "host": "/h", "name": "n"}), "plunge missing source"),
    ({"a": 1}, op("plunge", **{"from": "/a", "host": "/h", "name": "n", "createHost": False}), "plunge host missing"),
    ({"a": 1, "h": 2}, op("plunge", **{"from": "/a", "host": "/h", "name": "n"}), "plunge host not object"),
    ({}, op("wrap", path="/a", mode="singleton"), "wrap missing path"),
    ({"a": []}, op("head", path="/a"), "head expects non-empty array"),
    ({"a": 1}, conv(), "type mismatch: expected string, got integer"),
    ({"a": 1.5}, conv(fromType="integer"), "type mismatch: expected integer, got number"),
    ({"a": "1"}, conv(toType="integer"), "type mismatch: expected integer, got string"),
    ({"a": "1"}, conv(forward={"map": {}}), "convert map missing key and default"),
    ({"a": "1"}, conv(forward={"builtin": "magic"}), "unknown builtin: magic"),
    ({"a": []}, op("in", path="/a", ops=[op("head", path="")]), "in expects object"),
    ({"a": {}}, op("map", path="/a", ops=[op("head", path="")]), "map expects array"),
    ({}, op("add", path="/a/b", schema=True, default=1), "missing parent"),
    ({"a": []}, op("add", path="/a/7", schema=True, default=1), "array index out of bounds"),
]


@pytest.mark.parametrize(("before", "step", "message"), FAILED)
def test_an_operation_that_cannot_be_applied_says_why(before: Any, step: Any, message: str) -> None:
    with pytest.raises(LensFailed) as found:
        applied(before, step)
    assert str(found.value) == message


def test_what_a_lens_copies_is_bounded_however_it_doubles() -> None:
    doubling = [
        step
        for at in range(200)
        for step in (op("wrap", path="/a", mode="singleton"), op("copy", **{"from": "/a/0", "to": "/a/1"}))
    ]
    with pytest.raises(LensFailed, match="grows too large"):
        applied({"a": "x"}, *doubling)
    many: Any = {"a": [{}] * 300_000}
    steps = [op("add", path="/x", schema=True, default=1)] * 10
    with pytest.raises(LensFailed, match=r"too many steps|grows too large"):
        lenses.parse(lens(op("map", path="/a", ops=steps))).apply(many, Room(1 << 40))


OLD = {
    "type": "object",
    "properties": {
        "a": {"type": "string"}, "i": {"type": "integer"}, "o": {"type": "object", "properties": {
            "x": {"type": "string"}}, "required": ["x"]}, "e": {"enum": ["1", "2"]}, "opt": {"type": "string"},
        "l": {"type": "array", "items": {"type": "object", "properties": {"y": {"type": "string"}},
              "required": ["y"]}, "minItems": 1}, "l0": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["a", "i", "o", "e", "l", "l0"],
}  # fmt: skip


def new(properties: Any = None, required: Any = (), **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties or {}, "required": list(required)} | more


S, N, A = {"type": "string"}, {"type": "integer"}, {"type": "array", "items": {"type": "string"}}
PROOFS = [
    (op("rename", **{"from": "/a", "to": "/b"}), new({"b": S}), None),
    (op("rename", **{"from": "/a", "to": "/b"}), new(), None),
    (op("rename", **{"from": "/opt", "to": "/b"}), new({"b": S}), "rename source not required"),
    (op("rename", **{"from": "/a", "to": "/b"}), new(additionalProperties=False), "rename dest missing in new schema"),
    (op("rename", **{"from": "/a", "to": "/b"}), new({"b": N}), "rename schema incompatible"),
    (op("rename", **{"from": "/a", "to": "/opt/b"}), new(), "parent path not required"),
    (op("rename", **{"from": "/a", "to": "/i/b"}), new(), "parent path not object"),
    (op("rename", **{"from": "/i", "to": "/b"}), new({"b": {"type": "number"}}), None),
    (op("copy", **{"from": "/opt", "to": "/b"}), new({"b": S}), "copy source not required"),
    (op("copy", **{"from": "/a", "to": "/b"}), new({"b": A}), "copy schema incompatible"),
    (op("copy", **{"from": "/e", "to": "/b"}), new({"b": {"enum": ["1", "2", "3"]}}), None),
    (op("copy", **{"from": "/e", "to": "/b"}), new({"b": {"enum": ["1"]}}), "copy schema incompatible"),
    (op("copy", **{"from": "/i", "to": "/b"}), new({"b": {"const": 5}}), "copy schema incompatible"),
    (op("add", path="/n", schema=N, default=1), new({"n": N}), None),
    (op("add", path="/n", schema=N), new({"n": N}), "add missing default"),
    (op("add", path="/n", schema=N), new({"n": {"type": "object"}}), None),
    (op("add", path="/n", schema=N, default="x"), new({"n": N}), "add default invalid"),
    (op("add", path="/n", schema=N, default=None), new({"n": N}), "add missing default"),
    (op("add", path="/n", schema=N, default=None), new({"n": {"type": ["null", "string"]}}), None),
    (op("add", path="/n", schema=N, default=1), new(), "add dest missing in new schema"),
    (op("remove", path="/a", schema=S), new(), None),
    (op("remove", path="/opt", schema=S), new(), "remove path not required"),
    (op("remove", path="/a", schema=S), new({"a": S}, ["a"]), "remove path still required in new schema"),
    (op("hoist", host="/o", name="x", to="/x"), new({"x": S, "o": {"type": "object"}}), None),
    (op("hoist", host="/a", name="x", to="/x"), new({"x": S}), "hoist host invalid"),
    (op("hoist", host="/o", name="q", to="/x"), new({"x": S}), "hoist name missing/optional"),
    (op("hoist", host="/o", name="x", to="/x"), new({"x": S, "o": new({"x": S}, ["x"])}),
     "hoist removed field still required"),
    (op("plunge", **{"from": "/a", "host": "/h", "name": "n"}), new({"h": new({"n": S})}), None),
    (op("plunge", **{"from": "/a", "host": "/h", "name": "n"}), new({"h": S}), "plunge host invalid"),
    (op("plunge", **{"from": "/opt", "host": "/h", "name": "n"}), new({"h": new({"n": S})}),
     "plunge source not required"),
    (op("wrap", path="/a", mode="singleton"), new({"a": A}), None),
    (op("wrap", path="/opt", mode="singleton"), new({"opt": A}), "wrap path not required"),
    (op("wrap", path="/a", mode="singleton"), new({"a": S}), "wrap dest not array"),
    (op("head", path="/l"), new({"l": {"type": "object"}}), None),
    (op("head", path="/l0"), new({"l0": S}), "head requires minItems"),
    (conv(), new({"a": S}), None),
    (conv(toType="integer", forward={"builtin": "string_to_int"}), new({"a": N}),
     "schema must be enum/const for non-total transform"),
    (conv(path="/e", toType="integer", forward={"builtin": "string_to_int"}), new({"e": N}), None),
    (conv(forward={"map": {"x": "y"}}), new({"a": S}), "schema must be enum/const for non-total transform"),
    (conv(forward={"map": {"x": "y"}, "default": ""}), new({"a": S}), None),
    (conv(toType="integer"), new({"a": S}), "convert dest incompatible"),
    (op("in", path="/o", ops=[op("rename", **{"from": "/x", "to": "/z"})]), new({"o": new({"z": S})}), None),
    (op("in", path="/o", ops=[op("rename", **{"from": "/q", "to": "/z"})]), new({"o": new({"z": S})}),
     "rename source not required"),
    (op("in", path="/a", ops=[op("head", path="")]), new({"a": S}), "in path not object"),
    (op("map", path="/l", ops=[op("rename", **{"from": "/y", "to": "/z"})]),
     new({"l": {"type": "array", "items": new({"z": S})}}), None),
    (op("map", path="/o", ops=[op("head", path="")]), new({"o": OLD}), "map path not array"),
]  # fmt: skip


@pytest.mark.parametrize(("step", "schema", "message"), PROOFS)
def test_a_rule_of_the_proof(step: Any, schema: Any, message: str | None) -> None:
    given_lens = lenses.parse(lens(step))
    if message is None:
        prove(given_lens, OLD, schema)
        return
    with pytest.raises(SchemaRefused) as found:
        prove(given_lens, OLD, schema)
    assert str(found.value) == message


def test_a_rename_may_go_into_an_array_that_a_later_wrap_makes() -> None:
    rename, wrap = op("rename", **{"from": "/a", "to": "/b"}), op("wrap", path="/b", mode="singleton")
    prove(lenses.parse(lens(rename, wrap)), OLD, new({"b": A}))
    with pytest.raises(SchemaRefused, match="rename schema incompatible"):
        prove(lenses.parse(lens(rename)), OLD, new({"b": A}))


LISTED = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, 1.5, 2**53 + 1, float(2**53), "", "1", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=4,
)
SHAPES = st.fixed_dictionaries(
    {},
    optional={
        "const": LISTED,
        "enum": st.lists(LISTED, max_size=4),
        "type": st.lists(st.sampled_from(TYPE_NAMES), max_size=3) | st.sampled_from(TYPE_NAMES),
    },
)


def same(one: Any, other: Any) -> bool:
    """Equality of JSON values: `true` is not 1, and 1.0 is."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


def naively(have: Any, want: Any) -> bool:
    """Value by value."""

    def fits(value: Any) -> bool:
        kinds = want.get("type")
        kinds = [kinds] if isinstance(kinds, str) else kinds
        return (
            ("const" not in want or same(value, want["const"]))
            and ("enum" not in want or any(same(value, each) for each in want["enum"]))
            and (kinds is None or any(is_of(value, kind) for kind in kinds))
        )

    if "const" in have or "enum" in have:
        return all(map(fits, [have["const"]] if "const" in have else have["enum"]))
    return compatible({"type": have["type"]} if "type" in have else {}, want)


@settings(max_examples=1500, deadline=None)
@given(SHAPES, SHAPES)
def test_what_schemas_list_is_compared_as_json_is(have: Any, want: Any) -> None:
    assert compatible(have, want) == naively(have, want)


def test_long_lists_are_made_ready_once_for_all_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """It took hours, in the one thread in which all schemas of the node are made."""
    many: dict[str, Any] = {"enum": [f"v{at}" for at in range(5000)]}
    old = {"type": "object", "properties": {"a": many, "l": {"enum": [[at] for at in range(5000)]}},
           "required": [*(f"r{at}" for at in range(5000)), "a", "l"]}  # fmt: skip
    new_one = {"properties": {"b": dict(many), "l": {}}}
    steps = [op("copy", **{"from": "/a", "to": "/b"}), op("add", path="/b", schema=True, default="v4999"),
             op("head", path="/l")]  # fmt: skip
    seen = 0

    def counted(value: Any) -> Any:
        nonlocal seen
        seen += 1
        return key_of(value)

    monkeypatch.setattr(proof, "key_of", counted)
    prove(lenses.parse(lens(*[step for _ in range(300) for step in steps])), old, new_one)
    assert seen < 30_000


NAMES = st.sampled_from(["a", "b", "c", "d/e", "~f"])
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5) | FLOATS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
POINTERS = st.lists(NAMES | st.sampled_from(["0", "1", "-"]), max_size=3).map(
    lambda tokens: "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens)
)
FLAT = st.one_of(
    st.builds(lambda a, b: op("rename", **{"from": a, "to": b}), POINTERS, POINTERS),
    st.builds(lambda a, b: op("copy", **{"from": a, "to": b}), POINTERS, POINTERS),
    st.builds(lambda a, v: op("add", path=a, schema=True, default=v), POINTERS, VALUES),
    st.builds(lambda a: op("remove", path=a, schema=True), POINTERS),
    st.builds(lambda a, n, b: op("hoist", host=a, name=n, to=b), POINTERS, NAMES, POINTERS),
    st.builds(lambda a, b, n, c, r: op("plunge", **{"from": a, "host": b, "name": n, "createHost": c,
              "removeFromSource": r}), POINTERS, POINTERS, NAMES, st.booleans(), st.booleans()),
    st.builds(lambda a: op("wrap", path=a, mode="singleton"), POINTERS),
    st.builds(lambda a: op("head", path=a), POINTERS),
)  # fmt: skip
STEPS = FLAT | st.builds(
    lambda kind, path, ops: op(kind, path=path, ops=ops),
    st.sampled_from(["in", "map"]), POINTERS, st.lists(FLAT, min_size=1, max_size=3),
)  # fmt: skip


@settings(max_examples=2000, deadline=None)
@given(VALUES, st.lists(st.lists(STEPS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_promotion_is_the_composition_of_the_lenses(document: Any, chain: list[list[Any]]) -> None:
    """And what comes out can be written, and has no container twice."""
    known = {at: lenses.parse(lens(*ops, at=at)) for at, ops in enumerate(chain, 1)}
    promoter = Promoter(known, len(chain) + 1)

    def composed(made: Any) -> Any:
        for each in known.values():
            made = each.apply(made, Room(BIG))
        return made

    one_by_one = outcome(lambda: composed(copy.deepcopy(document)))
    promoted = outcome(lambda: promoter.promote(copy.deepcopy(document), 1, Room(BIG)))
    assert orjson.dumps(promoted) == orjson.dumps(one_by_one)
    containers = _containers(promoted)
    assert len(containers) == len(set(map(id, containers)))


def test_a_long_way_takes_as_much_memory_as_its_lenses() -> None:
    """And not that for each of its beginnings."""
    versions, each = 1000, 20
    some = lenses.parse(lens(*[op("copy", **{"from": "/a", "to": "/b"})] * each))
    known = dict.fromkeys(range(1, versions), some)
    tracemalloc.start()
    try:
        promoter = Promoter(known, versions)
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()
    left = [STEPS_MAX]
    for at in (versions - 1, 500, 1):
        room = Room(BIG)
        assert promoter.promote({"a": 1}, at, room) == {"a": 1, "b": 1}
        left.append(room.steps)
    assert [STEPS_MAX - steps for steps in left] == [0, each, each * 500, each * 999]
    assert promoter.promote({"a": 1}, versions, Room(BIG)) == {"a": 1}
    assert [promoter.weight(at) > promoter.weight(at + 1) for at in (1, 500, 999)] == [True] * 3
    assert promoter.weight(versions) == 0


def outcome(make: Callable[[], Any]) -> Any:
    """What it makes, or why it does not."""
    try:
        return make()
    except LensFailed as problem:
        return f"failed: {problem}"


def _containers(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = [value] if isinstance(value, dict | list) else []
    return own + [each for part in inner for each in _containers(part)]
