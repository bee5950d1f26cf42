"""Entries in log rows: JSON opened as a JSON parser would, bytes kept to the last one, every cut put together again."""

import json
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streams_node.protocol import frames
from streams_node.protocol.frames import (
    BadJson,
    Elements,
    Piece,
    TooManyElements,
    cut_bytes,
    cut_elements,
    json_elements,
    key_in_many,
    pack_each,
    pack_key,
    pack_keys,
    pack_lens,
    unpack_keys,
    unpack_lens,
)

steady = settings(deadline=None)
many = settings(deadline=None, max_examples=400)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
blanks = st.text(" \t\r\n", max_size=3)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """JSON text as clients write it: with any blanks, escaped or not, sometimes pretty."""
    value = draw(values)
    form: dict[str, Any] = draw(st.sampled_from([{}, {"separators": (",", ":")}, {"indent": 1}]))
    text = json.dumps(value, ensure_ascii=draw(st.booleans()), allow_nan=False, **form)
    return (draw(blanks) + text + draw(blanks)).encode("utf-8", "surrogatepass")


def reference(body: bytes) -> object:
    """The parsed body by Python's own parser, made as strict as the JSON grammar; ValueError when it is none.

    A half of a surrogate pair is grammar, but no text: stored, it would break every later reader, so it is refused.
    """

    def refuse(name: str) -> object:
        raise ValueError(name)

    value = json.loads(body.decode("utf-8"), parse_constant=refuse, parse_int=float, parse_float=float)
    json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def parsed(elements: Sequence[bytes]) -> list[object]:
    return [reference(element) for element in elements]


@many
@given(bodies())
def test_the_elements_are_what_a_json_parser_sees(body: bytes) -> None:
    try:
        value = reference(body)
    except ValueError:  # a lone surrogate, written out: no UTF-8
        with pytest.raises(BadJson):
            json_elements(body)
        return
    assert parsed(json_elements(body).each()) == (value if isinstance(value, list) else [value])


@many
@given(bodies())
def test_the_elements_keep_the_bytes_of_the_client(body: bytes) -> None:
    try:
        elements = json_elements(body)
    except BadJson:
        return
    at = 0
    texts = elements.each()
    for element in texts:
        at = body.index(element, at) + len(element)
    assert all(element and element == element.strip(b" \t\r\n") for element in texts)


@many
@given(bodies(), st.data())
def test_a_damaged_body_is_judged_as_a_json_parser_does(body: bytes, data: st.DataObject) -> None:
    damage = data.draw(
        st.lists(st.tuples(st.integers(0, len(body)), st.integers(0, 2), st.binary(max_size=2)), max_size=3)
    )
    for at, gone, put in damage:
        body = body[:at] + put + body[at + gone :]
    judge(body)


@many
@given(st.text('[]{}",:0123456789.eE+-\\ untrfalse\n\t/bd', max_size=16).map(str.encode))
@example(b'"\\u12"')
@example(b'"\\x"')
@example(b"01")
@example(b"1.")
@example(b"-")
@example(b"[1,]")
@example(b'{"a":1,}')
@example(b"[1 2]")
@example(b"nul")
@example(b"1e400")
@example(b"1 1")
@example(b"-01")
@example(b"[-]")
@example(b"[1.e5]")
@example(b"[1e]")
@example(b'["\t"]')
@example(b'["\\ud800"]')
@example(b"[tru]")
@example(b"[+1]")
@example(b"[.5]")
@example(b'{"a" 1}')
@example(b"{1:2}")
def test_text_like_json_is_judged_as_a_json_parser_does(body: bytes) -> None:
    judge(body)


def judge(body: bytes) -> None:
    """Both accept with the same value, or both refuse."""
    try:
        value = reference(body)
    except ValueError:
        with pytest.raises(BadJson):
            json_elements(body)
    else:
        assert parsed(json_elements(body).each()) == (value if isinstance(value, list) else [value])


