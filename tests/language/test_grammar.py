"""Text to tree and back: what is read how, what is refused where, and that no text does any other harm."""

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from search.language import QueryError, limits, parse_filter, parse_query, print_query
from search.language.analysis import WHITESPACE
from search.language.syntax import And, Bare, Fielded, Has, Literal, Node, Not, Op, Or
from tests.language import strategies

steady = settings(deadline=None, max_examples=300)


def word(text: str) -> Literal:
    return Literal(text)


def string(text: str) -> Literal:
    return Literal(text, quoted=True)


def eq(name: str, text: str) -> Fielded:
    return Fielded(name, Op.EQ, word(text))


A, B, C = Bare(word("a")), Bare(word("b")), Bare(word("c"))


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a", A),
        (f"{WHITESPACE}a{WHITESPACE}b{WHITESPACE}", And((A, B))),
        ('"a b"', Bare(string("a b"))),
        (r'"a\"b\\c\nd"', Bare(string(r'a"b\cnd'))),
        ('""', Bare(string(""))),
        ("'a b'", And((Bare(word("'a")), Bare(word("b'"))))),
        ("foo-bar*\"/,.[^~'", Bare(word("foo-bar*\"/,.[^~'"))),
        ('a"b c"', And((Bare(word('a"b')), Bare(word('c"'))))),
        ('"a"b', And((Bare(string("a")), B))),
        ("a b c", And((A, B, C))),
        ("a AND b and c", And((A, B, C))),
        ("a OR b oR c", Or((A, B, C))),
        ("a b OR c", Or((And((A, B)), C))),
        ("a OR b c", Or((A, And((B, C))))),
        ("(a OR b) c", And((Or((A, B)), C))),
        ("(a b) c", And((And((A, B)), C))),
        ("((a))", A),
        ("a -b", And((A, Not(B)))),
        ("a-b", Bare(word("a-b"))),
        ("a - b", And((A, Not(B)))),
        ("--a", Not(Not(A))),
        ("not NOT a", Not(Not(A))),
        ("-a b", And((Not(A), B))),
        ("-(a b)", Not(And((A, B)))),
        ("NOT a OR b", Or((Not(A), B))),
        # keywords count only where the grammar looks for them
        ("AND a", And((Bare(word("AND")), A))),
        ("OR a", And((Bare(word("OR")), A))),
        ("a AND AND b", And((A, Bare(word("AND")), B))),
        ("a AND OR b", And((A, Bare(word("OR")), B))),
        ("a OR OR", Or((A, Bare(word("OR"))))),
        ('"AND" a', And((Bare(string("AND")), A))),
        ("f:AND", eq("f", "AND")),
        ("AND:a", eq("AND", "a")),
        # fields
        ("f:a", eq("f", "a")),
        ("f : a", eq("f", "a")),
        ("f:=a", eq("f", "a")),
        ("f:>a", Fielded("f", Op.GT, word("a"))),
        ("f:>=a", Fielded("f", Op.GE, word("a"))),
        ("f:<a", Fielded("f", Op.LT, word("a"))),
        ("f:<= a", Fielded("f", Op.LE, word("a"))),
        ('f:>"a:b"', Fielded("f", Op.GT, string("a:b"))),
        ("f:a,b", eq("f", "a,b")),
        ("f:a*", eq("f", "a*")),
        ("f:a b", And((eq("f", "a"), B))),
        ("-f:a", Not(eq("f", "a"))),
        ("has:f", Has("f")),
        ("has : f", Has("f")),
        ("has:has", Has("has")),
        ("has", Bare(word("has"))),
        ("has f", And((Bare(word("has")), Bare(word("f"))))),
        ("HAS:f", eq("HAS", "f")),
        ("contains", Bare(word("contains"))),
        ("Contains:f", eq("Contains", "f")),
    ],
)
def test_how_a_query_is_read(text: str, tree: Node) -> None:
    assert parse_query(text) == tree


