"""The layout of the bucket: every key says what it is, reads back as what it was made of, and sorts as its numbers."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streams_node
from streams_node.errors import InvariantBroken, StoreRefused
from streams_node.objects.keys import (
    EVERYTHING,
    GENERATIONS,
    LATEST,
    OWNER,
    PACKS,
    PROBES,
    SEGMENTS,
    SNAPSHOTS,
    Generation,
    Key,
    ObjectId,
    Place,
    RootPrefix,
    artifact_of,
    generation_key,
    is_key,
    object_id,
    pack_key,
    parse,
    probe_key,
    root_prefix,
    segment_key,
    segments_of,
    snapshot_key,
    snapshot_parts,
    with_root,
    without_root,
)
from streams_node.protocol.numbers import Seq, StreamId

NUMBERS = st.one_of(st.integers(0, 2**63 - 1), st.integers(0, 2000))
GENERATION_NUMBERS = NUMBERS.map(Generation)
STREAMS = NUMBERS.map(StreamId)
SEQS = NUMBERS.map(Seq)
PARTS = st.integers(0, 999_999)
OBJECT_IDS = st.binary(min_size=16, max_size=16).map(object_id)
NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True)

PLACES = st.one_of(
    st.just(Place("owner")),
    st.just(Place("latest")),
    st.builds(lambda number: Place("generation", generation=number), GENERATION_NUMBERS),
    st.builds(lambda number, part: Place("snapshot", generation=number, part=part), GENERATION_NUMBERS, PARTS),
    st.builds(lambda made: Place("pack", made=made), OBJECT_IDS),
    st.builds(
        lambda stream, seq, made: Place("segment", stream=stream, first_seq=seq, made=made), STREAMS, SEQS, OBJECT_IDS
    ),
    st.builds(lambda made, name: Place("probe", made=made, name=name), OBJECT_IDS, NAMES),
)


def key_of(place: Place) -> Key:
    match place:
        case Place("owner"):
            return OWNER
        case Place("latest"):
            return LATEST
        case Place("generation", generation) if generation is not None:
            return generation_key(generation)
        case Place("snapshot", generation, part) if generation is not None and part is not None:
            return snapshot_key(generation, part)
        case Place("pack", made=made) if made is not None:
            return pack_key(made)
        case Place("segment", stream=stream, first_seq=seq, made=made) if None not in (stream, seq, made):
            return segment_key(stream, seq, made)  # type: ignore[arg-type] # the guard above
        case Place("probe", made=made, name=name) if made is not None and name is not None:
            return probe_key(made, name)
    raise AssertionError(place)


@given(PLACES)
def test_a_key_reads_back_as_what_it_was_made_of(place: Place) -> None:
    key = key_of(place)
    assert parse(key) == place
    assert artifact_of(key) == place.artifact
    assert is_key(key)


@given(st.one_of(st.text(), st.from_regex(r"(segments|packs|catalogue/generations)/[0-9a-f/.-]{0,60}(\.parquet)?")))
def test_any_text_is_a_key_of_ours_or_none(text: str) -> None:
    place = parse(text)
    assert place is None or key_of(place) == text


@given(PLACES, st.sampled_from(["/", "x", ".parquet", "\n", " "]))
def test_a_key_with_something_added_is_not_ours(place: Place, more: str) -> None:
    assert parse(key_of(place) + more) is None or place.artifact == "probe"
    assert parse(more + key_of(place)) is None


@given(st.lists(NUMBERS, min_size=2, max_size=9))
def test_text_order_is_number_order(numbers: list[int]) -> None:
    made = ObjectId("f" * 32)
    makers: list[Callable[[int], Key]] = [
        lambda number: generation_key(Generation(number)),
        lambda number: snapshot_key(Generation(number), 0),
        lambda number: snapshot_key(Generation(7), number % 10**6),
        lambda number: segment_key(StreamId(1), Seq(number), made),
        lambda number: segment_key(StreamId(number), Seq(0), made),
    ]
    for make in makers[:2] + makers[3:]:
        assert sorted(numbers, key=make) == sorted(numbers)
    parts = [number % 10**6 for number in numbers]
    assert sorted(parts, key=makers[2]) == sorted(parts)


@given(PLACES, PLACES)
def test_no_key_is_the_folder_of_another(one: Place, other: Place) -> None:
    assert not key_of(other).startswith(f"{key_of(one)}/")


@given(STREAMS, STREAMS, SEQS, OBJECT_IDS)
def test_the_prefix_of_a_stream_holds_its_segments_and_no_others(
    stream: StreamId, other: StreamId, seq: Seq, made: ObjectId
) -> None:
    assert segment_key(stream, seq, made).startswith(segments_of(stream))
    assert segment_key(other, seq, made).startswith(segments_of(stream)) is (stream == other)


@given(GENERATION_NUMBERS, PARTS)
def test_the_prefix_of_a_snapshot_holds_its_parts(generation: Generation, part: int) -> None:
    assert snapshot_key(generation, part).startswith(snapshot_parts(generation))


@pytest.mark.parametrize("number", [-1, 2**63])
def test_a_number_that_would_break_the_order_is_no_part_of_a_key(number: int) -> None:
    for make in (lambda: generation_key(Generation(number)), lambda: segments_of(StreamId(number))):
        with pytest.raises(InvariantBroken):
            make()
    assert parse(f"{GENERATIONS}{2**63}") is None
    with pytest.raises(InvariantBroken):
        snapshot_key(Generation(1), 10**6)
    with pytest.raises(InvariantBroken):
        object_id(b"short")


# --- what a store may hold ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["", "/", "a/", "/a", "a//b", ".", "..", "a/../b", ".store", "a/.b", "A", "ä", "a b", "a\n", "-a", "x" * 201],
)
def test_what_some_store_could_not_hold_is_no_key(text: str) -> None:
    assert not is_key(text)


def test_a_key_is_short_enough_for_every_store() -> None:
    assert is_key("/".join(["x" * 102] * 5)[:512])
    assert not is_key("/".join(["x" * 102] * 5) + "xxxx")


# --- the prefix of a bucket -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "root"), [("", ""), ("/", ""), ("a", "a/"), ("/a/b/", "a/b/"), ("Team A/node-1", "Team A/node-1/")]
)
def test_a_prefix_is_taken_with_and_without_slashes_around_it(setting: str, root: str) -> None:
    assert root_prefix(setting) == root


@pytest.mark.parametrize("setting", ["a//b", "a/../b", ".", "a/./b", "a\nb", "x" * 257])
def test_a_prefix_that_would_not_be_found_again_is_refused(setting: str) -> None:
    with pytest.raises(StoreRefused, match="s3_prefix"):
        root_prefix(setting)


@given(PLACES, st.sampled_from(["", "a/", "a/b/"]))
def test_a_key_is_found_again_behind_its_prefix(place: Place, root: str) -> None:
    stored = with_root(RootPrefix(root), key_of(place))
    assert without_root(RootPrefix(root), stored) == key_of(place)
    assert without_root(RootPrefix("other/"), stored) is None


# --- one file makes keys --------------------------------------------------------------------------------------------


def test_no_other_file_of_the_server_spells_a_key() -> None:
    room = Path(streams_node.__file__).parent
    starts = [str(each) for each in (GENERATIONS, SNAPSHOTS, PACKS, SEGMENTS, PROBES) if each != EVERYTHING]
    spelled = re.compile("|".join(rf"""["']{re.escape(start)}""" for start in starts))
    found = {
        str(path.relative_to(room))
        for path in room.rglob("*.py")
        if path.name != "keys.py" and spelled.search(path.read_text(encoding="utf-8"))
    }
    assert found == set()


def test_names_of_buckets_and_streams_have_no_way_into_a_key() -> None:
    for make in (generation_key, snapshot_key, snapshot_parts, pack_key, segment_key, segments_of):
        kinds = {name: str(kind) for name, kind in make.__annotations__.items() if name != "return"}
        assert not any(word in kind for kind in kinds.values() for word in ("Bucket", "'str'")), make.__name__
