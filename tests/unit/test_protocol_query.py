"""The query of a read: every known parameter once and in its form, every other one ignored."""

from urllib.parse import quote, urlencode

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from streams_node.errors import InvalidRequest, StreamsError
from streams_node.http.query import NOW, PLAIN, Mode, ReadQuery, parameters, read_query
from streams_node.protocol.offsets import START, encode

steady = settings(deadline=None)
KNOWN = ("offset", "live", "timeout", "timeout_ms", "max_bytes", "cursor", "format", "key", "filter", "since")
TOKEN = encode(0, 7)
GOOD = {"offset": TOKEN, "live": "long-poll", "timeout": "2s", "max_bytes": "100", "cursor": "5", "format": "raw"}


def query(**given_as: str) -> ReadQuery:
    return read_query(urlencode(given_as, quote_via=quote).encode())


@steady
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1))
def test_an_offset_is_read_as_it_was_written(epoch: int, seq: int) -> None:
    assert query(offset=encode(epoch, seq)).offset == (epoch, seq)
    assert query(offset=encode(epoch, seq).lower()).offset == (epoch, seq)


@pytest.mark.parametrize("text", ["-1", "0" * 26, "0000000000000000_0000000000000000", "o" * 26])
def test_the_names_of_the_start(text: str) -> None:
    assert query(offset=text).offset == START


def test_now_is_the_end() -> None:
    assert query(offset="now").offset is NOW


def test_no_query_is_a_read_from_the_start() -> None:
    assert read_query(b"") == PLAIN == read_query(b"unknown=1&&other")


@pytest.mark.parametrize(
    ("live", "mode"),
    [("long-poll", Mode.LONG_POLL), ("true", Mode.LONG_POLL), ("1", Mode.LONG_POLL), ("sse", Mode.SSE),
     ("false", Mode.CATCHUP), ("0", Mode.CATCHUP)],
)  # fmt: skip
def test_the_modes(live: str, mode: Mode) -> None:
    assert query(offset="-1", live=live).mode is mode


@pytest.mark.parametrize("live", ["long-poll", "true", "sse"])
def test_a_live_read_needs_an_offset(live: str) -> None:
    with pytest.raises(InvalidRequest, match="offset"):
        query(live=live)


@pytest.mark.parametrize(
    "pair",
    ["offset=", "offset", "offset=0", "offset=-2", "offset=NOW", "offset=%zz", "offset=a,b", "offset=a%20b",
     "offset=..%2F..", "offset=%00", "offset=%0d%0a", "offset=9999999999999999_9999999999999999", "offset=" + "0" * 25,
     "offset=" + "0" * 27, "offset=" + "U" * 26, "offset=+1", "offset=-1%20", "live=sse2", "live=",
     "live=SSE&offset=-1", "live=TRUE&offset=-1", "timeout=-1", "timeout=1.5s", "timeout=abc", "timeout_ms=",
     "timeout_ms=1e3", "max_bytes=0", "max_bytes=-1", "max_bytes=1.5", "max_bytes=1k", "max_bytes=" + "9" * 19,
     "max_bytes=%D9%A1", "format=xml", "format=JSON", "format=", "since=", "since=x", "since=2026-01-01", "filter=",
     "cursor=", "offset=%ff", "x=%ff", "=%c3%28"],
)  # fmt: skip
def test_a_parameter_in_a_wrong_form_is_refused(pair: str) -> None:
    with pytest.raises(InvalidRequest):
        read_query(pair.encode())


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_parameter_comes_once(name: str) -> None:
    with pytest.raises(InvalidRequest, match=name):
        read_query(f"{name}=1&x=2&{name}=1".encode())
    with pytest.raises(InvalidRequest, match=name):
        read_query(f"{name}=1&{quote(name[0])}%{ord(name[1]):02X}{name[2:]}=1".encode())


def test_what_selects_entries() -> None:
    assert query(key="a/b", filter="x:1").key == "a/b"
    assert query(filter="x:1").filter == "x:1"
    assert query(since="1700000000123456789").since_us == 1_700_000_000_123_456
    assert query(since="2026-01-31T12:00:00.5+01:00", live="sse").since_us == 1_769_857_200_500_000
    assert read_query(b"key=&offset=-1").key is None
    with pytest.raises(InvalidRequest, match=r"^filter must not be empty$"):
        read_query(b"filter=")


@pytest.mark.parametrize(
    ("text", "ms"), [("0", 0), ("250", 250), ("2s", 2000), ("1m", 60_000), ("10ms", 10), ("1d", 86_400_000)]
)
def test_a_timeout_is_milliseconds_unless_it_says_otherwise(text: str, ms: int) -> None:
    assert query(timeout=text).timeout_ms == query(timeout_ms=text).timeout_ms == ms


def test_the_exact_timeout_wins() -> None:
    assert query(timeout="2s", timeout_ms="5").timeout_ms == 5


@pytest.mark.parametrize(("text", "raw"), [("raw", True), ("json", False)])
def test_the_forms(text: str, *, raw: bool) -> None:
    assert query(format=text).raw is raw


@steady
@given(st.text(min_size=1, max_size=80))
def test_a_cursor_of_any_text_is_no_error(text: str) -> None:
    assume(all(not "\ud800" <= char <= "\udfff" for char in text))
    assert query(offset="-1", cursor=text).cursor in (text, None)


@steady
@given(
    st.permutations(sorted(GOOD)), st.lists(st.sampled_from(["x=1", "y", "&", "Offset=3", "max-bytes=0"]), max_size=3)
)
def test_the_order_and_strangers_do_not_matter(names: list[str], strangers: list[str]) -> None:
    text = "&".join([*(f"{name}={GOOD[name]}" for name in names), *strangers])
    assert read_query(text.encode()) == query(**GOOD)


@pytest.mark.parametrize(("count", "fits"), [(64, True), (65, False), (5000, False)])
def test_the_number_of_parameters_has_an_end(count: int, *, fits: bool) -> None:
    text = "&".join(["x=1"] * count).encode()
    if fits:
        assert read_query(text) == PLAIN
    else:
        with pytest.raises(InvalidRequest):
            read_query(text)


@steady
@given(st.binary(max_size=60), st.sampled_from([b"", b"offset=-1&", b"offset=now&live=sse&"]))
def test_any_bytes_are_a_query_or_a_refusal(raw: bytes, before: bytes) -> None:
    try:
        found = read_query(before + raw)
    except StreamsError:
        return
    assert found.bytes_max is None or found.bytes_max > 0
    assert found.timeout_ms is None or found.timeout_ms >= 0
    assert found.mode is Mode.CATCHUP or found.offset is not None or found.since_us is not None


@steady
@given(st.dictionaries(st.text(min_size=1, max_size=5), st.text(min_size=1, max_size=5), max_size=5))
def test_parameters_come_back_as_they_were_escaped(given_as: dict[str, str]) -> None:
    try:
        text = urlencode(given_as).encode()
    except UnicodeEncodeError:
        return
    assert parameters(text, frozenset(given_as)) == given_as


@pytest.mark.parametrize("value", ["%", "%zz", "a%2", "%25%", "%u0041", "50%25%-"])
def test_a_broken_percent_encoding_is_refused_and_not_taken_as_it_stands(value: str) -> None:
    """As in a path: it would be another key than the one that was meant."""
    for name in ("key", "filter", "since", "%6bey"):
        with pytest.raises(InvalidRequest) as refused:
            read_query(f"{name}={value}&offset=-1".encode())
        assert "percent encoding must be `%` and two hexadecimal digits" in refused.value.message
    assert read_query(f"other={value}&key=%2525".encode()).key == "%25"