@pytest.mark.parametrize(
    "body",
    [b"", b" ", b"\n", b"[", b"]", b"[]]", b"\xef\xbb\xbf[]", b"[1]\0", b"\0", b"NaN", b"[Infinity]", b'"\xff"',
     b'["\xed\xa0\x80"]', b'"\\ud800"', b'"\\udc00\\ud800"', b'{"\\ud800":1}', b"'a'", b"[1] [2]", b"// x\n1",
     b"undefined", b"\x0c1"],
)  # fmt: skip
def test_no_json(body: bytes) -> None:
    with pytest.raises(BadJson):
        json_elements(body)


@many
@given(st.lists(values, max_size=6), st.integers(1, 40))
@example(["\\", '"', "\\\\", '[",'], 1)
@example([[[]], {"": {}}, ['\\"],[']], 3)
def test_elements_are_counted_as_a_json_parser_does(value: list[object], part_bytes: int) -> None:
    """In parts of any size: a string, an escape and what is nested may go on from one to the next."""
    body = json.dumps(value, ensure_ascii=part_bytes % 2 == 0).encode("utf-8", "surrogatepass")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(frames, "_PART_BYTES", part_bytes)
        assert frames.elements_of(body) == max(1, len(value))
        assert [frames.elements_of(body, most) for most in (1, 2, 3)] == [
            min(most, max(1, len(value))) for most in (1, 2, 3)
        ]


@pytest.mark.parametrize("element", [b"1", b'"a,b"', b"[1,[2,3]]", b'{"a":",","b":[4,5]}'])
def test_an_array_of_more_messages_than_allowed_is_refused(element: bytes) -> None:
    for count, allowed in ((10, 10), (11, 10), (1000, 10), (1000, 999), (1000, 1000)):
        body = b"[" + b", ".join([element] * count) + b"]"
        if count <= allowed:
            assert json_elements(body, allowed).each() == [element] * count
        else:
            with pytest.raises(TooManyElements):
                json_elements(body, allowed)
    inner = b"[" + b",".join([b"1"] * 1000) + b"]"
    assert json_elements(b"[" + inner + b"]", 1).each() == [inner]


def test_no_element_is_made_of_a_body_with_far_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_ELEMENTS", None)
    with pytest.raises(TooManyElements):
        json_elements(b"[" + b"1," * 100_000 + b"1]", 1000)


@pytest.mark.parametrize(
    ("body", "elements"),
    [
        (b"[]", []),
        (b" [ ] ", []),
        (b"[[]]", [b"[]"]),
        (b"[[1,2],[3,4]]", [b"[1,2]", b"[3,4]"]),
        (b"[[[1,2,3]]]", [b"[[1,2,3]]"]),
        (b'{"a":1}', [b'{"a":1}']),
        (b"\t7\r\n", [b"7"]),
        (b'[ 1 , "a,b]" , null ]', [b"1", b'"a,b]"', b"null"]),
        (b'{"b":1.0,"a":1,"a":2}', [b'{"b":1.0,"a":1,"a":2}']),
        (b"[1e400,-0,1.000000000000000000000001]", [b"1e400", b"-0", b"1.000000000000000000000001"]),
    ],
)
def test_an_array_is_opened_one_level(body: bytes, elements: list[bytes]) -> None:
    assert json_elements(body).each() == elements


@pytest.mark.parametrize("depth", [10, 100, 100_000])
def test_nesting_is_taken_or_refused_and_never_more(depth: int) -> None:
    for body in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth, b"[" * depth):
        try:
            elements = json_elements(body)
        except BadJson:
            assert depth > 100 or not body.endswith((b"]", b"}"))
        else:
            assert b",".join(elements.each()) in body


# --- cuts -----------------------------------------------------------------------------------------------------------


def entries_of(pieces: Sequence[Piece]) -> list[bytes]:
    """The entries again, as a reader puts them together."""
    entries: list[bytes] = []
    begun = b""
    for piece in pieces:
        assert piece.continues == bool(begun)
        begun += piece.payload if piece.entries <= 1 else b""
        if piece.entries == 1:
            entries.append(begun)
            begun = b""
        elif piece.entries > 1:
            assert piece.lens is not None
            lens = unpack_lens(piece.lens)
            starts = accumulate((length + 1 for length in lens), initial=0)
            entries += [piece.payload[start : start + length] for start, length in zip(starts, lens, strict=False)]
            assert piece.payload == b",".join(entries[-len(lens) :])
    assert not begun
    return entries


