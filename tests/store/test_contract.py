"""What every store promises, whatever is behind it. One attempt a call, except where `store` says otherwise."""

import contextlib
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streams_node.errors import ObjectMissing, PreconditionFailed, StoreCorrupt, StoreUnavailable
from streams_node.objects import Key, ObjectStore, RetryingStore, Stored, checksum_of
from streams_node.objects.keys import (
    EVERYTHING,
    GENERATIONS,
    OWNER,
    PACKS,
    Generation,
    ObjectId,
    generation_key,
    pack_key,
    segment_key,
    segments_of,
    snapshot_key,
)
from streams_node.protocol.numbers import Seq, StreamId
from tests.store.conftest import new_key, new_write

DATA = b"0123456789" * 100


@pytest.fixture
def written(bare: ObjectStore) -> tuple[Key, Stored]:
    key = new_key()
    return key, bare.put(key, DATA, write_id=new_write())


# --- what is written is read ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 1000, 3 * 1024 * 1024 + 1])
def test_an_object_is_read_as_it_was_written(bare: ObjectStore, size: int) -> None:
    key, data, write_id = new_key(), random.randbytes(size), new_write()
    stored = bare.put(key, data, write_id=write_id)
    assert (stored.size, stored.checksum, stored.write_id) == (size, checksum_of(data), write_id)
    assert bare.get(key) == (data, stored)
    assert bare.head(key) == stored


def test_a_file_is_the_same_object_as_its_bytes(bare: ObjectStore, tmp_path: Path) -> None:
    data, key = random.randbytes(9 * 1024 * 1024 + 7), new_key()
    path = tmp_path / "segment"
    path.write_bytes(data)
    stored = bare.put(key, path, write_id=new_write())
    assert (stored.size, stored.checksum) == (len(data), checksum_of(data))
    assert bare.get(key).data == data
    assert path.read_bytes() == data


@pytest.mark.parametrize(("start", "end"), [(0, 1), (0, 1000), (5, 17), (999, 1000), (990, None), (0, None)])
def test_a_range_is_half_open(bare: ObjectStore, written: tuple[Key, Stored], start: int, end: int | None) -> None:
    key, stored = written
    assert bare.get(key, start, end) == (DATA[start:end], stored)


def test_a_range_past_the_end_gives_what_there_is(bare: ObjectStore, written: tuple[Key, Stored]) -> None:
    assert bare.get(written[0], 990, 2000).data == DATA[990:]


def test_a_range_that_begins_behind_the_end_is_damage(bare: ObjectStore, written: tuple[Key, Stored]) -> None:
    with pytest.raises(StoreCorrupt):
        bare.get(written[0], len(DATA), len(DATA) + 1)


def test_an_object_that_is_not_there_is_told_from_an_empty_one(bare: ObjectStore) -> None:
    key = new_key()
    with pytest.raises(ObjectMissing):
        bare.get(key)
    with pytest.raises(ObjectMissing):
        bare.get(key, 3, 5)
    assert bare.head(key) is None


# --- conditions -----------------------------------------------------------------------------------------------------


def test_an_existing_object_is_never_created_again(bare: ObjectStore, written: tuple[Key, Stored]) -> None:
    key, stored = written
    with pytest.raises(PreconditionFailed):
        bare.put(key, b"other", write_id=new_write())
    assert bare.get(key) == (DATA, stored)


def test_an_object_is_replaced_only_by_who_knows_its_state(bare: ObjectStore) -> None:
    first = bare.put(OWNER, b"first", write_id=new_write())
    second = bare.put(OWNER, b"second", write_id=new_write(), if_match=first.etag)
    assert first.etag != second.etag
    with pytest.raises(PreconditionFailed):
        bare.put(OWNER, b"third", write_id=new_write(), if_match=first.etag)
    assert bare.get(OWNER) == (b"second", second)


def test_an_object_that_is_gone_is_not_replaced(bare: ObjectStore, written: tuple[Key, Stored]) -> None:
    key, stored = written
    bare.delete(key)
    with pytest.raises(PreconditionFailed):
        bare.put(key, b"other", write_id=new_write(), if_match=stored.etag)
    assert bare.head(key) is None


def test_of_rivals_for_one_key_exactly_one_wins_and_its_bytes_stay(bare: ObjectStore) -> None:
    key = generation_key(Generation(7))

    def rival(number: int) -> int | None:
        try:
            bare.put(key, f"rival {number}".encode(), write_id=new_write())
        except PreconditionFailed:
            return None
        return number

    with ThreadPoolExecutor(4) as pool:
        (winner,) = [number for number in pool.map(rival, range(4)) if number is not None]
    assert bare.get(key).data == f"rival {winner}".encode()


def test_a_record_that_many_change_loses_no_change(store: RetryingStore) -> None:
    store.put(OWNER, b"0", write_id=new_write())

    def add_one(_: int) -> None:
        while True:
            data, stored = store.get(OWNER)
            try:
                store.put(OWNER, b"%d" % (int(data) + 1), write_id=new_write(), if_match=stored.etag)
            except PreconditionFailed:
                continue
            return

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(add_one, range(9)))
    assert store.get(OWNER).data == b"9"


