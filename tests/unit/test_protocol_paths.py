"""Paths: which stream they name, on which surface, and which ones name none."""

from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from streams_node.errors import InvalidRequest, Missing, ReservedPath, StreamsError
from streams_node.http.paths import (
    KEY_BYTES_MAX,
    RESERVED_BUCKETS,
    SUBS_OF_ONE,
    SUBS_OF_THREE,
    SUBS_OF_TWO,
    SUBS_WITH_ARGUMENT,
    V1,
    Surface,
    Target,
    bucket_target,
    check_bucket,
    check_creatable,
    v1_target,
)
from streams_node.wal.listing import DEFAULT_BUCKET
from streams_node.wal.lookup import Name

steady = settings(deadline=None)
LIMIT = 512
SUBS = frozenset(SUBS_OF_ONE | SUBS_WITH_ARGUMENT | {word for pair in SUBS_OF_TWO | SUBS_OF_THREE for word in pair})


def plain(segment: str) -> bool:
    return bool(segment) and ".." not in segment and segment != "." and segment not in SUBS | {"streams", "__ds"}


segments = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=12).filter(
    plain
)
buckets = st.text("abcdefghijklmnopqrstuvwxyz0123456789_-", min_size=4, max_size=64).filter(
    lambda name: name not in RESERVED_BUCKETS and not name.startswith("__")
)


def escaped(text: str, safe: str = "") -> bytes:
    return quote(text, safe=safe).encode("ascii")


def v1(*parts: str) -> bytes:
    return V1 + b"/".join(escaped(part) for part in parts)


# --- what is named --------------------------------------------------------------------------------------------------


@steady
@given(segments)
def test_one_segment_is_a_stream_of_the_default_bucket(name: str) -> None:
    assert v1_target(v1(name), path_bytes_max=LIMIT) == Target(Name(DEFAULT_BUCKET, name), Surface.V1)


@steady
@given(segments, st.lists(segments, min_size=1, max_size=4))
def test_the_first_of_more_segments_is_the_bucket(bucket: str, rest: list[str]) -> None:
    assume(bucket not in RESERVED_BUCKETS and not bucket.startswith("__"))
    found = v1_target(v1(bucket, *rest), path_bytes_max=LIMIT)
    assert found == Target(Name(bucket, "/".join(rest)), Surface.V1)


@steady
@given(buckets, segments)
def test_a_bucket_path_names_its_stream(bucket: str, stream: str) -> None:
    assume(len(f"{bucket}/{stream}".encode()) <= KEY_BYTES_MAX)
    raw = b"/" + escaped(bucket) + b"/" + escaped(stream)
    assert bucket_target(raw) == Target(Name(bucket, stream), Surface.BUCKET)


@steady
@given(buckets, segments)
def test_both_surfaces_name_the_same_stream(bucket: str, stream: str) -> None:
    assume(len(f"{bucket}/{stream}".encode()) <= KEY_BYTES_MAX)
    on_bucket = bucket_target(b"/" + escaped(bucket) + b"/" + escaped(stream))
    assert on_bucket.name == v1_target(v1(bucket, stream), path_bytes_max=LIMIT).name


@steady
@given(st.lists(segments, min_size=1, max_size=3), st.lists(segments, min_size=1, max_size=3))
def test_two_paths_never_name_one_stream(one: list[str], other: list[str]) -> None:
    assume(one != other)
    assume(not {one[0], other[0]} & (RESERVED_BUCKETS | {DEFAULT_BUCKET}) and not one[0].startswith("__"))
    assume(not other[0].startswith("__"))
    first, second = (v1_target(v1(*parts), path_bytes_max=LIMIT) for parts in (one, other))
    assert first.name != second.name


@steady
@given(segments, st.data())
def test_every_way_to_escape_a_name_is_the_same_name(name: str, data: st.DataObject) -> None:
    raw = b"".join(
        b"%%%02x" % byte if data.draw(st.booleans()) or not chr(byte).isalnum() or byte > 127 else bytes((byte,))
        for byte in name.encode()
    )
    assert v1_target(V1 + raw, path_bytes_max=LIMIT).name == Name(DEFAULT_BUCKET, name)


# --- parts of a stream ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sub", sorted(SUBS_OF_ONE))
def test_a_last_word_of_the_list_is_a_part_of_the_stream(sub: str) -> None:
    assert v1_target(v1("orders", sub), path_bytes_max=LIMIT) == Target(Name(DEFAULT_BUCKET, "orders"), Surface.V1, sub)
    assert bucket_target(b"/shop/orders/" + sub.encode()) == Target(Name("shop", "orders"), Surface.BUCKET, sub)