@steady
@given(st.binary(min_size=1, max_size=200), st.integers(1, 40))
def test_cut_bytes_are_one_entry_again(body: bytes, piece_max: int) -> None:
    pieces = cut_bytes(body, piece_max)
    assert entries_of(pieces) == [body]
    assert [piece.entries for piece in pieces] == [0] * (len(pieces) - 1) + [1]
    assert all(0 < piece.size == len(piece.payload) <= piece_max for piece in pieces)
    assert all(piece.lens is None for piece in pieces)


@steady
@given(st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=20), st.integers(1, 50))
def test_cut_elements_are_the_same_elements_again(elements: list[bytes], piece_max: int) -> None:
    pieces = cut_elements(Elements.of(elements), piece_max)
    assert entries_of(pieces) == elements
    assert sum(piece.size for piece in pieces) == sum(map(len, elements))
    assert sum(piece.entries for piece in pieces) == len(elements)
    assert all(piece.size <= piece_max for piece in pieces)
    assert all((piece.lens is None) == (piece.entries <= 1) for piece in pieces)
    for before, after in pairwise(pieces):  # as few as there can be
        if not after.continues and after.entries:
            first = len(after.payload) if after.lens is None else unpack_lens(after.lens)[0]
            assert before.size + first > piece_max or before.continues


@steady
@given(st.lists(st.binary(min_size=1, max_size=60), min_size=2, max_size=20), st.integers(1, 50))
def test_only_an_entry_above_the_bound_spans_pieces_and_it_has_them_alone(
    elements: list[bytes], piece_max: int
) -> None:
    entries = iter(elements)
    for piece in cut_elements(Elements.of(elements), piece_max):
        ended = [next(entries) for _ in range(piece.entries)]
        if piece.continues or piece.entries == 0:
            assert len(ended) <= 1
            assert all(len(entry) > piece_max for entry in ended)


def test_no_elements_are_no_pieces() -> None:
    assert cut_elements(Elements.of([]), 10) == []


# --- lengths and keys -----------------------------------------------------------------------------------------------


@steady
@given(st.lists(st.integers(0, 2**32 - 1)))
def test_lengths_are_little_endian_and_come_back(lens: list[int]) -> None:
    blob = pack_lens(lens)
    assert blob == b"".join(length.to_bytes(4, "little") for length in lens)
    assert list(unpack_lens(blob)) == lens


keys = st.none() | st.text(max_size=8)


@steady
@given(st.lists(keys, max_size=8))
def test_a_key_per_entry_comes_back(per_entry: list[str | None]) -> None:
    blob = pack_keys(per_entry)
    assert (blob is None) == all(key is None for key in per_entry)
    assert unpack_keys(blob, len(per_entry)) == per_entry
    assert unpack_keys(pack_each(per_entry), len(per_entry)) == per_entry


@pytest.mark.parametrize("different", [1, 2, 255, 256, 257, 400])
def test_many_keys_come_back_however_few_of_them_differ(different: int) -> None:
    per_entry = [None if at % 7 == 6 else f"ä{at * 31 % different}" for at in range(1000)]
    blob = pack_keys(per_entry)
    assert blob is not None
    assert unpack_keys(blob, 1000) == per_entry
    assert all(key_in_many(key) in blob for key in per_entry if key is not None)  # what a search of the log looks for
    assert len(blob) < len(pack_each(per_entry)) or different > 255  # with those that have none, more than fit


@steady
@given(keys, st.integers(0, 5))
def test_a_key_for_all_entries_comes_back(key: str | None, count: int) -> None:
    assert unpack_keys(pack_key(key), count) == [key] * count


def test_the_bytes_of_keys() -> None:
    assert pack_key("a") == b"\x01a"
    assert pack_key("") == b"\x01"
    assert pack_keys(["a", "a"]) == pack_key("a")
    assert pack_keys(["a", None, "", "a"]) == b"\x03\x02\x01\0\0\0a\xff\xff\xff\xff\0\0\0\0\0\x01\x02\0"
    assert pack_each(["a", None, ""]) == b"\x02\x01\0\0\0a\xff\xff\xff\xff\0\0\0\0"
