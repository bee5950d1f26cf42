"""The rules that the page shares with the node, judged by the node's own."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from search.language import matcher, query
from streams_node.http.ui import assets
from streams_node.protocol.offsets import encode
from streams_node.schema.search_config import parse
from tests.ui.browser import Window
from tests.ui.seeds import SEARCH

pytestmark = [pytest.mark.xdist_group("browser")]
Open = Callable[..., Window]
DRAWN = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TEXTS = st.text(max_size=12)
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


def test_a_value_in_a_built_clause_means_itself(module: Callable[..., Any]) -> None:
    config = parse(SEARCH)

    @DRAWN
    @given(TEXTS | st.text(':()<>="\\*- aO', max_size=6), TEXTS)
    def holds(value: str, other: str) -> None:
        finds = matcher(query(f"service:{module('lib/query.js', 'quoted', value)}", config), 1)
        assert finds({"service": value})
        assert finds({"service": other}) is (other == value)

    holds()
