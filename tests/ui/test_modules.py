"""The rules that the page shares with the node, judged by the node's own."""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from search.language import matcher, query
from streams_node.http.ui import assets
from streams_node.ingest.state import StreamState
from streams_node.protocol.offsets import encode
from streams_node.schema.search_config import parse
from tests.ui.browser import Window
from tests.ui.seeds import SEARCH

pytestmark = [pytest.mark.xdist_group("browser")]
Open = Callable[..., Window]
DRAWN = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TEXTS = st.text(max_size=12)
NAMES = st.text("abc", min_size=1, max_size=3)
NAMED: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from((1, "a.b", "{[", True, None, [], {})),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
FEW_LINES = st.lists(st.sampled_from("abc"), min_size=1, max_size=9)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture
def module(window: Open) -> Callable[..., Any]:
    """Calls a function of a module of the page."""
    page = window().open("#/streams")

    def call(name: str, function: str, *arguments: object) -> Any:
        code = "async ([path, name, given]) => (await import(path))[name](...given)"
        return page.evaluate(code, [f"/ui/{assets().digest}/{name}", function, list(arguments)])

    return call


def test_messages_are_cut_out_of_an_answer_as_they_were_sent(module: Callable[..., Any]) -> None:
    @DRAWN
    @given(st.lists(VALUES, max_size=6), st.sampled_from((None, 1)), st.booleans())
    def holds(values: list[Any], indent: int | None, ascii_only: bool) -> None:  # noqa: FBT001 - it is drawn
        texts = [json.dumps(value, indent=indent, ensure_ascii=ascii_only) for value in values]
        assert module("lib/jsontext.js", "elements", f"[{' , '.join(texts)}\n]") == texts

    holds()


def test_offsets_of_messages_are_those_of_the_node(module: Callable[..., Any]) -> None:
    @DRAWN
    @given(st.integers(0, 2**32 - 1), st.integers(0, 2**53 - 1))
    def holds(epoch: int, seq: int) -> None:
        token = encode(epoch, seq)
        assert module("lib/offsets.js", "encode", epoch, seq) == token
        assert module("lib/offsets.js", "decode", token.lower()) == {"epoch": epoch, "seq": seq}

    holds()


def test_an_offset_carries_the_epoch_of_the_entry_before_it(module: Callable[..., Any]) -> None:
    @DRAWN
    @given(st.sets(st.integers(0, 30), max_size=4), st.integers(0, 40))
    def holds(later: set[int], seq: int) -> None:
        epochs = tuple(enumerate((0, *sorted(later)), start=3))
        shown = [{"epoch": epoch, "first_offset": str(first)} for epoch, first in epochs]
        state: Any = SimpleNamespace(epochs=epochs)
        assert module("lib/offsets.js", "offsetAt", shown, seq) == StreamState.token(state, seq)

    holds()


def test_whatever_is_written_as_a_schema_something_is_said_of_it(module: Callable[..., Any]) -> None:
    @DRAWN
    @given(VALUES | st.fixed_dictionaries({"search": VALUES | st.dictionaries(st.sampled_from(list(SEARCH)), VALUES)}))
    def holds(update: Any) -> None:
        said = module("lib/declared.js", "check", json.dumps(update), {"currentVersion": 0}, "0")
        assert said or update == {"search": None}  # which takes it away
        assert all(each["text"] for each in said)

    holds()


def test_a_value_in_a_built_clause_means_itself(module: Callable[..., Any]) -> None:
    config = parse(SEARCH)

    @DRAWN
    @given(TEXTS | st.text(':()<>="\\*- aO', max_size=6), TEXTS)
    def holds(value: str, other: str) -> None:
        finds = matcher(query(f"service:{module('lib/query.js', 'quoted', value)}", config), 1)
        assert finds({"service": value})
        assert finds({"service": other}) is (other == value)

    holds()


