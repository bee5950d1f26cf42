"""Documents that are composed by columns are the JSON that one would write for each of them."""

from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexers.companion.texts import Texts, is_plain, translated
from indexers.records import milliseconds

ROWS = 5
strings = st.text(st.sampled_from('ab "\\\n\x00\x1f\x7f/ß日\U0001f600'), max_size=4)
integers = st.integers(-(2**63), 2**63 - 1)
doubles = st.floats(allow_nan=False, allow_infinity=False).map(lambda value: value + 0.0)


def column(values: Any) -> Any:
    return st.lists(st.none() | values, min_size=ROWS, max_size=ROWS)


@settings(deadline=None, max_examples=200)
@given(column(strings), column(integers), column(doubles), column(st.booleans()), column(st.lists(strings | integers)))
def test_documents_are_what_their_columns_say(
    texts: list[Any], whole: list[Any], broken: list[Any], truths: list[Any], lists: list[Any]
) -> None:
    made = Texts(ROWS)
    made.constant("c", "é")
    made.strings("s", pa.array(texts, pa.string()))
    made.numbers("i", pa.array(whole, pa.int64()))
    made.numbers("f", pa.array(broken, pa.float64()))
    made.numbers("b", pa.array(truths, pa.bool_()))
    made.values("l", lists)
    found = [orjson.loads(text) for text in made.joined()]
    columns = {"c": ["é"] * ROWS, "s": texts, "i": whole, "f": broken, "b": truths, "l": lists}
    assert found == [
        {name: values[at] for name, values in columns.items() if values[at] is not None} for at in range(ROWS)
    ]


def test_documents_of_constants_alone_are_as_many_as_the_batch_has() -> None:
    made = Texts(3)
    made.constant("c", 1)
    assert made.joined() == ['{"c":1}'] * 3


@pytest.mark.parametrize("text", ['"', "\\", "\n", "\x00", "\x1f"])
def test_what_json_spells_in_another_way_is_not_plain(text: str) -> None:
    assert not is_plain(pa.array(["abc", f"a{text}"]))
    assert is_plain(pa.array(["abc", "/\x7fß", None]))


def test_only_text_that_is_ascii_is_changed_by_a_table() -> None:
    table = bytes(range(128)).upper().ljust(256)
    found = translated(pa.array(["ab", None, "", "c"]), table)
    assert found.to_pylist() == ["AB", None, "", "C"]
    assert translated(pa.array(["ab", "é"]), table) is None
    with pytest.raises(ValueError, match="slices"):
        translated(pa.array(["ab", "cd"]).slice(1), table)


@given(st.lists(st.none() | integers))
def test_milliseconds_are_rounded_down(values: list[int | None]) -> None:
    found = milliseconds(pa.array(values, pa.int64())).to_pylist()
    assert found == [None if value is None else value // 1_000_000 for value in values]
