"""Media types: equality without parameters, JSON only as itself, and text for event streams."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_node.protocol.content_types import is_json, is_text, media, valid

steady = settings(deadline=None)
TOKEN = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
tokens = st.text(TOKEN, min_size=1, max_size=12)
parameters = st.builds("; {}={}".format, tokens, tokens)


@steady
@given(tokens, tokens, st.lists(parameters, max_size=3).map("".join))
def test_a_type_is_equal_to_itself_in_any_case_and_with_any_parameters(kind: str, sub: str, more: str) -> None:
    written = f"{kind}/{sub}{more}"
    assert valid(written)
    assert media(written) == media(f"{kind}/{sub}".upper()) == f"{kind}/{sub}".lower()
    assert is_json(written) == (f"{kind}/{sub}".lower() == "application/json")


@pytest.mark.parametrize(
    ("content_type", "json", "text"),
    [
        ("application/json", True, True),
        ("Application/JSON; charset=utf-8", True, True),
        ("application/json;charset=utf-8", True, True),
        ("application/ndjson", False, False),
        ("application/problem+json", False, False),
        ("text/plain", False, True),
        ("TEXT/html ; charset=latin-1", False, True),
        ("application/octet-stream", False, False),
        ("textual/plain", False, False),
    ],
)
def test_what_is_json_and_what_is_text(content_type: str, *, json: bool, text: bool) -> None:
    assert valid(content_type)
    assert (is_json(content_type), is_text(content_type)) == (json, text)


@pytest.mark.parametrize(
    "content_type",
    ["", "text", "text/", "/plain", "text/plain/x", "text /plain", "text/ plain", "te xt/plain",
     "text/plain, text/html", "text/pl\u00e4in", "text/plain; x=\u00e4", "text/plain\r\nx: y", "text/plain\0",
     "text/plain; a\nb", "(text)/plain", "text/plain text", "text/plain\n", " text/plain"],
)  # fmt: skip
def test_what_is_no_type(content_type: str) -> None:
    assert not valid(content_type)


@steady
@given(st.text(max_size=30))
def test_a_valid_type_can_stand_in_a_header(text: str) -> None:
    if valid(text):
        assert text.isascii()
        assert not {"\r", "\n", "\0", "\x7f"} & set(text)
