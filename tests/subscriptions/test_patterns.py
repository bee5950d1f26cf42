"""Whose globs match a path: the trie against a search that tries every pattern."""

import re
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_node.errors import BadSubscription
from streams_node.subscriptions import patterns as rules
from streams_node.subscriptions.patterns import Trie, fits, parse, path_of, scope_of, segments_of
from streams_node.wal.lookup import Name

SEGMENTS = st.sampled_from(["a", "b", "ab", "__own", "*x", "**y", "_default"])
PATTERNS = st.lists(st.sampled_from(["a", "b", "ab", "_default", "*", "**"]), min_size=1, max_size=5).map("/".join)
NAMES = st.one_of(
    st.builds(lambda stream: Name("_default", stream), SEGMENTS),
    st.builds(lambda path: Name(path[0], "/".join(path[1:])), st.lists(SEGMENTS, min_size=2, max_size=5)),
)


def matches(pattern: str, name: Name) -> bool:
    """By the words of the protocol, with a regular expression: `*` is one segment, `**` any number."""
    if name.stream.startswith("__"):
        return False
    one = r"(?:/[^/]+)"
    shape = "".join(
        one if part == "*" else f"{one}*" if part == "**" else "/" + re.escape(part) for part in parse(pattern)
    )
    return re.fullmatch(shape, "/" + path_of(name)) is not None


def usable(pattern: str) -> bool:
    return pattern.split("/").count("**") <= 4 and pattern != "_default/**"


@settings(max_examples=400, deadline=None)
@given(
    patterns=st.lists(PATTERNS.filter(usable), max_size=12),
    named=st.lists(NAMES, max_size=6),
    removed=st.sets(st.integers(0, 17)),
    names=st.lists(NAMES, min_size=1, max_size=12),
)
def test_the_trie_finds_what_a_search_of_all_patterns_finds(
    patterns: list[str], named: list[Name], removed: set[int], names: list[Name]
) -> None:
    trie = Trie[int]()
    for number, pattern in enumerate(patterns):
        trie.add(parse(pattern), number)
    for number, name in enumerate(named, len(patterns)):
        trie.name(name, number)
    for number in removed:
        if number < len(patterns):
            trie.remove(parse(patterns[number]), number)
        elif number < len(patterns) + len(named):
            trie.unname(named[number - len(patterns)], number)
    for name in names:
        globs = {at for at, pattern in enumerate(patterns) if at not in removed and matches(pattern, name)}
        by_name = {
            at for at, each in enumerate(named, len(patterns))
            if at not in removed and segments_of(each) == segments_of(name)
        }  # fmt: skip
        assert {at for at, pattern in enumerate(patterns) if fits(parse(pattern), name)} - removed == globs
        assert trie.globs(name) == globs
        assert trie.named(name) == by_name
        assert trie.matching(name) == globs | by_name


@settings(max_examples=200, deadline=None)
@given(patterns=st.lists(PATTERNS.filter(usable), max_size=12), named=st.lists(NAMES, max_size=6))
def test_a_trie_from_which_everything_was_taken_is_empty(patterns: list[str], named: list[Name]) -> None:
    trie = Trie[int]()
    for number, pattern in enumerate(patterns):
        trie.add(parse(pattern), number)
    for number, name in enumerate(named):
        trie.name(name, number)
    for number, pattern in enumerate(patterns):
        trie.remove(parse(pattern), number)
        trie.remove(parse(pattern), number)  # what is gone may be taken again
    for number, name in enumerate(named):
        trie.unname(name, number)
    assert trie.size == 0
    assert trie._root.empty


@settings(max_examples=300, deadline=None)
@given(pattern=PATTERNS.filter(usable), name=NAMES)
def test_a_pattern_matches_nothing_outside_its_scope(pattern: str, name: Name) -> None:
    scope = scope_of(parse(pattern))
    if matches(pattern, name) and scope.bucket is not None and name != scope.alone:
        assert name.bucket == scope.bucket
        assert name.stream.startswith(scope.prefix)


@pytest.mark.parametrize(
    ("pattern", "segments"),
    [("events/*", ("events", "*")), ("/events/**/", ("events", "**")), ("*", ("*",)), ("_default/x", ("x",))],
)
def test_slashes_around_a_pattern_do_not_count(pattern: str, segments: tuple[str, ...]) -> None:
    assert parse(pattern) == segments


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("", "no empty segment"), ("/", "no empty segment"), ("a//b", "no empty segment"),
        ("a*", "whole segments"), ("a/*b/c", "whole segments"), ("***", "whole segments"), ("a/***", "whole segments"),
        ("a\nb", "printable"), ("\0", "printable"), ("\u202e/x", "printable"),
        ("**/" * 5 + "a", "64 segments"), ("a/" * 70 + "a", "64 segments"), ("x" * 2000, "1024 bytes"),
        ("_default/**", "no glob"), ("/_default/**/", "no glob"),
    ],
)  # fmt: skip
def test_a_pattern_that_means_nothing_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(BadSubscription, match=why):
        parse(pattern)


def test_many_wildcards_do_not_multiply() -> None:
    """A pattern is a way through the trie, and a path stands at few places of it at once."""
    trie = Trie[int]()
    for number in range(300):
        trie.add(parse("/".join(["**", "a", "*", "**", f"b{number}"])), number)
    assert trie.matching(Name("a", "/".join(["a"] * 60 + ["b7"]))) == {7}


def test_patterns_that_are_made_to_take_long_stop_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path of 250 segments stood at thousands of places of such a trie, and held the whole node up for seconds."""
    random, trie = Random(7), Trie[str]()
    for _ in range(300):
        parts = [["a", "*"][random.randrange(2)] for _ in range(40)]
        trie.add(parse("/".join(["**", *parts[:20], "**", *parts[20:]])), "".join(parts))
    short, long = Name("a", "b"), Name("a", "/".join(["a"] * 120))
    assert trie.matching(short) == set()
    assert trie.matching(long) is None
    found: set[str] = set()
    pauses = sum(1 for _ in trie.slices(long, found))
    assert pauses > 100
    assert found == trie.globs(long)
    assert len(found) == 300
    monkeypatch.setattr(rules, "SLICE_PLACES", 10**9)
    assert trie.matching(long) == found