def test_contains_is_just_a_field_of_a_filter() -> None:
    assert parse_filter("contains:a") == eq("contains", "a")


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("", "q must not be empty", 0),
        (" \t\u00a0\ufeff", "q must not be empty", 0),
        ("()", "expected clause in search query", 1),
        ("card AND", "expected clause in search query", 8),
        ("card AND ", "expected clause in search query", 9),
        ("a OR", "expected clause in search query", 4),
        ("NOT", "expected clause in search query", 3),
        ("-", "expected clause in search query", 1),
        (":a", "expected clause in search query", 0),
        ("a >b", "expected clause in search query", 2),
        ("a=b", "expected clause in search query", 1),
        ('"a":b', "expected clause in search query", 3),
        ("a:b:c", "expected clause in search query", 3),
        ("ts:>=2026-03-25T10:04:00Z", "expected clause in search query", 18),
        ("f:", "expected value in fielded search clause", 2),
        ("f:>=", "expected value in fielded search clause", 4),
        ("f:(a OR b)", "expected value in fielded search clause", 2),
        ("status:-5", "expected value in fielded search clause", 7),
        ("f:>>a", "expected value in fielded search clause", 3),
        ("f:!=a", "expected clause in search query", 3),
        ("(a", "missing ')' in search query", 0),
        ("b (a (c)", "missing ')' in search query", 2),
        ("a)", "unexpected token in search query", 1),
        ("(a))", "unexpected token in search query", 3),
        ('a "b', "unterminated quoted string in search query", 2),
        (r'a "b\"', "unterminated quoted string in search query", 2),
        ('a"b "', "unterminated quoted string in search query", 4),
        ('a "b\\', "unterminated escape in query string", 4),
        ('a "b\\ ', "unterminated escape in query string", 4),
        ("has:", "has: requires a field name", 4),
        ('has:"service"', "has: requires a field name", 4),
        ("has:>a", "has: requires a field name", 4),
        ("has:-a", "has: requires a field name", 4),
        ("a contains:b", "contains: is not supported on _search yet", 2),
    ],
)
def test_how_a_query_is_refused(text: str, message: str, position: int) -> None:
    with pytest.raises(QueryError) as refused:
        parse_query(text)
    assert (refused.value.message, refused.value.position) == (message, position)


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("", "filter must not be empty", 0),
        (" ", "filter must not be empty", 0),
        ("()", "expected clause in filter", 1),
        ("a:b AND", "expected clause in filter", 7),
        ("a:b:c", "expected clause in filter", 3),
        ("-", "expected clause in filter", 1),
        ('"a":b', "expected field name in filter", 0),
        ('a:b "c"', "expected field name in filter", 4),
        ("a", "expected ':' in filter clause", 1),
        ("a b:c", "expected ':' in filter clause", 2),
        ("AND a:b", "expected ':' in filter clause", 4),
        ("has", "expected ':' in filter clause", 3),
        ("a:", "expected value in filter clause", 2),
        ("a:>", "expected value in filter clause", 3),
        ("status:-5", "expected value in filter clause", 7),
        ("has:", "has: requires a field name", 4),
        ('has:"a"', "has: requires a field name", 4),
        ("(a:b", "missing ')' in filter", 0),
        ("a:b)", "unexpected token in filter", 3),
        ('a:"b', "unterminated quoted string in filter", 2),
        ('a:"b\\', "unterminated escape in filter string", 4),
    ],
)
def test_how_a_filter_is_refused(text: str, message: str, position: int) -> None:
    with pytest.raises(QueryError) as refused:
        parse_filter(text)
    assert (refused.value.message, refused.value.position) == (message, position)


def test_a_refusal_points_at_the_place() -> None:
    text = "level:error\tstatus:-5 " + "x" * 500
    with pytest.raises(QueryError) as refused:
        parse_query(text)
    line, caret = refused.value.pointed(text).split("\n")
    assert line.startswith("level:error status:-5 xxx")
    assert len(line) < 130
    assert caret == " " * 19 + "^"
    late = QueryError("x", 500)
    line, caret = late.pointed("a" * 500 + "!").split("\n")
    assert line[caret.index("^")] == "!"


# --- and back -------------------------------------------------------------------------------------------------------


@steady
@given(strategies.search_trees)
def test_what_is_printed_is_read_as_the_same_query(tree: Node) -> None:
    assert parse_query(print_query(tree)) == tree


@steady
@given(strategies.filter_trees)
def test_what_is_printed_is_read_as_the_same_filter(tree: Node) -> None:
    assert parse_filter(print_query(tree)) == tree


_fragments = st.sampled_from(
    [
        "(",
        ")",
        ":",
        "-",
        '"',
        "\\",
        ">",
        ">=",
        "=",
        "AND",
        "or",
        "Not",
        "has",
        "contains",
        "a",
        "b*",
        '"c d"',
        " ",
        "\n",
    ]
)
_hostile = st.lists(_fragments, max_size=20).map("".join) | st.text(max_size=40) | st.lists(_fragments).map(" ".join)


@settings(deadline=None, max_examples=1500)
@given(_hostile)
@example("\ud800:\udfff")
@example('"\\')
def test_any_text_is_read_or_refused_at_a_place_in_it(text: str) -> None:
    for parse in (parse_query, parse_filter):
        tree = outcome(parse, text)
        if isinstance(tree, QueryError):
            assert 0 <= tree.position <= len(text)
            assert tree.pointed(text).count("\n") == 1
        else:
            assert parse(print_query(tree)) == tree


def outcome(parse: Callable[[str], Node], text: str) -> Node | QueryError:
    try:
        return parse(text)
    except QueryError as refused:
        return refused


@pytest.mark.parametrize(
    "tree", [eq("has", "a"), eq("a b", "c"), eq("not", "c"), Bare(word("a b")), Has(""), Has("-a")]
)
def test_a_tree_that_no_text_has_is_not_printed(tree: Node) -> None:
    with pytest.raises(ValueError, match=r"no text|not one word"):
        print_query(tree)


# --- bounds ---------------------------------------------------------------------------------------------------------


def refusal(text: str) -> str:
    with pytest.raises(QueryError) as refused:
        parse_query(text)
    return refused.value.message


@pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("-", ""), ("NOT ", ""), ("-(", ")"), ("(a OR ", ")")])
def test_depth_is_bounded(opening: str, closing: str) -> None:
    depth = limits.DEPTH_MAX // (2 if opening == "-(" else 1)
    tree = parse_query(opening * depth + "a" + closing * depth)
    assert parse_query(print_query(tree)) == tree
    for deeper in (depth + 1, 2000):
        assert refusal(opening * deeper + "a" + closing * deeper) == "q is nested too deeply (at most 64)"


@pytest.mark.parametrize("joiner", [" ", " OR ", " AND "])
def test_clauses_are_bounded(joiner: str) -> None:
    parse_query(joiner.join(["a"] * limits.CLAUSES_MAX))
    assert refusal(joiner.join(["a"] * (limits.CLAUSES_MAX + 1))) == "q has too many clauses (at most 512)"


def test_length_is_bounded() -> None:
    parse_query("a" * limits.QUERY_CHARS_MAX)
    assert refusal("a" * (limits.QUERY_CHARS_MAX + 1)) == "q must be at most 16384 characters"
    with pytest.raises(QueryError, match="filter must be at most 16384 characters"):
        parse_filter("a:" + "a" * limits.QUERY_CHARS_MAX)