def test_whatever_many_do_to_one_key_a_reader_sees_one_write_whole(bare: ObjectStore) -> None:
    keys = [OWNER, new_key()]

    def work(number: int) -> None:
        chance = random.Random(number)
        for _ in range(25):
            key, write_id = chance.choice(keys), new_write()
            data = write_id.encode() * chance.randrange(1, 2000)
            with contextlib.suppress(PreconditionFailed, ObjectMissing, StoreUnavailable):
                match chance.randrange(4):
                    case 0:
                        bare.put(key, data, write_id=write_id)
                    case 1:
                        bare.put(key, data, write_id=write_id, if_match=bare.get(key).stored.etag)
                    case 2:
                        bare.delete(key)
                    case _:
                        seen, stored = bare.get(key)
                        assert stored.write_id is not None
                        assert seen == stored.write_id.encode() * (len(seen) // len(stored.write_id))
                        assert (len(seen), checksum_of(seen)) == (stored.size, stored.checksum)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))


# --- deleting -------------------------------------------------------------------------------------------------------


def test_a_deleted_object_is_gone_and_its_key_can_be_used_again(bare: ObjectStore, written: tuple[Key, Stored]) -> None:
    key, _ = written
    bare.delete(key)
    assert bare.head(key) is None
    assert bare.list(EVERYTHING).objects == ()
    again = bare.put(key, b"again", write_id=new_write())
    assert bare.get(key) == (b"again", again)


def test_a_delete_may_be_repeated(bare: ObjectStore, written: tuple[Key, Stored]) -> None:
    bare.delete(written[0])
    bare.delete(written[0])
    bare.delete(new_key())


# --- listing --------------------------------------------------------------------------------------------------------


@pytest.fixture
def keys(bare: ObjectStore) -> list[Key]:
    """Objects of every kind, in the order in which they are listed."""
    made = [ObjectId(f"{number:032x}") for number in range(4)]
    keys = [
        OWNER,
        *(generation_key(Generation(number)) for number in (1, 2, 9, 10, 11, 100)),
        *(snapshot_key(Generation(generation), part) for generation in (2, 10) for part in (0, 1)),
        *(pack_key(each) for each in made),
        *(segment_key(StreamId(stream), Seq(seq), made[0]) for stream in (1, 12) for seq in (0, 9, 10)),
    ]
    for key in random.sample(keys, len(keys)):
        bare.put(key, key.encode(), write_id=new_write())
    return sorted(keys)


@pytest.mark.parametrize("limit", [1, 2, 7, 1000])
def test_a_listing_is_in_byte_order_whatever_its_pages(bare: ObjectStore, keys: list[Key], limit: int) -> None:
    seen: list[Key] = []
    after = None
    while True:
        page = bare.list(EVERYTHING, after, limit)
        assert len(page.objects) <= limit
        seen += [one.key for one in page.objects]
        if page.next_after is None:
            break
        after = page.next_after
    assert seen == keys


def test_a_listing_holds_what_begins_with_its_prefix(bare: ObjectStore, keys: list[Key]) -> None:
    for prefix in (PACKS, GENERATIONS, segments_of(StreamId(1)), segments_of(StreamId(2))):
        assert [one.key for one in bare.list(prefix).objects] == [key for key in keys if key.startswith(prefix)]


def test_a_listing_goes_on_after_any_key_there_or_not(bare: ObjectStore, keys: list[Key]) -> None:
    absent = (generation_key(Generation(3)), segment_key(StreamId(5), Seq(0), ObjectId("0" * 32)), Key("a"), Key("z"))
    for after in (*keys[::3], *absent):
        assert [one.key for one in bare.list(EVERYTHING, after).objects] == [key for key in keys if key > after]


def test_a_listing_says_size_and_age(bare: ObjectStore, written: tuple[Key, Stored]) -> None:
    (one,) = bare.list(PACKS).objects
    assert (one.key, one.size) == (written[0], len(DATA))
    assert abs(one.modified_us - time.time() * 1_000_000) < 60 * 1_000_000


# --- as callers hold it ---------------------------------------------------------------------------------------------


def test_a_put_that_is_repeated_is_done_once(store: RetryingStore) -> None:
    key, write_id = new_key(), new_write()
    stored = store.put(key, DATA, write_id=write_id)
    assert store.put(key, DATA, write_id=write_id) == stored
    assert store.get(key) == (DATA, stored)


def test_a_write_id_does_not_make_other_bytes_the_same_write(store: RetryingStore) -> None:
    key, write_id = new_key(), new_write()
    store.put(key, DATA, write_id=write_id)
    with pytest.raises(PreconditionFailed):
        store.put(key, b"re-made", write_id=write_id)
    assert store.get(key).data == DATA


def test_an_object_that_is_not_the_expected_one_is_refused(store: RetryingStore) -> None:
    key = new_key()
    store.put(key, DATA, write_id=new_write())
    assert store.get(key, expected=checksum_of(DATA)).data == DATA
    with pytest.raises(StoreCorrupt, match="SHA-256"):
        store.get(key, expected=checksum_of(b"what the catalogue says"))


def test_a_part_that_comes_short_is_damage(store: RetryingStore) -> None:
    key = new_key()
    store.put(key, DATA, write_id=new_write())
    with pytest.raises(StoreCorrupt, match="10 bytes came, 20 were asked for"):
        store.get(key, 990, 1010)
