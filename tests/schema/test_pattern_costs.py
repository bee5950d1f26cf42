"""What a pattern may cost: known before a text is held against it, as nothing can interrupt the engine then."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_node.schema.errors import EntryRefused
from streams_node.schema.validation import Validator
from streams_node.schema.weight import positions
from streams_node.testing.clock import FakeClock
from streams_node.testing.inprocess import InProcess
from tests.http.conftest import with_node
from tests.schema.messages import append, create, update

__all__ = ["with_node"]
WithNode = Callable[..., None]
MANY_AT_ONCE = {"properties": {"a": {"pattern": "[\\s\\S]{0,900}x"}}}  # each byte begins a match of 900 places
SLUG = {"properties": {"a": {"pattern": "^[a-z][a-z0-9-]{1,62}$"}}}


def test_a_long_text_and_a_pattern_of_many_places_do_not_meet(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await create(node)
        assert (await update(node, {"schema": MANY_AT_ONCE})).status == 200
        answer = await append(node, [{"a": "é" * 200_000}])
        assert (answer.status, b"entry is too large for its schema" in answer.body) == (400, True)
        assert (await append(node, [{"a": "a" * 2000 + "x"}])).status == 204

    with_node(test)


def test_usual_patterns_take_large_entries_and_large_batches(with_node: WithNode) -> None:
    async def test(node: InProcess, _: FakeClock) -> None:
        await create(node)
        await update(node, {"schema": SLUG})
        assert (await append(node, [{"a": "slug", "b": "x" * 200_000}])).status == 204
        assert (await append(node, [{"a": "slug", "b": "x" * 300}] * 12_000)).status == 204  # 4 MB: 50 million steps

    with_node(test)


def test_entries_that_together_take_too_long_are_stopped_between_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams_node.schema.validation.TOGETHER_CPU_S_MAX", 0.0)
    text = b'{"a": "' + b"a" * 9000 + b'x"}'
    with pytest.raises(EntryRefused, match="append fewer at once"):
        Validator(MANY_AT_ONCE).check([{"a": "a" * 9000 + "x"}] * 20, [text] * 20)


@pytest.mark.parametrize(
    ("pattern", "least"),
    [
        ("", 0),
        ("^[a-z][a-z0-9-]{1,62}$", 63),
        (r"\p{L}{1000}", 1000),
        ("a{ 5 }", 5),
        ("(ab|c){3,}x", 13),
        ("[]a{9}]{3}", 3),
        (r"[\]{9}]{3}", 3),
        ("((a{3}b){4}c){5}", 85),
        ("(?x)(ab #)\n){90}", 180),
        ("(abc[[a])]{3}zzzz){900}", 9000),
        ("))((", 0),
        ("a{" + "9" * 500 + "}", 1_000_000),
    ],
)
def test_places_are_never_counted_too_few(pattern: str, least: int) -> None:
    assert positions(pattern) >= least


def _repeated(inner: tuple[str, int], times: int, form: str) -> tuple[str, int]:
    return f"({inner[0]}){form.format(times)}", inner[1] * times


ATOMS: Any = st.sampled_from([("a", 1), (r"\d", 1), ("[a-z]", 1), (r"\(", 1), (r"[)\]{9}]", 1), ("[(]", 1), ("é", 1)])
PATTERNS: Any = st.recursive(
    ATOMS,
    lambda inner: (
        st.builds(_repeated, inner, st.integers(1, 9), st.sampled_from(["{{{0}}}", "{{1,{0}}}", "{{{0},}}"]))
        | st.lists(inner, min_size=1, max_size=4).map(
            lambda all_: ("".join(p for p, _ in all_), sum(n for _, n in all_))
        )
        | st.tuples(inner, inner).map(lambda two: (f"(?:{two[0][0]}|{two[1][0]})*", two[0][1] + two[1][1]))
    ),
    max_leaves=12,
)


@given(PATTERNS)
def test_places_are_at_least_those_of_the_pattern_written_out(made: tuple[str, int]) -> None:
    pattern, places = made
    assert positions(pattern) >= places
