"""Lines and generations: what is written is read back, and what is damaged is named."""

import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from streams_node.errors import CatalogueError
from streams_node.manifest import compose, parse
from streams_node.manifest.compose import packed
from streams_node.manifest.records import (
    Bucket,
    Drop,
    End,
    Gone,
    IndexCovers,
    IndexDrop,
    IndexObject,
    IndexPlan,
    NewerFormat,
    Object,
    Producer,
    Record,
    Stream,
    Unknown,
    decode,
    encode,
    encode_all,
)
from tests.catalogue.world import facts_of, header

GOLDEN = Path(__file__).parent / "golden"
numbers = st.integers(0, 2**63 - 1)
maybe = st.none() | numbers
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
mades = st.binary(min_size=16, max_size=16).map(bytes.hex)


def objects(draw: st.DrawFn) -> Object:
    stream = draw(maybe)
    first = draw(st.integers(0, 2**62))
    return Object.of(facts_of(draw(mades), stream, first, first + draw(st.integers(0, 2**61))))


RECORDS: list[st.SearchStrategy[Record]] = [
    st.builds(Bucket, id=numbers, name=names, created_us=numbers, alive=st.booleans()),
    st.builds(
        Stream,
        id=numbers, bucket=numbers, name=names, content_type=names, created_us=numbers, ttl_s=maybe, expires_us=maybe,
        first_epoch=numbers, epochs=st.lists(st.tuples(numbers, numbers), max_size=3).map(tuple), profile=names,
        soft_deleted=st.booleans(), source=maybe, fork_seq=maybe, fork_sub=maybe, earliest_seq=numbers,
        ts=maybe,
    ),
    st.builds(Gone, bucket=numbers, name=names, epoch=numbers, id=numbers, deleted_us=numbers),
    st.builds(
        End,
        id=numbers, next_seq=numbers, ordinal=numbers, position=numbers, ts=numbers, schema_version=numbers,
        closed=st.just(UNSET) | st.booleans(), closed_by=st.just(UNSET) | names | st.none(),
        closed_epoch=st.just(UNSET) | maybe, closed_seq=st.just(UNSET) | maybe, stream_seq=st.just(UNSET) | names,
    ),
    st.builds(Producer, id=numbers, producer=names, epoch=numbers, seq=numbers, next_seq=numbers),
    st.composite(objects)(),
    st.builds(Drop, made=mades),
    st.builds(
        IndexPlan, id=numbers, generation=numbers, configs=st.dictionaries(names, names, max_size=3), since_us=numbers,
        kept=st.dictionaries(names, st.lists(names, max_size=2).map(tuple), max_size=2),
    ),
    st.builds(
        IndexObject, made=mades, family=names, level=numbers, bytes=numbers, sum=names, rows=numbers,
        filter_bytes=numbers, filter_sum=names, sections=st.dictionaries(names, numbers, max_size=2),
        payload_bytes=numbers, made_us=numbers,
    ),
    st.builds(
        IndexCovers, made=mades, configs=st.just(("a", "b")),
        covers=st.lists(
            st.tuples(numbers, st.integers(0, 9), st.integers(9, 20), st.integers(0, 1), *([numbers] * 6)), max_size=3
        ).map(tuple),
    ),
    st.builds(IndexDrop, made=mades),
    names.map(lambda name: Unknown(json.dumps({"t": "later", "name": name}).encode())),
]  # fmt: skip
records = st.lists(st.one_of(RECORDS), max_size=30)


@given(st.one_of(RECORDS))
def test_a_line_is_read_back_as_it_was_written(record: Record) -> None:
    line = encode(record)
    assert b"\n" not in line
    assert decode(line, "here") == record


@given(records, records)
def test_a_generation_is_read_back_as_it_was_written(own: list[Record], pasted: list[Record]) -> None:
    data = compose(header(7, "ab" * 32), own, encode_all(pasted))
    found, back = parse(data)
    assert list(back) == own + pasted
    assert (found.generation, found.records) == (7, len(own) + len(pasted))


def test_ends_are_pasted_from_files_in_their_order(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / str(number)).write_bytes(encode_all([Drop(made=f"{number:032x}")] * number))
    files = [tmp_path / str(number) for number in range(3)]
    data = compose(header(), [Drop(made="f" * 32)], [*files, b""])
    made = [record.made for record in parse(data)[1] if isinstance(record, Drop)]
    assert [int(each[-1], 16) for each in made] == [15, 1, 2, 2]


def test_a_large_generation_is_read_in_little_memory() -> None:
    end = End(id=1, next_seq=1, ordinal=1, position=1, ts=1, schema_version=0)
    data = compose(header(), [], encode_all([end] * 1000) * 200)
    tracemalloc.start()
    try:
        found, back = parse(data)
        assert found.records == sum(1 for _ in back) == 200_000
        assert tracemalloc.get_traced_memory()[1] < 8 << 20  # the lines are 15 MB
    finally:
        tracemalloc.stop()


# --- the form -------------------------------------------------------------------------------------------------------