def paths(value: Any, path: str = "") -> Iterator[str]:
    """Every value in a value, as messages name it."""
    if path:
        yield path
    if isinstance(value, dict):
        for name, each in value.items():
            yield from paths(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from paths(each, f"{path}[{number}]")


def replaced(value: Any, steps: list[str], other: Any) -> Any:
    """The value with another one at a place."""
    if not steps:
        return other
    step, *rest = steps
    if isinstance(value, list):
        return [replaced(each, rest, other) if at == int(step) else each for at, each in enumerate(value)]
    return {name: replaced(each, rest, other) if name == step else each for name, each in value.items()}


def test_a_fault_of_a_json_text_is_told_where_it_is(module: Callable[..., Any]) -> None:
    for text, said in (
        ('{"a": }', "Unexpected token '}', line 1, column 7"),
        ('{"a":', "Unexpected end of the text, line 1, column 6"),
        ("[1,\n 2", "Expected ',' or ']' after array element, line 2, column 3"),
        ('{"a": 1,\n"b" 2}', "Expected ':' after property name, line 2, column 5"),
        ("  ", "there is nothing yet"),
    ):
        assert module("lib/jsontext.js", "faultOf", text)["message"] == said

    said = "JSON.parse: expected ',' or '}' after property value in object at line 3 column 5 of the JSON data"
    told = module("lib/jsontext.js", "placeOf", "[1,\n2,\n    x]", said)
    assert told == [3, 5], "the words of another browser, whose parser says where it is"

    @DRAWN
    @given(VALUES, st.sampled_from((None, 1)), st.data())
    def holds(value: Any, indent: int | None, data: st.DataObject) -> None:
        text = json.dumps(value, indent=indent)
        assert module("lib/jsontext.js", "faultOf", text) is None
        at = data.draw(st.sampled_from(outside_of_strings(text)))
        before = text[:at].split("\n")
        fault = module("lib/jsontext.js", "faultOf", f"{text[:at]}@{text[at:]}")
        assert fault["message"].endswith(f", line {len(before)}, column {len(before[-1]) + 1}")
        assert fault["line"] == len(before)

    holds()


def outside_of_strings(text: str) -> list[int]:
    """Places between its characters where no string goes on."""
    inside = {at for found in re.finditer(r'"(?:[^"\\]|\\.)*"', text) for at in range(found.start() + 1, found.end())}
    return [at for at in range(len(text) + 1) if at not in inside]


def test_the_line_of_a_path_is_where_its_value_begins(module: Callable[..., Any]) -> None:
    @DRAWN
    @given(st.dictionaries(NAMES, NAMED, min_size=1, max_size=4), st.sampled_from((1, None)), st.data())
    def holds(value: dict[str, Any], indent: int | None, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(paths(value))))
        mark = json.dumps(replaced(value, re.findall(r"\w+", path), "HERE"), indent=indent)
        text = json.dumps(value, indent=indent)
        said = module("lib/declared.js", "refusal", text, f"schemaUpdate.{path} is not right")
        assert said["line"] == mark[: mark.index("HERE")].count("\n") + 1

    holds()


def test_a_difference_has_both_texts_in_it_and_no_line_more_than_it_must(module: Callable[..., Any]) -> None:
    @DRAWN
    @given(FEW_LINES, FEW_LINES)
    def holds(before: list[str], after: list[str]) -> None:
        lines = module("lib/diff.js", "diff", "\n".join(before), "\n".join(after))
        assert [text for kind, text in lines if kind != "+"] == before
        assert [text for kind, text in lines if kind != "-"] == after
        assert sum(kind == " " for kind, _ in lines) == common(tuple(before), tuple(after))
        near = module("lib/diff.js", "near", lines)
        assert sum(text if kind == "…" else 1 for kind, text in near) == len(lines)
        assert [each for each in near if each[0] in "+-"] == [each for each in lines if each[0] in "+-"]

    holds()
    # Far too many to compare each with each: still both texts, at once.
    many = [[f"{side}{number}" for number in range(3000)] for side in "ab"]
    lines = module("lib/diff.js", "diff", *("\n".join(["same", *each, "same"]) for each in many))
    assert [text for kind, text in lines if kind != "+"] == ["same", *many[0], "same"]
    assert [text for kind, text in lines if kind != "-"] == ["same", *many[1], "same"]


@cache
def common(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    """The length of the longest common subsequence."""
    if not a or not b:
        return 0
    if a[0] == b[0]:
        return 1 + common(a[1:], b[1:])
    return max(common(a[1:], b), common(a, b[1:]))
