"""Words, white space, and pointers: the small parts that everything else stands on."""

import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.language import words
from search.language.analysis import WHITESPACE, needle, spaced, trim
from search.language.pointers import MISSING, flat, getter, segments

steady = settings(deadline=None)


def test_a_word_is_made_of_letters_and_digits_and_nothing_else() -> None:
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        lowered = character.lower()
        expected = any(unicodedata.category(each)[0] in "LN" for each in lowered)
        assert bool(words(character)) == expected, hex(code)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Card declined", ["card", "declined"]),
        ("card^2", ["card", "2"]),
        ("foo_bar-baz", ["foo", "bar", "baz"]),
        ("Größe ٣ Ⅷ ½ 五", ["größe", "٣", "ⅷ", "½", "五"]),
        ("ΟΔΟΣ ΟΔΟΣ", ["οδος", "οδος"]),
        ("İx", ["i", "x"]),
        ("e\u0301t", ["e", "t"]),
        ("x" * 70_000, ["x" * 70_000]),
        ("🙂 !!", []),
        ("", []),
        ("\ud800a", ["a"]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@steady
@given(st.text() | st.text(st.sampled_from("ab1 _-\u0301\u03a3\u03c3")))
def test_spaced_words_are_the_words(text: str) -> None:
    found = spaced(text.lower())
    assert found.split() == words(text)
    for word in words(text):
        assert found.count(needle((word,), prefix=False)) == words(text).count(word)
        beginnings = sum(each.startswith(word[:1]) for each in words(text))
        assert found.count(needle((word[:1],), prefix=True)) == beginnings


@steady
@given(
    st.lists(st.sampled_from(["a", "ab", "b"]), max_size=6),
    st.lists(st.sampled_from(["a", "ab"]), min_size=1),
    st.booleans(),
)
def test_a_phrase_is_consecutive_words(document: list[str], phrase: list[str], prefix: bool) -> None:  # noqa: FBT001
    def here(start: int) -> bool:
        window = document[start : start + len(phrase)]
        last = window[-1:] == phrase[-1:] or (prefix and bool(window) and window[-1].startswith(phrase[-1]))
        return len(window) == len(phrase) and window[:-1] == phrase[:-1] and last

    expected = any(here(start) for start in range(len(document)))
    assert (needle(tuple(phrase), prefix=prefix) in spaced("-".join(document))) == expected


def test_white_space_is_what_javascript_takes_for_it() -> None:
    """As Node 20 answers for /\\s/ over all code points."""
    codes = [
        9,
        10,
        11,
        12,
        13,
        32,
        0xA0,
        0x1680,
        *range(0x2000, 0x200B),
        0x2028,
        0x2029,
        0x202F,
        0x205F,
        0x3000,
        0xFEFF,
    ]
    assert sorted(WHITESPACE) == [chr(code) for code in codes]
    assert trim("\ufeff\u3000 a\x1c\n") == "a\x1c"


# --- pointers -------------------------------------------------------------------------------------------------------

DOCUMENT = {
    "foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, 'k"l': 6, " ": 7, "m~n": 8,
    "deep": {"er": [{"x": None}, [1, [2]]]}, "~1": 9, "0": "zero",
}  # fmt: skip


@pytest.mark.parametrize(
    ("pointer", "expected"),
    [("/foo", ["bar", "baz"]), ("/foo/0", "bar"), ("/foo/1", "baz"), ("/", 0), ("/a~1b", 1), ("/c%d", 2), ("/e^f", 3),
     ("/g|h", 4), ("/i\\j", 5), ('/k"l', 6), ("/ ", 7), ("/m~0n", 8), ("/deep/er/0/x", None), ("/deep/er/1/1/0", 2),
     ("/~01", 9), ("/0", "zero"), ("", DOCUMENT)],
)  # fmt: skip
def test_a_pointer_finds_its_value(pointer: str, expected: object) -> None:
    assert getter(pointer, MISSING)(DOCUMENT) == expected


@pytest.mark.parametrize(
    "pointer",
    ["/foo/2", "/foo/-", "/foo/-1", "/foo/00", "/foo/01", "/foo/x", "/foo/0/0", "/nix", "/nix/a", "/deep/er/0/x/y",
     "/foo/",
     "/deep/0", "/foo/99999999999999999999", "//", "/foo/\u0661"],
)  # fmt: skip
def test_a_pointer_finds_nothing(pointer: str) -> None:
    assert getter(pointer, MISSING)(DOCUMENT) is MISSING
    assert getter(pointer)(DOCUMENT) is None


@pytest.mark.parametrize("record", [None, 5, "foo", ["bar"], True])
@pytest.mark.parametrize("pointer", ["", "/foo", "/0", "/foo/0", "/0/0"])
def test_a_record_that_is_no_object_has_nothing(record: object, pointer: str) -> None:
    assert getter(pointer, MISSING)(record) is MISSING


@pytest.mark.parametrize("pointer", ["foo", "/~", "/~2", "/a~", " /a", "#/a"])
def test_no_pointer(pointer: str) -> None:
    with pytest.raises(ValueError, match="invalid json pointer"):
        segments(pointer)


def test_arrays_are_flattened_at_any_depth() -> None:
    assert list(flat([1, [], [[2, [None]], "a"], {"b": [3]}])) == [1, 2, None, "a", {"b": [3]}]
    deep: list[object] = [1]
    for _ in range(100_000):
        deep = [deep]
    assert list(flat(deep)) == [1]
