import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_node.errors import InvariantBroken, ObjectDamaged
from streams_node.segments.directory import Directory, Place

MADE = "ab" * 16
# Streams 5 and 7, with one entry from 9 on and two from 3 on.
GOLDEN = "011a5f87530200000028b52ffd2028bd00008005000700090003000100000002000000045402000301"
NUMBERS = st.integers(0, 2**63 - 1)
PLACES = st.dictionaries(NUMBERS, st.tuples(NUMBERS, st.integers(1, 2**32 - 1)), max_size=50)


@given(PLACES, st.lists(NUMBERS, max_size=10))
def test_every_stream_is_found_where_a_list_has_it_and_no_other_is(
    places: dict[int, tuple[int, int]], others: list[int]
) -> None:
    order = [(stream, *places[stream]) for stream in sorted(places)]
    directory = Directory.unpack(Directory.of(order).pack(), MADE)
    assert list(directory.places()) == order
    assert (len(directory), directory.entries) == (len(order), sum(place[2] for place in order))
    row = 0
    for stream, first_seq, count in order:
        assert directory.find(stream) == Place(first_seq, count, row)
        row += count
    for stream in set(others) - set(places):
        assert directory.find(stream) is None


@given(PLACES, st.data())
def test_a_damaged_directory_is_named_and_never_another_one(
    places: dict[int, tuple[int, int]], data: st.DataObject
) -> None:
    blob = bytearray(Directory.of((stream, *places[stream]) for stream in sorted(places)).pack())
    cut = data.draw(st.integers(0, len(blob) - 1))
    at = data.draw(st.integers(0, len(blob) - 1))
    with pytest.raises(ObjectDamaged):
        Directory.unpack(bytes(blob[:cut]), MADE)
    blob[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ObjectDamaged):
        Directory.unpack(bytes(blob), MADE)


def test_a_newer_directory_is_refused_with_its_version() -> None:
    blob = Directory.of([(1, 0, 1)]).pack()
    with pytest.raises(ObjectDamaged, match="version 2"):
        Directory.unpack(b"\x02" + blob[1:], MADE)


def test_streams_out_of_order_are_not_written() -> None:
    with pytest.raises(InvariantBroken):
        Directory.of([(2, 0, 1), (1, 0, 1)])


def test_the_layout_is_the_documented_one() -> None:
    assert Directory.unpack(bytes.fromhex(GOLDEN), MADE).find(7) == Place(3, 2, 1)