@pytest.mark.parametrize("words", sorted(SUBS_OF_TWO | SUBS_OF_THREE))
def test_last_words_of_the_list_are_a_part_of_the_stream(words: tuple[str, ...]) -> None:
    found = v1_target(v1("shop", "orders", *words), path_bytes_max=LIMIT)
    assert (found.name, found.sub, found.argument) == (Name("shop", "orders"), "/".join(words), None)


@steady
@given(st.sampled_from(sorted(SUBS_WITH_ARGUMENT)), segments)
def test_an_argument_follows_the_part(sub: str, argument: str) -> None:
    found = v1_target(v1("orders", sub, argument), path_bytes_max=LIMIT)
    assert (found.name, found.sub, found.argument) == (Name(DEFAULT_BUCKET, "orders"), sub, argument)


@pytest.mark.parametrize("sub", sorted(SUBS_OF_ONE))
def test_a_word_of_the_list_alone_is_a_stream(sub: str) -> None:
    assert v1_target(v1(sub), path_bytes_max=LIMIT) == Target(Name(DEFAULT_BUCKET, sub), Surface.V1)


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rest",
    [b"", b"/", b"a/", b"/a", b"a//b", b"..", b"a/..", b"../a", b"a..b", b".", b"a/./b", b"%2e%2e", b"%2E", b"%2e.",
     b"%00", b"a%00b", b"a%2Fb", b"a%2fb", b"%", b"a%2", b"a%zz", b"%%41", b"%c3", b"%ff", b"%ed%a0%80", b"%c0%ae",
     b"%f4%90%80%80", b"x" * 513, b"a/" + b"%61" * 512, "é".encode() * 300],
)  # fmt: skip
def test_no_stream_path(rest: bytes) -> None:
    with pytest.raises(InvalidRequest):
        v1_target(V1 + rest, path_bytes_max=LIMIT)


@pytest.mark.parametrize("bucket", sorted(RESERVED_BUCKETS | {"__registry__", "__x"}))
def test_the_nodes_own_names_are_no_buckets(bucket: str) -> None:
    with pytest.raises(ReservedPath):
        v1_target(v1(bucket, "a"), path_bytes_max=LIMIT)
    with pytest.raises(StreamsError):
        check_bucket(bucket)
    with pytest.raises(StreamsError):
        bucket_target(b"/" + bucket.encode() + b"/a")


@pytest.mark.parametrize("rest", [b"__ds", b"__ds/", b"__ds/subscriptions/a", b"__ds/jwks.json"])
def test_the_reserved_space_comes_before_streams(rest: bytes) -> None:
    with pytest.raises((Missing, InvalidRequest)):
        v1_target(V1 + rest, path_bytes_max=LIMIT)


@pytest.mark.parametrize("name", ["__stream_metrics__", "__registry__", "__"])
def test_names_of_the_node_can_be_read_and_not_created(name: str) -> None:
    target = v1_target(v1(name), path_bytes_max=LIMIT)
    with pytest.raises(ReservedPath):
        check_creatable(target)


@pytest.mark.parametrize(
    "bucket",
    ["", "abc", "a" * 65, "Shop", "sh.op", "sh op", "sh\u00f6p", "shop\n", "SHOP", "sh/op", "../x", "\u0661234"],
)
def test_no_bucket(bucket: str) -> None:
    with pytest.raises(InvalidRequest):
        check_bucket(bucket)


def test_the_listing_is_no_stream() -> None:
    for raw in (b"/shop/streams", b"/shop/%73treams"):
        with pytest.raises(ReservedPath):
            bucket_target(raw)


def test_a_bucket_has_no_deeper_streams() -> None:
    with pytest.raises(Missing):
        bucket_target(b"/shop/a/b")


@pytest.mark.parametrize(
    ("stream", "fits"), [("x" * 117, True), ("x" * 118, False), ("é" * 58, True), ("é" * 59, False)]
)
def test_bucket_and_stream_together_have_122_bytes(stream: str, *, fits: bool) -> None:
    raw = b"/shop/" + escaped(stream)
    if fits:
        assert bucket_target(raw).name == Name("shop", stream)
    else:
        with pytest.raises(InvalidRequest):
            bucket_target(raw)


@steady
@given(st.binary(max_size=40))
def test_any_bytes_are_a_target_or_a_refusal(raw: bytes) -> None:
    for name in (named(lambda: v1_target(V1 + raw, path_bytes_max=LIMIT)), named(lambda: bucket_target(b"/" + raw))):
        if name is not None:
            assert name.stream
            assert "\0" not in name.bucket + name.stream
            assert not {"..", ".", ""} & {*name.stream.split("/"), name.bucket}


def named(parse: Callable[[], Target]) -> Name | None:
    try:
        return parse().name
    except StreamsError:
        return None