def golden_records() -> list[Record]:
    pack, segment = facts_of("1" * 32, min_stream=2, max_stream=5), facts_of("2" * 32, 5, 10, 30)
    return [
        Bucket(id=1, name="orders", created_us=1_700_000_000_000_000, alive=True),
        Stream(
            id=5, bucket=1, name="größe/1", content_type="application/json", created_us=1_700_000_000_000_001,
            first_epoch=0, profile="generic",
        ),
        Stream(
            id=6, bucket=1, name="b", content_type="text/plain", created_us=1_700_000_000_000_002, ttl_s=60,
            expires_us=9, first_epoch=1, epochs=((3, 100), (4, 120)), profile="evlog", soft_deleted=True, source=5,
            fork_seq=7, fork_sub=1, earliest_seq=8,
        ),
        Gone(bucket=1, name="old", epoch=2, id=4, deleted_us=1_700_000_000_000_003),
        Object.of(pack),
        Object.of(segment),
        Drop(made="3" * 32),
        End(id=5, next_seq=30, ordinal=3, position=900, ts=1_700_000_000_000_004, schema_version=0),
        End(
            id=6, next_seq=120, ordinal=9, position=4000, ts=1_700_000_000_000_005, schema_version=1, closed=True,
            closed_by="p", closed_epoch=0, closed_seq=9, stream_seq="0042",
        ),
        Producer(id=6, producer="p", epoch=0, seq=9, next_seq=120),
    ]  # fmt: skip


def test_the_bytes_of_a_generation_are_what_they_always_were() -> None:
    made = header(2, "cd" * 32, through_row=77, next_stream=7, next_bucket=2, records=10)
    lines = encode(made) + b"\n" + encode_all(golden_records())
    assert lines.decode() == (GOLDEN / "generation.ndjson").read_text("utf-8")
    assert compose(made, golden_records()) == packed([lines])


def test_a_generation_of_format_1_is_read_for_ever() -> None:
    found, back = parse(GOLDEN / "generation.zst")
    assert (found.generation, found.through_row) == (2, 77)
    assert list(back) == golden_records()


# --- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"t":"end","id":-1}', "`int` >= 0"),
        (b'{"t":"end"', "truncated"),
        (b'["end"]', "Expected `object`"),
        (b'{"id":1}', "missing required field `t`"),
        (b'{"t":"stream","id":1,"colour":2}', "unknown field `colour`"),
        (b'{"t":"bucket","id":1,"name":"b","created_us":"1","alive":true}', "Expected `int`, got `str`"),
        (b'{"t":"header"}', "header"),
    ],
)
def test_a_damaged_line_is_named_with_what_was_expected(line: bytes, problem: str) -> None:
    first = encode(header(records=1))
    _, back = parse(packed([first + b"\n" + line + b"\n"]), "generation 1")
    with pytest.raises(CatalogueError, match="generation 1, line 2 is damaged") as caught:
        list(back)
    assert problem in caught.value.message


@pytest.mark.parametrize("change", [{"made": "../etc"}, {"stream": 4}, {"end_seq": -1, "first_seq": 3}])
def test_an_object_that_cannot_be_is_damage(change: dict[str, Any]) -> None:
    line = json.loads(encode(Object.of(facts_of("1" * 32)))) | change
    with pytest.raises(CatalogueError, match="line 3 is damaged"):
        decode(json.dumps(line).encode(), "generation 1, line 3")


def test_damage_that_may_be_left_out_is_listed_and_the_rest_comes_out() -> None:
    good = Drop(made="1" * 32)
    lines = [encode(header(records=4)), encode(good), b"{", encode(good), b'{"t":"end"}']
    damage: list[str] = []
    _, back = parse(packed([b"\n".join(lines) + b"\n"]), "generation 1", damage)
    assert list(back) == [good, good]
    assert [each.split(" is ")[0] for each in damage] == ["generation 1, line 3", "generation 1, line 5"]


def test_a_missing_line_is_noticed() -> None:
    _, back = parse(packed([encode(header(records=2)) + b"\n" + encode(Drop(made="1" * 32)) + b"\n"]))
    with pytest.raises(CatalogueError, match="it has 1 records, 2 were expected"):
        list(back)


def test_bytes_that_are_cut_off_or_changed_never_pass() -> None:
    data = compose(header(), golden_records() * 20)
    draw = random.Random(5)
    for _ in range(200):
        at = draw.randrange(1, len(data))
        changed = (
            data[:at]
            if draw.random() < 0.5
            else data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :]
        )
        try:
            found, back = parse(changed)
            same = list(back) == golden_records() * 20 and found == parse(data)[0]
        except CatalogueError:
            continue
        # What zstd and JSON take for other lines is caught by the checksum of the object; here nothing may crash.
        assert same or changed != data


@pytest.mark.parametrize("data", [b"", b"no zstd", packed([b""]), packed([b"[]\n"]), packed([b'{"t":"end"}\n'])])
def test_what_is_no_generation_is_named(data: bytes) -> None:
    with pytest.raises(CatalogueError, match="generation 9"):
        list(parse(data, "generation 9")[1])


def test_a_newer_format_asks_for_the_newer_version() -> None:
    line = msgspec.json.encode({"t": "header", "format": 2, "what": "ever"})
    with pytest.raises(NewerFormat, match=r"written by a newer version \(format 2; this version knows 1\); run that"):
        parse(packed([line + b"\n"]))
